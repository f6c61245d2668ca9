"""The Evaluate page in Chromium: the empty state starts a job, a table fills while it is watched, domains fold out, and
a reload shows the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backend.analysis.evaluation import table
from backend.settings import Settings
from dashboard.access import AccessPolicy
from dashboard.services import DashboardSettings, Services
from storage import Store
from tests.dashboard.evaluations import add_evaluation, measured, report
from tests.ui.replay_engine import ReplayEngine
from tests.ui.serving import serving

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.ui
HOSTILE = "${document.title='broken'} <img src=x onerror=\"document.title='broken'\">"


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open(":memory:") as made:
        yield made


@pytest.fixture
def url(store: Store, tmp_path: Path) -> Iterator[str]:
    for name in ("demo", "heldout"):
        (tmp_path / f"{name}.jsonl").write_text('{"turns": ["Say a."]}\n' * 3)
    shown = DashboardSettings(demo_prompts=tmp_path / "demo.jsonl")
    places = Settings(tmp_path, tmp_path)
    with serving(Services(ReplayEngine(steps_per_s=None), AccessPolicy.for_bind(), store, shown, places)) as address:
        yield f"{address}/evaluate"


def opened(page: Page, url: str) -> Page:
    page.set_default_timeout(60_000)
    page.goto(url)
    page.wait_for_function("window.headway && window.headway.feed.jobs && window.headway.mounts.evaluate === 1")
    return page


def test_the_empty_page_has_one_button_that_starts_an_evaluation(url: str, store: Store, browser_page: Page) -> None:
    page = opened(browser_page, url)
    page.locator(".hw-evaluate .hw-welcome").get_by_role("button", name="Evaluate the built-in heads").click()
    page.locator(".hw-evaluation-card .hw-job[data-status=queued]").wait_for()
    assert page.locator(".hw-welcome").is_hidden()
    (job,) = store.list_jobs(kinds=["evaluate"])
    assert job.config["drafters"] == ["builtin-medusa"] and len(job.config["prompts"]) == 2
    assert f"job={job.id}" in page.url


def test_the_form_speaks_of_what_stands_in_it(url: str, store: Store, browser_page: Page) -> None:
    page = opened(browser_page, url)
    note = page.locator(".hw-evaluate-note")
    page.get_by_text("3 prompts in 4 configurations make 12 answers").wait_for()
    page.get_by_label("Temperatures").fill("warm")
    page.get_by_text("Temperatures are numbers with commas between").wait_for()
    assert "wrong" in (note.get_attribute("class") or "")
    page.locator("#hw-evaluate-start").click()
    page.locator(".hw-evaluate [role=alert]").get_by_text("Temperatures are numbers").wait_for()
    assert store.list_jobs(kinds=["evaluate"]) == []
    page.get_by_label("Temperatures").fill("0, 0.5, 1")
    page.get_by_text("make 18 answers").wait_for()
    page.locator("#hw-evaluate-copy").click()
    page.locator(".hw-command-text").get_by_text("python app.py evaluate").wait_for()
    page.locator("#hw-evaluate-start").click()
    page.locator(".hw-evaluation-card .hw-job[data-status=queued]").wait_for()
    assert page.locator(".hw-evaluate [role=alert]").first.is_hidden()
    assert store.list_jobs(kinds=["evaluate"])[0].config["temperatures"] == [0, 0.5, 1]


def test_the_table_fills_while_it_is_watched_and_stays_after_a_reload(
    url: str, store: Store, browser_page: Page
) -> None:
    older = add_evaluation(store, "an older one")
    store.end_job(older.id, older.attempt, "finished", result={})
    job, found = add_evaluation(store, HOSTILE), measured()
    page = opened(browser_page, f"{url}?job={job.id}")
    page.get_by_text("The table fills as soon as").wait_for()
    assert page.locator(".hw-evaluation-card .hw-job-name").inner_text() == HOSTILE.strip()
    report(store, job, found[:12])
    page.locator("tr[data-contender=good] small", has_text="of 9").first.wait_for()
    report(store, job, found[12:], first=12)
    page.get_by_role("button", name="T = 1").wait_for()
    store.end_job(job.id, job.attempt, "finished", result={})
    page.locator(".hw-evaluation-card .hw-job[data-status=finished]").wait_for()
    page.wait_for_function("!document.querySelector('.hw-evaluation')?.textContent.includes('of 9')")

    page.get_by_role("button", name="T = 0").click()
    rows = page.locator("tr[data-contender=good]")
    assert rows.count() == 3 and page.locator(".hw-set").all_inner_texts() == ["mean over sets", "poems", "proofs"]
    row = next(r for r in table(found) if (r.set, r.contender, r.temperature, r.category) == ("poems", "good", 0, None))
    shown = rows.nth(1).inner_text()
    assert f"{row.acceptance_length:.2f}" in shown and f"{row.speedup:.2f}" in shown and f"{row.verify:.2f}" in shown
    assert rows.nth(1).locator(".hw-depth").count() == len(row.marginal)
    rows.nth(1).locator(".hw-fold").click()
    assert page.locator(".hw-domain").all_inner_texts()[0].startswith("even")
    assert page.locator(".hw-domain").count() == 2
    assert page.locator(".hw-best").count() > 0

    page.reload()
    page.get_by_role("button", name="T = 1").wait_for()
    assert page.locator(".hw-job-name:visible").all_inner_texts() == [HOSTILE.strip(), "an older one"]
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV", exact=True).click()
    assert download.value.path().read_text().count("\n") == 1 + len(table(found))
    assert page.title() == "Evaluate · Headway"
    page.set_viewport_size({"width": 800, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= 800
