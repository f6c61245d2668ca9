"""Calibrating: the target answers prompts, and at every position the drafter says what it would have guessed there.

The drafter fills a wide tree at each position; the loop is handed none of it, so that each step is one of plain
decoding and the next position gets its turn. What the answers turned out to be then tells which guesses were right.
Children are chosen. Knows drafters and the loop; keeps nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from backend.acceptance import Rule, SamplingSettings
from backend.analysis.calibration import LEAF, MAX_DEPTH, MISS, UNKNOWN, Walk, kept_confidence
from backend.decoding.loop import DecodeSettings, decode
from backend.decoding.records import DecodeResult, StepTrace
from backend.drafters.base import Around, Draft, DraftContext, Drafter
from backend.drafters.plain.drafter import root_draft
from backend.errors import HeadwayError
from backend.targets.target import Target
from backend.trees import TreeShape, chain
from backend.trees.search import best_tree

#: families whose candidates of a depth are the same under every path; others may say so of single drafters (`parallel`)
PARALLEL = ("medusa", "peagle")
#: what a tree is drafted for before anything is known: the rate of rank r at any depth
PRIOR = [0.55 * 0.45**rank for rank in range(16)]


@dataclass(frozen=True)
class WideTree:
    """What is drafted at every position. `ranks`: candidates that are looked at; `parallel`: see PARALLEL."""

    drafter: Drafter
    ranks: int
    parallel: bool

    @property
    def shape(self) -> TreeShape:
        return self.drafter.shape


def is_parallel(drafter: Drafter) -> bool:
    """Whether its candidates of a depth are the same under every path."""
    return drafter.family in PARALLEL or bool(getattr(drafter, "parallel", False))


def wide_tree(drafter: Drafter, nodes: int, ranks: int, depth: int = MAX_DEPTH) -> WideTree:
    """The drafter with the widest tree that it can fill: up to `nodes` nodes and `ranks` candidates a node.

    Raises HeadwayError for one that drafts nothing.
    """
    drafter = drafter.with_sampled(False)
    parallel = is_parallel(drafter)
    error: HeadwayError | None = None
    for levels in range(min(depth, MAX_DEPTH), 0, -1):
        for shape in (_comb(levels, ranks) if parallel else _bush(levels, nodes, ranks), chain(levels)):
            try:
                return WideTree(drafter.with_shape(shape), max(shape.widths), parallel)
            except HeadwayError as problem:
                error = problem
    raise HeadwayError(f"{drafter.name} drafts nothing that could be calibrated ({error}); choose another drafter.")


def _comb(levels: int, ranks: int) -> TreeShape:
    """Every rank of every depth once, under the best path."""
    return TreeShape(tuple((*(0,) * (d - 1), rank) for d in range(1, levels + 1) for rank in range(ranks)))


def _bush(levels: int, nodes: int, ranks: int) -> TreeShape:
    """The best tree for the prior, and the chain of best guesses down to the last level."""
    grown = best_tree([PRIOR[:ranks]] * levels, max(1, nodes - levels))
    return TreeShape((*grown.paths, *chain(levels).paths))


class Recorder(Around):
    """Drafts with a wide tree, remembers it, and hands over a tree without nodes.

    `drafts` holds for every row of every step since they were last taken: (tokens and probabilities of the nodes, how
    deep the tree could be).
    """

    def __init__(self, wide: WideTree) -> None:
        super().__init__(wide.drafter)
        self.sampled = False
        self.drafts: deque[tuple[list[int], list[float], int]] = deque()

    def with_shape(self, shape: TreeShape) -> Drafter:
        raise HeadwayError("A calibration drafts one tree only.")

    def with_sampled(self, sampled: bool) -> Recorder:
        return self

    def draft(self, context: DraftContext) -> Draft:
        made = self._inner.draft(context)
        depth = min(self.shape.max_depth, max(0, context.max_depth))
        counts = made.tree.num_nodes.tolist()
        tokens, probs = made.tree.tokens[:, 1:].tolist(), made.draft_prob[:, 1:].double().tolist()
        for row, count in enumerate(counts):
            self.drafts.append((tokens[row][:count], probs[row][:count], depth))
        return root_draft(context)


def calibrate(
    target: Target,
    wide: WideTree,
    prompts: Sequence[Sequence[int]],
    names: Sequence[tuple[str, str]],
    temperature: float,
    max_new_tokens: int,
    batch: int,
    seed: int,
    numbers: Sequence[int],
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[int, Walk]]:
    """(the prompt's number, what was found along its answer) for every prompt, in the order in which they end.

    `names`: (question id, category) of each prompt. Cancelled answers are left out.
    """
    recorder = Recorder(wide)
    sampling = SamplingSettings(temperature=temperature)
    settings = DecodeSettings(max_new_tokens, Rule("rejection"), sampling, seed=seed)
    drafts: dict[int, list[tuple[list[int], list[float], int]]] = {}
    named = dict(zip(numbers, names, strict=True))
    for record in decode(target, recorder, prompts, settings, batch, cancelled, numbers):
        if isinstance(record, StepTrace):
            drafts.setdefault(record.row, []).append(recorder.drafts.popleft())
        elif isinstance(record, DecodeResult) and record.finish_reason != "cancelled":
            found = drafts.pop(record.row, [])
            yield record.row, _walk(wide, found, record, *named[record.row], temperature, max_new_tokens)


def _walk(
    wide: WideTree,
    drafts: Sequence[tuple[list[int], list[float], int]],
    result: DecodeResult,
    prompt: str,
    category: str,
    temperature: float,
    limit: int,
) -> Walk:
    shape = wide.shape
    levels, nodes = shape.max_depth, shape.num_nodes
    ranks = np.full((len(drafts), levels), UNKNOWN, dtype=np.int8)
    probs = np.full((len(drafts), nodes), np.nan)
    children = children_of(shape)
    for step, (tokens, confidence, deepest) in enumerate(drafts):
        # How deep a row drafts near its end depends on the rows beside it; what is kept must not.
        depth = min(deepest, max(0, limit - step - 2))
        count = sum(level <= depth for level in shape.depths[1:])
        tokens, confidence = tokens[:count], confidence[:count]
        future = result.tokens[step + 1 : step + 1 + depth]
        ranks[step, : len(future)] = ranks_of(wide, children, tokens, future)
        probs[step, : len(confidence)] = confidence
    return Walk(prompt, category, temperature, result.prompt_tokens, ranks, kept_confidence(probs))


def ranks_of(wide: WideTree, children: list[list[int]], tokens: list[int], future: list[int]) -> NDArray[np.int8]:
    """int8 [len(future)]: the ranks of the coming tokens among the drafted ones, see analysis/calibration.py.

    `children`: those of `children_of` its tree; `tokens`: of the drafted nodes, in the tree's order.
    """
    found = _across(wide.shape, tokens, future) if wide.parallel else _along(wide.shape, children, tokens, future)
    return found


def _across(shape: TreeShape, tokens: list[int], future: list[int]) -> NDArray[np.int8]:
    """The rank of each coming token among the candidates of its depth."""
    found = np.full(len(future), MISS, dtype=np.int8)
    for column, token in enumerate(tokens, start=1):
        depth = shape.depths[column]
        if depth <= len(future) and token == future[depth - 1] and found[depth - 1] == MISS:
            found[depth - 1] = shape.ranks[column]
    return found


def _along(shape: TreeShape, below: list[list[int]], tokens: list[int], future: list[int]) -> NDArray[np.int8]:
    """The ranks of the coming tokens along their own path through the tree; a miss or a leaf ends it."""
    found = np.full(len(future), LEAF, dtype=np.int8)
    at = 0
    for depth, token in enumerate(future):
        children = [column for column in below[at] if column <= len(tokens)]
        if not children:
            break
        right = next((column for column in children if tokens[column - 1] == token), None)
        if right is None:
            found[depth:] = MISS
            break
        found[depth] = shape.ranks[right]
        at = right
    return found


def children_of(shape: TreeShape) -> list[list[int]]:
    """Columns under each column."""
    found: list[list[int]] = [[] for _ in range(shape.num_nodes + 1)]
    for column, parent in enumerate(shape.parents):
        if parent >= 0:
            found[parent].append(column)
    return found
