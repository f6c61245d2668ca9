"""Names of numbers in Chromium: a click or a key opens what one means, Escape and a click elsewhere close it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backend.glossary import glossary
from backend.settings import Settings
from dashboard.access import AccessPolicy
from dashboard.services import Services
from storage import Store
from tests.dashboard.stored_runs import add_run
from tests.ui.replay_engine import ReplayEngine
from tests.ui.serving import serving

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.ui


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = Path(tmp_path_factory.mktemp("home"))
    with Store.open(":memory:") as store:
        add_run(store, prompt="Why is the sky blue?")
        services = Services(ReplayEngine(steps_per_s=20), AccessPolicy.for_bind(), store, places=Settings(home, home))
        with serving(services) as address:
            yield address


def test_a_name_explains_itself_by_click_and_by_key(url: str, browser_page: Page) -> None:
    page = browser_page
    page.set_default_timeout(60_000)
    page.goto(f"{url}/learn")
    name = page.locator("#gain .hw-term[data-metric=acceptance_length]")
    name.click()
    box = page.get_by_role("dialog", name="acceptance length")
    entry = glossary().metrics["acceptance_length"]
    for part in entry.model_dump(exclude={"name", "also"}).values():
        box.get_by_text(part, exact=False).wait_for()
    inside = box.bounding_box()
    assert inside and inside["x"] >= 0 and inside["x"] + inside["width"] <= page.viewport_size["width"]  # type: ignore[index]
    page.keyboard.press("Escape")
    box.wait_for(state="detached")
    assert page.evaluate("document.activeElement.dataset.metric") == "acceptance_length"
    page.keyboard.press("Enter")
    box.wait_for()
    page.locator("h1").first.click()
    box.wait_for(state="detached")
    name.click()
    page.locator("#gain .hw-term[data-metric=speedup]").click()  # one box at a time
    page.get_by_role("dialog", name="speedup").get_by_text(glossary().metrics["speedup"].formula).wait_for()
    assert page.locator(".hw-explained").count() == 1


def test_a_name_beside_a_column_that_sorts_does_not_sort(url: str, browser_page: Page) -> None:
    page = browser_page
    page.set_default_timeout(60_000)
    page.set_viewport_size({"width": 800, "height": 900})
    page.goto(f"{url}/runs")
    page.get_by_role("button", name="What Acceptance length means").click()
    page.locator(".hw-explained h3", has_text="Acceptance length").wait_for()
    assert "sort=" not in page.url
    box = page.locator(".hw-explained").bounding_box()
    assert box and box["x"] >= 0 and box["x"] + box["width"] <= 800


def test_names_can_be_clicked_while_a_run_draws_them_anew(url: str, browser_page: Page) -> None:
    page = browser_page
    page.set_default_timeout(60_000)
    page.goto(f"{url}/live")
    page.wait_for_function("window.headway?.live && window.headway.feed.status && window.headway.mounts.link === 1")
    page.locator("#hw-run").click()
    page.wait_for_function("window.headway?.live?.run?.steps.length > 3")
    x, y = page.evaluate(
        "(() => { const name = document.querySelector('#hw-figures [data-metric=acceptance_rate]');"
        " const box = name.getBoundingClientRect(); return [box.x + 8, box.y + box.height / 2]; })()"
    )
    page.mouse.move(x, y)
    page.mouse.down()
    before = page.evaluate("window.headway.live.run.steps.length")
    page.wait_for_function(f"window.headway.live.run.steps.length > {before} + 4")  # the name was drawn anew
    page.mouse.up()
    page.locator(".hw-explained h3", has_text="Drafted tokens accepted").wait_for()
    known = set(glossary().metrics)
    assert set(page.evaluate("[...document.querySelectorAll('.hw-term')].map((one) => one.dataset.metric)")) <= known
    page.keyboard.press("Escape")
    page.wait_for_function("document.activeElement.dataset.metric === 'acceptance_rate'")
