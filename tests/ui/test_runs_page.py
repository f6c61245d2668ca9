"""The Runs page in Chromium: filter, sort, group, select, compare, tag, throw away and take back, by mouse and keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from dashboard.access import AccessPolicy
from dashboard.services import Services
from storage import Store
from tests.dashboard.stored_runs import add_run
from tests.ui.replay_engine import ReplayEngine
from tests.ui.serving import serving

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.ui
HOSTILE = "${document.title='broken'} <img src=x onerror=\"document.title='broken'\">"
NUM_RUNS = 60


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with Store.open(":memory:") as made:
        yield made


@pytest.fixture(scope="module")
def url(store: Store) -> Iterator[str]:
    with serving(Services(ReplayEngine(steps_per_s=None), AccessPolicy.for_bind(), store)) as address:
        yield address + "/runs"


@pytest.fixture(autouse=True)
def runs(store: Store) -> Iterator[list[str]]:
    """NUM_RUNS runs, the newest last: prompts “number 0”… and, last, one with markup."""
    store.trash_runs([run.id for run in store.list_runs(limit=1000)])
    store.purge_trash(None)
    ids = [
        add_run(
            store, prompt=f"number {n}", tree=["chain-4", None][n % 2], temperature=[0.0, 0.7][n % 2], tokens=10 + n
        )
        for n in range(NUM_RUNS - 1)
    ]
    yield [*ids, add_run(store, prompt=HOSTILE, drafter=HOSTILE, tags=[HOSTILE])]


def opened(page: Page, url: str) -> Page:
    page.set_default_timeout(60_000)
    page.goto(url)
    page.locator("tr[data-run], .hw-groups, .hw-nothing").first.wait_for()
    return page


def shown(page: Page) -> list[str]:
    return page.locator("tr[data-run]").evaluate_all("(rows) => rows.map((row) => row.dataset.run)")


def total(page: Page, text: str) -> None:
    page.locator(".hw-count", has_text=text).wait_for()


def test_what_is_filtered_and_sorted_stands_in_the_address(url: str, runs: list[str], browser_page: Page) -> None:
    page = opened(browser_page, url)
    total(page, f"{NUM_RUNS} runs")
    assert shown(page) == runs[::-1][:50]
    page.get_by_role("button", name="Older page").click()
    page.wait_for_function("document.querySelectorAll('tr[data-run]').length === 10")
    page.get_by_label("Filter the runs").fill(r"number 1\d?$")
    total(page, "0 runs")
    page.locator(".hw-nothing").wait_for()
    page.get_by_text("Regex").click()
    total(page, "11 runs")
    page.get_by_role("button", name="Tokens", exact=True).click()
    page.wait_for_function(f"document.querySelector('tr[data-run]').dataset.run === '{runs[19]}'")
    page.get_by_role("button", name="Tokens", exact=True).click()
    page.wait_for_function(f"document.querySelector('tr[data-run]').dataset.run === '{runs[1]}'")
    page.reload()
    total(page, "11 runs")
    assert shown(page)[0] == runs[1] and page.get_by_label("Filter the runs").input_value() == r"number 1\d?$"
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    assert download.value.path().read_text().count("\n") == 12


def test_groups_open_and_filters_close(url: str, browser_page: Page) -> None:
    page = opened(browser_page, url)
    page.get_by_label("Group by").select_option("tree")
    page.locator(".hw-groups").get_by_role("button", name="chain-4").click()
    total(page, "30 runs")
    page.get_by_role("button", name="tree: chain-4").click()
    total(page, f"{NUM_RUNS} runs")


def test_compared_runs_show_what_differs_first(url: str, browser_page: Page) -> None:
    page = opened(browser_page, url)
    page.get_by_role("button", name="Compare").wait_for(state="hidden")
    page.locator("td.pick input").nth(1).check()
    page.locator("td.pick input").nth(2).check()
    page.get_by_role("button", name="Compare").click()
    page.locator(".hw-compared tbody tr").first.wait_for()
    names = page.locator(".hw-compared tbody th[scope=row]").all_inner_texts()
    assert names[:4] == ["prompt", "tree", "temperature", "rule"] and "Acceptance length" in names
    equal = page.locator(".hw-equal")
    assert equal.get_attribute("open") is None
    equal.locator("summary").click()
    equal.get_by_text("packages.torch").wait_for()


def test_tags_notes_delete_and_undo(url: str, store: Store, runs: list[str], browser_page: Page) -> None:
    page = opened(browser_page, url)
    newest = page.locator(f"tr[data-run='{runs[-1]}']")
    assert newest.locator("td.prompt > a").inner_text() == HOSTILE and page.title() == "Runs · Headway"
    newest.locator("input").check()
    page.get_by_label("Tags").fill("kept, also this")
    page.get_by_role("button", name="Add tags").click()
    newest.locator(".hw-run-tag", has_text="also this").wait_for()
    page.get_by_role("button", name="Notes").click()
    page.get_by_label("Notes", exact=True).fill(HOSTILE)
    page.get_by_role("button", name="Save the notes").click()
    page.get_by_label("Notes", exact=True).wait_for(state="hidden")
    assert store.get_run(runs[-1]).notes == HOSTILE
    assert store.get_run(runs[-1]).tags == (HOSTILE, "kept", "also this")
    page.get_by_role("button", name="Delete").click()
    total(page, f"{NUM_RUNS - 1} runs")
    page.get_by_role("button", name="Undo").click()
    total(page, f"{NUM_RUNS} runs")
    page.locator(f"tr[data-run='{runs[-1]}'] input").check()
    page.get_by_role("button", name="Delete").click()
    total(page, f"{NUM_RUNS - 1} runs")
    page.get_by_text("Waste basket", exact=True).click()
    total(page, "1 run in the waste basket")
    page.locator(".hw-disk summary").click()
    page.get_by_role("button", name="Empty the waste basket").click()
    page.get_by_role("button", name="Empty it for good?").click()
    page.locator(".hw-disk", has_text="Deleted 1 run for good.").wait_for()
    assert store.count_runs() == NUM_RUNS - 1 and page.title() == "Runs · Headway"


def test_the_keys_walk_select_and_open(url: str, runs: list[str], browser_page: Page) -> None:
    page = opened(browser_page, url)
    body = page.locator("body")
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp", "x"):
        body.press(key)
    page.locator(f"tr.current.picked[data-run='{runs[-2]}']").wait_for()
    body.press("/")
    assert page.evaluate("document.activeElement.classList.contains('hw-search')")
    page.keyboard.type("x")  # belongs to the field now
    page.wait_for_timeout(50)
    assert page.locator(".hw-selection b").inner_text() == "1 selected"
    page.get_by_label("Filter the runs").fill("")
    page.get_by_label("Filter the runs").blur()
    total(page, f"{NUM_RUNS} runs")
    body.press("Enter")
    page.wait_for_url(f"**/live?run={runs[-2]}")


def test_pruning_says_what_it_did(url: str, store: Store, runs: list[str], browser_page: Page) -> None:
    page = opened(browser_page, url)
    page.locator(".hw-disk summary").click()
    page.get_by_label("Runs that keep their steps").fill("5")
    page.get_by_role("button", name="Keep these bounds, drop the rest now").click()
    page.locator(".hw-disk", has_text=f"Dropped the steps of {NUM_RUNS - 5} runs.").wait_for()
    assert store.usage().num_traced_runs == 5 and store.count_runs() == NUM_RUNS
    page.locator("tr[data-run] .hw-run-tag.note", has_text="no steps").first.wait_for()


def test_an_empty_store_offers_a_first_run(url: str, store: Store, browser_page: Page) -> None:
    store.trash_runs([run.id for run in store.list_runs(limit=1000)])
    store.purge_trash(None)
    browser_page.goto(url)
    browser_page.locator(".hw-welcome").get_by_role("link").wait_for()
    assert browser_page.locator(".hw-runs").is_hidden()
