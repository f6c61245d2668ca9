"""The pure parts of the JavaScript, called in Chromium: texts, layout, explanations, a run's state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from backend.engine.protocol import DecodeRequest
from dashboard.access import AccessPolicy
from dashboard.components.assets import base_path
from dashboard.services import Services
from tests.ui.replay_engine import ReplayEngine
from tests.ui.serving import serving

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.ui
Call = Callable[..., Any]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(Services(ReplayEngine(steps_per_s=None), AccessPolicy.for_bind())) as address:
        yield address


@pytest.fixture
def call(url: str, browser_page: Page) -> Call:
    """call(module, expression, **values): an expression over the module `m` and the values."""
    browser_page.goto(f"{url}{base_path()}/js/text.js")

    def evaluate(module: str, expression: str, **values: Any) -> Any:
        names = ", ".join(values)
        code = f"async (values) => {{ const m = await import('./{module}.js'); const {{ {names} }} = values; "
        return browser_page.evaluate(code + f"return {expression}; }}", values)

    return evaluate


def tree(**changes: Any) -> dict[str, Any]:
    """root -> a (accepted) -> b (rejected), root -> c (rejected) -> d (not reached)."""
    made = {
        "tokens": [1, 2, 3, 4, 5],
        "pieces": [" the", " a", " b", " c", " d"],
        "parents": [-1, 0, 1, 0, 3],
        "verdicts": [1, 1, 2, 2, 0],
        "draft_probs": [None, 0.5, 0.3, 0.2, 0.1],
        "target_probs": [None, 0.6, 0.12, 0.2, 0.1],
        "scores": [None, 0.6, 0.12, 0.2, None],
        "thresholds": [None, 0.32, 0.4, 0.5, None],
        "best_tokens": [2, 9, 9, 9, 9],
        "best_pieces": [" a", " x", " y", " z", " w"],
        "best_probs": [0.6, 0.41, 0.3, 0.3, 0.3],
    }
    return made | changes


def step(**changes: Any) -> dict[str, Any]:
    made = {
        "step": 1,
        "num_drafted": 4,
        "num_accepted": 1,
        "tokens": [2, 9],
        "text": " a x",
        "path": [1],
        "tree": tree(),
    }
    return made | changes


@pytest.mark.parametrize(
    ("changes", "spans"),
    [
        ({}, [(" a", True), (" x", False)]),
        ({"tokens": [2], "text": " a"}, [(" a", True)]),  # the bonus token was cut off
        ({"text": "é a x"}, [("é a x", True)]),  # a character that was held back comes first
        ({"text": " a"}, [(" a", True)]),  # the bonus token is half a character
        ({"num_accepted": 0, "path": [], "tokens": [9], "text": " x"}, [(" x", False)]),
        ({"tree": None, "path": None}, [(" a x", True)]),  # stored without its tree
        ({"text": ""}, []),
    ],
)
def test_the_text_of_a_step_is_split_but_never_changed(call: Call, changes: dict[str, Any], spans: list[Any]) -> None:
    made = call("text", "m.spansOf(step)", step=step(**changes))
    assert [(span["text"], span["drafted"]) for span in made] == spans


@pytest.mark.parametrize(
    ("request_of", "column", "words"),
    [
        ({"rule": "greedy", "temperature": 0}, 1, "The target's own choice here was “\u00a0a” (p = 0.60)"),
        ({"rule": "greedy", "temperature": 0}, 2, "was “\u00a0x” (p = 0.41), not “\u00a0b”"),
        (
            {"rule": "rejection", "temperature": 0},
            3,
            "The target's own choice here was “\u00a0a” (p = 0.60), not “\u00a0c”",
        ),
        (
            {"rule": "rejection", "temperature": 1, "sampled": False},
            3,
            "the target drew here was “\u00a0a”, not “\u00a0c”",
        ),
        (
            {"rule": "rejection", "temperature": 1, "sampled": False},
            2,
            "the target drew here was “\u00a0x”, not “\u00a0b”",
        ),
        ({"rule": "rejection", "temperature": 1, "sampled": True}, 1, "u = 0.32 < min(1, p/q) = 0.60"),
        ({"rule": "rejection", "temperature": 1, "sampled": True}, 2, "u = 0.40 ≥ min(1, p/q) = 0.12"),
        ({"rule": "typical", "temperature": 1}, 1, "p 0.60 > min(ε, δ·e^\u2212H) = 0.32"),
        ({"rule": "typical", "temperature": 1}, 2, "p 0.12 ≤ min(ε, δ·e^\u2212H) = 0.40"),
        ({"rule": "greedy", "temperature": 0}, 4, "Its parent “\u00a0c” was rejected"),
        ({"rule": "greedy", "temperature": 0}, 0, "last committed token"),
    ],
)
def test_every_verdict_is_explained(call: Call, request_of: dict[str, Any], column: int, words: str) -> None:
    sentence = call("explain", "m.explain(step, column, request, null)", step=step(), column=column, request=request_of)
    assert words in sentence and sentence.endswith(".")


def test_typical_says_when_a_plausible_node_lost_to_a_longer_path(call: Call) -> None:
    lost = step(tree=tree(scores=[None, 0.6, 0.5, 0.2, None]))
    sentence = call("explain", "m.explain(step, 2, {rule: 'typical', temperature: 1}, null)", step=lost)
    assert "another accepted path was longer or likelier" in sentence


@pytest.mark.parametrize(
    ("request_of", "label"),
    [
        ({"rule": "greedy", "temperature": 0}, "exact"),
        ({"rule": "rejection", "temperature": 1}, "exact"),
        ({"rule": "typical", "temperature": 1}, "approximate"),
        ({"rule": "typical", "temperature": 0}, "approximate"),
    ],
)
def test_typical_is_always_labelled(call: Call, request_of: dict[str, Any], label: str) -> None:
    assert call("explain", "m.ruleLabel(request).text", request=request_of) == label


@pytest.fixture(scope="module")
def large_tree() -> dict[str, Any]:
    engine = ReplayEngine(steps_per_s=None)
    events = list(engine.events(engine.submit(DecodeRequest(raw_prompt="x", tree="medusa-63"))))
    engine.close()
    steps = [event.data for event in events if event.kind == "step"]
    return max(steps, key=lambda step: step["num_accepted"])["tree"]


@pytest.mark.parametrize("fold", [False, True])
def test_a_tree_of_63_nodes_can_be_read(call: Call, large_tree: dict[str, Any], fold: bool) -> None:
    plan = call("layout", "m.layout(tree, {bonus: ' x', fold})", tree=large_tree, fold=fold)
    nodes = plan["nodes"]
    columns = [node["column"] for node in nodes if node["column"] is not None]
    accepted = [column for column, verdict in enumerate(large_tree["verdicts"]) if verdict == 1]
    assert len(set(columns)) == len(columns) and set(accepted) <= set(columns)
    left_out = sum(node["more"] + (node.get("count") or 0) for node in nodes)
    assert len(columns) + left_out == 64 and (left_out > 0) == fold
    for one in nodes:
        assert one["end"] <= plan["width"] and 0 < one["y"] < plan["height"]
        parent = one["parent"]
        assert parent is None or one["x"] > parent["end"]
        for other in nodes:  # no two labels touch
            apart = one["end"] < other["x"] or other["end"] < one["x"] or abs(one["y"] - other["y"]) >= 16
            assert one is other or one == other or apart, (one["label"], other["label"])


def test_a_runs_state_takes_events_once_and_counts_gaps(call: Call) -> None:
    events = [
        {"seq": 1, "kind": "queued", "data": {"position": 2}},
        {"seq": 1, "kind": "queued", "data": {"position": 2}},
        {"seq": 2, "kind": "started", "data": {"conditions": {}, "tree": None, "warnings": ["w"]}},
        {"seq": 4, "kind": "step", "data": step(num_tried=2, draft_ms=1, verify_ms=2, commit_ms=1, step_ms=5)},
        {"seq": 5, "kind": "unheard_of", "data": {}},
        {"seq": 6, "kind": "failed", "data": {"error": "No."}},
    ]
    code = """(() => { const run = new m.RunState('r', null); const taken = events.map((event) => run.apply(event));
        return {taken, gaps: run.gaps, status: run.status, error: run.error, figures: run.figures()}; })()"""
    state = call("store", code, events=events)
    assert state["taken"] == [True, False, True, True, True, True] and state["gaps"] == 1
    assert state["status"] == "failed" and state["error"] == "No."
    assert state["figures"]["acceptanceLength"] == 2 and state["figures"]["tokensPerS"] == 400
    assert state["figures"]["times"] == {"draft": 1, "verify": 2, "commit": 1, "loop": 1}


def test_the_banner_says_what_waits_for_the_database(call: Call) -> None:
    live = "({notice, run: run && {status: run, warnings: ['Cut.'], error: 'It broke.'}, unstored})"
    said = "1 run is kept in memory until the database is back."

    def banner(notice: str | None, run: str | None) -> tuple[str, str]:
        found = call("views/banner", f"m.message({live})", notice=notice, run=run, unstored=said)
        return found["kind"], found["sentence"]

    assert banner(None, "running") == banner(None, "finished") == ("warning", f"Cut. {said}")
    assert banner(None, "failed") == ("error", "It broke.") and banner("No.", "running") == ("error", "No.")
    assert banner(None, "cancelled") == ("warning", f"Cut. {said}")
