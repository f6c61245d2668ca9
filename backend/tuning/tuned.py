"""From a calibration and a cost curve to what should be served: the best static tree, dynamic trees and stops by
confidence on the same footing, and schedules by batch, each with what is predicted of it.

Knows records and costs; runs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import numpy as np

from backend.analysis.calibration import (
    Replay,
    Walk,
    accepted_with,
    joined,
    path_values,
    replay,
    replay_lengths,
    whole,
)
from backend.errors import HeadwayError
from backend.trees import AdaptiveShape, DynamicShape, Tree, chain
from backend.trees.search import HitTable, TreeCurve, curve_of_values, tree_curve
from backend.trees.shapes import MAX_NODES, TreeShape
from backend.tuning.calibration import Calibration
from backend.tuning.cost_curve import CostCurve, Growth
from backend.tuning.dynamic import DynamicCandidate, best_dynamic, expected_dynamic, possible
from backend.tuning.folds import folds
from backend.tuning.notation import notations, sglang_schedule, vllm_schedule
from backend.tuning.stopping import Stopping, best_stopping, expected_stopping
from backend.tuning.tree_choice import Candidate, best_of_each_size, fastest

BATCHES = (1, 2, 4, 8, 16)
OFF = "Plain decoding is the fastest here: no tree wins more than it costs."
Report = Callable[[int, int, str], None]  #: told how far a search is: done, of how many, and at what


def _untold(done: int, total: int, what: str) -> None:
    """Nobody waits."""


def _told(report: Report, before: int, total: int, what: str, done: int) -> None:
    report(before + done, total, what)


@dataclass(frozen=True)
class Tuned:
    """The best tree and what it was chosen from.

    Args:
        sizes: for 0, 1, 2, ... nodes the best tree of that size.
        batches: (batch, best candidate, plain tokens/s) for each batch that was looked at.
        depths: (batch, depth of the best chain): what engines that draft chains should do.
    """

    best: Candidate
    sizes: tuple[Candidate, ...]
    dynamic: DynamicCandidate | None = None
    stopping: Stopping | None = None
    batches: tuple[tuple[int, Candidate, float], ...] = ()
    depths: tuple[tuple[int, int], ...] = ()
    notes: tuple[str, ...] = ()
    conditions: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """What `tune-tree --json` prints."""
        plain = self.sizes[0].tokens_per_s
        best = self.best.to_dict()
        speed = self.best.tokens_per_s
        return {
            **best,
            **notations(self.best.shape),
            "plain_tokens_per_s": plain,
            "speedup": None if plain is None or speed is None else speed / plain,
            "sizes": [_brief(one) for one in self.sizes],
            "dynamic": None if self.dynamic is None else self.dynamic.to_dict(),
            "confidence_stops": None if self.stopping is None else self.stopping.to_dict(),
            "batches": [_batch_line(*one) for one in self.batches],
            "break_even_batch": self.break_even,
            "chain_by_batch": self.chain_by_batch(),
            "num_speculative_tokens_per_batch_size": vllm_schedule(self.depths),
            "sglang_adaptive_steps": sglang_schedule(self.depths),
            "notes": list(self.notes),
            "conditions": self.conditions,
        }

    def chain_by_batch(self) -> dict[str, Any] | None:
        """The chain that drafts as deep as pays in a batch of any size, as it may be given to `--tree`."""
        changes: list[tuple[int, int]] = []
        for batch, depth in sorted(self.depths):
            if not changes or changes[-1][1] != depth:
                changes.append((batch, depth))
        deepest = max((depth for _, depth in changes), default=0)
        return AdaptiveShape(chain(deepest), (), tuple(changes)).to_json() if deepest else None

    def noting(self, sentence: str) -> Tuned:
        """With something more to say."""
        return replace(self, notes=(*self.notes, sentence))

    @property
    def break_even(self) -> int | None:
        """The smallest batch looked at in which no tree pays; None when all pay, or none was looked at."""
        return next((batch for batch, one, _ in self.batches if not one.shape.num_nodes), None)


def tune_hits(table: HitTable, cost: CostCurve | None, nodes: int, batch: int = 1, context: int | None = None) -> Tuned:
    """From rates alone. Without costs the tree of at most `nodes` nodes that accepts most."""
    check_nodes(nodes)

    def curve(depth: int) -> TreeCurve:
        return tree_curve(table, nodes, depth)

    at = context if context is not None else min(cost.contexts) if cost is not None else 0
    sizes = best_of_each_size(curve, table.max_depth, cost, batch, at)
    best = fastest(sizes)
    return Tuned(best, tuple(sizes), notes=_notes(best, cost, batch))


def tune_calibration(
    calibration: Calibration,
    cost: CostCurve | None,
    nodes: int,
    batch: int = 1,
    context: int | None = None,
    batches: Sequence[int] = BATCHES,
    grows: bool = False,
    stops: bool = True,
    report: Report = _untold,
) -> Tuned:
    """From a calibration; lengths are those of decodes replayed on answers a tree was not chosen by.

    Args:
        context: tokens before the tree; default the mean of the calibration.
        grows: the drafter can grow dynamic trees.
        stops: it may stop by confidence, so its children are chosen.
        report: whom to tell how far the search is.

    Raises HeadwayError for a calibration that is too small.
    """
    check_nodes(nodes)
    calibration.check()
    at = calibration.context if context is None else context
    grown = len(possible(calibration.shape.max_depth, nodes)) if grows and cost is not None else 0
    total = nodes + 1 + grown + (1 + len(batches) if cost is not None else 0)
    sizes = _sizes(calibration, cost, nodes, batch, at, partial(_told, report, 0, total, "trees of every size"))
    best = fastest(sizes)
    if cost is None:
        report(total, total, "")
        return Tuned(best, tuple(sizes), notes=_notes(best, cost, batch))
    done = nodes + 1
    dynamic = None
    if grows:
        told = partial(_told, report, done, total, "trees that grow")
        dynamic = best_dynamic(calibration, cost, nodes, batch, at, told)
    done += grown
    report(done, total, "stops by confidence")
    stopping = best_stopping(calibration.walks, calibration.shape, cost, at) if batch == 1 and stops else None
    by_batch, depths = [], []
    for number, size in enumerate(batches, done + 1):
        report(number, total, f"{size} at once")
        one = best if size == batch else fastest(_priced(sizes, cost, size, at))
        by_batch.append((size, one, 1000 * size / cost.plain(size, at).ms))
        depths.append((size, _best_chain(calibration, cost, size, at)))
    report(total, total, "")
    return Tuned(best, tuple(sizes), dynamic, stopping, tuple(by_batch), tuple(depths), _notes(best, cost, batch))


def check_nodes(nodes: int) -> None:
    """Raises HeadwayError for a number of nodes that no tree can have."""
    if not 1 <= nodes <= MAX_NODES:
        raise HeadwayError(f"A tree has 1 to {MAX_NODES} drafted nodes, not {nodes}; the root is not counted.")


def foretold(
    calibration: Calibration, tree: Tree, cost: CostCurve | None, batch: int, context: int
) -> dict[str, Any]:
    """What is expected of a tree of any kind, as JSON. Raises HeadwayError for one that the calibration tells nothing
    of.
    """
    if isinstance(tree, TreeShape):
        return predicted(calibration, tree, cost, batch, context).to_dict()
    if isinstance(tree, DynamicShape):
        return expected_dynamic(calibration, tree, cost, batch, context).to_dict()
    if batch != 1:
        raise HeadwayError("Stops by confidence are foretold for one sequence at a time; ask for batch 1.")
    found = expected_stopping(calibration.walks, calibration.shape, tree, cost, context).to_dict()
    return found if cost is not None else found | {"step_ms": None, "expected_tokens_per_s": None}


def predicted(
    calibration: Calibration, shape: TreeShape, cost: CostCurve | None, batch: int, context: int
) -> Candidate:
    """What is expected of any tree."""
    found = replay(shape, calibration.walks)
    step = None if cost is None else cost.step(Growth.of(shape), batch, context)
    return Candidate(shape, found.acceptance_length, batch, step, found.interval())


def expected(table: HitTable, shape: TreeShape, cost: CostCurve | None, batch: int, context: int) -> Candidate:
    """The same from rates alone."""
    step = None if cost is None else cost.step(Growth.of(shape), batch, context)
    return Candidate(shape, 1 + sum(map(table.value, shape.paths)), batch, step)


def _sizes(
    calibration: Calibration,
    cost: CostCurve | None,
    nodes: int,
    batch: int,
    context: int,
    told: Callable[[int], None],
) -> list[Candidate]:
    told(0)
    curve = _grower(calibration, calibration.walks, nodes)
    grown = best_of_each_size(curve, calibration.shape.max_depth, cost, batch, context)
    honest = [_honest(calibration, part, nodes) for part in folds(len(calibration.walks))]
    found = []
    for number, one in enumerate(grown):
        told(number)
        judged = _judged(one.shape, calibration, honest)
        found.append(replace(one, length=judged.acceptance_length, interval=judged.interval()))
    return found


@dataclass(frozen=True)
class _Fold:
    """Answers, and the best trees by all the other answers."""

    walks: Sequence[Walk]
    curve: Callable[[int], TreeCurve]


def _honest(calibration: Calibration, part: range, nodes: int) -> _Fold:
    walks = calibration.walks
    others = [walk for number, walk in enumerate(walks) if number not in part]
    return _Fold([walks[number] for number in part], _grower(calibration, others, nodes))


def _grower(calibration: Calibration, walks: Sequence[Walk], nodes: int) -> Callable[[int], TreeCurve]:
    """depth -> all best trees no deeper than that, by these answers."""
    values = path_values(np.concatenate([whole(walk) for walk in walks]), calibration.ranks)

    @cache
    def curve(depth: int) -> TreeCurve:
        return curve_of_values(values, nodes, depth, calibration.ranks)

    return curve


def _judged(shape: TreeShape, calibration: Calibration, honest: Sequence[_Fold]) -> Replay:
    """What to expect of the best tree of this size and depth on answers it was not chosen by."""
    if not honest:
        return replay(shape, calibration.walks)
    parts = [replay(fold.curve(shape.max_depth).shape(shape.num_nodes), fold.walks) for fold in honest]
    return joined(parts)


def _priced(sizes: Sequence[Candidate], cost: CostCurve, batch: int, context: int) -> list[Candidate]:
    """The same trees in another batch."""
    return [replace(one, batch=batch, step=cost.step(Growth.of(one.shape), batch, context)) for one in sizes]


def _best_chain(calibration: Calibration, cost: CostCurve, batch: int, context: int) -> int:
    """Depth of the fastest chain; 0 where plain decoding is faster."""
    speeds = []
    for depth in range(calibration.shape.max_depth + 1):
        shape = chain(depth)
        found = replay_lengths([accepted_with(shape, whole(walk)) for walk in calibration.walks])
        speeds.append(found.acceptance_length / cost.step(Growth.of(shape), batch, context).ms)
    return speeds.index(max(speeds))


def _notes(best: Candidate, cost: CostCurve | None, batch: int) -> tuple[str, ...]:
    notes = list(cost.notes) if cost is not None else []
    if cost is not None and not best.shape.num_nodes:
        notes.append(OFF)
    if best.extrapolated:
        notes.append(
            f"The speed rests on times beyond what was measured ({best.shape.num_nodes + 1} rows, batch {batch}): "
            "measure before you rely on it."
        )
    return tuple(notes)


def _brief(one: Candidate) -> dict[str, Any]:
    return {
        "num_nodes": one.shape.num_nodes, "max_depth": one.shape.max_depth, "expected_acceptance_length": one.length,
        "step_ms": None if one.step is None else one.step.ms, "expected_tokens_per_s": one.tokens_per_s,
        "extrapolated": one.extrapolated,
    }  # fmt: skip


def _batch_line(batch: int, best: Candidate, plain: float) -> dict[str, Any]:
    speed = best.tokens_per_s or plain
    return {
        "batch": batch, "num_nodes": best.shape.num_nodes, "paths": best.shape.to_json(),
        "expected_acceptance_length": best.length, "expected_tokens_per_s": speed, "plain_tokens_per_s": plain,
        "speedup": speed / plain, "extrapolated": best.extrapolated,
    }  # fmt: skip
