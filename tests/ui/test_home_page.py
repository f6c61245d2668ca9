"""The front page in Chromium: first visit, jobs that change while they are watched, the queue, what to do next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backend.settings import Settings
from dashboard.access import AccessPolicy
from dashboard.services import Services
from storage import Store, VersionIdentity
from tests.dashboard.stored_runs import add_run
from tests.ui.replay_engine import ReplayEngine
from tests.ui.serving import serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.ui
HOSTILE = "${document.title='broken'} <img src=x onerror=\"document.title='broken'\">"


@pytest.fixture
def home(tmp_path: Path) -> Settings:
    return Settings(tmp_path, tmp_path)


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open(":memory:") as made:
        yield made


@pytest.fixture
def url(store: Store, home: Settings) -> Iterator[str]:
    services = Services(ReplayEngine(steps_per_s=30), AccessPolicy.for_bind(), store, places=home)
    with serving(services) as address:
        yield address


def opened(page: Page, url: str) -> Page:
    page.set_default_timeout(60_000)
    page.goto(url)
    page.wait_for_function("window.headway && window.headway.feed.jobs && window.headway.mounts.home === 1")
    return page


def test_a_first_visit_is_two_sentences_and_one_button_that_starts_a_run(url: str, browser_page: Page) -> None:
    page = opened(browser_page, url)
    welcome = page.locator(".hw-welcome")
    welcome.wait_for()
    assert page.locator(".hw-home .hw-card:visible").count() == 1
    assert sum(text.count(".") for text in welcome.locator("h1, p").all_inner_texts()) == 2
    welcome.get_by_role("link").click()
    page.wait_for_function("window.headway?.live?.run && window.headway.live.run.steps.length > 2")


def test_jobs_move_finish_and_show_their_log_while_they_are_watched(
    url: str, store: Store, home: Settings, open_page: Callable[..., Page]
) -> None:
    identity = VersionIdentity(weights_id="w", tokenizer_id="t", template_id="c")
    version = store.register_version(identity, label=HOSTILE, source="/m", model_type="llama", num_parameters=9)
    add_run(store, prompt=HOSTILE)
    running = store.create_job(kind="train", name=HOSTILE, config={})
    leased = store.lease_job("host:1:x")
    assert leased is not None
    waiting = [store.create_job(kind="distill", name=f"waiting {n}", config={}) for n in range(3)]
    first, second = opened(open_page(), url), opened(open_page(), url)
    for page in (first, second):
        page.locator(".hw-job[data-status=running]").wait_for()
        assert page.locator(".hw-job[data-status=running] .hw-job-name").inner_text() == HOSTILE.strip()
    names = first.locator(".hw-job[data-status=queued] .hw-job-name")
    assert names.all_inner_texts() == ["waiting 0", "waiting 1", "waiting 2"]
    last = first.locator(f"[data-job='{waiting[2].id}']")
    last.get_by_role("button", name="Earlier in the queue").click()
    for page in (first, second):
        page.wait_for_function(
            """[...document.querySelectorAll('.hw-job[data-status=queued] .hw-job-name')].map((one) => one.textContent)
               .join() === 'waiting 0,waiting 2,waiting 1'"""
        )
    first.locator(f"[data-job='{waiting[0].id}']").get_by_role("button", name="Later in the queue").click()
    first.wait_for_function(
        "document.querySelector('.hw-job[data-status=queued] .hw-job-name').textContent === 'waiting 2'"
    )
    card = first.locator(f"[data-job='{running.id}']")
    card.locator("summary").click()
    log = home.jobs / running.id / "log.txt"
    log.parent.mkdir(parents=True)
    log.write_text(f"begun {HOSTILE}\n")
    card.locator(".hw-log", has_text="begun").wait_for()
    store.heartbeat(running.id, leased.attempt, {"done": 5, "total": 8, "unit": "steps", "note": "", "left_s": 90})
    card.locator(".hw-job-note", has_text="5 of 8 steps").wait_for()
    assert card.get_by_role("progressbar").get_attribute("aria-valuenow") == "63"
    assert card.locator(".hw-log").is_visible()  # what is unfolded stays so
    first.reload()
    card.locator(".hw-job-left", has_text="90 s left").wait_for()
    store.link_job(running.id, leased.attempt, version_id=version.id)
    store.end_job(running.id, leased.attempt, "finished", result={})
    for page in (first, second):
        page.locator(f"[data-job='{running.id}'][data-status=finished] .tick").wait_for()
        page.locator(".hw-stages li.done", has_text="trained").wait_for()
    first.locator(f"[data-job='{running.id}']").get_by_role("button", name="Delete").click()
    first.locator(f"[data-job='{running.id}']").wait_for(state="detached")
    assert first.title() == "Headway" and first.locator(".hw-home img").count() == 0


def test_what_a_job_refuses_is_said_on_its_card(url: str, store: Store, browser: Browser) -> None:
    first = store.create_job(kind="train", name="one", config={}, exclusive="file:/x")
    store.request_job(first.id, "stop")
    store.create_job(kind="train", name="two", config={}, exclusive="file:/x")
    page = opened(browser.new_page(), url)  # Chromium itself reports the refused request in the console
    card = page.locator(f"[data-job='{first.id}']")
    card.get_by_role("button", name="Resume").click()
    card.locator(".hw-problem", has_text="two").wait_for()
    assert store.get_job(first.id).status == "stopped"
    page.close()
