"""The Trees page in Chromium: the empty state starts both jobs, a dragged budget is followed without asking again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlparse

import pytest
import torch

from backend.engine.conditions import device_name
from backend.jobs.tune_view import view
from backend.settings import Settings
from dashboard.access import AccessPolicy
from dashboard.services import DashboardSettings, Services
from storage import Store
from tests.tuning.made_up import calibration
from tests.ui.replay_engine import ReplayEngine
from tests.ui.serving import serving

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.ui
HOSTILE = "${document.title='broken'}<b>x</b>"


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open(":memory:") as made:
        yield made


@pytest.fixture
def url(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name in ("demo", "heldout"):
        (tmp_path / f"{name}.jsonl").write_text('{"turns": ["Say a."]}\n' * 3)
    # The search itself runs in this process: what is tested is the page.
    monkeypatch.setattr("backend.jobs.tune_helper._asked", lambda request: json.loads(json.dumps(view(request))))
    shown = DashboardSettings(demo_prompts=tmp_path / "demo.jsonl")
    places = Settings(tmp_path, tmp_path)
    with serving(Services(ReplayEngine(steps_per_s=None), AccessPolicy.for_bind(), store, shown, places)) as address:
        yield f"{address}/trees"


def opened(page: Page, url: str) -> Page:
    page.set_default_timeout(60_000)
    page.goto(url)
    page.wait_for_function("window.headway && window.headway.feed.jobs && window.headway.mounts.trees === 1")
    return page


def finished(store: Store, kind: str, items: dict[str, dict[str, object]], result: dict[str, object]) -> str:
    config = {"target": "smollm2-135m", "drafter": "builtin-medusa", "temperatures": [0.0]}
    made = store.create_job(kind=kind, name=f"{kind} {HOSTILE}", config=config)
    job = store.lease_job("host:1:x", job_id=made.id)
    assert job is not None
    store.put_items(job.id, job.attempt, items)
    store.end_job(job.id, job.attempt, "finished", result=result)
    return str(job.id)


def add_calibration(store: Store) -> str:
    made = calibration(20)
    setup = {"conditions": made.conditions, "shape": made.shape.to_json(), "ranks": 3, "parallel": True}
    items = {"setup": setup} | {f"T0|{n}": walk.to_dict() for n, walk in enumerate(made.walks)}
    return finished(store, "calibrate", items, {"positions": made.positions, "prompts": 20})


def add_cost(store: Store) -> str:
    about = calibration(2).conditions
    conditions = {
        "device": device_name(torch.device("cpu")), "threads": torch.get_num_threads(), "dtype": "float32",
        "version": about["version"], "drafter": about["drafter"],
        "sizes": {"parameters": 1.3e8, "cache_values": 11520.0, "attention_width": 17280.0, "bytes_per_weight": 4.0},
    }  # fmt: skip
    tasks, times = [], []
    for batch in (1, 4):
        for rows in (1, 2, 4, 8, 16, 32):
            tasks.append({"rows": rows, "batch": batch, "context": 64})
            times.append(20.0 + 0.6 * rows * batch)
    for tree, draft in ((None, 0.0), ([[0]], 1.0), ([[0], [0, 0], [0, 0, 0]], 2.0)):
        tasks.append({"tree": tree, "batch": 1})
        times.append([draft, 0.5])
    round_ = {"tasks": tasks, "ms": times, "seconds": 1.0, "others_busy": 0.0, "notes": []}
    items = {"setup": {"conditions": conditions, "contended": False, "notes": []}, "round 00": round_}
    return finished(store, "cost", items, {"rounds": 1, "plain_step_ms": 20.6})


def test_the_empty_page_has_one_button_that_starts_both(url: str, store: Store, browser_page: Page) -> None:
    page = opened(browser_page, url)
    page.locator(".hw-trees .hw-welcome").get_by_role("button", name="Calibrate and measure").click()
    page.locator(".hw-trees .hw-job[data-status=queued]").nth(1).wait_for()
    assert page.locator(".hw-welcome").is_hidden()
    jobs = {job.kind: job for job in store.list_jobs(kinds=["calibrate", "cost"])}
    assert jobs["calibrate"].config["prompts"][0].endswith("heldout.jsonl")
    assert jobs["cost"].config["seconds"] == 120 and "builtin-medusa" in jobs["cost"].name
    page.get_by_label("Batches").fill("many")
    page.locator("#hw-trees-cost").click()
    page.locator(".hw-trees [role=alert]").get_by_text("Batches are numbers with commas between").wait_for()


def test_a_dragged_budget_is_followed_at_once(url: str, store: Store, browser_page: Page) -> None:
    add_calibration(store)
    page = opened(browser_page, url)
    page.locator(".hw-trees-best").wait_for()
    assert page.get_by_text("Expected tokens/s").count() == 0  # without costs only lengths are known
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "trees" in request.url else None)
    cost = add_cost(store)
    page.wait_for_function("[...document.querySelectorAll('select[aria-label=\"Cost curve\"] option')].length === 2")
    page.get_by_label("Cost curve").select_option(cost)
    page.get_by_text("Expected tokens/s").wait_for()
    before = len(asked)
    slider = page.locator("#hw-trees-budget")
    for nodes in (2, 7, 12):
        slider.evaluate("(one, n) => { one.value = n; one.dispatchEvent(new Event('input')); }", nodes)
        assert page.locator(".hw-trees-picture .node.unreached").count() == nodes
        assert page.locator("output[for=hw-trees-budget]").inner_text() == f"{nodes} nodes"
        address = page.get_by_role("link", name="Try it live").get_attribute("href")
        tree = json.loads(parse_qs(urlparse(address).query)["tree"][0])
        assert len(tree) == nodes
    assert len(asked) == before and len(page.evaluate("window.headway.treesMs")) >= 4
    page.get_by_role("button", name="Measure it").click()
    page.locator(".hw-trees .hw-job[data-status=queued]:not([hidden])").wait_for()
    (job,) = store.list_jobs(kinds=["evaluate"])
    assert len(json.loads(job.config["trees"][0])) == 12 and job.config["drafters"] == ["heads"]
    page.get_by_role("button", name="Fastest:").click()
    page.get_by_role("button", name="16 at once").click()
    page.get_by_text("This rests on times beyond what was measured").wait_for()
    assert page.locator(".hw-heat").first.locator("tbody tr").count() == 3
    page.get_by_role("button", name="Given that the path was right").click()
    assert page.locator(".hw-trees-cost .line.dashed").count() > 0
    assert page.locator(".hw-trees-confidence .dot").count() > 0
    assert "num_speculative_tokens_per_batch_size" in page.locator(".hw-trees-serving").inner_text()
    best = page.locator(".hw-trees-best")
    best.get_by_role("button", name="Copy as command").click()
    best.locator("pre", has_text="python app.py tune-tree --calibration").wait_for()
    best.get_by_role("button", name="Keep the fastest").click()
    page.locator(".hw-trees .hw-job[data-status=queued]:not([hidden])", has_text="Tune").wait_for()
    (kept,) = store.list_jobs(kinds=["tune-tree"])
    assert kept.config["cost"] == cost and kept.config["batch"] == 16
    leased = store.lease_job("host:1:x", job_id=kept.id)
    assert leased is not None
    store.end_job(kept.id, leased.attempt, "finished", result={"num_nodes": 3, "speedup": 1.5, "drafter": "heads"})
    page.locator(f".hw-trees-kept li[data-job='{kept.id}']", has_text="3 nodes").wait_for()
    exported = page.locator(".hw-trees-kept").get_by_role("link", name="Export it")
    assert exported.get_attribute("href") == f"/export?tuned={kept.id}"
    assert page.title() == "Trees · Headway"
    page.goto(f"{url}?job={cost}")
    page.get_by_text("Expected tokens/s").wait_for()
    page.wait_for_url(f"**cost={cost}**")
    page.reload()
    page.get_by_text("Expected tokens/s").wait_for()
    page.set_viewport_size({"width": 800, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= 800
