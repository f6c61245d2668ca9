"""The Race page in Chromium over a real engine on tiny targets: a race from the form, its end, its replay by link, and
what a person sees of wrong input: one sentence, while what was typed stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backend.engine.service import LocalEngine
from backend.settings import Settings
from backend.targets.opening import open_target
from dashboard.access import AccessPolicy
from dashboard.services import DashboardSettings, Services
from storage import Store
from tests.drafters.test_registry import write_heads
from tests.ui.serving import serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = pytest.mark.ui
RACE = "window.headway.race"
OVER = "window.headway?.race?.over && window.headway.race.standing"
OTHER = "\x00other"  # the entry of a picker that opens a text field


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "runs.db") as opened:
        yield opened


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", cache=tmp_path / "cache")


@pytest.fixture
def url(settings: Settings, store: Store) -> Iterator[str]:
    engine = LocalEngine(settings, store)
    shown = DashboardSettings(default_target="tiny-llama")
    with serving(Services(engine, AccessPolicy.for_bind(), store, shown)) as address:
        yield f"{address}/race"


def opened(page: Page, url: str) -> Page:
    page.set_default_timeout(180_000)  # the engine loads a target first
    page.goto(url)
    page.locator(".hw-race-form[data-ready]").wait_for()
    return page


def lane(page: Page, letter: str) -> Locator:
    return page.locator(f".hw-race-row[data-lane={letter}]")


def choose(page: Page, letter: str, field: str, value: str) -> None:
    """Takes a value from a picker, or types it where it is not offered."""
    picker = lane(page, letter).locator(f"select[id$=-{field}]")
    offered = picker.locator("option").evaluate_all("(all) => all.map((one) => one.value)")
    if value in offered:
        picker.select_option(value)
        return
    picker.select_option(OTHER)
    box = lane(page, letter).locator(f"input[id$=-{field}-other]")
    box.fill(value)
    box.press("Tab")


def start(page: Page, prompt: str | None = None) -> None:
    if not page.locator("#hw-race-prompt").is_visible():
        page.locator(".hw-race-setup > summary").click()
    if prompt is not None:
        page.locator("#hw-race-prompt").fill(prompt)
    page.locator("#hw-race-start").click()


def figures(page: Page) -> list[dict[str, Any]]:
    told = "{ letter: lane.letter, gaps: lane.live.run.gaps, ...lane.figures(lane.count) }"
    return page.evaluate(f"{RACE}.lanes.map((lane) => ({told}))")


def test_a_race_is_decoded_side_by_side_recorded_and_played_again(url: str, store: Store, browser_page: Page) -> None:
    page = opened(browser_page, url)
    choose(page, "B", "drafter", "ngram")
    page.get_by_role("button", name="Add a lane").click()
    page.wait_for_function("document.querySelectorAll('.hw-race-row').length === 3")
    choose(page, "C", "drafter", "draft:tiny-llama")  # what it guesses is right
    choose(page, "C", "tree", "chain-2")
    page.locator("#hw-race-longest").fill("24")
    start(page, "hello ${alert(1)} <b>hello</b> hello")
    page.wait_for_function(OVER)
    assert [one["gaps"] for one in figures(page)] == [0, 0, 0] and {one["tokens"] for one in figures(page)} == {24}

    race = store.get_race(page.evaluate(f"{RACE}.id"))
    runs = [store.get_run(one.run.id) for one in race.lanes]
    assert f"race={race.id}" in page.url and [run.settings["race"]["lane"] for run in runs] == ["A", "B", "C"]
    for run, shown in zip(runs, figures(page), strict=True):
        assert shown["clock"] == pytest.approx(run.decode_ms) and shown["steps"] == run.num_steps
        assert shown["acceptanceLength"] == pytest.approx(run.acceptance_length)
        assert shown["tokensPerS"] == pytest.approx(run.tokens_per_s)
    assert "A, B and C wrote the same text" in page.locator(".hw-race-texts").inner_text()
    assert "finished first, after" in page.locator(".hw-race-board .hw-cmp-sentence").inner_text()
    cards = page.locator(".hw-race-lane")
    assert cards.count() == 3 and cards.locator(".hw-race-tree svg").count() == 3
    assert sorted(cards.locator(".hw-race-place").all_inner_texts()) == ["1st", "2nd", "3rd"]
    assert "hello ${alert(1)} <b>hello</b> hello" in page.locator(".hw-race-prompt").inner_text()
    whole = cards.locator(".hw-race-text").all_inner_texts()
    assert len(set(whole)) == 1 and page.locator(".hw-race-text .hw-token.drafted").count() > 0

    page.goto(page.url)  # the link alone shows it, with its form
    page.wait_for_function(OVER)
    assert [one["tokens"] for one in figures(page)] == [24] * 3
    assert page.evaluate(f"{RACE}.longest") == pytest.approx(max(run.decode_ms or 0 for run in runs))
    page.evaluate(f"{RACE}.go({RACE}.longest / 2)")
    half = page.evaluate(f"{RACE}.lanes.map((lane) => {RACE}.shown(lane))")
    for shown, run in zip(half, runs, strict=True):
        ends = [0.0]
        for step in store.steps(run.id)[1:]:
            ends.append(ends[-1] + step["step_ms"])
        assert shown == sum(end <= max(one.decode_ms or 0 for one in runs) / 2 for end in ends[1:])
    page.wait_for_function("(whole) => document.querySelector('.hw-race-text').innerText !== whole", arg=whole[0])
    page.get_by_label("Speed", exact=True).select_option("4")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Space")
    page.wait_for_function(f"!{RACE}.playing && {RACE}.time === null")
    page.wait_for_function("(whole) => document.querySelector('.hw-race-text').innerText === whole", arg=whole[0])
    page.locator(".hw-race-setup > summary").click()
    assert lane(page, "C").locator("select[id$=-tree]").input_value() == "chain-2"
    page.locator(".hw-recent summary").click()
    assert page.locator(".hw-recent a.current").count() == 1
    with page.expect_navigation():
        page.locator(".hw-race-lane a", has_text="Open its steps").nth(1).click()
    page.wait_for_function("window.headway?.live?.run?.over")
    assert page.evaluate("window.headway.live.run.steps.length") == runs[1].num_steps


def test_where_two_versions_differ_is_marked_and_a_race_can_be_stopped(url: str, browser_page: Page) -> None:
    page = opened(browser_page, url)
    choose(page, "A", "target", "tiny-llama:1")
    choose(page, "B", "drafter", "ngram")
    page.locator("#hw-race-longest").fill("24")
    start(page, "hello hello hello")
    page.wait_for_function(OVER)
    assert "they are different versions" in page.locator(".hw-race-texts").inner_text()
    assert page.locator("[data-lane=B] .hw-token.leaves").count() == 1
    assert page.locator(".hw-race-text .hw-token.differs").count() > 1
    first = page.evaluate(f"{RACE}.id")

    page.locator(".hw-race-setup > summary").click()
    page.locator("#hw-race-longest").fill("400")
    start(page)
    page.wait_for_function(f"{RACE}.id !== '{first}' && {RACE}.lanes.every((lane) => lane.count > 1)")
    page.locator(".hw-race-setup > summary").click()
    page.locator("#hw-race-stop").click()
    page.wait_for_function(OVER)
    assert "stopped before any lane came to its end" in page.locator(".hw-race-board .hw-cmp-sentence").inner_text()
    page.go_back()
    page.wait_for_function(f"{RACE}.id === '{first}' && {OVER}")


def test_wrong_input_is_one_sentence_and_loses_nothing(
    url: str, store: Store, settings: Settings, tmp_path: Path, browser: Browser
) -> None:
    foreign = write_heads(open_target("tiny-llama:1", settings), tmp_path / "heads")
    made = browser.new_page(viewport={"width": 1440, "height": 900})  # its console tells of refused requests
    faults: list[str] = []
    made.on("pageerror", lambda error: faults.append(str(error)))
    page = opened(made, url)
    problem = page.locator(".hw-race-form > .hw-problem")

    def refused(words: str) -> None:
        problem.filter(has_text=words).wait_for()
        said = problem.inner_text()
        assert said.endswith(".") and "\n" not in said and store.count_runs() == 0

    choose(page, "B", "drafter", "none")
    start(page, "hello hello hello")
    refused("Lanes A and B would do the same; change one of them or remove it.")
    choose(page, "B", "drafter", "ngram")
    start(page, " ")
    refused("Type a prompt first.")
    lane(page, "B").locator("input[id$=-temperature]").fill("hot")
    start(page, "hello hello hello")
    refused("Lane B: Temperature needs a number.")
    lane(page, "B").locator("input[id$=-temperature]").fill("0")
    choose(page, "B", "tree", "[[0],[1,0]]")
    start(page)
    refused("Lane B: Path [1, 0] has no parent")
    assert lane(page, "A").locator(".hw-icon").is_disabled()  # two lanes are the fewest
    for _ in range(2):
        page.get_by_role("button", name="Add a lane").click()
    assert page.get_by_role("button", name="Add a lane").is_disabled()
    lane(page, "D").locator(".hw-icon").click()
    lane(page, "C").locator(".hw-icon").click()
    assert lane(page, "B").locator("input[id$=-tree-other]").input_value() == "[[0],[1,0]]"

    choose(page, "B", "tree", "chain-2")
    choose(page, "B", "drafter", str(foreign))
    start(page)
    page.locator(".hw-banner[data-kind=error]", has_text="Lane B: ").wait_for()
    assert "was trained for" in page.locator(".hw-race-stage .hw-banner").inner_text()
    assert page.locator("#hw-race-prompt").input_value() == "hello hello hello"
    page.goto(f"{url}?race=nobody")
    page.locator(".hw-banner[data-kind=error]", has_text="There is no race nobody").wait_for()
    page.locator(".hw-race-row").nth(1).wait_for()
    page.close()
    assert faults == []
