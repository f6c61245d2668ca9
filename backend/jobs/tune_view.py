"""What the Trees page shows of a calibration and a cost curve, worked out in a process of its own: `python -m
backend.jobs.tune_view` reads one JSON object and writes one.

The dashboard's process imports no torch, and shapes of trees do. All tree sizes of all batches are worked out at once,
so that the page can follow a dragged budget without asking again. Knows no page and no store.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from backend.analysis.calibration import path_values
from backend.analysis.theory import ModelSize, TimedPass, measured_device
from backend.errors import HeadwayError
from backend.jobs.calibrate_job import calibration_of
from backend.jobs.cost_job import curve_from_items
from backend.jobs.tune_conditions import check_here, check_together
from backend.trees.shapes import Path
from backend.tuning.calibration import Calibration
from backend.tuning.cost_curve import CostCurve, Growth
from backend.tuning.tree_choice import Candidate, fastest
from backend.tuning.tuned import BATCHES, Tuned, tune_calibration

NODES = 64
ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 65)  #: where cost curves are drawn, beside the measured points


def view(request: dict[str, Any]) -> dict[str, Any]:
    """{calibration, cost, batches, dynamic, confidence_stops, ..., notes, problem} for {calibration: items, cost: items
    or null, temperature, category, nodes}.

    `problem`: why the cost curve is not used. Where the calibration is null only {cost}. Raises HeadwayError when there
    is nothing to show.
    """
    if request["calibration"] is None:
        return {"cost": _cost_view(curve_from_items(request["cost"]))}
    whole = calibration_of(request["calibration"])
    if not whole.positions:
        raise HeadwayError("The calibration is empty; calibrate with more prompts.")
    temperature = request.get("temperature")
    made = whole.only(whole.temperatures[0] if temperature is None else temperature, request.get("category") or None)
    nodes = int(request.get("nodes") or NODES)
    cost, problem = _cost(request, made)
    found: dict[str, Any] = {
        "calibration": {
            "tables": made.tables(), "temperatures": whole.temperatures, "categories": whole.categories,
            "temperature": made.walks[0].temperature, "context": made.context, "conditions": dict(whole.conditions),
            "ranks": made.ranks, "own_tree": _own_tree(made),
        },
        "cost": None if cost is None else _cost_view(cost),
        "problem": problem,
    }  # fmt: skip
    values = path_values(made.whole_ranks, made.ranks)
    found["chain"] = _chain(made, values, cost)
    if not len(made.whole_ranks):
        return found | {"batches": {}, "notes": ["The answers are too short to search a tree: calibrate longer ones."]}
    grows = bool(made.conditions.get("drafter", {}).get("grows"))
    first = tune_calibration(made, cost, nodes, grows=grows)
    batches = {"1": _sizes(first, values)}
    if cost is not None:
        for batch in BATCHES[1:]:
            batches[str(batch)] = _sizes(tune_calibration(made, cost, nodes, batch, batches=()), values)
    data = first.to_dict()
    kept = ("dynamic", "confidence_stops", "batches", "break_even_batch", "num_speculative_tokens_per_batch_size",
            "sglang_adaptive_steps", "notes")  # fmt: skip
    return found | {"by_batch" if name == "batches" else name: data[name] for name in kept} | {"batches": batches}


def _chain(made: Calibration, values: dict[Path, float], cost: CostCurve | None) -> list[dict[str, Any]]:
    """Chains of the drafter's first choices, depth 0, 1, ...: what each accepts and, where a cost curve is, its parts,
    in plain steps, and its gain. The Learn page lays these over the formula's.
    """
    found, length = [], 1.0
    for depth in range(made.shape.max_depth + 1):
        reached = values.get((0,) * depth, 0.0) if depth else 1.0
        length += reached if depth else 0.0
        point: dict[str, Any] = {"depth": depth, "reached": reached, "acceptance_length": length}
        if cost is not None:
            growth, plain = Growth(depth, max(0, depth - 1), depth), cost.plain(1, made.context)
            step = cost.step(growth, 1, made.context)
            point |= {
                "verify": cost.verify(depth + 1, 1, made.context).ms / plain.ms,
                "draft": cost.draft(growth, 1).ms / plain.ms,
                "overhead": cost.other(depth, 1).ms / plain.ms,
                "speedup": length * plain.ms / step.ms,
                "extrapolated": step.extrapolated,
            }
        found.append(point)
    return found


def _cost(request: dict[str, Any], made: Calibration) -> tuple[CostCurve | None, str | None]:
    if not request.get("cost"):
        return None, None
    try:
        cost = curve_from_items(request["cost"])
        check_here(cost.conditions)
        check_together(made.conditions, cost.conditions)
    except HeadwayError as error:
        return None, str(error)
    return cost, None


def _own_tree(made: Calibration) -> list[list[int]]:
    paths: list[list[int]] = made.conditions.get("drafter", {}).get("tree_paths", [])
    return paths


def _sizes(tuned: Tuned, values: dict[Path, float]) -> dict[str, Any]:
    """The best tree of every size, with each node's chance, and which size is the best."""
    best = fastest(tuned.sizes)
    return {
        "best": best.shape.num_nodes,
        "plain_tokens_per_s": tuned.sizes[0].tokens_per_s,
        "sizes": [_size(one, values) for one in tuned.sizes],
    }


