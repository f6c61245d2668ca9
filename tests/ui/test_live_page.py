"""The Live page in Chromium, driven by a recorded real run: nothing is lost, text stays text, a reload goes on where it
was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from typing import TYPE_CHECKING

import pytest

from dashboard.access import AccessPolicy
from dashboard.components.views import LIVE_VIEWS
from dashboard.services import Services
from tests.ui.cut import cut_texts
from tests.ui.replay_engine import ReplayEngine, recording
from tests.ui.serving import serving

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.ui

LIVE = "(window.headway?.live || {})"  # there as soon as the page's first view asks for it
OVER = f"{LIVE}.run && {LIVE}.run.over"
READY = f"{sorted(LIVE_VIEWS)}.every((view) => (window.headway?.mounts || {{}})[view])"
Serve = Callable[..., str]


@pytest.fixture(scope="module")
def serve() -> Iterator[Serve]:
    """serve(**options of ReplayEngine) gives the Live page's address over a replay engine; one a set of options."""
    with ExitStack() as stack:

        @cache
        def start(**options: object) -> str:
            engine = ReplayEngine(**options)  # type: ignore[arg-type]
            return stack.enter_context(serving(Services(engine, AccessPolicy.for_bind()))) + "/live"

        yield start


def opened(page: Page, url: str) -> Page:
    page.set_default_timeout(60_000)
    page.goto(url)
    page.locator(".hw-tree").wait_for()
    page.wait_for_function(READY)
    return page


def run(page: Page, prompt: str | None = None) -> None:
    if prompt is not None:
        page.locator("#hw-prompt-text textarea").fill(prompt)
    page.locator("#hw-run").click()


def steps_seen(page: Page) -> list[int]:
    return page.evaluate(f"{LIVE}.run.steps.map((step) => step.step)")


def test_a_recorded_run_at_thirty_steps_a_second_arrives_whole_and_the_tree_mounts_once(
    serve: Serve, browser_page: Page
) -> None:
    stored = recording()
    assert len(stored.steps) >= 120  # a real run of the built-in target and heads
    page = opened(browser_page, serve(steps_per_s=30))
    page.evaluate(f"{LIVE}.on((changed) => {{ window.redraws = (window.redraws || 0) + changed.has('cursor'); }})")
    run(page)
    page.wait_for_function(OVER)
    numbers = [step["step"] for step in stored.steps]
    assert steps_seen(page) == numbers == list(range(1, len(numbers) + 1))
    # queued, started, prefill, the steps, result: every event was taken, none twice
    assert page.evaluate(f"[{LIVE}.run.gaps, {LIVE}.run.lastSeq]") == [0, len(numbers) + 4]
    assert page.evaluate(f"{LIVE}.run.steps.map((step) => step.tokens)") == [step["tokens"] for step in stored.steps]
    assert page.evaluate("window.redraws") > 20  # it was drawn while it ran, not at its end
    assert set(page.evaluate("Object.values(window.headway.mounts)")) == {1}
    assert page.locator(".hw-bar-step").count() == len(numbers)
    shown = page.locator(".hw-answer").evaluate("(node) => node.textContent")
    assert shown == stored.result["text"]


def test_accepted_and_rejected_nodes_differ_by_shape(serve: Serve, browser_page: Page) -> None:
    page = opened(browser_page, serve(steps_per_s=None))
    run(page)
    page.wait_for_function(OVER)
    index = page.evaluate(f"{LIVE}.run.steps.findIndex((step) => step.num_accepted > 1)")
    page.evaluate(f"{LIVE}.go({index})")
    accepted = page.evaluate(f"{LIVE}.run.steps[{index}].num_accepted")
    page.wait_for_function(f"document.querySelectorAll('#hw-tree .node.accepted circle').length === {accepted}")
    assert page.locator("#hw-tree .node.rejected rect + path, #hw-tree .node.rejected g.rejected").count() > 0
    page.get_by_role("button", name="Show all 63 nodes").click()
    page.wait_for_function("document.querySelectorAll('#hw-tree .node[data-column]').length === 64")
    assert page.locator("#hw-tree .node.unreached circle").count() > 10


