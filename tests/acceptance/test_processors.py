"""Processed logits are transformers' own, whatever is on; bad settings are refused; seen tokens follow the path."""

from __future__ import annotations

import itertools

import pytest
import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

from backend.acceptance import SamplingSettings, mark_seen, process_logits, seen_by_node, seen_tokens
from backend.acceptance.walk import TargetRows
from backend.errors import HeadwayError
from tests.acceptance.cases import VOCAB, random_case

V = 50
COMBINATIONS = [
    SamplingSettings(*values)
    for values in itertools.product((0.0, 0.6, 1.0), (0, 7, 500), (1.0, 0.8), (0.0, 0.1), (1.0, 1.4), ((), (3, 1, 49)))
]


@pytest.fixture(scope="module")
def model() -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=V, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1, eos_token_id=None
    )
    return LlamaForCausalLM(config)


def transformers_logits(
    model: LlamaForCausalLM, settings: SamplingSettings, context: torch.Tensor, logits: torch.Tensor
):
    """What `generate` with the same settings makes of logits [B, V] after context [B, C]."""
    config = GenerationConfig(
        do_sample=not settings.greedy,
        repetition_penalty=settings.repetition_penalty,
        suppress_tokens=list(settings.banned_tokens) or None,
    )
    if not settings.greedy:
        config.update(
            temperature=settings.temperature, top_k=settings.top_k, top_p=settings.top_p, min_p=settings.min_p or None
        )
    config, _ = model._prepare_generation_config(config)
    model._prepare_special_tokens(config, device=torch.device("cpu"))
    processors = model._get_logits_processor(generation_config=config, input_ids_seq_length=context.shape[1])
    return processors(context, logits.clone())


@pytest.mark.parametrize("settings", COMBINATIONS, ids=str)
def test_equal_to_transformers(model: LlamaForCausalLM, settings: SamplingSettings):
    g = torch.Generator().manual_seed(1)
    logits = 3 * torch.randn(16, V, generator=g)
    context = torch.randint(0, V, (16, 12), generator=g)
    seen = seen_tokens(context, torch.full((16,), 12), V)
    expected = transformers_logits(model, settings, context, logits)
    assert torch.equal(process_logits(logits, settings, seen), expected)
    # A whole tree's rows at once are the same rows.
    tree_shaped = process_logits(logits.view(2, 8, V), settings, seen.view(2, 8, V))
    assert torch.equal(tree_shaped.view(16, V), expected)


def test_top_p_breaks_ties_as_transformers_does(model: LlamaForCausalLM):
    logits = torch.randint(0, 4, (64, V), generator=torch.Generator().manual_seed(2)).float()
    for settings in (SamplingSettings(1.0, top_p=0.7), SamplingSettings(1.0, top_k=9, top_p=0.5)):
        expected = transformers_logits(model, settings, torch.zeros(64, 1, dtype=torch.int64), logits)
        assert torch.equal(process_logits(logits, settings), expected)


def test_at_temperature_zero_only_penalty_and_ban_apply():
    logits = torch.randn(4, V)
    warped = SamplingSettings(0.0, top_k=2, top_p=0.1, min_p=0.9, banned_tokens=(5,))
    assert torch.equal(process_logits(logits, warped), process_logits(logits, SamplingSettings(banned_tokens=(5,))))
    assert process_logits(logits, SamplingSettings(top_k=2)) is logits  # nothing on, nothing done


def test_half_precision_logits_are_processed_in_float32():
    logits = torch.randn(4, V).bfloat16()
    assert torch.equal(process_logits(logits, SamplingSettings(0.7)), logits.float() / 0.7)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"temperature": -1.0}, r"temperature must be 0 .* 0\.001 to 100, but it is -1\.0"),
        ({"temperature": 1e-9}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"top_k": -1}, "Top-k must be 0 .* but it is -1"),
        ({"top_p": 0.0}, r"Top-p must be above 0 .* but it is 0\.0"),
        ({"top_p": 1.1}, "Top-p"),
        ({"min_p": 2.0}, r"Min-p must be 0 .* to 1, but it is 2\.0"),
        ({"repetition_penalty": 0.0}, r"repetition penalty must be 0\.01 to 100 .* but it is 0\.0"),
        ({"repetition_penalty": float("inf")}, "repetition penalty"),
        ({"banned_tokens": (4, -2)}, "banned token must be 0 or more, but it is -2"),
    ],
)
def test_settings_out_of_range_are_refused(arguments: dict, message: str):
    with pytest.raises(HeadwayError, match=message):
        SamplingSettings(**arguments)


def test_a_banned_token_outside_the_vocabulary_is_refused():
    with pytest.raises(HeadwayError, match="Banned token 50 is not in the vocabulary, which ends at 49"):
        process_logits(torch.zeros(1, V), SamplingSettings(banned_tokens=(50,)))


def test_a_penalty_without_seen_tokens_is_a_programming_error():
    with pytest.raises(ValueError, match="seen"):
        process_logits(torch.zeros(1, V), SamplingSettings(repetition_penalty=2.0))


def test_seen_tokens_are_those_before_the_length_and_grow():
    tokens = torch.tensor([[3, 5, 3, 9], [0, 2, 4, 6], [7, 7, 7, 7]])
    seen = seen_tokens(tokens, torch.tensor([2, 4, 0]), 10)
    assert [row.nonzero()[:, 0].tolist() for row in seen] == [[3, 5], [0, 2, 4, 6], []]
    grown = mark_seen(seen, torch.tensor([[0, -1, 8], [-1, -1, -1], [1, 1, -1]]))
    assert grown is seen
    assert [row.nonzero()[:, 0].tolist() for row in seen] == [[0, 3, 5, 8], [0, 2, 4, 6], [1]]


def test_a_node_has_seen_the_context_and_its_own_path():
    case = random_case(7, batch=6, nodes=12)
    seen = seen_by_node(case.seen, case.tree)
    for b in range(6):
        tree = case.slow_tree(b)
        for column in range(len(tree.tokens)):
            path = {tree.tokens[i] for i in [0, *tree.path(column)]}
            expected = path | set(case.seen[b].nonzero()[:, 0].tolist())
            assert set(seen[b, column].nonzero()[:, 0].tolist()) == expected
    # The walk, which looks at one column a row, sees the same.
    rows = case.rows(SamplingSettings(repetition_penalty=1.5))
    everywhere = process_logits(case.logits, rows.settings, seen)
    for column in range(int(case.tree.num_nodes.min()) + 1):
        assert torch.equal(rows.logits_at(torch.full((6,), column)), everywhere[:, column])


def test_without_a_penalty_nobody_asks_what_was_seen():
    case = random_case(7, batch=2, nodes=3)
    rows = TargetRows(case.tree, case.logits, SamplingSettings(0.5), None)
    assert rows.probs_at(torch.zeros(2, dtype=torch.int64)).shape == (2, VOCAB)
