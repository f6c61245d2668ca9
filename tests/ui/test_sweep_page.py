"""The Sweep page in Chromium: the empty state starts an example, the form says what rows mean, charts answer a brush
and share one selection, 2,000 trials included.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backend.settings import Settings
from dashboard.access import AccessPolicy
from dashboard.services import DashboardSettings, Services
from storage import Store
from tests.dashboard.sweeps import add_sweep, made_up_trials, report
from tests.ui.replay_engine import ReplayEngine
from tests.ui.serving import serving

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.ui
HOSTILE = "${document.title='broken'} <img src=x onerror=\"document.title='broken'\">"


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with Store.open(":memory:") as made:
        yield made


@pytest.fixture(scope="module")
def url(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("home")
    for name in ("demo", "heldout"):
        (folder / f"{name}.jsonl").write_text('{"turns": ["Say a."]}\n' * 3)
    shown = DashboardSettings(demo_prompts=folder / "demo.jsonl")
    places = Settings(folder, folder)
    with serving(Services(ReplayEngine(steps_per_s=None), AccessPolicy.for_bind(), store, shown, places)) as address:
        yield f"{address}/sweep"


def opened(page: Page, url: str) -> Page:
    page.set_default_timeout(60_000)
    page.goto(url)
    page.wait_for_function("window.headway && window.headway.feed.jobs && window.headway.mounts.sweep === 1")
    return page


def test_the_empty_page_starts_the_example_and_the_form_speaks(url: str, store: Store, browser_page: Page) -> None:
    page = opened(browser_page, url)
    page.get_by_text("trials of 3 answers").wait_for()
    page.get_by_label("Tree", exact=True).fill("chain-1, 2x2, 2x2")
    page.get_by_text("names a value twice").first.wait_for()
    page.get_by_label("Tree", exact=True).fill("chain-1, 2x2")
    page.locator("[data-knob=tree] .hw-help", has_text="2 values").wait_for()
    page.get_by_label("Turn another knob").select_option("epsilon")
    page.locator("[data-knob=epsilon]").get_by_text("geometric middle").wait_for()
    page.get_by_role("button", name="Do not turn ε").click()
    page.get_by_role("button", name="As YAML").click()
    page.locator(".hw-command-text", has_text="sampler: grid").wait_for()
    page.get_by_role("button", name="Typical dial").click()
    page.locator("[data-knob=rule]").wait_for()
    page.get_by_role("button", name="Start the tree example").click()
    page.locator(".hw-sweep-head .hw-job[data-status=queued]").wait_for()
    (job,) = store.list_jobs(kinds=["sweep"])
    assert f"job={job.id}" in page.url and page.locator("[data-knob=max_depth]").count() == 1
    store.request_job(job.id, "stop")


def test_charts_share_one_selection_and_stay_after_a_reload(url: str, store: Store, browser_page: Page) -> None:
    job = add_sweep(store, HOSTILE, trials=60)
    page = opened(browser_page, f"{url}?job={job.id}")
    page.get_by_text("61 of 61 trials selected").wait_for()
    assert page.locator(".hw-sweep-head .hw-job-name").inner_text() == HOSTILE.strip()
    assert page.locator(".hw-slices canvas").count() == 3
    best = page.evaluate("window.headway.sweep.best")
    assert page.locator(".hw-sweep-detail h3").inner_text() == f"Trial {best}"
    canvas = page.locator(".hw-parallel")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    place = page.evaluate(
        """() => { const model = window.headway.sweep; return model.axes.map((axis) => axis.name); }"""
    )
    x = box["x"] + 54 + place.index("speed") * (box["width"] - 108) / (len(place) - 1)
    page.mouse.move(x, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(x, box["y"] + 170, steps=4)
    page.mouse.up()
    page.wait_for_function("window.headway.sweep.count < 61 && window.headway.sweep.count > 0")
    chip = page.locator(".hw-sweep-brushes button")
    assert "Tokens/s" in chip.inner_text()
    selected = page.evaluate("window.headway.sweep.ranked().map((row) => row.number)")
    shown = [int(text) for text in page.locator(".hw-sweep-ranking tbody th").all_inner_texts()]
    assert shown == selected[:12]
    chip.click()
    page.get_by_text("61 of 61 trials selected").wait_for()
    page.locator("#hw-sweep-top").fill("10")
    page.get_by_text("7 of 61 trials selected").wait_for()
    row = page.locator(".hw-sweep-ranking tbody tr").nth(2)
    number = row.locator("button").inner_text()
    row.locator("button").click()
    assert page.locator(".hw-sweep-detail h3").inner_text() == f"Trial {number}"
    link = page.get_by_role("link", name="Use this setting").get_attribute("href") or ""
    assert link.startswith("/live?") and "rule=typical" in link
    page.locator(".hw-scatter canvas").first.scroll_into_view_if_needed()
    front = page.evaluate("[...window.headway.sweep.front].length")
    assert front > 2
    report(store, job, [one for one in made_up_trials(61) if one.number == 60])
    page.wait_for_function("window.headway.sweep.rows.length === 62")
    assert page.locator(".hw-sweep-detail h3").inner_text() == f"Trial {number}"  # what was picked stays
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV", exact=True).click()
    assert download.value.path().read_text().count("\n") == 1 + 63
    page.reload()
    page.get_by_text("62 of 62 trials selected").wait_for()
    assert page.title() == "Sweep · Headway" and page.evaluate("window.headway.mounts.sweep") == 1
    page.set_viewport_size({"width": 800, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= 800
    store.end_job(job.id, job.attempt, "finished", result={})


def test_two_thousand_trials_answer_a_brush_at_once(url: str, store: Store, browser_page: Page) -> None:
    job = add_sweep(store, "many", trials=2000)
    page = opened(browser_page, f"{url}?job={job.id}")
    page.get_by_text("2001 of 2001 trials selected").wait_for()
    page.evaluate("for (let n = 1; n <= 9; n += 1) window.headway.sweep.brush('speed', [0.05 * n, 0.05 * n + 0.4])")
    drawn = page.evaluate("window.headway.sweep.drawnMs")
    assert len(drawn) == 9 and all(took > 0 for took in drawn)  # every brush was drawn before the next came
    assert 0 < page.evaluate("window.headway.sweep.count") < 2001
    print("a brush over 2,000 trials, ms:", [round(took) for took in drawn])
    store.end_job(job.id, job.attempt, "finished", result={})
