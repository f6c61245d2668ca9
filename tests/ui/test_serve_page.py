"""The Serve page in Chromium: what is missing is said, a server's counts are drawn as they come, tests, comparisons."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backend.settings import Settings
from dashboard.access import AccessPolicy
from dashboard.services import DashboardSettings, Services
from storage import Store
from tests.dashboard.served import HOSTILE, SERVER, counts, part, running
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
def url(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr("sys.prefix", str(tmp_path))  # wherever the tests run, there is no vLLM
    for name in ("demo", "heldout"):
        (tmp_path / f"{name}.jsonl").write_text('{"turns": ["Say a."]}\n' * 3)
    shown = DashboardSettings(demo_prompts=tmp_path / "demo.jsonl")
    places = Settings(tmp_path, tmp_path)
    with serving(Services(ReplayEngine(steps_per_s=None), AccessPolicy.for_bind(), store, shown, places)) as address:
        yield f"{address}/serve"


def opened(page: Page, url: str) -> Page:
    page.set_default_timeout(60_000)
    page.goto(url)
    page.wait_for_function("window.headway && window.headway.feed.jobs && window.headway.mounts.serve === 1")
    return page


def test_without_vllm_the_page_says_how_to_get_it_and_still_watches(url: str, store: Store, browser_page: Page) -> None:
    page = opened(browser_page, url)
    page.locator(".hw-serve-vllm.missing").get_by_text("app.py vllm-setup").wait_for()
    page.get_by_role("heading", name="What does a drafter bring").wait_for()
    page.locator("#hw-serve-start").click()
    page.locator(".hw-serve [role=alert]").get_by_text("vLLM is not installed here").wait_for()
    page.get_by_role("button", name="Watch a running server").click()
    page.locator("#hw-serve-url").locator("input, textarea").fill("http://127.0.0.1:8000")
    page.locator("#hw-serve-watch").click()
    page.locator(".hw-serve .hw-job[data-status=queued]:not([hidden])").wait_for()
    (job,) = store.list_jobs(kinds=["vllm"])
    assert job.config["url"] == "http://127.0.0.1:8000" and job.config["drafter"] == "none"
    assert page.locator(".hw-serve .hw-welcome").is_hidden()


def test_what_a_server_counts_is_drawn_as_it_comes(url: str, store: Store, browser_page: Page) -> None:
    job = running(store, "vllm", {"target": "smollm2-135m"}, {"server": SERVER})
    store.add_metrics(job.id, job.attempt, [(2, counts(20.0, [0.5, 0.2, 0.1])), (4, counts(22.0, [0.5, 0.25, 0.1]))])
    page = opened(browser_page, url)
    page.locator(".hw-serve-figures").get_by_text("22.0").wait_for()
    assert page.locator(".hw-serve-bars li").count() == 3
    assert page.locator(".hw-serve-charts svg[role=img]").count() == 2
    assert "medusa, 3 tokens at a time" in page.locator(".hw-serve-address").inner_text()
    assert HOSTILE in page.locator(".hw-serve-address").inner_text()
    store.add_metrics(job.id, job.attempt, [(6, counts(31.5, [0.75, 0.25, 0.1]))])
    page.locator(".hw-serve-figures").get_by_text("31.5").wait_for()
    page.locator(".hw-serve-bars").get_by_text("75.0 %").wait_for()
    assert page.evaluate("window.headway.mounts.serve") == 1
    assert page.title() == "Serve · Headway"


def test_a_load_test_shows_its_curves_and_from_where_drafting_does_not_pay(
    url: str, store: Store, browser_page: Page
) -> None:
    loads = [("with drafts", 1, 20.0), ("plain", 1, 10.0), ("with drafts", 4, 30.0), ("plain", 4, 40.0)]
    items = {f"0|{arm}|{clients} clients": part(arm, clients, speed) for arm, clients, speed in loads}
    config = {"target": "smollm2-135m", "max_new_tokens": 64, "rounds": 1, "seconds": 20.0}
    job = running(store, "load-test", config, items)
    page = opened(browser_page, f"{url}?job={job.id}")
    page.get_by_text("Drafting pays up to 3.03 clients here").wait_for()
    assert page.locator(".hw-serve-charts svg[role=img]").count() == 2
    assert page.locator(".hw-serve table tbody tr").count() == 4
    row = page.locator(".hw-serve table tbody tr").nth(1).inner_text()
    assert "2.00" in row and "8 (1)" in row and "50 · 15 · 5" in row
    answer = page.request.get(f"{url.removesuffix('/serve')}/headway/serving/{job.id}.csv")
    assert answer.ok and answer.text().splitlines()[0].endswith("position_1,position_2,position_3")


def test_a_comparison_marks_what_differs(url: str, store: Store, browser_page: Page) -> None:
    rows = [
        {"position": 1, "own": 0.52, "served": 0.525, "difference": 0.005, "own_steps": 900, "served_steps": 905},
        {"position": 2, "own": 0.30, "served": 0.21, "difference": -0.09, "own_steps": 900, "served_steps": 905},
    ]
    job = running(store, "compare-serving", {"target": "smollm2-135m", "max_new_tokens": 64}, {})
    result = {
        "positions": rows, "domains": [], "contexts": [], "prompts": 20, "largest_difference": 0.09,
        "causes": [HOSTILE],
        "equal": {"with_and_without": {"same": 20, "of": 20}, "served_and_own": {"same": 19, "of": 20}, "differ": []},
    }  # fmt: skip
    store.end_job(job.id, job.attempt, "finished", result=result)
    page = opened(browser_page, f"{url}?job={job.id}")
    page.get_by_text("20 of 20 equal, token by token").wait_for()
    assert page.locator(".hw-serve tr.hw-far").count() == 1
    assert "\N{MINUS SIGN}9.0" in page.locator(".hw-serve tr.hw-far").inner_text()
    assert page.locator(".hw-serve-causes li").inner_text() == HOSTILE
