"""The Adapters page in Chromium: start a comparison, read what is said of each adapter, move the mix of traffic."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backend.settings import Settings
from dashboard.access import AccessPolicy
from dashboard.services import DashboardSettings, Services
from storage import Store
from tests.dashboard.compared_adapters import FOUND, add_comparison
from tests.ui.replay_engine import ReplayEngine
from tests.ui.serving import serving

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.ui


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open(":memory:") as made:
        yield made


@pytest.fixture
def url(store: Store, tmp_path: Path) -> Iterator[str]:
    places = Settings(tmp_path / "home", tmp_path / "cache")
    places.make_folders()
    shown = DashboardSettings(default_target="tiny-llama")
    services = Services(ReplayEngine(steps_per_s=None), AccessPolicy.for_bind(), store, shown, places)
    with serving(services) as address:
        yield f"{address}/adapters"


def test_a_comparison_is_started_from_the_form(url: str, store: Store, browser_page: Page) -> None:
    page = browser_page
    page.set_default_timeout(60_000)
    page.goto(url)
    page.wait_for_function("window.headway && window.headway.feed.jobs && window.headway.mounts.adapters === 1")
    page.get_by_role("heading", name="Which adapter earns its own heads?").wait_for()
    form = page.locator("#hw-adapters-form")
    form.get_by_role("button", name="Compare").click()
    form.locator(".hw-problem:not([hidden])").first.wait_for()
    assert not store.list_jobs(kinds=["adapters"])
    form.locator("[data-path=adapter] textarea").fill("kind=/a/kind\ncurt=/a/curt")
    form.locator("[data-path=prompts] textarea").fill("kind=/p/kind.jsonl\ncurt=/p/curt.jsonl")
    form.locator("[data-path=traffic] textarea").fill("kind=3\ncurt=1")
    form.locator("[data-path=out] input").fill("/out/of/it")
    form.get_by_role("button", name="Compare").click()
    page.locator(".hw-adp .hw-job[data-status=queued]:not([hidden])").wait_for()
    page.get_by_text("what they say stands here at the end").wait_for()
    (job,) = store.list_jobs(kinds=["adapters"])
    assert job.config["traffic"] == ["kind=3", "curt=1"] and job.name == "it: kind, curt"


def test_the_mix_is_moved_and_computed_at_once(url: str, store: Store, browser_page: Page, tmp_path: Path) -> None:
    job = add_comparison(store, tmp_path / "out")
    page = browser_page
    page.set_default_timeout(60_000)
    page.goto(f"{url}?job={job.id}")
    mix = page.locator(".hw-adp-mix")
    mix.wait_for()
    assert page.locator(".hw-adp-one").count() == page.locator(".hw-adp-gains li").count() == len(FOUND)
    assert page.locator(".hw-adp-one[data-adapter=sql]").get_attribute("data-verdict") == "does not"
    earned = mix.locator("tr[data-strategy=earned]")
    earned.get_by_text("own heads: customer-support-2026-11").wait_for()
    sentence = mix.locator(".hw-adp-sentence").inner_text()
    for name in FOUND:
        value = "100" if name == "sql" else "0"
        mix.get_by_label(f"Traffic of {name}").evaluate(
            "(one, value) => { one.value = value; one.dispatchEvent(new Event('input')); }", value
        )
    earned.get_by_text("none earns its own").wait_for()
    assert mix.locator(".hw-adp-share").all_inner_texts() == ["0 %", "100 %", "0 %"]
    assert mix.locator(".hw-adp-sentence").inner_text() != sentence
    mix.get_by_label("Traffic of sql").evaluate("(one) => { one.value = 0; one.dispatchEvent(new Event('input')); }")
    mix.get_by_text("adds up to nothing").wait_for()
    assert mix.locator(".hw-adp-share").all_inner_texts() == ["0 %", "100 %", "0 %"]  # what was there stays
    mix.get_by_label("Traffic of legal").evaluate("(one) => { one.value = 7; one.dispatchEvent(new Event('input')); }")
    mix.locator(".hw-problem").wait_for(state="hidden")
    page.get_by_role("button", name="Acceptance length").first.click()
    page.locator(".hw-explained h3", has_text="Acceptance length").wait_for()
