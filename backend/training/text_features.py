"""Cached features of whole texts: the target's states at every token of prompt and answer, for drafters with a layer of
their own.

What is kept are the layers that the drafter reads and the last hidden state, in half precision; shards and resuming are
those of training/shards.py. Knows no drafter: it is told layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from backend.drafters.learning import SequenceBatch
from backend.errors import Cancelled, HeadwayError
from backend.targets.target import FINAL, Target
from backend.training import shards
from backend.training.captures import (
    TEXTS,
    answers_digest,
    identity,
    made_in,
    read_texts,
    text_digests,
    write_texts,
)
from backend.training.features import CaptureConfig, TokenizedAnswer, gathered, usable_answers
from backend.training.order import TextOrder

HALF = torch.float16
SAMPLE = 4096  #: tokens that sizes of states are told from


def capture_texts(
    target: Target,
    answers: Sequence[TokenizedAnswer],
    reads: Sequence[int],
    folder: Path,
    config: CaptureConfig | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> TextFeatureStore:
    """Write the features of `answers` to `folder`, or finish a capture that was interrupted; `progress` gets (tokens
    done, all). `reads`: layers as in Target.tapped, FINAL for the last hidden state, which is kept in any case.

    Answers that do not fit the target's context, or are empty, are left out. Raises HeadwayError when the folder holds
    features of something else, when there is no room on the disk, when a layer does not exist or its states do not fit
    float16; Cancelled when asked to stop.
    """
    config = config or CaptureConfig()
    usable = usable_answers(target, answers)
    plan = list(_plan(usable, config.shard_positions))
    layers = checked_layers(target, reads)
    bytes_each = 2 * len(layers) * target.hidden_size + 4
    header, tokens = _header(target, usable, reads, config), sum(map(_length, usable))
    manifest = shards.start(folder, header, tokens, bytes_each, shards.makes(target))
    total, done = manifest["positions"], sum(shard["positions"] for shard in manifest["shards"])
    write_texts(folder, text_digests(usable))
    progress(done, total)
    for texts in plan[len(manifest["shards"]) :]:
        tensors = _shard(target, texts, layers, config.batch_tokens, should_stop)
        shards.add(folder, manifest, tensors, len(tensors["tokens"]))
        done += len(tensors["tokens"])
        progress(done, total)
    return TextFeatureStore(folder)


def text_feature_folder(
    parent: Path,
    target: Target,
    answers: Sequence[TokenizedAnswer],
    reads: Sequence[int],
    config: CaptureConfig | None = None,
) -> Path:
    """Where below `parent` these features lie: the same for the same content, layers, target, dtype and device."""
    header = _header(target, usable_answers(target, answers), reads, config or CaptureConfig())
    return shards.place(parent, header, target)


@dataclass(frozen=True)
class _Text:
    """Where a text lies: its shard, its first row there, its tokens, and how many of them are the prompt's."""

    shard: int
    start: int
    length: int
    prompt: int