def test_a_reload_in_the_middle_re_attaches(serve: Serve, browser_page: Page) -> None:
    page = opened(browser_page, serve(steps_per_s=8, steps=50))
    run(page, "Why is the sky blue?")
    page.wait_for_function(f"{LIVE}.run && {LIVE}.run.steps.length > 4")
    run_id = page.evaluate(f"{LIVE}.run.runId")
    assert f"run={run_id}" in page.url
    page.reload()
    page.wait_for_function(f"{LIVE}.run && {LIVE}.run.steps.length > 5")
    assert page.evaluate(f"{LIVE}.run.runId") == run_id and not page.evaluate(OVER)
    page.wait_for_function(OVER)
    steps = steps_seen(page)
    assert steps == list(range(1, len(steps) + 1)) and page.evaluate(f"{LIVE}.run.gaps") == 0
    assert page.locator("#hw-prompt-text textarea").input_value() == "Why is the sky blue?"
    assert page.locator(".hw-turn.user").inner_text().endswith("Why is the sky blue?")


@pytest.mark.parametrize(
    "text",
    [
        "${document.title='broken'} costs ${1+1}",
        "<script>document.title='broken'</script><img src=x onerror=\"document.title=1\">",
        "{{value}} `backticks` 'quotes' \"double\" & \\n 😀 naïve",
    ],
)
def test_prompts_and_answers_show_literally(serve: Serve, browser_page: Page, text: str) -> None:
    page = opened(browser_page, serve(steps_per_s=None, echo=True))
    run(page, text)
    page.wait_for_function(OVER)
    assert page.locator(".hw-turn.user > div").evaluate("(node) => node.textContent") == text
    assert page.locator(".hw-answer").evaluate("(node) => node.textContent").startswith(text)
    page.locator("#hw-copy").click()
    page.locator(".hw-command-text").wait_for()
    assert "./run decode" in page.locator(".hw-command-text").inner_text()
    page.reload()
    page.wait_for_function(OVER)
    assert page.locator("#hw-prompt-text textarea").input_value() == text
    assert page.title() == "Live · Headway" and page.locator(".hw-answer img, .hw-turn img").count() == 0


def test_four_tabs_at_once_are_all_live(open_page: Callable[..., Page]) -> None:
    engine = ReplayEngine(steps_per_s=60, hold_after=10)
    with serving(Services(engine, AccessPolicy.for_bind())) as url:
        first = opened(open_page(), f"{url}/live")
        run(first)
        first.wait_for_function(f"{LIVE}.run && {LIVE}.run.steps.length === 10")
        tabs = [first]
        for _ in range(3):
            tab = first.context.new_page()  # the same browser session, so the same six connections
            tabs.append(opened(tab, first.url))
        for made in (10, 40, 70, 100):  # no step is made before every tab shows those before it
            engine.allow(made)
            for tab in tabs:
                tab.wait_for_function(f"{LIVE}.run && {LIVE}.run.steps.length === {made} && !{LIVE}.run.over")
                tab.wait_for_function(f"document.querySelectorAll('.hw-bar-step').length === {made}")
        engine.allow(None)
        for tab in tabs:
            tab.wait_for_function(OVER)
            assert steps_seen(tab) == [step["step"] for step in recording().steps]
            assert tab.evaluate(f"{LIVE}.run.gaps") == 0
        first.context.close()


def test_a_hidden_tab_gives_its_connection_back_and_catches_up(serve: Serve, browser_page: Page) -> None:
    page = opened(browser_page, serve(steps_per_s=15, steps=60))
    run(page)
    page.wait_for_function(f"{LIVE}.run && {LIVE}.run.steps.length > 2")
    page.evaluate(f"{LIVE}.visibility(true)")
    held = page.evaluate(f"{LIVE}.run.steps.length")
    page.wait_for_timeout(600)
    assert page.evaluate(f"{LIVE}.run.steps.length") == held
    page.evaluate(f"{LIVE}.visibility(false)")
    page.wait_for_function(OVER)
    steps = steps_seen(page)
    assert steps == list(range(1, len(steps) + 1)) and page.evaluate(f"{LIVE}.run.gaps") == 0


