"""The Learn page in Chromium: sliders move figures, worked examples follow what is typed, the toy world runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backend.glossary import glossary
from backend.guide import guide
from backend.jobs.tune_view import view
from backend.settings import Settings
from dashboard.access import AccessPolicy
from dashboard.services import Services
from storage import Store
from tests.dashboard.stored_runs import add_run
from tests.ui.replay_engine import ReplayEngine
from tests.ui.serving import serving
from tests.ui.test_trees_page import add_calibration, add_cost

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.ui


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open(":memory:") as made:
        yield made


@pytest.fixture
def url(store: Store, tmp_path: Path) -> Iterator[str]:
    services = Services(
        ReplayEngine(steps_per_s=30), AccessPolicy.for_bind(), store, places=Settings(tmp_path, tmp_path)
    )
    with serving(services) as address:
        yield address


def test_figures_follow_what_is_set(url: str, browser_page: Page) -> None:
    page = browser_page
    page.set_default_timeout(60_000)
    page.goto(f"{url}/learn")
    gain = page.locator("#gain")
    verdict = gain.locator(".hw-learn-verdict")
    page.wait_for_function("document.querySelector('#gain .hw-lines')")
    assert "drafted tokens are best" in verdict.inner_text()
    first = gain.get_by_role("slider", name="accepted at depth 1")
    first.focus()
    first.press("Home")  # nothing is ever accepted
    page.wait_for_function(
        "document.querySelector('#gain .hw-learn-verdict').textContent.startsWith('Drafting does not pay')"
    )
    chain = page.locator("#examples").get_by_label("chances of the chain")
    chain.fill("1, 1")
    page.wait_for_function(
        "document.querySelector('#examples .hw-worked').textContent === '1 + 1 + 1·1 = 3.00 tokens a step'"
    )
    chain.fill("2")
    page.locator("#examples .hw-problem:visible").wait_for()
    page.locator("#hardware").get_by_label("device").select_option("NVIDIA T4")
    page.wait_for_function("document.querySelector('#hardware .hw-muted').textContent.includes('ride for free')")
    assert page.evaluate("window.headway.mounts.learn") == 1


def test_own_measurements_are_laid_over_the_figures(
    url: str, store: Store, browser_page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The search itself runs in this process: what is tested is the page.
    monkeypatch.setattr("backend.jobs.tune_helper._asked", lambda request: json.loads(json.dumps(view(request))))
    add_calibration(store), add_cost(store)
    tree = {"parents": [-1, 0], "verdicts": [1, 1], "target_probs": [None, 0.6], "entropies": [1.0, 0.5]}
    run = add_run(store, temperature=1.0, steps=[{"step": 1, "tree": tree}])
    page = browser_page
    page.set_default_timeout(60_000)
    page.goto(f"{url}/learn")
    gain = page.locator("#gain")
    gain.locator("option").nth(1).wait_for(state="attached")
    gain.get_by_label("your measurement").select_option(index=1)
    gain.locator("polyline.third").wait_for(state="attached")
    assert gain.locator("polyline.fourth").count() == 1 and "speedup measured" in gain.inner_text()
    gain.get_by_role("button", name="set the sliders to it").click()
    first = gain.get_by_role("slider", name="accepted at depth 1")
    assert float(first.input_value()) == pytest.approx(0.5, abs=0.07)

    machine = page.locator("#hardware")
    machine.locator("option[value^='cost:']").wait_for(state="attached")
    machine.get_by_label("device").select_option(index=8)
    machine.get_by_text("As this cost curve saw it").wait_for()
    assert machine.get_by_label("model").input_value() == "measured"
    machine.get_by_label("device").select_option("NVIDIA T4")
    machine.get_by_text("makers' data sheets").wait_for()

    typical = page.locator("#typical")
    typical.locator(f"option[value='{run}']").wait_for(state="attached")
    typical.get_by_label("your run").select_option(run)
    typical.get_by_text("Of the 1 drafted tokens").wait_for()
    assert typical.locator("circle.point.inside").count() == 1


def test_a_tree_shows_who_sees_whom(url: str, browser_page: Page) -> None:
    page = browser_page
    page.set_default_timeout(60_000)
    page.goto(f"{url}/learn#tree")
    part = page.locator("#tree")
    part.get_by_text("4 drafted tokens, 5 rows in the pass").wait_for()
    part.locator("[data-node='4']").click()
    part.get_by_text("Node 4 is rank 0, then 1. It sees the text so far, nodes 0, 1 and itself, at").wait_for()
    assert part.locator("[data-seen=yes]").count() == 3
    assert "(0, 1, 4)" in part.locator(".hw-layout-lists").inner_text()
    part.get_by_label("a tree").fill("[[0, 0]]")
    part.locator(".hw-problem:visible", has_text="has no parent").wait_for()
    part.get_by_role("button", name="3x2x1").click()
    part.get_by_text("15 drafted tokens").wait_for()
    assert part.locator(".hw-problem").is_hidden() and part.locator(".hw-layout-mask tbody tr").count() == 16
    page.set_viewport_size({"width": 800, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= 800


def test_the_toy_world_runs_at_a_press(url: str, browser_page: Page) -> None:
    page = browser_page
    page.set_default_timeout(120_000)
    page.goto(f"{url}/learn#lessons")
    page.get_by_role("button", name="Run the toy world").click()
    page.locator(".hw-toy tbody tr").nth(5).wait_for()
    assert "python app.py toy --seed 0" in page.locator("#lessons").inner_text()
    assert page.get_by_role("button", name="Run it with another seed").is_enabled()


def test_nothing_is_cut_on_a_narrow_page(url: str, browser_page: Page) -> None:
    page = browser_page
    page.set_default_timeout(60_000)
    page.set_viewport_size({"width": 800, "height": 1000})
    page.goto(f"{url}/learn")
    page.locator("#typical .hw-lines").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 800


def test_the_guide_recommends_compares_and_answers(url: str, browser_page: Page) -> None:
    page = browser_page
    page.set_default_timeout(60_000)
    page.goto(f"{url}/learn#questions")
    page.locator("#questions details").nth(19).wait_for()
    assert page.locator("#questions").bounding_box()["y"] < 900  # type: ignore[index]  # the address leads there
    verdict = page.locator("#choose .hw-learn-verdict")
    page.locator("#choose .hw-learn-verdict", has_text="Start with EAGLE-3").wait_for()
    page.locator("#choose").get_by_label("Adapters").select_option("many")
    page.locator("#choose .hw-learn-verdict", has_text="Start with n-gram lookup").wait_for()
    page.locator("#choose").get_by_label("The weights").select_option("closed")
    page.locator("#choose .hw-learn-verdict", has_text="Nothing can be drafted here").wait_for()
    assert verdict.count() == 1
    rows = page.locator("#families tbody tr")
    assert rows.count() == len(guide().families)
    assert "not measured yet" in page.locator("#family-hydra").inner_text()
    assert "1.47" in page.locator("#family-medusa").inner_text()  # from the project's own file
    assert page.locator("#knobs .hw-knob-card").count() == len(glossary().knobs)
    assert page.locator("#failures .hw-failure").count() == len(guide().failures)
