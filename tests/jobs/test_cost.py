"""Measuring a cost curve on a tiny target: rounds, going on, the lease, and what is said of doubtful times."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from backend.errors import Cancelled, HeadwayError
from backend.jobs import cost_job
from backend.jobs.cost_config import CostJobConfig
from backend.jobs.tune_conditions import check_here
from backend.jobs.tune_view import view
from tests.tuning.made_up import calibration

Items = dict[str, dict[str, Any]]
CONFIG = CostJobConfig(
    target="tiny-llama", drafter="ngram", batches=(1, 2), contexts=(6,), max_rows=3, seconds=0.01, seed=3
)


def test_rounds_are_kept_and_a_stopped_one_goes_on(context: Any) -> None:
    asked: list[int] = []
    first = context(stopped=lambda: asked.append(1) or len(asked) > 1)
    with pytest.raises(Cancelled, match="rounds so far are kept"):
        cost_job.run(CONFIG, first)
    assert set(first.items()) == {"setup", "round 00"}
    again = context(first.items())
    done = cost_job.run(CONFIG, again)
    assert done["rounds"] == 3 and again.items()["round 00"] == first.items()["round 00"]
    curve = cost_job.curve_from_items(again.items())
    assert all(one.repeats == 3 for one in curve.passes) and {one.rows for one in curve.passes} == {1, 2, 3}
    assert json.loads(Path(done["file"]).read_text()) == json.loads(json.dumps(curve.to_dict()))
    assert any("time was up" in note for note in curve.notes)  # of a hundredth of a second nothing is left for batches
    assert {one.batch for one in curve.passes} == {1}

    items = again.items()
    items["setup"]["conditions"]["threads"] = 77
    with pytest.raises(HeadwayError, match="threads changed since it began"):
        cost_job.run(CONFIG, context(items))
    items["setup"]["contended"] = True
    contended = cost_job.curve_from_items(items)
    assert "another program had the device" in contended.notes[-1]
    with pytest.raises(HeadwayError, match="measure again"):
        check_here(contended.conditions)
    with pytest.raises(HeadwayError, match="Nothing has been measured yet"):
        cost_job.curve_from_items({"setup": items["setup"]})


@pytest.mark.parametrize(
    ("changes", "sentence"), [({"memory_gb": 1e-9}, "smallest cache"), ({"drafter": "nobody"}, "Unknown drafter")]
)
def test_mistakes_are_one_sentence(context: Any, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(HeadwayError, match=sentence):
        cost_job.run(CONFIG.model_copy(update=changes), context())


def test_the_page_is_told_all_sizes_at_once() -> None:
    made = calibration(12)
    setup = {
        "conditions": made.conditions, "shape": made.shape.to_json(), "ranks": made.ranks, "parallel": made.parallel,
    }  # fmt: skip
    items = {"setup": setup} | {f"T0|{n}": walk.to_dict() for n, walk in enumerate(made.walks)}
    found = view({"calibration": items, "cost": None, "nodes": 10})
    sizes = found["batches"]["1"]["sizes"]
    assert len(sizes) == 11 and [len(one["paths"]) for one in sizes] == list(range(11))
    assert all(len(one["values"]) == len(one["paths"]) and one["speed"] is None for one in sizes)
    assert found["calibration"]["tables"]["marginal"][0][0]["rate"] == pytest.approx(0.5, abs=0.06)
    json.dumps(found, allow_nan=False)
    chain = found["chain"]
    assert [one["depth"] for one in chain] == [0, 1, 2, 3] and chain[0]["acceptance_length"] == 1.0
    assert chain[1]["reached"] == pytest.approx(0.5, abs=0.06) and "speedup" not in chain[1]
    assert chain[3]["acceptance_length"] == pytest.approx(1 + sum(one["reached"] for one in chain[1:]))
    empty = {"setup": setup}
    with pytest.raises(HeadwayError, match="empty"):
        view({"calibration": empty})
    with pytest.raises(HeadwayError, match="not begun"):
        view({"calibration": {}})


def test_a_chain_is_told_with_its_parts_and_a_machine_with_its_roofs(
    context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = context()
    cost_job.run(CONFIG, done)
    made = calibration(12)
    setup = {"conditions": made.conditions, "shape": made.shape.to_json(), "ranks": 3, "parallel": True}
    items = {"setup": setup} | {f"T0|{n}": walk.to_dict() for n, walk in enumerate(made.walks)}
    monkeypatch.setattr("backend.jobs.tune_view.check_together", lambda *both: None)
    found = view({"calibration": items, "cost": done.items()})
    for point in found["chain"]:
        step = point["verify"] + point["draft"] + point["overhead"]
        assert point["speedup"] == pytest.approx(point["acceptance_length"] / step)
    assert found["chain"][0]["speedup"] == pytest.approx(1.0) and found["chain"][0]["draft"] == 0.0
    alone = view({"calibration": None, "cost": done.items()})
    device = alone["cost"]["device"]
    assert device == found["cost"]["device"] and device["bandwidth"] > 0 < device["operations"]
    assert device["sizes"]["bytes_per_weight"] == 4.0
    old = done.items()
    del old["setup"]["conditions"]["sizes"]
    assert view({"calibration": None, "cost": old})["cost"]["device"] is None
