"""Cached features: the target's hidden states at every position of its answers, computed once and read by every run.

`capture` runs the target over prompt + answer and writes float16 shards; a killed capture goes on at the next shard,
and gives the same bytes. `FeatureStore` reads them memory-mapped, in random access, so data larger than memory works
(slower, as the order of training is random). Knows no drafter: what the labels are is each family's business.

Positions: of an answer with n tokens, the position before the first one (its state predicts that token) up to the one
before the last, n in all. Position i carries the state there and the tokens that follow.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from backend.drafters.learning import IGNORE, FeatureBatch
from backend.errors import Cancelled, HeadwayError
from backend.targets.target import Target
from backend.training import shards
from backend.training.captures import MANIFEST as MANIFEST
from backend.training.captures import TokenizedAnswer as TokenizedAnswer
from backend.training.captures import answers_digest, identity, made_in
from backend.training.order import PositionOrder


@dataclass(frozen=True)
class CaptureConfig:
    """shard_positions: positions a shard holds at least; batch_tokens: tokens, padding included, that one pass reads at
    most.
    """

    shard_positions: int = 16384
    batch_tokens: int = 4096


def capture(
    target: Target,
    answers: Sequence[TokenizedAnswer],
    folder: Path,
    config: CaptureConfig | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
    should_stop: Callable[[], bool] = lambda: False,
    ahead: bool = False,
) -> FeatureStore:
    """Write the features of `answers` to `folder`, or finish a capture that was interrupted; `progress` gets (positions
    done, all).

    Answers that do not fit the target's context, or are empty, are left out. Raises HeadwayError when the folder holds
    features of something else, when there is no room on the disk, or when states do not fit float16; Cancelled when
    asked to stop.
    """
    config = config or CaptureConfig()
    usable = usable_answers(target, answers)
    plan = list(_plan(usable, config.shard_positions))
    positions = sum(len(a.answer_ids) for a in usable)
    header, bytes_each = _header(target, usable, config), 2 * target.hidden_size + 8
    manifest = shards.start(folder, header, positions, bytes_each, shards.makes(target))
    total, done = manifest["positions"], sum(shard["positions"] for shard in manifest["shards"])
    progress(done, total)
    for number in range(len(manifest["shards"]), len(plan)):
        tensors = _shard(target, plan[number], config.batch_tokens, should_stop)
        shards.add(folder, manifest, tensors, len(tensors["next"]))
        done += len(tensors["next"])
        progress(done, total)
    return FeatureStore(folder, ahead)


def feature_folder(
    parent: Path, target: Target, answers: Sequence[TokenizedAnswer], config: CaptureConfig | None = None
) -> Path:
    """Where below `parent` the features of these answers lie: the same for the same content, target, dtype and device,
    so that whoever trains on them again finds them.
    """
    header = _header(target, usable_answers(target, answers), config or CaptureConfig())
    return shards.place(parent, header, target)


class PositionFeatures(PositionOrder, ABC):
    """Positions in random access, wherever their states come from.

    following: int32 [P], the token after each position; left: int32 [P], how many following tokens there are, this one
    included. Positions of an answer stand in a row. `ahead`: batches hold the states at the following positions too.
    """

    def __init__(self, following: Tensor, left: Tensor, hidden_size: int, ahead: bool) -> None:
        self.hidden_size = hidden_size
        self._next, self._left, self._ahead = following, left, ahead

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """See loop.Features."""

    @abstractmethod
    def states(self, positions: Tensor) -> Tensor:
        """int64 [T] -> float32 [T, H]."""

    def __len__(self) -> int:
        return len(self._next)

    def batch(self, positions: Tensor, horizon: int) -> FeatureBatch:
        """Positions int64 [T] -> hidden float32 [T, H], following int64 [T, horizon]."""
        ahead = torch.arange(horizon)
        left = self._left[positions][:, None]
        index = positions[:, None] + torch.minimum(ahead, left - 1)  # past the end: the answer's last position
        following = torch.where(ahead < left, self._next[index].long(), IGNORE)
        if not self._ahead:
            return FeatureBatch(self.states(positions), following)
        states = self.states(index.flatten()).unflatten(0, index.shape)
        return FeatureBatch(states[:, 0], following, states[:, 1:])


class FeatureStore(PositionFeatures):
    """Features in a folder, memory-mapped. Raises HeadwayError when they are incomplete or damaged."""

    def __init__(self, folder: Path, ahead: bool = False) -> None:
        manifest = shards.complete(folder)
        self.weights_id = str(manifest["header"]["weights_id"])
        self._hidden: list[Tensor] = []  # each float16 [P, H]
        following, left = [], []
        for shard in manifest["shards"]:
            with shards.opened(folder, shard) as file:
                self._hidden.append(file.get_tensor("hidden"))
                following.append(file.get_tensor("next"))
                left.append(file.get_tensor("left"))
        super().__init__(torch.cat(following), torch.cat(left), int(manifest["header"]["hidden_size"]), ahead)
        self._fingerprint = identity(manifest["header"], made_in(folder, manifest), None)
        self.content = shards.content(manifest)  #: what runs of earlier versions were checked against

    @property
    def fingerprint(self) -> str:
        return self._fingerprint

    def states(self, positions: Tensor) -> Tensor:
        return gathered(self._hidden, positions)


def gathered(parts: Sequence[Tensor], rows: Tensor) -> Tensor:
    """Rows int64 [T], counted through all parts (float16 [P, H] each) -> float32 [T, H]."""
    ends = torch.tensor([len(part) for part in parts]).cumsum(0)
    places = torch.bucketize(rows, ends, right=True)
    found = torch.empty(len(rows), parts[0].shape[1])
    for number in places.unique().tolist():
        here = (places == number).nonzero()[:, 0]
        start = ends[number] - len(parts[number])
        found[here] = parts[number][rows[here] - start].float()
    return found


def usable_answers(target: Target, answers: Sequence[TokenizedAnswer]) -> list[TokenizedAnswer]:
    """Those that can be learned from. Raises HeadwayError when there are none."""
    usable = [a for a in answers if a.answer_ids and a.prompt_ids and _length(a) <= target.max_context]
    if not usable:
        raise HeadwayError(
            "None of the answers can be used for training; they are empty or longer than the target reads."
        )
    return usable


def _length(answer: TokenizedAnswer) -> int:
    return len(answer.prompt_ids) + len(answer.answer_ids)


def _plan(answers: Sequence[TokenizedAnswer], shard_positions: int) -> Iterator[list[TokenizedAnswer]]:
    shard: list[TokenizedAnswer] = []
    positions = 0
    for answer in answers:
        shard.append(answer)
        positions += len(answer.answer_ids)
        if positions >= shard_positions:
            yield shard
            shard, positions = [], 0
    if shard:
        yield shard


def _header(target: Target, answers: Sequence[TokenizedAnswer], config: CaptureConfig) -> dict[str, Any]:
    return {
        "format": 1,
        "weights_id": target.identity.weights_id,
        "hidden_size": target.hidden_size,
        "answers": answers_digest(answers),
        "shard_positions": config.shard_positions,
        "batch_tokens": config.batch_tokens,
    }


@torch.no_grad()
def _shard(
    target: Target, answers: Sequence[TokenizedAnswer], batch_tokens: int, should_stop: Callable[[], bool]
) -> dict[str, Tensor]:
    """hidden float16 [P, H], next int32 [P], left int32 [P] (following tokens that exist, the next one included)."""
    states: list[Tensor] = [torch.empty(0)] * len(answers)
    for group in _groups(answers, batch_tokens):
        if should_stop():
            raise Cancelled("The capture of features was stopped; started again, it goes on where it stopped.")
        for index, state in zip(group, _states(target, [answers[i] for i in group]), strict=True):
            states[index] = state
    hidden = torch.cat(states)
    if not bool(torch.isfinite(hidden).all()):
        raise HeadwayError(
            f"The hidden states of {target.name} do not fit into float16 numbers, so they can't be cached."
        )
    following = [token for a in answers for token in a.answer_ids]
    left = [left for a in answers for left in range(len(a.answer_ids), 0, -1)]
    int32 = torch.int32
    return {"hidden": hidden, "next": torch.tensor(following, dtype=int32), "left": torch.tensor(left, dtype=int32)}


def _groups(answers: Sequence[TokenizedAnswer], batch_tokens: int) -> Iterator[list[int]]:
    """Answers of similar length together, so that little is padded."""
    group: list[int] = []
    for index in sorted(range(len(answers)), key=lambda i: (_length(answers[i]), i)):
        if group and (len(group) + 1) * _length(answers[index]) > batch_tokens:
            yield group
            group = []
        group.append(index)
    if group:
        yield group


def _states(target: Target, answers: Sequence[TokenizedAnswer]) -> list[Tensor]:
    """For each answer float16 [n, H]: the states that predict its tokens, on the CPU."""
    width = max(_length(a) for a in answers) - 1  # the last token predicts nothing that is known
    ids = torch.zeros(len(answers), width, dtype=torch.int64)
    mask = torch.zeros(len(answers), width, dtype=torch.bool)
    for row, a in enumerate(answers):
        text = [*a.prompt_ids, *a.answer_ids][:-1]
        ids[row, : len(text)] = torch.tensor(text)
        mask[row, : len(text)] = True
    hidden = target.hidden_states(ids.to(target.device), mask.to(target.device)).to(torch.float16).cpu()
    first = [len(a.prompt_ids) - 1 for a in answers]
    return [
        hidden[row, f : f + len(a.answer_ids)].clone() for row, (f, a) in enumerate(zip(first, answers, strict=True))
    ]
