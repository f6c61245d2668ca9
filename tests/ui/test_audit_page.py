"""The Audit page in Chromium: start one, watch what is found, read the verdict, its evidence and its certificate."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backend.glossary import glossary
from backend.jobs.audit_config import AuditJobConfig
from backend.jobs.audit_job import run
from backend.jobs.context import ConsoleContext
from backend.settings import Settings
from dashboard.access import AccessPolicy
from dashboard.services import DashboardSettings, Services
from storage import Store
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
def places(tmp_path: Path) -> Settings:
    settings = Settings(tmp_path / "home", tmp_path / "cache")
    settings.make_folders()
    return settings


@pytest.fixture
def url(store: Store, places: Settings) -> Iterator[str]:
    shown = DashboardSettings(default_target="tiny-llama")
    services = Services(ReplayEngine(steps_per_s=None), AccessPolicy.for_bind(), store, shown, places)
    with serving(services) as address:
        yield f"{address}/audit"


def test_an_audit_is_started_and_its_verdict_read(url: str, store: Store, places: Settings, browser_page: Page) -> None:
    page = browser_page
    page.set_default_timeout(60_000)
    page.goto(url)
    page.wait_for_function("window.headway && window.headway.feed.jobs && window.headway.mounts.audit === 1")
    page.get_by_role("heading", name="Is the output still the target's own?").wait_for()
    form = page.locator("#hw-audit-form")
    form.locator("[data-path=drafter] select").select_option(label="Another…")
    form.locator("[data-path=drafter] input").fill("draft:tiny-llama")
    form.locator("[data-path=tree] input").fill("2x1")
    form.locator("[data-path=total_variation] input").fill("0.3")
    for name, value in (("max_new_tokens", "10"), ("greedy_answers", "3"), ("limit", "4")):
        form.locator(f"[data-path={name}] input").evaluate(f"(one) => {{ one.value = '{value}'; }}")
    form.get_by_role("button", name="Audit", exact=True).click()
    page.locator(".hw-audit .hw-job[data-status=queued]:not([hidden])").wait_for()
    page.get_by_text("Nothing was looked at yet.").wait_for()
    (queued,) = store.list_jobs(kinds=["audit"])
    job = store.lease_job("host:1:x", job_id=queued.id)
    assert job is not None
    context = ConsoleContext(places, places.jobs / job.id, quiet=True)
    result = run(AuditJobConfig.model_validate(job.config), context)
    store.put_items(job.id, job.attempt, context.items())
    store.end_job(job.id, job.attempt, "finished", result=result)
    verdict = page.locator(".hw-audit-verdict")
    verdict.wait_for()
    assert result["verdict"] == "exact" == verdict.get_attribute("data-verdict")
    assert result["sentence"] in verdict.inner_text()
    assert page.locator(".hw-audit-tests tbody tr").count() == len(result["findings"]["sampling"]["tests"])
    greedy = result["findings"]["greedy"]
    page.locator(".hw-audit-number", has_text=f"{greedy['equal']} of {greedy['tokens']}").wait_for()
    place = page.get_by_role("link", name="Open the certificate").get_attribute("href")
    answered = page.request.get(url.removesuffix("/audit") + str(place))
    assert answered.ok and "No deviation found" in answered.text()
    page.get_by_role("button", name="p-value").click()
    page.locator(".hw-explained h3", has_text="p-value").wait_for()
    page.set_viewport_size({"width": 800, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= 800


def test_a_mark_beside_a_field_explains_the_knob(url: str, browser_page: Page) -> None:
    page = browser_page
    page.set_default_timeout(60_000)
    page.goto(url)
    field = page.locator("#hw-audit-form [data-path=tree]")
    field.locator(".hw-term-mark").click()
    box = page.get_by_role("dialog", name="What Tree does")
    box.get_by_text(glossary().knobs["tree"].costs).wait_for()
    page.keyboard.press("Escape")
    box.wait_for(state="detached")
    assert field.locator("input").input_value() == ""  # the label was not clicked
