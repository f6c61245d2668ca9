"""Measuring what a step costs: target passes of many sizes, and drafting with several trees, in turns.

Every round times each point once, so that a slow minute of the machine hits all alike; the medians over rounds count.
Which points are measured follows from the time and the memory there is: a first round goes through them in the order of
their importance and stops when it has taken its share. Knows targets, drafters and the loop; keeps nothing.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from backend.decoding.clock import Stopwatch
from backend.decoding.loop import DecodeSettings, decode
from backend.decoding.records import StepTrace
from backend.drafters.base import Drafter
from backend.drafters.plain.drafter import PlainDrafter
from backend.errors import HeadwayError
from backend.targets.target import Target
from backend.trees import DraftTree, TreeShape, chain, product
from backend.trees.search import best_tree
from backend.tuning.cost_curve import CostCurve, Growth, PassCost, StepCost, median_cost

ALONE = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64)  #: rows of a pass over one sequence
TOGETHER = (1, 2, 3, 5, 9, 17, 33, 64)  #: and over several
MOST_ROWS = 512  #: of all sequences together
SCOUTING = 0.25  #: share of the time that the first round may take
FEWEST_ROUNDS, MOST_ROUNDS = 3, 15
SHORT = 8  #: rows of a pass that is over so soon that the kind of pass before it shows in its time
STEPS = 4  #: that are timed for each tree in a round
PRIOR = [[0.5, 0.2, 0.1, 0.05]] * 8  #: what trees are drafted for when only their cost matters


@dataclass(frozen=True)
class Point:
    """One kind of pass."""

    rows: int
    batch: int
    context: int


@dataclass(frozen=True)
class Drafting:
    """Steps with one tree; None is plain decoding."""

    shape: TreeShape | None
    batch: int


Task = Point | Drafting
Found = dict[Task, float | tuple[float, float]]  #: ms of a pass, or (drafting, rest) ms of a step


def tasks(
    batches: Sequence[int], contexts: Sequence[int], max_rows: int, shapes: Sequence[TreeShape]
) -> list[list[Task]]:
    """What is worth measuring, in blocks, the most important first."""
    first, *longer = sorted(contexts)
    alone: list[Task] = [Point(rows, 1, first) for rows in ALONE if rows <= max_rows]
    drafting: list[Task] = [Drafting(shape, 1) for shape in (None, *shapes)]
    blocks: list[list[Task]] = [alone, drafting]
    several = [batch for batch in sorted(batches) if batch > 1]
    for batch in several:
        blocks.append(_together(batch, first, max_rows))
    for context in longer:
        blocks.append([Point(rows, 1, context) for rows in (1, 4, 16, 32, 64) if rows <= max_rows])
    if several and shapes:
        blocks.append([Drafting(shape, several[-1]) for shape in (None, shapes[0], shapes[-1])])
    for context in longer:
        blocks += [_together(batch, context, max_rows) for batch in several]
    return [block for block in blocks if block]


def _together(batch: int, context: int, max_rows: int) -> list[Task]:
    return [Point(rows, batch, context) for rows in TOGETHER if rows <= max_rows and rows * batch <= MOST_ROWS]


def within_memory(blocks: Sequence[list[Task]], bytes_per_token: int, limit: int) -> tuple[list[list[Task]], list[str]]:
    """The blocks whose cache fits, and a sentence for what is left out."""
    kept: list[list[Task]] = []
    left: list[list[Task]] = []
    for block in blocks:
        entries = [one.batch * (one.context + one.rows) for one in block if isinstance(one, Point)]
        needed = bytes_per_token * max(entries, default=0)
        (kept if needed <= limit else left).append(block)
    notes = [f"{_words(block[0])} was not measured: its cache does not fit into memory." for block in left]
    if not any(isinstance(one, Point) for block in kept for one in block):
        raise HeadwayError("Not even the smallest cache fits into the memory allowed; allow more.")
    return kept, notes


def trees_for(drafter: Drafter) -> list[TreeShape]:
    """Trees that tell what drafting costs by level and by node: chains and bushes, as far as the drafter can."""
    found: list[TreeShape] = []
    deepest = next((d for d in range(8, 0, -1) if _can(drafter, chain(d))), 0)
    for shape in (
        *(chain(depth) for depth in sorted({1, (deepest + 1) // 2, deepest}) if depth),
        *(best_tree(PRIOR[:deepest], nodes) for nodes in (8, 20, 48) if deepest),
    ):
        if shape not in found and _can(drafter, shape):
            found.append(shape)
    return sorted(found, key=lambda shape: shape.num_nodes)


def _can(drafter: Drafter, shape: TreeShape) -> bool:
    try:
        drafter.with_shape(shape)
    except HeadwayError:
        return False
    return True


class Bench:
    """Times tasks with one target and drafter. The cache is filled once and used by all passes."""

    def __init__(self, target: Target, drafter: Drafter, wanted: Sequence[Task], seed: int = 0) -> None:
        self.target = target
        self._random = torch.Generator().manual_seed(seed)
        points = [one for one in wanted if isinstance(one, Point)]
        self._context = min(one.context for one in points)
        rows, batch = max(one.rows for one in points), max(one.batch for one in points)
        longest = max(one.context for one in points)
        self._text = self._tokens(longest).tolist()
        self._cache = target.new_cache(batch, longest + rows)
        target.prefill(self._cache, 0, self._text)
        for row in range(1, batch):
            self._cache.copy_row(0, row)
        self._fillers: dict[TreeShape | None, Drafter] = {None: PlainDrafter()}
        for one in wanted:
            if isinstance(one, Drafting) and one.shape is not None:
                self._fillers[one.shape] = drafter.with_sampled(False).with_shape(one.shape)
        self._watch = Stopwatch(target.device)

    def time(self, task: Task) -> float | tuple[float, float]:
        """Milliseconds: of a pass, or (drafting, rest) of a step."""
        return self._pass_ms(task) if isinstance(task, Point) else self._step_ms(task)

    def _pass_ms(self, point: Point) -> float:
        rows = slice(0, point.batch)
        for row in range(point.batch):
            self._cache.lengths[row] = point.context
        tree = self._star(point)
        if point.rows * point.batch <= SHORT:  # in decoding one like it came before, here another kind
            self.target.tree_pass(self._cache, tree, rows)
        self._watch.restart()
        self.target.tree_pass(self._cache, tree, rows)
        self._watch.mark()
        return self._watch.parts_ms()[0]

    def _star(self, point: Point) -> DraftTree:
        """Roots with rows - 1 children each: what a pass costs depends on how many rows, not on their shape."""
        tokens = self._tokens(point.batch * point.rows).view(point.batch, point.rows).to(self.target.device)
        if point.rows == 1:
            return DraftTree.root_only(tokens[:, 0])
        return DraftTree.from_shape(product([point.rows - 1]), tokens)

    def _tokens(self, count: int) -> torch.Tensor:
        return torch.randint(0, min(1000, self.target.vocab_size), (count,), generator=self._random)

    def _step_ms(self, task: Drafting) -> tuple[float, float]:
        filler = self._fillers[task.shape]
        found: list[tuple[float, float]] = []
        settings = DecodeSettings((STEPS + 1) * (filler.shape.max_depth + 1) + 2, ignore_eos=True)
        texts = [self._text[: self._context]] * task.batch

        def enough() -> bool:
            return len(found) > STEPS * task.batch

        for record in decode(self.target, filler, texts, settings, task.batch, enough):
            if isinstance(record, StepTrace):
                found.append((record.draft_ms, record.step_ms - record.draft_ms - record.verify_ms))
        used = found[task.batch :] or found  # the first step warms up
        return statistics.median(draft for draft, _ in used), statistics.median(rest for _, rest in used)


def scout(
    bench: Bench, blocks: Sequence[list[Task]], seconds: float, clock: Callable[[], float] = time.monotonic
) -> tuple[Found, list[str]]:
    """The first round: each task once, after one that warms up. Blocks that would take too long are left out, the first
    two never; returns what was found and a sentence for each that was left out.
    """
    started, found, notes = clock(), Found(), []
    for number, block in enumerate(blocks):
        if number > 1 and clock() - started > SCOUTING * seconds:
            notes.append(f"{_words(block[0])} was not measured: the time was up; what is said of it is extrapolated.")
            continue
        for task in block:
            bench.time(task)
            found[task] = bench.time(task)
    return found, notes


def curve_of(rounds: Sequence[Found], drafter: str, notes: Sequence[str]) -> CostCurve:
    """Medians over the rounds."""
    passes: dict[Point, list[float]] = {}
    steps: dict[Drafting, list[tuple[float, float]]] = {}
    for one in rounds:
        for task, value in one.items():
            if isinstance(task, Point) and isinstance(value, float):
                passes.setdefault(task, []).append(value)
            elif isinstance(task, Drafting) and isinstance(value, tuple):
                steps.setdefault(task, []).append(value)
    return CostCurve(
        tuple(_pass_cost(point, times) for point, times in sorted(passes.items(), key=lambda item: _place(item[0]))),
        tuple(_step_cost(task, times) for task, times in steps.items()),
        drafter,
        notes=tuple(notes),
    )


def _place(point: Point) -> tuple[int, int, int]:
    return point.batch, point.context, point.rows


def _pass_cost(point: Point, times: Sequence[float]) -> PassCost:
    ms, between = median_cost(times)
    return PassCost(point.rows, point.batch, point.context, ms, between.low, between.high, len(times))


def _step_cost(task: Drafting, times: Sequence[tuple[float, float]]) -> StepCost:
    growth = Growth.of(task.shape) if task.shape is not None else Growth(0, 0, 0)
    draft, rest = (statistics.median(values) for values in zip(*times, strict=True))
    return StepCost(growth.depth, growth.extended, growth.nodes, task.batch, draft, max(0.0, rest), len(times))


def _words(task: Task) -> str:
    rows = "one sequence" if task.batch == 1 else f"{task.batch} sequences at once"
    if isinstance(task, Drafting):
        return f"Drafting for {rows}"
    return f"A pass of {rows} behind {task.context} tokens"
