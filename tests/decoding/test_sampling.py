"""Sampled decoding through the whole loop follows the target's own distribution, whoever drafts."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch

from backend.acceptance import Rule, SamplingSettings, process_logits
from backend.analysis.chi_square import conditional_p_value
from backend.decoding.loop import DecodeSettings, decode
from backend.decoding.records import DecodeResult
from backend.drafters.base import Drafter
from backend.drafters.draft_model.drafter import DraftModelDrafter
from backend.targets.target import Target
from backend.targets.tiny import tiny_model
from backend.trees import product
from tests.support.drafters import random_medusa
from tests.support.targets import wrap

V, SAMPLES, NEW, PROMPT = 8, 600, 3, [3, 1, 4]


@cache
def target() -> Target:
    return wrap(tiny_model("llama", vocab_size=V))


@cache
def draft_target() -> Target:
    return wrap(tiny_model("llama", seed=4, vocab_size=V))


@cache
def law(sampling: SamplingSettings, context: tuple[int, ...]) -> np.ndarray:
    """The target's own distribution of the next token, float64 [V]."""
    seen = torch.zeros(1, V, dtype=torch.bool)
    seen[0, list(context)] = True
    ids = torch.tensor([context])
    hidden = target().hidden_states(ids, torch.ones_like(ids, dtype=torch.bool))
    return process_logits(target().logits(hidden[:, -1]), sampling, seen)[0].double().softmax(-1).numpy()


def make(name: str) -> Drafter:
    shape = product([3, 2])
    return {
        "medusa-chosen": lambda: random_medusa(target(), shape),
        "medusa-sampled": lambda: random_medusa(target(), shape).with_sampled(True),
        "draft-sampled": lambda: DraftModelDrafter(draft_target(), V, shape, sampled=True),
    }[name]()


def p_value(drafter: Drafter, sampling: SamplingSettings) -> float:
    """Of every token given the tokens before it; the first is prefill's, the others come from one or two steps."""
    counts: dict[tuple[int, ...], np.ndarray] = {}
    settings = DecodeSettings(NEW, Rule("rejection"), sampling, seed=11, ignore_eos=True)
    accepted = 0
    for record in decode(target(), drafter, [PROMPT] * SAMPLES, settings, batch=200):
        if isinstance(record, DecodeResult):
            accepted += record.num_accepted
            for place in range(NEW):
                counts.setdefault(tuple(record.tokens[:place]), np.zeros(V))[record.tokens[place]] += 1
    assert accepted > SAMPLES / 4
    seen = np.stack(list(counts.values()))
    return conditional_p_value(seen, np.stack([law(sampling, (*PROMPT, *context)) for context in counts]))


@pytest.mark.slow_stat
@pytest.mark.parametrize("name", ["medusa-chosen", "medusa-sampled", "draft-sampled"])
def test_the_first_tokens_follow_the_targets_law(name: str) -> None:
    assert p_value(make(name), SamplingSettings(1.0)) > 0.001


@pytest.mark.slow_stat
@pytest.mark.parametrize("name", ["medusa-chosen", "medusa-sampled"])
def test_they_do_so_with_penalty_ban_and_top_p(name: str) -> None:
    sampling = SamplingSettings(0.8, top_p=0.8, repetition_penalty=1.5, banned_tokens=(5,))
    assert p_value(make(name), sampling) > 0.001


@pytest.mark.slow_stat
def test_the_test_notices_another_temperature(monkeypatch: pytest.MonkeyPatch) -> None:
    right = law
    monkeypatch.setitem(globals(), "law", lambda _, context: right(SamplingSettings(1.5), context))
    assert p_value(make("medusa-chosen"), SamplingSettings(1.0)) < 0.001
