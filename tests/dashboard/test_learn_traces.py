"""Drafted tokens of stored runs as points of the Learn page."""

from __future__ import annotations

import pytest

from backend.errors import HeadwayError
from dashboard.access import AccessPolicy
from dashboard.learn import Typical
from dashboard.learn_traces import KEPT, SHOWN, Traces
from dashboard.services import Services
from storage import Store
from storage.errors import NotFoundError
from tests.dashboard.stored_runs import add_run
from tests.ui.idle_engine import IdleEngine

TREE = {
    "parents": [-1, 0, 0, 1],
    "verdicts": [1, 1, 2, 0],
    "target_probs": [None, 0.6, 0.05, 0.9],
    "entropies": [1.0, 0.5, 2.0, 3.0],
}


def traces(store: Store | None) -> Traces:
    return Traces(Services(IdleEngine(), AccessPolicy.for_bind(), store))


def test_only_sampled_runs_with_trees_are_offered(store: Store) -> None:
    add_run(store, prompt="greedy")
    add_run(store, prompt="broken", temperature=1.0, failed=True)
    hot = add_run(store, prompt="hot " * 40, temperature=0.7)
    offered = traces(store).runs()
    assert [one["id"] for one in offered] == [hot]
    assert offered[0]["label"].startswith("heads, T = 0.7: hot hot") and len(offered[0]["label"]) < 90
    assert traces(None).runs() == []


def test_nodes_that_were_looked_at_are_points_at_their_parents_entropy(store: Store) -> None:
    run = add_run(store, temperature=1.0, steps=[{"step": 1, "tree": TREE}])
    found = traces(store).typical(run, Typical(epsilon=0.1, delta=0.3))
    assert found["points"] == [[1.0, 0.6, True], [1.0, 0.05, False]]  # the third node was never reached
    assert (found["inside"], found["accepted"], found["of"]) == (0.5, 0.5, 2)
    wide = traces(store).typical(run, Typical(epsilon=0.04, delta=0.3))
    assert wide["inside"] == 1.0


def test_of_many_points_the_shares_are_of_all_and_the_picture_of_some(store: Store) -> None:
    wide = {"parents": [-1] + [0] * 19, "verdicts": [1] + [2] * 19, "target_probs": [0.1] * 20, "entropies": [1.0] * 20}
    looked = traces(store)
    run = add_run(store, temperature=1.0, steps=[{"step": n, "tree": wide} for n in range(1, 43)])
    found = looked.typical(run, Typical())
    assert found["of"] == 798 and SHOWN / 2 <= len(found["points"]) <= SHOWN
    for _ in range(KEPT + 1):
        looked.typical(add_run(store, temperature=1.0, steps=[{"step": 1, "tree": TREE}]), Typical())
    assert len(looked._kept) == KEPT


def test_a_run_without_entropies_is_one_sentence(store: Store) -> None:
    old = add_run(store, temperature=1.0, steps=[{"step": 1, "tree": {**TREE, "entropies": None}}, {"step": 2}])
    with pytest.raises(HeadwayError, match="start it once more"):
        traces(store).typical(old, Typical())
    with pytest.raises(NotFoundError):
        traces(store).typical("nobody", Typical())
    with pytest.raises(HeadwayError, match="Nothing is stored"):
        traces(None).typical(old, Typical())
