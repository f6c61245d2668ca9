"""What a drafter would have guessed at every position of texts that are given, without decoding them again.

The target reads each text once; the drafter is then handed one committed token after another, as the loop does, and its
guesses are held against what comes. So one text answers many questions: what other layers, other sizes of states or
another map would have given. Children are chosen. Knows drafters and targets; nothing of causes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from backend.analysis.calibration import MAX_DEPTH, UNKNOWN, Ranks, Walk
from backend.drafters.base import DraftContext, Drafter
from backend.drafters.registry import tree_of
from backend.targets.target import FINAL, Target
from backend.trees import TreeShape, chain
from backend.tuning.calibrating import WideTree, children_of, is_parallel, ranks_of

PROJECTIONS = 16  #: numbers that a direction of states is kept as
Change = Callable[[int, Tensor], Tensor]  #: (layer, its states [T, H]) -> what is handed over in their place


@dataclass(frozen=True)
class ForcedText:
    """A prompt and what follows it, at least two tokens."""

    name: str
    category: str
    prompt: tuple[int, ...]
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Reading:
    """Which states are handed over. layers: in place of those that the drafter reads; hidden: in place of the last
    hidden state; change: what is done to them.
    """

    layers: tuple[int, ...] | None = None
    hidden: int = FINAL
    change: Change | None = None


@dataclass(frozen=True)
class Guesses:
    """Along one text of T + 1 tokens, at depths 1..K.

    Args:
        ranks: int8 [T, K], see analysis/calibration.py.
        best: int64 [T, K], the first guess of each depth under first guesses; -1 where there was none.
        drafted: int64 [T], nodes.
    """

    text: ForcedText
    ranks: Ranks
    best: NDArray[np.int64]
    drafted: NDArray[np.int64]

    @property
    def walk(self) -> Walk:
        """As a calibration keeps it, without confidence."""
        text = self.text
        return Walk(
            text.name, text.category, 0.0, len(text.prompt), self.ranks, np.zeros((len(self.ranks), 0), dtype=np.uint8)
        )


def measured_tree(drafter: Drafter) -> TreeShape:
    """The tree whose acceptance is told: the drafter's own, or a chain as deep as the one that it grows."""
    own = tree_of(drafter)
    tree = own if isinstance(own, TreeShape) else chain(drafter.shape.max_depth)
    return tree.cut(min(MAX_DEPTH, tree.max_depth))


def wide_of(drafter: Drafter, tree: TreeShape) -> WideTree:
    """The drafter with a tree that holds `tree` and the chain of first guesses. Raises HeadwayError when it can't."""
    drafter = getattr(drafter, "inner", drafter).with_sampled(False)
    parallel, levels = is_parallel(drafter), tree.max_depth
    wanted = set(tree.paths) | set(chain(levels).paths)
    if parallel:
        ranks = 1 + max(path[-1] for path in wanted)
        wanted = {(*(0,) * (depth - 1), rank) for depth in range(1, levels + 1) for rank in range(ranks)}
    shape = TreeShape(tuple(sorted(wanted, key=lambda path: (len(path), path))))
    return WideTree(drafter.with_shape(shape), max(shape.widths), parallel)


def guess_along(
    target: Target,
    wide: WideTree,
    texts: Sequence[ForcedText],
    reading: Reading | None = None,
    batch: int = 8,
    should_stop: Callable[[], bool] = lambda: False,
) -> list[Guesses]:
    """In the order of the texts. Stops early, with fewer, when asked to."""
    found: list[Guesses] = []
    for start in range(0, len(texts), batch):
        if should_stop():
            break
        found += _batch(target, wide, texts[start : start + batch], reading or Reading())
    return found


@torch.inference_mode()
def _batch(target: Target, wide: WideTree, texts: Sequence[ForcedText], reading: Reading) -> list[Guesses]:
    drafter, shape = wide.drafter, wide.shape
    whole = [torch.tensor([*text.prompt, *text.tokens], device=target.device) for text in texts]
    longest = max(map(len, whole))
    tokens = torch.stack([torch.nn.functional.pad(ids, (0, longest + shape.max_depth + 1 - len(ids))) for ids in whole])
    states = [_states(target, ids, drafter.reads, reading) for ids in whole]
    drafter.start(len(texts), longest + shape.num_nodes + 1)
    drafter.replace_rows(range(len(texts)))
    for row, (text, (_, read)) in enumerate(zip(texts, states, strict=True)):
        if read is not None:
            count = len(text.prompt)
            drafter.read_prompt(row, whole[row][: count + 1], read[:count])
    kept: list[list[list[int]]] = [[] for _ in texts]
    for step in range(max(len(text.tokens) for text in texts) - 1):
        lengths = [len(t.prompt) + 1 + min(step, len(t.tokens) - 2) for t in texts]  # a text that is over waits
        made = drafter.draft(_context(target, tokens, lengths, states, shape.max_depth))
        counts, drafted = made.tree.num_nodes.tolist(), made.tree.tokens[:, 1:].tolist()
        for row, text in enumerate(texts):
            if step < len(text.tokens) - 1:
                kept[row].append(drafted[row][: counts[row]])
    return [_held_against(wide, text, guesses) for text, guesses in zip(texts, kept, strict=True)]