def test_keys_step_and_the_inspector_says_why(serve: Serve, browser_page: Page) -> None:
    page = opened(browser_page, serve(steps_per_s=None))
    run(page)
    page.wait_for_function(OVER)
    last = page.evaluate(f"{LIVE}.last")
    page.locator(".hw-tree h3").click()
    page.keyboard.press("ArrowLeft")
    page.wait_for_function(f"{LIVE}.cursor === {last - 1}")
    page.keyboard.press("Home")
    page.wait_for_function(f"{LIVE}.cursor === 0")
    page.keyboard.press("ArrowRight")
    page.locator(".hw-tree h3", has_text="step 2").wait_for()
    page.locator(".hw-tree-scroll").focus()
    page.keyboard.press("ArrowDown")
    page.wait_for_function(f"{LIVE}.node !== null")
    page.locator("#hw-tree .node.picked").wait_for()  # drawn in the next frame
    assert page.locator("#hw-tree .node.picked").count() == 1
    page.locator("#hw-tree .node.rejected").first.click()
    page.locator(".hw-verdict.rejected").wait_for()
    assert "The target's own choice here was" in page.locator(".hw-why").inner_text()
    page.locator("#hw-prompt-text textarea").press("ArrowLeft")  # keys in a text field are the field's
    assert page.evaluate(f"{LIVE}.cursor") == 1


def test_tokens_and_bars_lead_to_their_step_and_playing_goes_on(serve: Serve, browser_page: Page) -> None:
    page = opened(browser_page, serve(steps_per_s=None))
    run(page)
    page.wait_for_function(OVER)
    page.locator(".hw-step[data-step='5']").click()
    page.locator(".hw-tree h3", has_text="step 6").wait_for()
    page.locator(".hw-bar-step[data-index='2']").click()
    page.locator(".hw-tree h3", has_text="step 3").wait_for()
    page.get_by_label("Speed", exact=True).select_option("0.25")
    page.get_by_role("button", name="Play or pause").click()
    page.wait_for_function(f"{LIVE}.cursor > 3")
    page.get_by_role("button", name="Play or pause").click()
    assert not page.evaluate(f"{LIVE}.playing")


def test_stop_ends_the_run_soon(serve: Serve, browser_page: Page) -> None:
    page = opened(browser_page, serve(steps_per_s=4))
    run(page)
    page.wait_for_function(f"{LIVE}.run && {LIVE}.run.steps.length > 1")
    page.locator("#hw-stop").click()
    page.wait_for_function(OVER)
    assert page.evaluate(f"{LIVE}.run.status") == "cancelled"
    page.locator("#hw-stop").wait_for(state="hidden")


def test_a_changed_knob_runs_again_and_keeps_the_numbers_before(serve: Serve, browser_page: Page) -> None:
    page = opened(browser_page, serve(steps_per_s=None))
    run(page)
    page.wait_for_function(OVER)
    before = page.evaluate(f"{LIVE}.run.runId")
    page.get_by_label("Typical (approximate)").check()
    page.wait_for_function(f"{LIVE}.run.runId !== '{before}' && {LIVE}.run.over")
    assert page.evaluate(f"{LIVE}.run.request.rule") == "typical"
    page.locator(".hw-badge.approximate").wait_for()
    page.locator(".hw-changed", has_text="rule typical").wait_for()
    assert page.locator(".hw-before", has_text="before").count() >= 2


def test_the_drafter_picker_learns_what_a_run_used_and_what_it_cost(serve: Serve, browser_page: Page) -> None:
    page = opened(browser_page, serve(steps_per_s=None, steps=5))
    drafter = page.locator("#hw-drafter input")
    drafter.fill("draft:small")
    drafter.press("Enter")
    run(page)
    page.wait_for_function(f"{OVER} && {LIVE}.run.request.drafter === 'draft:small'")
    drafter.click()
    drafter.fill("")  # a picker shows only what fits the text in it
    page.get_by_role("option", name="draft:small · cost 0.04").wait_for()
    page.keyboard.press("Escape")


