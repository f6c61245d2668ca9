"""Cached features: the target's hidden states at every position of its answers, computed once and read by every run.

`capture` runs the target over prompt + answer and writes float16 shards; a killed capture goes on at the next shard,
and gives the same bytes. `FeatureStore` reads them memory-mapped, in random access, so data larger than memory works
(slower, as the order of training is random). Knows no drafter: what the labels are is each family's business.

Positions: of an answer with n tokens, the position before the first one (its state predicts that token) up to the one
before the last, n in all. Position i carries the state there and the tokens that follow.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from backend.drafters.learning import IGNORE, FeatureBatch
from backend.errors import Cancelled, HeadwayError
from backend.targets.target import Target
from backend.training import shards
from backend.training.order import PositionOrder
from backend.training.shards import MANIFEST as MANIFEST


class TokenizedAnswer(Protocol):
    """A prompt and what the target answered, as token ids (data/answers.py has the whole record)."""

    @property
    def prompt_ids(self) -> Sequence[int]: ...

    @property
    def answer_ids(self) -> Sequence[int]: ...


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
    manifest = shards.start(folder, _header(target, usable, config), positions, 2 * target.hidden_size + 8)
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


class FeatureStore(PositionOrder):
    """Features in a folder, memory-mapped; `ahead`: batches hold the states at the following positions too.

    Raises HeadwayError when they are incomplete or damaged.
    """

    def __init__(self, folder: Path, ahead: bool = False) -> None:
        self._ahead = ahead
        manifest = shards.complete(folder)
        self.hidden_size = int(manifest["header"]["hidden_size"])
        self.weights_id = str(manifest["header"]["weights_id"])
        self._hidden: list[Tensor] = []  # each float16 [P, H]
        following, left = [], []
        for shard in manifest["shards"]:
            with shards.opened(folder, shard) as file:
                self._hidden.append(file.get_tensor("hidden"))
                following.append(file.get_tensor("next"))
                left.append(file.get_tensor("left"))
        self._next, self._left = torch.cat(following), torch.cat(left)  # int32 [P] each
        ends = torch.tensor([shard["positions"] for shard in manifest["shards"]]).cumsum(0)
        self._ends, self._starts = ends, torch.cat([torch.zeros(1, dtype=torch.int64), ends[:-1]])
        self._fingerprint = shards.fingerprint(manifest)

    @property
    def fingerprint(self) -> str:
        return self._fingerprint

    def __len__(self) -> int:
        return len(self._next)

    def batch(self, positions: Tensor, horizon: int) -> FeatureBatch:
        """Positions int64 [T] -> hidden float32 [T, H], following int64 [T, horizon]."""
        ahead = torch.arange(horizon)
        inside = ahead < self._left[positions][:, None]
        index = (positions[:, None] + ahead).clamp(max=len(self) - 1)
        following = torch.where(inside, self._next[index].long(), IGNORE)
        if not self._ahead:
            return FeatureBatch(self._states(positions), following)
        later = self._states(index[:, 1:].flatten().contiguous()).unflatten(0, (len(positions), horizon - 1))
        return FeatureBatch(self._states(positions), following, later)

    def _states(self, positions: Tensor) -> Tensor:
        """int64 [T] -> float32 [T, H]."""
        places = torch.bucketize(positions, self._ends, right=True)
        hidden = torch.empty(len(positions), self.hidden_size)
        for number in places.unique().tolist():
            here = (places == number).nonzero()[:, 0]
            hidden[here] = self._hidden[number][positions[here] - self._starts[number]].float()
        return hidden


def usable_answers(target: Target, answers: Sequence[TokenizedAnswer]) -> list[TokenizedAnswer]:
    """Those that can be learned from. Raises HeadwayError when there are none."""
    usable = [a for a in answers if a.answer_ids and a.prompt_ids and _length(a) <= target.max_context]
    if not usable:
        raise HeadwayError(
            "None of the answers can be used for training; they are empty or longer than the target reads."
        )
    return usable


def answers_digest(answers: Sequence[TokenizedAnswer]) -> str:
    """The same for the same tokens in the same order."""
    digest = hashlib.sha256()
    for answer in answers:
        digest.update(json.dumps([list(answer.prompt_ids), list(answer.answer_ids)]).encode())
    return digest.hexdigest()


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