def _states(target: Target, ids: Tensor, reads: Sequence[int], reading: Reading) -> tuple[Tensor, Tensor | None]:
    """(hidden [T, H], what is read [T, F] or None)."""
    layers = tuple(reading.layers or reads)
    parts = layer_states(target, ids, (*layers, reading.hidden))
    changed = [
        part if reading.change is None else reading.change(layer, part)
        for layer, part in zip((*layers, reading.hidden), parts, strict=True)
    ]
    return changed[-1], torch.cat(changed[:-1], dim=-1) if layers else None


def layer_states(target: Target, ids: Tensor, layers: Sequence[int]) -> tuple[Tensor, ...]:
    """The states of each layer along one text, int64 [T] -> [T, H] each."""
    mask = torch.ones_like(ids, dtype=torch.bool)[None]
    states = target.hidden_states(ids[None], mask, layers)[0]  # [T, F]
    parts: tuple[Tensor, ...] = states.split(target.hidden_size, dim=-1)
    return parts


def _context(
    target: Target,
    tokens: Tensor,
    lengths: list[int],
    states: Sequence[tuple[Tensor, Tensor | None]],
    depth: int,
) -> DraftContext:
    places = [length - 2 for length in lengths]  # the position before the root
    read = None
    if states[0][1] is not None:
        read = torch.stack([part[place] for (_, part), place in zip(states, places, strict=True) if part is not None])
    return DraftContext(
        tokens=tokens,
        lengths=torch.tensor(lengths, device=target.device),
        hidden=torch.stack([hidden[place] for (hidden, _), place in zip(states, places, strict=True)]),
        temperature=0.0,
        generator=torch.Generator(device=target.device).manual_seed(0),
        max_depth=depth,
        host_lengths=lengths,
        states=None if read is None else read[:, None],
        num_states=None if read is None else torch.ones(len(lengths), dtype=torch.int64, device=target.device),
    )


def _held_against(wide: WideTree, text: ForcedText, guesses: Sequence[list[int]]) -> Guesses:
    shape, depth = wide.shape, wide.shape.max_depth
    children = children_of(shape)
    columns = [shape.paths.index((0,) * level) for level in range(1, depth + 1)]
    ranks = np.full((len(guesses), depth), UNKNOWN, dtype=np.int8)
    best = np.full((len(guesses), depth), -1, dtype=np.int64)
    for step, tokens in enumerate(guesses):
        future = list(text.tokens[step + 1 : step + 1 + depth])
        ranks[step, : len(future)] = ranks_of(wide, children, tokens, future)
        for level, column in enumerate(columns):
            if column < len(tokens):
                best[step, level] = tokens[column]
    return Guesses(text, ranks, best, np.array([len(tokens) for tokens in guesses], dtype=np.int64))


def state_facts(target: Target, texts: Sequence[Sequence[int]], layers: Sequence[int]) -> dict[str, dict[str, object]]:
    """Of each layer (FINAL is "-1"): `rms`, the usual root mean square of its states, and `direction`, the mean of the
    states at length 1, seen along fixed random directions. Small enough to be stored with a drafter.
    """
    found: dict[str, list[Tensor]] = {str(layer): [] for layer in layers}
    for text in texts:
        ids = torch.tensor(list(text)[: target.max_context], device=target.device)
        for layer, part in zip(layers, layer_states(target, ids, layers), strict=True):
            found[str(layer)].append(part.float().cpu())
    return {name: _facts(torch.cat(parts)) for name, parts in found.items() if parts}


def _facts(states: Tensor) -> dict[str, object]:
    sizes = states.square().mean(-1).sqrt()
    mean = (states / sizes.clamp(min=1e-12)[:, None]).mean(0)
    generator = torch.Generator().manual_seed(0)
    directions = torch.randn(PROJECTIONS, states.shape[1], generator=generator) / states.shape[1] ** 0.5
    return {"rms": round(float(sizes.median()), 6), "direction": [round(x, 5) for x in (directions @ mean).tolist()]}
