"""What every page shares, in Chromium: navigation, the device's holder, dark mode that lasts, keys, one connection."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backend.engine.protocol import EngineStatus
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
PAGES = {"Home": ("/", "Esc"), "Live": ("/live", "Space"), "Runs": ("/runs", "Enter")}  # path, one of its keys
READY = "window.headway && window.headway.feed.status && window.headway.mounts.header === 1"


class BusyEngine(ReplayEngine):
    """Says that a job has the device, as long as `holder` is set."""

    holder: str | None = None

    def status(self) -> EngineStatus:
        return replace(super().status(), holder=self.holder)

    def machine(self) -> dict[str, Any]:
        system = {"memory_bytes": 16 << 30, "available_bytes": 9 << 30, "cpu_percent": 41.2, "cpus": 2}
        return {"system": system, "gpus": [], "disk": {"free_bytes": 5 << 30, "total_bytes": 9 << 30}}


@pytest.fixture(scope="module")
def engine() -> BusyEngine:
    return BusyEngine(steps_per_s=30)


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with Store.open(":memory:") as made:
        add_run(made, prompt="Why is the sky blue?")
        yield made


@pytest.fixture(scope="module")
def url(engine: BusyEngine, store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = Path(tmp_path_factory.mktemp("home"))
    with serving(Services(engine, AccessPolicy.for_bind(), store, places=Settings(home, home))) as address:
        yield address


def opened(page: Page, address: str) -> Page:
    page.set_default_timeout(60_000)
    page.goto(address)
    page.wait_for_function(READY)
    return page


def test_the_navigation_marks_each_page_and_each_shows_its_keys(url: str, browser_page: Page) -> None:
    page = opened(browser_page, url)
    for name, (path, key) in PAGES.items():
        page.locator(".hw-nav").get_by_role("link", name=name, exact=True).click()
        page.wait_for_function(f"location.pathname === '{path}' && {READY}")
        assert page.locator(".hw-nav [aria-current=page]").inner_text() == name
        assert page.title() == ("Headway" if path == "/" else f"{name} · Headway")
        page.locator("body").press("?")
        page.get_by_role("dialog", name="Keys").get_by_text(key, exact=True).wait_for()
        page.keyboard.press("Escape")
        page.get_by_role("dialog", name="Keys").wait_for(state="hidden")
    page.reload()
    page.wait_for_function(f"location.pathname === '{path}' && {READY}")
    assert page.locator(".nav-holder").is_hidden()  # Gradio's own bar


def test_dark_mode_lasts_over_pages_and_reloads(url: str, browser_page: Page) -> None:
    page = opened(browser_page, url)
    dark = page.evaluate("document.body.classList.contains('dark')")
    page.get_by_role("button", name="Switch between light and dark").click()
    opened(page, url + "/runs")
    assert page.evaluate("document.body.classList.contains('dark')") is not dark


def test_the_header_names_who_has_the_device_and_can_stop_it(
    url: str, engine: BusyEngine, store: Store, browser_page: Page
) -> None:
    page = opened(browser_page, url + "/runs")
    page.locator(".hw-holder-text", has_text="idle").wait_for()
    page.locator(".hw-machine", has_text="CPU 41").wait_for()
    job = store.create_job(kind="train", name="small-heads", config={})
    leased = store.lease_job("host:1:x", job_id=job.id)
    assert leased is not None
    store.heartbeat(job.id, leased.attempt, {"done": 1, "total": 9, "unit": "steps", "note": "", "left_s": 720.0})
    engine.holder = "training small-heads"
    page.locator(".hw-holder-text", has_text="busy: training small-heads, 12 min left").wait_for()
    page.locator(".hw-holder summary").click()
    page.get_by_role("button", name="Stop the job").click()
    page.locator(".hw-popover", has_text="asked to stop").wait_for()
    assert store.get_job(job.id).requested == "stop"
    store.end_job(job.id, leased.attempt, "stopped")
    engine.holder = None
    page.locator(".hw-holder-text", has_text="idle").wait_for()
    page.keyboard.press("Escape")
    store.delete_job(job.id)


def test_a_page_holds_one_stream_that_a_hidden_tab_gives_back(url: str, browser_page: Page) -> None:
    page = browser_page
    page.add_init_script(
        """window.open_streams = 0; window.most = 0; const Real = window.EventSource;
        window.EventSource = class extends Real {
          constructor(...rest) { super(...rest); window.most = Math.max(window.most, window.open_streams += 1); }
          close() { if (this.readyState !== 2) window.open_streams -= 1; super.close(); } };"""
    )
    opened(page, url + "/live")
    page.locator("#hw-run").click()
    page.wait_for_function("window.headway.live.run && window.headway.live.run.over")
    assert page.evaluate("window.headway.live.run.gaps") == 0
    assert page.evaluate("[window.open_streams, window.most]") == [1, 1]
    page.evaluate("window.headway.feed.visibility(true)")
    assert page.evaluate("window.open_streams") == 0
    page.evaluate("window.headway.feed.visibility(false)")
    page.wait_for_function("window.open_streams === 1 && window.headway.feed.connected")


def test_a_first_click_on_home_leads_into_a_run(url: str, browser_page: Page) -> None:
    page = opened(browser_page, url + "/live?demo=1")
    page.wait_for_function("window.headway.live.run && window.headway.live.run.steps.length > 3")
    assert "demo" not in page.url and "run=" in page.url
