"""The Compare page in Chromium: choosing runs, what stands in the address, a prompt's texts, the report on its own, and
the way from the Runs page.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest

from dashboard.access import AccessPolicy
from dashboard.services import Services
from storage import Store
from tests.dashboard.comparisons import add_compared
from tests.dashboard.stored_runs import add_run
from tests.ui.replay_engine import ReplayEngine
from tests.ui.serving import serving

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.ui
HOSTILE = "${document.title='broken'} <img src=x onerror=\"document.title='broken'\">"


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with Store.open(":memory:") as made:
        yield made


@pytest.fixture(scope="module")
def job(store: Store) -> str:
    return add_compared(store, f"ours {HOSTILE}", {"good": 0.8, "poor": 0.3, HOSTILE: 0.5}, temperatures=(0.0, 1.0))


@pytest.fixture(scope="module")
def url(store: Store, job: str) -> Iterator[str]:
    with serving(Services(ReplayEngine(steps_per_s=None), AccessPolicy.for_bind(), store)) as address:
        yield address


def opened(page: Page, address: str) -> Page:
    page.set_default_timeout(60_000)
    page.goto(address)
    page.wait_for_function("window.headway && window.headway.mounts.compare === 1")
    return page


def compared(job: str, *names: str) -> str:
    return "/compare?" + urlencode([("side", f"eval/{job}/{name}") for name in names])


def test_an_evaluation_is_chosen_and_everything_chosen_stands_in_the_address(url: str, browser_page: Page) -> None:
    page = opened(browser_page, url + "/compare")
    page.get_by_role("heading", name="Which is better, on what").wait_for()
    page.get_by_label("Compare a whole evaluation").select_option(index=1)
    page.locator(".hw-cmp-sentence", has_text="good").wait_for()
    assert page.locator(".hw-cmp-sides li").count() == 3 and page.locator(".hw-welcome").is_hidden()
    page.get_by_label("Temperature").select_option("1")
    page.get_by_role("button", name="Make reference").nth(1).click()
    page.wait_for_function("location.search.includes('t=1') && location.search.includes('ref=2')")
    page.locator(".hw-cmp-sides li").nth(2).locator(".hw-cmp-ref").wait_for()
    sentence = page.locator(".hw-cmp-sentence").inner_text()
    page.reload()
    page.locator(".hw-cmp-sentence", has_text=sentence).wait_for()
    page.get_by_role("button", name="Remove B").click()
    page.wait_for_function("document.querySelectorAll('.hw-cmp-sides li').length === 2")
    page.go_back()
    page.wait_for_function("document.querySelectorAll('.hw-cmp-sides li').length === 3")
    assert page.title() == "Compare · Headway"


def test_a_mark_opens_the_prompt(url: str, job: str, browser_page: Page) -> None:
    page = opened(browser_page, url + compared(job, "poor", "good"))
    marks = page.locator(".hw-cmp-chart.clickable [data-asked]")
    marks.first.wait_for()
    assert marks.count() == 12
    marks.first.dispatch_event("click")
    page.locator(".hw-cmp-prompt .hw-cmp-answer").nth(1).wait_for()
    assert "asked=" in page.url and page.locator(".hw-cmp-mark.picked").count() == 1
    page.reload()
    page.locator(".hw-cmp-prompt .hw-cmp-answer").nth(1).wait_for()
    page.locator(".hw-cmp-apart button").first.click()
    page.locator(".hw-cmp-card", has_text="Prompt by prompt").locator(".hw-chip", has_text="Tokens/s").click()
    page.get_by_role("img", name="Tokens/s, prompt by prompt").wait_for()


def test_the_report_draws_itself_from_one_file_without_asking_anybody(
    url: str, job: str, browser_page: Page, tmp_path: Path
) -> None:
    page = opened(browser_page, url + compared(job, "poor", "good", HOSTILE))
    with page.expect_download() as waiting:
        page.get_by_role("link", name="Report").click()
    place = tmp_path / "report.html"
    waiting.value.save_as(place)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(place.as_uri())
    page.locator(".hw-cmp-sentence", has_text="good").wait_for()
    assert page.locator(".hw-cmp-chart").count() == 3 and page.locator("button", has_text="Make reference").count() == 0
    assert asked == [place.as_uri()] and page.title() == "A and B and C compared"


def test_rows_of_the_runs_page_are_compared_side_by_side(url: str, store: Store, browser_page: Page) -> None:
    for number in range(6):
        for tree in (None, "3x2"):
            add_run(store, prompt=f"question {number}", tree=tree, tokens=31 + number)
    page = browser_page
    page.set_default_timeout(60_000)
    page.goto(url + "/runs")
    page.get_by_label("Select all shown").check()
    page.get_by_role("button", name="Side by side").click()
    page.wait_for_url("**/compare?**")
    page.locator(".hw-cmp-sentence", has_text="6 common prompts").wait_for()
    page.locator(".hw-cmp-chart.clickable [data-asked]").first.dispatch_event("click")
    page.get_by_role("link", name="Open its steps").nth(1).wait_for()
    page.locator(".hw-cmp-text").nth(1).wait_for()


def test_one_run_in_the_address_waits_for_another(url: str, job: str, browser_page: Page) -> None:
    page = opened(browser_page, url + compared(job, "poor"))
    page.get_by_text("One run is chosen; add another one").wait_for()
    page.get_by_label("Add a run").select_option(label="good")
    page.locator(".hw-cmp-sentence").wait_for()
