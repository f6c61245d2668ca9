"""The Live page over a real engine on a tiny target: how soon text is seen, and what a person sees of wrong input and
of files that are damaged: one sentence, while everything stored stays as it was.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backend.engine.run_log import RunLog
from backend.engine.service import LocalEngine
from backend.settings import Settings
from backend.targets.opening import open_target
from benchmarks.first_token import WATCH
from dashboard.access import AccessPolicy
from dashboard.presenters.form import OWN_TREE
from dashboard.services import DashboardSettings, Services
from storage import Store
from tests.drafters.test_registry import write_heads
from tests.support.store_faults import full_disk, read_only
from tests.ui.serving import serving
from tests.ui.test_live_page import LIVE, OVER, opened, run

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.ui

RUNS = 3
ERROR = ".hw-banner[data-kind=error]"


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


def test_the_first_token_is_seen_before_the_model_goes_on(
    url: str, browser_page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing on the way waits for more: the engine is held after the first text until the page shows it. How long it
    takes is measured by benchmarks/first_token.py.
    """
    held: set[str] = set()
    go_on = threading.Semaphore(0)
    append = RunLog.append

    def noted(log: RunLog, kind: str, data: dict[str, Any]) -> None:
        append(log, kind, data)
        if kind in ("prefill", "step") and data["text"] and log.run_id not in held:
            held.add(log.run_id)
            assert go_on.acquire(timeout=60), "the page never showed the first token"

    monkeypatch.setattr(RunLog, "append", noted)
    page = live_page(browser_page, url)
    page.locator("#hw-longest input[type=number]").fill("8")
    page.evaluate(WATCH)
    for number in range(RUNS):
        run(page, f"hello number {number}")
        page.wait_for_function(f"Object.keys(window.firstSeen).length === {number + 1}")
        assert len(held) == number + 1 and not page.evaluate(OVER)
        go_on.release()
        page.wait_for_function(OVER)


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


def choose(page: Page, field: str, text: str) -> None:
    """Types into one of the pickers that take any text."""
    picker = page.locator(f"{field} input")
    picker.fill(text)
    picker.press("Enter")


def refusal(page: Page, words: str) -> str:
    """Presses Run and gives what the page then says, which holds `words` and is one sentence."""
    page.locator("#hw-run").click()
    banner = page.locator(ERROR, has_text=words)
    banner.wait_for()
    said = banner.locator(".hw-banner-text").inner_text()
    assert said.endswith(".") and "\n" not in said and ". " not in said and "Traceback" not in page.content()
    return said


def test_wrong_heads_trees_and_prompts_are_one_sentence_and_stored_runs_stay(
    url: str, store: Store, tmp_path: Path, browser_page: Page
) -> None:
    places = Settings(home=tmp_path / "home", cache=tmp_path / "cache")
    other, mine = open_target("tiny-llama:1", places), open_target("tiny-llama", places)
    foreign, damaged = write_heads(other, tmp_path / "foreign"), write_heads(mine, tmp_path / "damaged")
    page = live_page(browser_page, url)
    page.locator("#hw-auto input").uncheck()
    run(page, "hello hello hello")
    page.wait_for_function(OVER)
    kept = page.evaluate(f"{LIVE}.run.runId")
    before = (store.get_run(kept), store.steps(kept))

    choose(page, "#hw-drafter", str(foreign))
    said = refusal(page, "was trained for")
    assert str(other.identity) in said and str(mine.identity) in said and "the weights differ" in said
    refused = page.evaluate(f"{LIVE}.run.runId")
    assert (store.get_run(refused).status, store.get_run(refused).error) == ("failed", said)
    page.get_by_role("button", name="More").click()
    page.get_by_label("heads of another version").check()
    page.locator("#hw-run").click()
    page.locator(".hw-banner[data-kind=warning]", has_text="used all the same because it was forced").wait_for()
    page.wait_for_function(f"{OVER} && {LIVE}.run.runId !== '{refused}'")
    assert page.evaluate(f"{LIVE}.run.status") == "finished" and page.evaluate(f"{LIVE}.run.figures().drafted") > 0
    page.get_by_label("heads of another version").uncheck()

    stored = store.count_runs()
    choose(page, "#hw-tree-knob", "[[0], [1, 0]]")
    refusal(page, "Path [1, 0] has no parent: add [1] or remove it.")
    assert store.count_runs() == stored
    choose(page, "#hw-tree-knob", OWN_TREE)

    choose(page, "#hw-drafter", "ngram")
    page.locator("#hw-prompt-text textarea").fill("hello " * 400)
    assert "tiny-llama has room for" in refusal(page, "shorten the prompt or ask for fewer")

    weights = damaged / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 0xFF
    weights.write_bytes(content)
    choose(page, "#hw-drafter", str(damaged))
    page.locator("#hw-prompt-text textarea").fill("hello hello hello")
    assert str(weights) in refusal(page, "is damaged (its checksum differs from headway.json)")
    assert weights.read_bytes() == content

    choose(page, "#hw-drafter", "ngram")
    failed = page.evaluate(f"{LIVE}.run.runId")
    page.locator("#hw-run").click()
    page.wait_for_function(f"{OVER} && {LIVE}.run.runId !== '{failed}'")
    assert page.locator(ERROR).count() == 0 and page.evaluate(f"{LIVE}.run.status") == "finished"
    page.goto(f"{url}?run={refused}")  # a failed run says the same when it is opened again
    page.locator(ERROR, has_text=said).wait_for()
    assert (store.get_run(kept), store.steps(kept)) == before
