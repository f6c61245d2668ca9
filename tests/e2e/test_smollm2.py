"""The built-in heads on the built-in target: lossless, useful, and refused where they do not belong."""

from __future__ import annotations

import pytest
import torch

from backend.acceptance import Rule, SamplingSettings
from backend.data.templates import encode_chat
from backend.decoding.loop import DecodeSettings, decode
from backend.decoding.records import DecodeResult
from backend.drafters.base import Drafter
from backend.drafters.plain.drafter import PlainDrafter
from backend.drafters.registry import load_drafter
from backend.errors import MismatchError
from backend.settings import Settings
from backend.targets.opening import open_target
from backend.targets.self_test import tree_pass_error
from backend.targets.target import Target
from backend.targets.tiny import tiny_model, tiny_tokenizer
from backend.trees import chain
from backend.trees.shapes import parse_tree

pytestmark = pytest.mark.e2e

QUESTIONS = ("What is the capital of France?", "Write a haiku about rain.", "Explain what a hash table is.")


def answers(
    target: Target, drafter: Drafter, batch: int = 1, temperature: float = 0.0, tokens: int = 48
) -> list[DecodeResult]:
    prompts = [encode_chat(target.tokenizer, [{"role": "user", "content": text}]) for text in QUESTIONS]
    settings = DecodeSettings(tokens, Rule("rejection"), SamplingSettings(temperature=temperature), seed=7)
    found = [r for r in decode(target, drafter, prompts, settings, batch) if isinstance(r, DecodeResult)]
    return sorted(found, key=lambda result: result.row)


def near_tie(target: Target, row: int, ours: list[int], theirs: list[int]) -> bool:
    """Whether two greedy answers part where the target's two logits are equal but for rounding."""
    place = next(i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b)
    ids = encode_chat(target.tokenizer, [{"role": "user", "content": QUESTIONS[row]}]) + theirs[:place]
    batch = torch.tensor([ids])
    logits = target.logits(target.hidden_states(batch, torch.ones_like(batch, dtype=torch.bool)))[0, -1]
    return float((logits[ours[place]] - logits[theirs[place]]).abs()) < 1e-3


@pytest.fixture(scope="module")
def plain(smollm2: Target) -> list[DecodeResult]:
    return answers(smollm2, PlainDrafter())


@pytest.mark.parametrize(
    ("heads", "tree"),
    [("medusa", None), ("medusa", "chain-3"), ("medusa", "medusa-63"), ("eagle3", None)],
)
def test_greedy_answers_do_not_change(smollm2: Target, plain: list[DecodeResult], heads: str, tree: str | None) -> None:
    assert "Paris" in plain[0].text
    drafter, warnings = load_drafter(f"builtin-{heads}", smollm2, parse_tree(tree) if tree else None)
    assert warnings == []
    for batch in (1, 3) if tree is None else (3,):
        drafted = answers(smollm2, drafter, batch)
        for row, (ours, theirs) in enumerate(zip(drafted, plain, strict=True)):
            assert ours.tokens == theirs.tokens or near_tie(smollm2, row, ours.tokens, theirs.tokens)
        assert sum(r.num_accepted for r in drafted) > 0.3 * sum(r.num_steps for r in drafted)


@pytest.mark.parametrize("sampled", [False, True])
def test_sampled_answers_accept_drafts_and_repeat_with_their_seed(smollm2: Target, sampled: bool) -> None:
    drafter, _ = load_drafter("builtin-medusa", smollm2, chain(2), sampled=sampled)
    found = answers(smollm2, drafter, 3, temperature=1.0, tokens=24)
    assert sum(result.num_accepted for result in found) > 0
    again = answers(smollm2, drafter, 3, temperature=1.0, tokens=24)
    assert [result.tokens for result in found] == [result.tokens for result in again]


def test_the_heads_are_refused_on_another_target() -> None:
    from backend.targets.identity import VersionIdentity

    model = tiny_model("llama")
    other = Target(
        model, tiny_tokenizer(), VersionIdentity("0" * 64, "none", "none", "1" * 64, "2" * 64, "other"), "other"
    )
    with pytest.raises(MismatchError, match="other"):
        load_drafter("builtin-medusa", other)


def test_it_passes_the_examination_in_half_precision_too() -> None:
    target = open_target("smollm2-135m", Settings.from_environ(), "cpu", "bfloat16")
    assert target.dtype == torch.bfloat16 and tree_pass_error(target) > 1e-3  # rounding is there, and is let pass