class TextFeatureStore(TextOrder):
    """Features in a folder, memory-mapped. `reads`: what is read of the layers that are there; None: all, in the order
    they were asked for. `answers`: only these, in this order; None: all that are there.

    Raises HeadwayError when the folder is incomplete, damaged, or without one of these layers or answers.
    """

    def __init__(
        self, folder: Path, reads: Sequence[int] | None = None, answers: Sequence[TokenizedAnswer] | None = None
    ) -> None:
        manifest = shards.complete(folder)
        there = [int(layer) for layer in manifest["header"]["reads"]]
        self.reads = tuple(there if reads is None else reads)
        if missing := sorted({*self.reads} - {*there, FINAL}):
            raise HeadwayError(f"The features in {folder} hold no states of layer {missing[0]}; capture them again.")
        self.weights_id = str(manifest["header"]["weights_id"])
        self.made_by = made_in(folder, manifest)
        self.header: dict[str, Any] = manifest["header"]
        part = answers is not None and answers_digest(answers) != self.header["answers"]
        if answers is not None and part:
            self.header = self.header | {"answers": answers_digest(answers)}
        self.fingerprint = identity(self.header, self.made_by, self.reads)
        self.content = shards.content(manifest)  #: what runs of earlier versions were checked against
        self._tokens: list[Tensor] = []  # int32 [P] each
        self._states: list[dict[int, Tensor]] = []  # layer -> float16 [P, H]
        self._texts: list[_Text] = []
        for number, shard in enumerate(manifest["shards"]):
            with shards.opened(folder, shard) as file:
                self._tokens.append(file.get_tensor("tokens"))
                layers = {*self.reads, FINAL}
                self._states.append({layer: file.get_tensor(_name(layer)) for layer in layers})
                lengths, prompts = file.get_tensor("lengths").tolist(), file.get_tensor("prompts").tolist()
            start = 0
            for length, prompt in zip(lengths, prompts, strict=True):
                self._texts.append(_Text(number, start, length, prompt))
                start += length
        if answers is not None and part:
            self._texts = _chosen(folder, self._texts, text_digests(answers))
        super().__init__([text.length for text in self._texts])

    def __len__(self) -> int:
        """Tokens of answers, those that are learned from."""
        return sum(text.length - text.prompt for text in self._texts)

    @property
    def num_texts(self) -> int:
        return len(self._texts)

    def batch(self, texts: Tensor, horizon: int) -> SequenceBatch:
        """The texts with these numbers, int64 [B], whole: a text holds all that follows, so `horizon` is not needed."""
        chosen = [self._texts[number] for number in texts.tolist()]
        rows, width = len(chosen), max((text.length for text in chosen), default=0)
        tokens, learn = torch.zeros(rows, width, dtype=torch.int64), torch.zeros(rows, width, dtype=torch.bool)
        size = self._states[0][FINAL].shape[1] if self._states else 0
        states, final = torch.zeros(rows, width, len(self.reads) * size), torch.zeros(rows, width, size)
        for row, text in enumerate(chosen):
            here, found = slice(text.start, text.start + text.length), self._states[text.shard]
            tokens[row, : text.length] = self._tokens[text.shard][here]
            learn[row, text.prompt : text.length] = True
            final[row, : text.length] = found[FINAL][here]
            for place, layer in enumerate(self.reads):
                states[row, : text.length, place * size : (place + 1) * size] = found[layer][here]
        return SequenceBatch(tokens, states, final, learn)

    def answer_positions(self) -> tuple[Tensor, Tensor, Tensor]:
        """Of every position of an answer, in order: its row for `final`, int64 [P]; the token after it and how many
        following tokens there are, int32 [P] each.
        """
        tokens = torch.cat(self._tokens)
        before = [0, *torch.tensor([len(part) for part in self._tokens]).cumsum(0).tolist()]
        starts = [before[text.shard] + text.start for text in self._texts]
        rows = torch.cat([
            torch.arange(start + text.prompt - 1, start + text.length - 1)
            for start, text in zip(starts, self._texts, strict=True)
        ])  # fmt: skip
        left = torch.cat([torch.arange(text.length - text.prompt, 0, -1) for text in self._texts])
        return rows, tokens[rows + 1], left.to(torch.int32)

    def final(self, rows: Tensor) -> Tensor:
        """The last hidden states of these rows, int64 [T], counted through all texts -> float32 [T, H]."""
        return gathered([found[FINAL] for found in self._states], rows)

    def state_sizes(self) -> dict[int, tuple[float, float]]:
        """By layer that is read: the usual (median) root mean square of its states, and the largest number in them.

        Told from the first tokens of the folder.
        """
        return {layer: size_of_states(self._states[0][layer][:SAMPLE]) for layer in self.reads}


def _chosen(folder: Path, texts: Sequence[_Text], wanted: Sequence[str]) -> list[_Text]:
    """Those of `texts` with these digests, in their order; a text that stands there twice is taken once each time."""
    places: dict[str, list[_Text]] = {}
    for digest, text in zip(reversed(read_texts(folder)), reversed(texts), strict=False):
        places.setdefault(digest, []).append(text)
    try:
        return [places[digest].pop() for digest in wanted]
    except (KeyError, IndexError):
        raise HeadwayError(f"The features in {folder} do not hold all of these answers; capture them again.") from None


def size_of_states(states: Tensor) -> tuple[float, float]:
    """Of states [T, H]: the usual (median) root mean square, and the largest number."""
    whole = states.float()
    return float(whole.square().mean(-1).sqrt().median()), float(whole.abs().max())