def _size(one: Candidate, values: dict[Path, float]) -> dict[str, Any]:
    data = one.to_dict()
    return {
        "paths": data["paths"],
        "values": [round(values.get(path, 0.0), 4) for path in one.shape.paths],
        "depth": data["max_depth"],
        "length": data["expected_acceptance_length"],
        "length_interval": data["acceptance_interval"],
        "step_ms": data["step_ms"],
        "speed": data["expected_tokens_per_s"],
        "speed_interval": data["speed_interval"],
        "extrapolated": data["extrapolated"],
    }


def _cost_view(cost: CostCurve) -> dict[str, Any]:
    """Lines of a chart: a pass by rows for every measured batch and context; extrapolated points are marked."""
    lines = []
    blocks = sorted({(one.batch, one.context) for one in cost.passes})
    for batch, context in blocks:
        measured = {one.rows: one for one in cost.passes if (one.batch, one.context) == (batch, context)}
        rows = sorted({*ROWS, *measured})
        points = [cost.verify(n, batch, context) for n in rows]
        lines.append(
            {
                "batch": batch, "context": context, "rows": rows, "ms": [round(one.ms, 3) for one in points],
                "extrapolated": [one.extrapolated for one in points], "measured": [n in measured for n in rows],
                "low": [round(one.low, 3) for one in points], "high": [round(one.high, 3) for one in points],
            }
        )  # fmt: skip
    return {
        "lines": lines, "knee": cost.knee(), "steps": [one.__dict__ for one in cost.steps], "drafter": cost.drafter,
        "conditions": dict(cost.conditions), "notes": list(cost.notes), "device": _device(cost),
        "repeats": min((one.repeats for one in cost.passes), default=0),
    }  # fmt: skip


def _device(cost: CostCurve) -> dict[str, Any] | None:
    """The machine as this curve saw it, for the Learn page: {name, bandwidth, operations, sizes}; None where the curve
    does not say how large the model is.
    """
    sizes = cost.conditions.get("sizes")
    if not sizes or not cost.passes:
        return None
    passes = [TimedPass(one.rows, one.batch, one.context, one.ms / 1000) for one in cost.passes]
    seen = measured_device(ModelSize(**sizes), passes, str(cost.conditions.get("device", "this machine")))
    return {"name": seen.name, "bandwidth": seen.bandwidth, "operations": seen.operations, "sizes": sizes}


def main() -> int:
    """One request on standard input, one reply on standard output."""
    try:
        reply: dict[str, Any] = {"view": view(json.load(sys.stdin))}
    except HeadwayError as error:
        reply = {"error": str(error)}
    json.dump(reply, sys.stdout, allow_nan=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
