"""Drafters with a layer of their own on a few answers: made to overfit them, and held against themselves.

A head that overfits must draft its text; label offsets, wrong layers and wrong masks show there. What a drafter says
after many steps must be what it says of the same text read anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from backend.acceptance import Rule
from backend.decoding.loop import DecodeSettings, decode
from backend.decoding.records import DecodeResult
from backend.drafters.base import DraftContext
from backend.drafters.learning import SequenceBatch
from backend.drafters.plain.drafter import PlainDrafter
from backend.targets.target import FINAL, Target
from tests.acceptance.test_no_sync import NoSync
from tests.support.targets import random_text

Text = tuple[list[int], list[int]]  # prompt, answer

NUM_ANSWERS = 16


def self_distilled(target: Target, length: int, count: int = NUM_ANSWERS) -> list[Text]:
    """What the target answers greedily to random prompts."""
    prompts = [random_text(100 + number, 3 + number % 5, min(250, target.vocab_size)) for number in range(count)]
    settings = DecodeSettings(length, Rule("greedy"), ignore_eos=True)
    found = [r for r in decode(target, PlainDrafter(), prompts, settings, 8) if isinstance(r, DecodeResult)]
    return [(prompts[r.row], r.tokens) for r in sorted(found, key=lambda r: r.row)]


def prompts_of(texts: Sequence[Text], count: int = 4) -> list[list[int]]:
    return [prompt for prompt, _ in texts[:count]]


def batch_of(target: Target, reads: Sequence[int], texts: Sequence[Text]) -> SequenceBatch:
    width = max(len(prompt) + len(answer) for prompt, answer in texts)
    tokens, learn = torch.zeros(len(texts), width, dtype=torch.int64), torch.zeros(len(texts), width, dtype=torch.bool)
    inside = torch.zeros_like(learn)
    for row, (prompt, answer) in enumerate(texts):
        end = len(prompt) + len(answer)
        tokens[row, :end] = torch.tensor(prompt + answer)
        learn[row, len(prompt) : end] = True
        inside[row, :end] = True
    states = target.hidden_states(tokens, inside, reads).clone()
    return SequenceBatch(tokens, states, target.hidden_states(tokens, inside, (FINAL,)).clone(), learn)


def overfit(learner: Any, batch: SequenceBatch, steps: int, learning_rate: float = 3e-3) -> None:
    torch.manual_seed(0)
    optimiser = torch.optim.Adam(learner.model.parameters(), lr=learning_rate)
    learner.model.train()
    for _ in range(steps):
        optimiser.zero_grad()
        learner.loss(batch)[0].backward()
        optimiser.step()
    learner.model.eval()


def share_of_possible(target: Target, drafter: Any, texts: Sequence[Text]) -> float:
    """Acceptance length on the answers over the longest one possible, decoding greedily; asserts the text is theirs."""
    length = len(texts[0][1])
    settings = DecodeSettings(length, Rule("greedy"), ignore_eos=True)
    records = decode(target, drafter, [prompt for prompt, _ in texts], settings, 4)
    steps = 0
    for record in records:
        if isinstance(record, DecodeResult):
            assert record.tokens == texts[record.row][1]
            steps += record.num_steps
    fewest = -(-(length - 1) // (drafter.shape.max_depth + 1))  # the first token comes with the prompt
    return len(texts) * fewest / steps


def context_of(
    text: Sequence[Sequence[int]], states: Sequence[torch.Tensor], lengths: Sequence[int], fresh: Sequence[int]
) -> DraftContext:
    """Rows whose root is token lengths[b] - 1, with the states of the last fresh[b] positions before it."""
    width = max(fresh)
    tokens = torch.zeros(len(text), max(map(len, text)) + 4, dtype=torch.int64)
    new = torch.full((len(text), width, states[0].shape[-1]), 7.5)
    for row, (ids, length, count) in enumerate(zip(text, lengths, fresh, strict=True)):
        tokens[row, :length] = torch.tensor(ids[:length])
        new[row, :count] = states[row][length - 1 - count : length - 1]
    return DraftContext(
        tokens, torch.tensor(lengths), new[:, 0], 0.0, torch.Generator(), 16, list(lengths), new, torch.tensor(fresh)
    )


def check_incremental(target: Target, drafter: Any, prompt: int = 5) -> None:
    """Two rows that go on by different numbers of tokens: every draft is that of a drafter which reads all anew, and
    none makes a device and its host wait for each other.
    """
    texts = [random_text(50, 40), random_text(51, 40)]
    states = []
    for text in texts:
        ids = torch.tensor([text])
        states.append(target.hidden_states(ids, torch.ones_like(ids, dtype=torch.bool), drafter.reads)[0].clone())
    lengths, fresh = [prompt + 1, prompt + 4], [1, 1]
    drafter.start(2, 60)
    for row in range(2):
        drafter.replace_rows([row])
        drafter.read_prompt(row, torch.tensor(texts[row][: lengths[row]]), states[row][: lengths[row] - 1])
    for strides in ((1, 3), (2, 1), (4, 4), (1, 2), (3, 1), (1, 1)):
        with NoSync():
            found = drafter.draft(context_of(texts, states, lengths, fresh))
        anew = drafter.with_shape(drafter.shape)
        anew = anew if drafter.dynamic is None else anew.with_dynamic(drafter.dynamic)
        for row in range(2):
            anew.start(1, 60)
            anew.replace_rows([0])
            anew.read_prompt(0, torch.tensor(texts[row][: lengths[row]]), states[row][: lengths[row] - 1])
            alone = anew.draft(context_of([texts[row]], [states[row]], [lengths[row]], [1]))
            assert torch.equal(found.tree.tokens[row], alone.tree.tokens[0])
            torch.testing.assert_close(found.draft_prob[row, 1:], alone.draft_prob[0, 1:], atol=1e-4, rtol=1e-4)
        fresh = list(strides)
        lengths = [length + stride for length, stride in zip(lengths, strides, strict=True)]