def test_depth_says_which_value_keeps_all_levels_and_which_drafts_nothing(serve: Serve, browser_page: Page) -> None:
    page = opened(browser_page, serve(steps_per_s=None, steps=5))
    assert page.locator("#hw-depth input").input_value() == "All levels"
    run(page)
    page.wait_for_function(OVER)
    assert page.evaluate(f"{LIVE}.run.request.max_depth") is None
    page.locator("#hw-depth input").click()
    page.get_by_role("option", name="0: draft nothing").click()
    page.wait_for_function(f"{LIVE}.run.request.max_depth === 0 && {OVER}")
    page.locator(".hw-changed", has_text="depth 0").wait_for()


def test_a_second_run_waits_and_says_so(serve: Serve, open_page: Callable[..., Page]) -> None:
    url = serve(steps_per_s=5)
    first, second = opened(open_page(), url), opened(open_page(), url)
    run(first)
    first.wait_for_function(f"{LIVE}.run && {LIVE}.run.steps.length > 0")
    run(second)
    second.locator(".hw-banner", has_text="one run is ahead of yours").wait_for()
    share = second.locator(".hw-banner-share")
    assert share.is_hidden()
    event = "{seq: run.lastSeq + 1, kind: 'queued', data: {position: 0, holder: 'training heads, 12 min left'}}"
    second.evaluate(f"(() => {{ const run = {LIVE}.run; {LIVE}._take(run, {event}); run.lastSeq -= 1; }})()")
    second.locator(".hw-banner", has_text="busy: training heads, 12 min left").wait_for()
    share.click()
    second.locator(".hw-banner", has_text="one run is ahead of yours").wait_for()
    assert share.is_hidden()
    first.locator("#hw-stop").click()
    second.wait_for_function(f"{LIVE}.run.steps.length > 0")
    second.locator(".hw-banner").wait_for(state="hidden")
    second.locator("#hw-stop").click()


@pytest.mark.parametrize(
    ("field", "text", "sentence"),
    [
        ("#hw-prompt-text textarea", "  ", "Type a prompt first."),
        ("#hw-target input", "no-such-model", "neither a folder"),
    ],
)
def test_refused_requests_are_one_sentence(
    serve: Serve, browser_page: Page, field: str, text: str, sentence: str
) -> None:
    page = opened(browser_page, serve(steps_per_s=None))
    page.locator(field).first.fill(text)
    page.locator(field).first.press("Tab")
    page.locator("#hw-run").click()
    banner = page.locator(".hw-banner[data-kind=error]")
    banner.wait_for()
    assert sentence in banner.inner_text() and "Traceback" not in page.content()


def test_an_unknown_run_in_the_address_is_one_sentence(serve: Serve, browser_page: Page) -> None:
    page = opened(browser_page, serve(steps_per_s=None) + "?run=gone")
    page.locator(".hw-banner[data-kind=error]", has_text="There is no run").wait_for()


def test_a_reply_continues_the_chat(serve: Serve, browser_page: Page) -> None:
    page = opened(browser_page, serve(steps_per_s=None))
    run(page, "First question")
    page.wait_for_function(OVER)
    first = page.evaluate(f"{LIVE}.run.runId")
    page.locator("#hw-reply textarea, #hw-reply input").first.fill("Second question")
    page.locator("#hw-send").click()
    page.wait_for_function(f"{LIVE}.run.runId !== '{first}' && {LIVE}.run.over")
    roles = page.evaluate(f"{LIVE}.run.request.messages.map((turn) => turn.role)")
    assert roles == ["user", "assistant", "user"]
    page.locator("#hw-new-chat").click()
    page.wait_for_function(f"{LIVE}.run === null")
    assert page.locator("#hw-prompt-text textarea").input_value() == ""
    run(page, "Another chat")
    page.wait_for_function(f"{LIVE}.run && {LIVE}.run.over")
    assert page.evaluate(f"{LIVE}.run.request.messages.length") == 1


@pytest.mark.parametrize("width", [1440, 800])
def test_nothing_is_wider_than_the_window(serve: Serve, open_page: Callable[..., Page], width: int) -> None:
    page = opened(open_page(viewport={"width": width, "height": 900}), serve(steps_per_s=None))
    run(page, "A " + "verylongwordwithoutanyspace" * 20)
    page.wait_for_function(OVER)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert cut_texts(page) == []
