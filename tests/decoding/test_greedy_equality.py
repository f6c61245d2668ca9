"""Greedy output with every kind of drafter and tree equals transformers' own `generate`, token for token.

Mismatches between two tokens whose logits differ by less than 1e-3 are rounding, not errors, and are counted apart.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
import torch

from backend.acceptance import SamplingSettings
from backend.decoding.loop import DecodeSettings, decode
from backend.decoding.records import DecodeResult
from backend.drafters.base import Drafter
from backend.drafters.draft_model.drafter import DraftModelDrafter
from backend.drafters.ngram.config import NgramConfig
from backend.drafters.ngram.drafter import NgramDrafter
from backend.drafters.plain.drafter import PlainDrafter
from backend.targets.target import Target
from backend.trees import chain, product
from backend.trees.shapes import parse_tree
from tests.support.drafters import OracleDrafter, random_medusa
from tests.support.targets import plain_logits, random_text, reference_of, target_of

KINDS = ("llama", "qwen3", "mistral", "gemma2", "gpt_neox", "phi", "mixtral")
NEW = 18
PROMPTS = [random_text(11, 5), random_text(12, 17), random_text(13, 1), [*random_text(14, 6), *random_text(14, 6)]]
TIE = 1e-3

Make = Callable[[Target, list[list[int]]], Drafter]
DRAFTERS: dict[str, Make] = {
    "plain": lambda target, texts: PlainDrafter(),
    "ngram": lambda target, texts: NgramDrafter(NgramConfig(min_n=1, num_tokens=4)),
    "oracle-chain": lambda target, texts: OracleDrafter(texts, chain(5), hit=0.9),
    "oracle-product": lambda target, texts: OracleDrafter(texts, product([4, 2, 2]), hit=0.8),
    "oracle-ragged": lambda target, texts: OracleDrafter(texts, parse_tree("medusa-63"), hit=0.9, ragged=True),
    "medusa": lambda target, texts: random_medusa(target, parse_tree("medusa-63")),
    "draft-model": lambda target, texts: DraftModelDrafter(target_of("llama", 9), target.vocab_size, product([3, 2])),
    "draft-itself": lambda target, texts: DraftModelDrafter(target, target.vocab_size, chain(4)),
}


@cache
def generated(kind: str) -> tuple[tuple[int, ...], ...]:
    """What transformers' generate says after each prompt, up to and with the end token."""
    answers = []
    for prompt in PROMPTS:
        ids = torch.tensor([prompt])
        out = reference_of(kind).generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW, do_sample=False)
        answers.append(tuple(out[0, len(prompt) :].tolist()))
    return tuple(answers)


def is_tie(kind: str, prompt: list[int], got: list[int], expected: tuple[int, ...]) -> bool:
    """Whether the first place at which two answers differ is a choice between logits closer than TIE."""
    place = next((i for i, (a, b) in enumerate(zip(got, expected, strict=False)) if a != b), None)
    if place is None:
        return False
    logits = plain_logits(reference_of(kind), prompt + got[:place])[-1]
    return bool((logits[got[place]] - logits[expected[place]]).abs() < TIE)


def answers(target: Target, drafter: Drafter, batch: int, prompts: list[list[int]]) -> list[DecodeResult]:
    settings = DecodeSettings(max_new_tokens=NEW, sampling=SamplingSettings())
    records = decode(target, drafter, prompts, settings, batch)
    return sorted((record for record in records if isinstance(record, DecodeResult)), key=lambda record: record.row)


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_every_drafter_equals_generate(kind: str, batch: int) -> None:
    target, expected = target_of(kind), generated(kind)
    texts = [prompt + list(answer) for prompt, answer in zip(PROMPTS, expected, strict=True)]
    chosen = [1, 3] if batch == 1 else [0, 1, 2, 3]
    ties, accepted = 0, dict.fromkeys(DRAFTERS, 0)
    for name, make in DRAFTERS.items():
        results = answers(target, make(target, texts), batch, [PROMPTS[i] for i in chosen])
        for i, result in zip(chosen, results, strict=True):
            accepted[name] += result.num_accepted
            if tuple(result.tokens) != expected[i]:
                assert is_tie(kind, PROMPTS[i], result.tokens, expected[i]), f"{name}: {result.tokens} {expected[i]}"
                ties += 1
    assert ties <= 1
    for name in ("oracle-chain", "oracle-product", "oracle-ragged", "draft-itself"):
        assert accepted[name] > 5, f"{name} must accept something, or it proves nothing: {accepted}"


@pytest.mark.parametrize("sampling", [{"repetition_penalty": 1.4}, {"banned_tokens": True}, {"both": True}])
def test_penalty_and_banned_tokens_equal_generate(sampling: dict[str, object]) -> None:
    target, model = target_of("llama"), reference_of("llama")
    prompt = PROMPTS[3]
    free = generated("llama")[3]
    banned = sorted({*free[:3]}) if "repetition_penalty" not in sampling else []
    penalty = 1.4 if "banned_tokens" not in sampling else 1.0
    ids = torch.tensor([prompt])
    extra = {"suppress_tokens": banned} if banned else {}
    out = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=NEW,
        do_sample=False,
        repetition_penalty=penalty,
        **extra,
    )
    expected = out[0, len(prompt) :].tolist()
    assert tuple(expected) != free
    settings = DecodeSettings(NEW, sampling=SamplingSettings(repetition_penalty=penalty, banned_tokens=tuple(banned)))
    drafter = OracleDrafter([prompt + expected, prompt + list(free)], product([4, 2, 2]), hit=0.9)
    *_, result = decode(target, drafter, [prompt], settings)
    assert isinstance(result, DecodeResult) and result.tokens == expected and result.num_accepted > 3
