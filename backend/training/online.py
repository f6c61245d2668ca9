"""Features made while training: the target reads every batch just before it is learned from, and nothing is kept.

For data whose states do not fit on the disk, or that are read once or twice only. States are not halved, so a run's
curve is that of a cached one up to half precision. A pass draws nothing at random, so a killed run that goes on takes
the same steps. Knows no drafter: it is told layers.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from backend.drafters.learning import SequenceBatch
from backend.targets.target import FINAL, Target
from backend.training.captures import TokenizedAnswer, answers_digest, identity
from backend.training.features import PositionFeatures, usable_answers
from backend.training.order import TextOrder
from backend.training.shards import makes
from backend.training.text_features import SAMPLE, checked_layers, size_of_states, states_of

READ_TOKENS = 4096  #: tokens a pass, padding included; as in a capture


class OnlineTexts(TextOrder):
    """Whole texts: the batches of a TextFeatureStore, in the same order. Raises HeadwayError when no answer can be used
    or a layer does not exist.
    """

    def __init__(self, target: Target, answers: Sequence[TokenizedAnswer], reads: Sequence[int]) -> None:
        self._target, self.reads = target, tuple(reads)
        self._answers = usable_answers(target, answers)
        self._layers = checked_layers(target, reads)
        super().__init__([_length(answer) for answer in self._answers])
        self.fingerprint = _identity(target, self._answers, self.reads)

    def __len__(self) -> int:
        """Tokens of answers, those that are learned from."""
        return sum(len(answer.answer_ids) for answer in self._answers)

    def batch(self, texts: Tensor, horizon: int) -> SequenceBatch:
        """See TextFeatureStore.batch; the states are on the target's device."""
        chosen = [self._answers[number] for number in texts.tolist()]
        rows, width, size = len(chosen), max(map(_length, chosen), default=0), self._target.hidden_size
        tokens, learn = torch.zeros(rows, width, dtype=torch.int64), torch.zeros(rows, width, dtype=torch.bool)
        found = torch.zeros(rows, width, size * len(self._layers), device=self._target.device)
        for row, (answer, states) in enumerate(zip(chosen, _read(self._target, chosen, self._layers), strict=True)):
            tokens[row, : len(states)] = torch.tensor([*answer.prompt_ids, *answer.answer_ids])
            learn[row, len(answer.prompt_ids) : len(states)] = True
            found[row, : len(states)] = states
        parts = dict(zip(self._layers, found.split(size, dim=-1), strict=True))
        side_by_side = torch.cat([parts[layer] for layer in self.reads], dim=-1)
        return SequenceBatch(tokens, side_by_side, parts[FINAL], learn)

    def state_sizes(self) -> dict[int, tuple[float, float]]:
        """See TextFeatureStore.state_sizes."""
        first, tokens = 0, 0
        while first < len(self._answers) and tokens < SAMPLE:
            tokens, first = tokens + _length(self._answers[first]), first + 1
        found = torch.cat(_read(self._target, self._answers[:first], self._layers))
        parts = dict(zip(self._layers, found.split(self._target.hidden_size, dim=-1), strict=True))
        return {layer: size_of_states(parts[layer]) for layer in self.reads}


class OnlinePositions(PositionFeatures):
    """Single positions. `ahead`: batches hold the states at the following positions too.

    The order differs from that of cached positions. There each batch is drawn from all positions of all answers, which
    would let the target read a whole text for one of them. Here the texts are mixed, and batches are cut out of their
    positions in a row: a batch holds the positions of a few whole texts, and of one or two that end in another batch.
    Epochs have as many batches of as many positions as cached ones, and evaluation is the same.
    """

    def __init__(self, target: Target, answers: Sequence[TokenizedAnswer], ahead: bool = False) -> None:
        self._target, self._answers = target, usable_answers(target, answers)
        counts = torch.tensor([len(answer.answer_ids) for answer in self._answers])
        self._ends = counts.cumsum(0)
        self._starts = self._ends - counts
        following = torch.tensor([token for a in self._answers for token in a.answer_ids], dtype=torch.int32)
        left = torch.cat([torch.arange(int(count), 0, -1, dtype=torch.int32) for count in counts])
        super().__init__(following, left, target.hidden_size, ahead)
        self._fingerprint = _identity(target, self._answers, None)

    @property
    def fingerprint(self) -> str:
        return self._fingerprint

    def epoch(self, batch_tokens: int, seed: int) -> Sequence[Tensor]:
        generator = torch.Generator().manual_seed(seed)
        mixed = torch.randperm(len(self._answers), generator=generator).tolist()
        order = torch.cat([torch.arange(int(self._starts[text]), int(self._ends[text])) for text in mixed])
        return [order[place * batch_tokens :][:batch_tokens] for place in range(self.per_epoch(batch_tokens))]

    def states(self, positions: Tensor) -> Tensor:
        texts = torch.bucketize(positions, self._ends, right=True)
        read, which = texts.unique(return_inverse=True)
        chosen = [self._answers[number] for number in read.tolist()]
        found = [
            states[len(answer.prompt_ids) - 1 : -1]  # the last token predicts nothing that is known
            for answer, states in zip(chosen, _read(self._target, chosen, (FINAL,)), strict=True)
        ]
        ends = torch.tensor([len(states) for states in found]).cumsum(0)
        before = torch.cat([ends.new_zeros(1), ends])[which]
        rows = before + positions - self._starts[texts]
        return torch.cat(found)[rows.to(self._target.device)]


def _read(target: Target, answers: Sequence[TokenizedAnswer], layers: Sequence[int]) -> list[Tensor]:
    """The states of `layers` side by side at every token of each text, float32 [n, F], on the target's device."""
    found: list[Tensor] = [torch.empty(0)] * len(answers)
    for group in TextOrder([_length(answer) for answer in answers]).in_order(READ_TOKENS):
        states = states_of(target, [answers[number] for number in group.tolist()], layers)
        for row, number in enumerate(group.tolist()):
            # A copy: what a pass gives is made for inference and can't be kept for a gradient.
            found[number] = states[row, : _length(answers[number])].to(torch.float32, copy=True)
    return found


def _identity(target: Target, answers: Sequence[TokenizedAnswer], reads: Sequence[int] | None) -> str:
    header = {
        "weights_id": target.identity.weights_id,
        "hidden_size": target.hidden_size,
        "answers": answers_digest(answers),
    }
    return identity(header, makes(target), reads, online=True)


def _length(answer: TokenizedAnswer) -> int:
    return len(answer.prompt_ids) + len(answer.answer_ids)
