"""The whole workbench as a person meets it: `app.py` in a process of its own, the real target, the built-in heads,
Chromium.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.first_token import LIVE, App

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.e2e, pytest.mark.ui]

OVER = f"{LIVE}.run && {LIVE}.run.over"


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with App(tmp_path / "home") as running:
        yield running


def test_decode_look_reload_restart(app: App, browser_page: Page) -> None:
    page = browser_page
    page.set_default_timeout(180_000)
    page.goto(f"{app.url}/live")
    page.locator(".hw-tree").wait_for()
    page.locator("#hw-prompt-text textarea").fill(
        "Write a short story about a ${robot} that learns to <b>paint</b>. 🎨"
    )
    page.locator("#hw-run").click()
    page.wait_for_function(f"{LIVE}.run && {LIVE}.run.steps.length > 5")
    run_id = page.evaluate(f"{LIVE}.run.runId")
    page.reload()  # in the middle
    page.wait_for_function(f"{LIVE}.run && {LIVE}.run.runId === '{run_id}'")
    page.wait_for_function(OVER)
    steps = page.evaluate(f"{LIVE}.run.steps.map((step) => step.step)")
    assert steps == list(range(1, len(steps) + 1)) and len(steps) > 10
    accepted = page.evaluate(f"{LIVE}.run.steps.findIndex((step) => step.num_accepted > 0)")
    assert accepted >= 0, "the built-in heads should be right now and then"
    page.evaluate(f"{LIVE}.go({accepted})")
    page.wait_for_function("document.querySelectorAll('#hw-tree .node.accepted').length > 0")
    assert page.locator("#hw-tree .node.rejected").count() > 0
    assert page.locator(".hw-turn.user > div").evaluate("(node) => node.textContent").endswith("🎨")
    assert page.evaluate(f"{LIVE}.run.result.plain_tokens_per_s") > 0
    page.locator(".hw-times", has_text="in plain steps: checking").wait_for()
    page.goto("about:blank")  # an open page tries to reach the app again and again, which its console tells
    app.stop()
    app.start()
    page.goto(f"{app.url}/live?run={run_id}")
    page.wait_for_function(OVER)
    assert page.evaluate(f"{LIVE}.run.steps.length") == len(steps)
