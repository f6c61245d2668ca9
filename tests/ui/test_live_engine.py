"""The Live page over a real engine on a tiny target: how soon text is seen, and what a person sees of a full disk."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backend.engine.run_log import RunLog
from backend.engine.service import LocalEngine
from backend.settings import Settings
from dashboard.access import AccessPolicy
from dashboard.services import DashboardSettings, Services
from storage import Store
from tests.support.store_faults import full_disk, read_only
from tests.ui.serving import serving
from tests.ui.test_live_page import LIVE, OVER, opened, run

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.ui

RUNS = 5
WATCH = """() => {
    window.firstSeen = {};
    const answer = document.querySelector(".hw-answer");
    new MutationObserver(() => {
        const id = window.headway.live.run?.runId;
        if (id && answer.textContent && !(id in window.firstSeen)) window.firstSeen[id] = Date.now();
    }).observe(answer, { childList: true, subtree: true, characterData: true });
}"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "runs.db") as opened_store:
        yield opened_store


@pytest.fixture
def url(tmp_path: Path, store: Store) -> Iterator[str]:
    """A Live page over the real engine, with a tiny target."""
    settings = Settings(home=tmp_path / "home", cache=tmp_path / "cache")
    engine = LocalEngine(settings, store)
    shown = DashboardSettings(default_target="tiny-llama")
    with serving(Services(engine, AccessPolicy.for_bind(), store, shown)) as address:
        yield f"{address}/live"


def live_page(page: Page, url: str) -> Page:
    """The page with a drafter chosen that needs no training."""
    opened(page, url)
    page.set_default_timeout(180_000)  # the engine loads a target first
    drafter = page.locator("#hw-drafter input")
    drafter.fill("ngram")
    drafter.press("Enter")
    return page


def test_the_first_token_is_seen_half_a_second_after_the_engine_said_it_at_most(
    url: str, browser_page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: dict[str, float] = {}
    append = RunLog.append

    def noted(log: RunLog, kind: str, data: dict[str, Any]) -> None:
        if kind in ("prefill", "step") and data["text"]:
            said.setdefault(log.run_id, time.time())
        append(log, kind, data)

    monkeypatch.setattr(RunLog, "append", noted)
    page = live_page(browser_page, url)
    page.locator("#hw-longest input[type=number]").fill("8")
    page.evaluate(WATCH)
    before = ""
    for number in range(RUNS):
        run(page, f"hello number {number}")
        page.wait_for_function(f"{OVER} && {LIVE}.run.runId !== '{before}'")
        before = page.evaluate(f"{LIVE}.run.runId")
    seen = page.evaluate("window.firstSeen")
    delays = [seen[run_id] / 1000 - moment for run_id, moment in said.items()]
    assert len(delays) == RUNS
    assert min(delays) <= 0.5, f"seconds from the engine to the page: {delays}"  # the best: the machine may be busy


def test_a_full_disk_and_a_read_only_store_are_one_sentence_and_old_runs_stay(
    url: str, store: Store, browser_page: Page
) -> None:
    page = live_page(browser_page, url)
    run(page, "hello hello hello")
    page.wait_for_function(OVER)
    kept = page.evaluate(f"{LIVE}.run.runId")
    before = (store.get_run(kept), store.steps(kept))
    banner = page.locator(".hw-banner[data-kind=error]")
    with full_disk(store, room=2):
        run(page, "hello again, hello again")
        page.wait_for_function(f"{OVER} && {LIVE}.run.runId !== '{kept}'")
        banner.wait_for()
        assert "is full; free some space and try again" in banner.inner_text()
        assert page.locator(".hw-answer").inner_text() != ""  # what was decoded can still be read
    with read_only(store):
        run(page, "hello once more")
        page.locator(".hw-banner[data-kind=error]", has_text="cannot be written").wait_for()
        page.goto(f"{url}?run={kept}")
        page.wait_for_function(OVER)
        assert page.evaluate(f"{LIVE}.run.steps.length") == len(before[1]) - 2  # a prefill and plain decoding's speed
    assert (store.get_run(kept), store.steps(kept)) == before