def checked_layers(target: Target, reads: Sequence[int]) -> list[int]:
    """What is kept: the layers that are read, each once, and the last hidden state."""
    for layer in reads:
        if layer != FINAL and not 0 <= layer <= target.num_layers:
            raise HeadwayError(f"Layer {layer} does not exist: {target.name} has layers 0 to {target.num_layers}.")
    return [*dict.fromkeys(layer for layer in reads if layer != FINAL), FINAL]


def _name(layer: int) -> str:
    return "final" if layer == FINAL else f"layer.{layer}"


def _header(
    target: Target, answers: Sequence[TokenizedAnswer], reads: Sequence[int], config: CaptureConfig
) -> dict[str, Any]:
    return {
        "format": 1,
        "kind": TEXTS,
        "reads": list(reads),
        "weights_id": target.identity.weights_id,
        "hidden_size": target.hidden_size,
        "answers": answers_digest(answers),
        "shard_positions": config.shard_positions,
        "batch_tokens": config.batch_tokens,
    }


def _length(answer: TokenizedAnswer) -> int:
    return len(answer.prompt_ids) + len(answer.answer_ids)


def _plan(answers: Sequence[TokenizedAnswer], shard_tokens: int) -> Iterator[list[TokenizedAnswer]]:
    shard: list[TokenizedAnswer] = []
    tokens = 0
    for answer in answers:
        shard.append(answer)
        tokens += _length(answer)
        if tokens >= shard_tokens:
            yield shard
            shard, tokens = [], 0
    if shard:
        yield shard


@torch.no_grad()
def _shard(
    target: Target,
    answers: Sequence[TokenizedAnswer],
    layers: Sequence[int],
    batch_tokens: int,
    should_stop: Callable[[], bool],
) -> dict[str, Tensor]:
    """tokens int32 [P], a float16 [P, H] for each layer, lengths and prompts int32 [n], tokens of each text."""
    states: list[dict[int, Tensor]] = [{}] * len(answers)
    for group in _groups(answers, batch_tokens):
        if should_stop():
            raise Cancelled("The capture of features was stopped; started again, it goes on where it stopped.")
        for index, found in zip(group, _pass(target, [answers[i] for i in group], layers), strict=True):
            states[index] = found
    tokens = [token for a in answers for token in (*a.prompt_ids, *a.answer_ids)]
    return {
        "tokens": torch.tensor(tokens, dtype=torch.int32),
        "lengths": torch.tensor([_length(a) for a in answers], dtype=torch.int32),
        "prompts": torch.tensor([len(a.prompt_ids) for a in answers], dtype=torch.int32),
    } | {_name(layer): torch.cat([found[layer] for found in states]) for layer in layers}


def _groups(answers: Sequence[TokenizedAnswer], batch_tokens: int) -> list[list[int]]:
    order = TextOrder([_length(answer) for answer in answers])
    return [batch.tolist() for batch in order.in_order(batch_tokens)]


def _pass(target: Target, answers: Sequence[TokenizedAnswer], layers: Sequence[int]) -> list[dict[int, Tensor]]:
    """For each answer a float16 [n, H] by layer, on the CPU."""
    states = states_of(target, answers, layers)
    parts = dict(zip(layers, states.split(target.hidden_size, dim=-1), strict=True))
    for layer, part in parts.items():
        largest = float(part.abs().max())
        if not largest <= torch.finfo(HALF).max:
            where = "The last hidden states" if layer == FINAL else f"The states of layer {layer}"
            raise HeadwayError(
                f"{where} of {target.name} reach {largest:,.0f}, more than half precision holds "
                f"({torch.finfo(HALF).max:,.0f}), so they can't be cached; read other layers."
            )
    halves = {layer: part.to(HALF).cpu() for layer, part in parts.items()}
    return [{layer: half[row, : _length(a)].clone() for layer, half in halves.items()} for row, a in enumerate(answers)]


def states_of(target: Target, answers: Sequence[TokenizedAnswer], layers: Sequence[int]) -> Tensor:
    """The states of `layers` side by side at every token of prompts and answers, read in one pass: [B, T, F], 0 where a
    text is shorter.
    """
    width = max(map(_length, answers))
    ids = torch.zeros(len(answers), width, dtype=torch.int64)
    mask = torch.zeros(len(answers), width, dtype=torch.bool)
    for row, a in enumerate(answers):
        ids[row, : _length(a)] = torch.tensor([*a.prompt_ids, *a.answer_ids])
        mask[row, : _length(a)] = True
    return target.hidden_states(ids.to(target.device), mask.to(target.device), layers)
