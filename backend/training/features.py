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
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from backend.drafters.checkpoint import file_sha256, flush_to_disk, write_json_atomically
from backend.drafters.learning import IGNORE, FeatureBatch
from backend.errors import Cancelled, HeadwayError
from backend.targets.target import Target

MANIFEST: Final = "features.json"


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
) -> FeatureStore:
    """Write the features of `answers` to `folder`, or finish a capture that was interrupted; `progress` gets (positions
    done, all).

    Answers that do not fit the target's context, or are empty, are left out. Raises HeadwayError when the folder holds
    features of something else, when there is no room on the disk, or when states do not fit float16; Cancelled when
    asked to stop.
    """
    config = config or CaptureConfig()
    usable = _usable(target, answers)
    if not usable:
        raise HeadwayError(
            "None of the answers can be used for training; they are empty or longer than the target reads."
        )
    plan = list(_plan(usable, config.shard_positions))
    manifest = _start(folder, _header(target, usable, config), sum(len(a.answer_ids) for a in usable))
    total, done = manifest["positions"], sum(shard["positions"] for shard in manifest["shards"])
    progress(done, total)
    for number in range(len(manifest["shards"]), len(plan)):
        tensors = _shard(target, plan[number], config.batch_tokens, should_stop)
        manifest["shards"].append(_write_shard(folder, number, tensors))
        write_json_atomically(folder / MANIFEST, manifest)
        done += len(tensors["next"])
        progress(done, total)
    return FeatureStore(folder)


def feature_folder(
    parent: Path, target: Target, answers: Sequence[TokenizedAnswer], config: CaptureConfig | None = None
) -> Path:
    """Where below `parent` the features of these answers lie: the same for the same content, target, dtype and device,
    so that whoever trains on them again finds them.
    """
    header = _header(target, _usable(target, answers), config or CaptureConfig())
    made_by = {"dtype": str(target.dtype), "device": target.device.type}
    digest = hashlib.sha256(json.dumps(header | made_by, sort_keys=True).encode()).hexdigest()
    return parent / f"{target.identity.weights_id[:8]}-{digest[:16]}"


class FeatureStore:
    """Features in a folder, memory-mapped. Raises HeadwayError when they are incomplete or damaged."""

    def __init__(self, folder: Path) -> None:
        manifest = _read_manifest(folder)
        if manifest is None or sum(shard["positions"] for shard in manifest["shards"]) != manifest["positions"]:
            raise HeadwayError(
                f"The features in {folder} are not complete; capture them again, it goes on where it stopped."
            )
        self.hidden_size = int(manifest["header"]["hidden_size"])
        self.weights_id = str(manifest["header"]["weights_id"])
        self._hidden: list[Tensor] = []  # each float16 [P, H]
        following, left = [], []
        for shard in manifest["shards"]:
            _check_shard(folder, shard)
            with safe_open(folder / shard["file"], framework="pt") as file:
                self._hidden.append(file.get_tensor("hidden"))
                following.append(file.get_tensor("next"))
                left.append(file.get_tensor("left"))
        self._next, self._left = torch.cat(following), torch.cat(left)  # int32 [P] each
        ends = torch.tensor([shard["positions"] for shard in manifest["shards"]]).cumsum(0)
        self._ends, self._starts = ends, torch.cat([torch.zeros(1, dtype=torch.int64), ends[:-1]])
        self._fingerprint = hashlib.sha256("".join(s["sha256"] for s in manifest["shards"]).encode()).hexdigest()

    @property
    def fingerprint(self) -> str:
        return self._fingerprint

    def __len__(self) -> int:
        return len(self._next)

    def batch(self, positions: Tensor, horizon: int) -> FeatureBatch:
        """Positions int64 [T] -> hidden float32 [T, H], following int64 [T, horizon]."""
        shards = torch.bucketize(positions, self._ends, right=True)
        hidden = torch.empty(len(positions), self.hidden_size)
        for number in shards.unique().tolist():
            here = (shards == number).nonzero()[:, 0]
            hidden[here] = self._hidden[number][positions[here] - self._starts[number]].float()
        ahead = torch.arange(horizon)
        inside = ahead < self._left[positions][:, None]
        index = (positions[:, None] + ahead).clamp(max=len(self) - 1)
        return FeatureBatch(hidden, torch.where(inside, self._next[index].long(), IGNORE))


def _usable(target: Target, answers: Sequence[TokenizedAnswer]) -> list[TokenizedAnswer]:
    return [a for a in answers if a.answer_ids and a.prompt_ids and _length(a) <= target.max_context]


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
    digest = hashlib.sha256()
    for answer in answers:
        digest.update(json.dumps([list(answer.prompt_ids), list(answer.answer_ids)]).encode())
    return {
        "format": 1,
        "weights_id": target.identity.weights_id,
        "hidden_size": target.hidden_size,
        "answers": digest.hexdigest(),
        "shard_positions": config.shard_positions,
        "batch_tokens": config.batch_tokens,
    }


def _start(folder: Path, header: dict[str, Any], positions: int) -> dict[str, Any]:
    """The manifest to go on with; shards that a crash damaged are dropped and made again."""
    manifest = _read_manifest(folder)
    if manifest is None:
        manifest = {"header": header, "positions": positions, "shards": []}
    differs = sorted(key for key in header if manifest["header"].get(key) != header[key])
    if differs:
        raise HeadwayError(
            f"{folder} holds features that differ in {', '.join(differs)}; use another folder or delete it."
        )
    whole = []
    for shard in manifest["shards"]:
        try:
            _check_shard(folder, shard)
        except HeadwayError:
            break
        whole.append(shard)
    manifest["shards"] = whole
    missing = positions - sum(shard["positions"] for shard in whole)
    _need_room(folder, missing * (2 * header["hidden_size"] + 8))
    return manifest


def _need_room(folder: Path, size: int) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise HeadwayError(f"The features can't be written to {folder}: {error.strerror}.") from error
    if free < size * 1.05:
        raise HeadwayError(
            f"The features need {size / 1e9:.2f} GB in {folder}, "
            f"and {free / 1e9:.2f} GB are free; make room or use fewer answers."
        )


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


def _write_shard(folder: Path, number: int, tensors: dict[str, Tensor]) -> dict[str, Any]:
    name = f"shard-{number:05d}.safetensors"
    partial = folder / f".{name}.partial"
    try:
        save_file(tensors, partial)
        flush_to_disk(partial)
        os.replace(partial, folder / name)
        flush_to_disk(folder)
    except (OSError, SafetensorError) as error:
        partial.unlink(missing_ok=True)
        raise HeadwayError(f"The features could not be written to {folder}: {error}.") from error
    path = folder / name
    return {"file": name, "positions": len(tensors["next"]), "bytes": path.stat().st_size, "sha256": file_sha256(path)}


def _read_manifest(folder: Path) -> dict[str, Any] | None:
    path = folder / MANIFEST
    if not path.is_file():
        return None
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise HeadwayError(f"{path} is damaged; delete the folder and capture the features again.") from error
    return manifest


def _check_shard(folder: Path, shard: dict[str, Any]) -> None:
    path = folder / shard["file"]
    if not path.is_file() or path.stat().st_size != shard["bytes"] or file_sha256(path) != shard["sha256"]:
        raise HeadwayError(f"{path} is damaged or missing; capture the features again, whole shards are kept.")
