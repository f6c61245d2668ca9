"""Trees on every supported family against plain passes: logits, commit, padding, windows, chunks, taps."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM

from backend.errors import HeadwayError
from backend.targets import target as target_module
from backend.targets.kv_cache import KVCache
from backend.targets.self_test import examine, tree_pass_error
from backend.targets.target import Target, commit
from backend.targets.tiny import tiny_model
from backend.targets.width import WIDTHS, fastest_width
from backend.trees import DraftTree
from tests.support.targets import SUPPORTED, plain_logits, random_text, reference_of, target_of, wrap

PROMPTS = [random_text(seed, length) for seed, length in enumerate((3, 20, 9, 14))]  # some longer than a window of 8
PARENTS = [  # ragged: padding in three rows of four
    [-1, 0, 0, 1, 1, 2, 3],
    [-1, 0, 1, 2, -1, -1, -1],
    [-1, -1, -1, -1, -1, -1, -1],
    [-1, 0, 0, 0, 3, 4, -1],
]
ACCEPTED = [[1, 4], [1, 2, 3], [], [3]]  # a path in each row's tree
DEPTH = 3


def trees(seed: int, rows: list[int]) -> DraftTree:
    tokens = torch.tensor([random_text(seed + row, len(PARENTS[row])) for row in rows])
    nodes = torch.tensor([sum(parent >= 0 for parent in PARENTS[row]) for row in rows])
    return DraftTree(tokens, torch.tensor([PARENTS[row] for row in rows]), nodes, DEPTH)


def path_of(parents: list[int], node: int) -> list[int]:
    return [0] if node == 0 else [*path_of(parents, parents[node]), node]


def without_padding(tree: DraftTree, row: int) -> DraftTree:
    width, one = int(tree.num_nodes[row]) + 1, slice(row, row + 1)
    return DraftTree(tree.tokens[one, :width], tree.parents[one, :width], tree.num_nodes[one], min(DEPTH, width - 1))


def assert_rows_equal_plain_passes(
    model: Any, texts: list[list[int]], tree: DraftTree, logits: Tensor, rows: list[int]
) -> None:
    """Every real node's logits equal those of one plain pass over the text and the node's path."""
    for at, row in enumerate(rows):
        parents, tokens = PARENTS[row], tree.tokens[at].tolist()
        real = [0, *(node for node, parent in enumerate(parents) if parent >= 0)]
        for leaf in [node for node in real if node not in parents]:
            path = path_of(parents, leaf)
            plain = plain_logits(model, texts[row] + [tokens[node] for node in path])[-len(path) :]
            torch.testing.assert_close(logits[at, path], plain, atol=2e-4, rtol=1e-4)


def prefilled(target: Target, rows: list[int], capacity: int = 48) -> KVCache:
    cache = target.new_cache(len(rows), capacity)
    for at, row in enumerate(rows):
        target.prefill(cache, at, PROMPTS[row])
    return cache


@pytest.mark.parametrize("kind", SUPPORTED)
def test_trees_equal_plain_passes_before_and_after_a_commit(kind: str) -> None:
    target, model, rows = target_of(kind), reference_of(kind), [0, 1, 2, 3]
    cache, first = prefilled(target, rows), trees(100, rows)
    out = target.tree_pass(cache, first)
    assert_rows_equal_plain_passes(model, PROMPTS, first, out.logits, rows)

    path = torch.tensor([[*kept, *[-1] * (DEPTH - len(kept))] for kept in ACCEPTED])
    commit(cache, slice(0, 4), path)([1 + len(kept) for kept in ACCEPTED])
    texts = [
        prompt + [int(first.tokens[row, node]) for node in [0, *ACCEPTED[row]]] for row, prompt in enumerate(PROMPTS)
    ]
    assert cache.lengths == [len(text) for text in texts]
    second = trees(200, rows)
    assert_rows_equal_plain_passes(model, texts, second, target.tree_pass(cache, second).logits, rows)


@pytest.mark.parametrize("kind", SUPPORTED)
def test_a_padded_row_equals_the_same_row_alone(kind: str) -> None:
    target = target_of(kind)
    together = target.tree_pass(prefilled(target, [0, 1, 2, 3]), trees(100, [0, 1, 2, 3]))
    for row in (1, 3):
        tree = without_padding(trees(100, [0, 1, 2, 3]), row)
        alone = target.tree_pass(prefilled(target, [row]), tree)
        width = tree.width
        torch.testing.assert_close(together.logits[row, :width], alone.logits[0], atol=2e-4, rtol=1e-4)
        torch.testing.assert_close(together.hidden[row, :width], alone.hidden[0], atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", ["llama", "mistral", "gemma3", "gpt2", "deepseek_v3"])
def test_prefill_in_chunks_equals_prefill_in_one_piece(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target, rows = target_of(kind), [0, 1]
    whole, tree = prefilled(target, rows), trees(100, rows)
    expected = target.tree_pass(whole, tree).logits
    hidden = target.prefill(target.new_cache(1, 30), 0, PROMPTS[1])
    monkeypatch.setattr(target_module, "PREFILL_CHUNK", 7)
    pieces = prefilled(target, rows)
    assert pieces.lengths == whole.lengths
    torch.testing.assert_close(target.tree_pass(pieces, tree).logits, expected, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(target.prefill(target.new_cache(1, 30), 0, PROMPTS[1]), hidden, atol=1e-4, rtol=1e-4)
    assert hidden.shape == (1, target.hidden_size)


@pytest.mark.parametrize("kind", SUPPORTED)
def test_taps_are_the_states_entering_the_layers(kind: str) -> None:
    target, model, ids = target_of(kind), reference_of(kind), random_text(5, 12)
    left: list[Tensor] = []
    blocks = target_module._decoder_layers(model, model.config.get_text_config(decoder=True))
    handle = blocks[-1].register_forward_hook(lambda _m, _a, out: left.append(out[0] if type(out) is tuple else out))
    with torch.no_grad():
        states = model(input_ids=torch.tensor([ids]), output_hidden_states=True, use_cache=False).hidden_states
    handle.remove()
    with target.tapped(range(target.num_layers + 1)) as taps:
        final = target.hidden_states(torch.tensor([ids]), torch.ones(1, 12, dtype=torch.bool))
    assert sorted(taps.states) == list(range(target.num_layers + 1)) and len(states) == target.num_layers + 1
    for layer in range(target.num_layers):
        torch.testing.assert_close(taps.states[layer], states[layer], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(taps.states[target.num_layers], left[0].view(1, 12, -1), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(final, states[-1], atol=1e-4, rtol=1e-4)  # transformers' last is after the norm


def test_taps_keep_only_what_was_asked_and_end_with_the_block() -> None:
    target, ids, mask = target_of("llama"), torch.tensor([[1, 2, 3]]), torch.ones(1, 3, dtype=torch.bool)
    with target.tapped([1]) as taps:
        target.hidden_states(ids, mask)
    assert list(taps.states) == [1]
    before = taps.states[1].clone()
    target.hidden_states(ids + 5, mask)
    assert torch.equal(taps.states[1], before)
    with pytest.raises(HeadwayError, match=r"Layer 4 does not exist: .* has layers 0 to 3"), target.tapped([4]):
        pass


@pytest.mark.parametrize(
    ("kind", "setting", "value"),
    [("cohere", "logit_scale", 0.5), ("granite", "logits_scaling", 2.0), ("gemma2", "final_logit_softcapping", 30.0)],
)
def test_logits_of_hidden_states_carry_the_familys_scale(kind: str, setting: str, value: float) -> None:
    target, ids = target_of(kind), random_text(6, 10)
    assert getattr(target.config, setting) == value
    hidden = target.hidden_states(torch.tensor([ids]), torch.ones(1, 10, dtype=torch.bool))
    torch.testing.assert_close(target.logits(hidden)[0], plain_logits(reference_of(kind), ids), atol=2e-4, rtol=1e-4)
    plain_head = hidden[0] @ target.lm_head_weight().T
    assert not torch.allclose(plain_head, target.logits(hidden)[0], atol=0.05)  # the scale is not idle here


def test_teacher_forced_states_of_padded_rows() -> None:
    target, texts = target_of("mistral"), [random_text(7, 12), random_text(8, 5)]
    ids = torch.tensor([texts[0], texts[1] + [0] * 7])
    mask = torch.tensor([[True] * 12, [True] * 5 + [False] * 7])
    states = target.hidden_states(ids, mask)
    alone = target.hidden_states(ids[1:, :5], mask[1:, :5])
    torch.testing.assert_close(states[1, :5], alone[0], atol=1e-4, rtol=1e-4)
    assert not states[1, 5:].any()


def test_attention_sinks_and_alternating_windows_of_gpt_oss() -> None:
    sizes = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 260, "head_dim": 16}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "num_local_experts": 4, "num_experts_per_tok": 2}
    kinds = {"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"], "initializer_range": 0.2}
    tokens = {"pad_token_id": 259, "eos_token_id": 258}
    config = AutoConfig.for_model("gpt_oss", **sizes, **heads, **kinds, **tokens)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    target, rows, tree = wrap(copy.deepcopy(model), "tiny-gpt-oss"), [0, 1, 2, 3], trees(100, [0, 1, 2, 3])
    assert target.attention == "headway" and model.config._attn_implementation == "eager"
    logits = target.tree_pass(prefilled(target, rows), tree).logits
    assert_rows_equal_plain_passes(model, PROMPTS, tree, logits, rows)


def test_longrope_caps_the_context_where_its_factors_would_switch() -> None:
    rope = {
        "rope_type": "longrope",
        "rope_theta": 10000.0,
        "short_factor": [1.0] * 8,
        "long_factor": [4.0] * 8,
        "original_max_position_embeddings": 64,
    }
    model = tiny_model("phi3", rope_parameters=rope, original_max_position_embeddings=64)
    target = wrap(model)
    assert target.max_context == 64
    assert tree_pass_error(target) < 1e-4
    assert target_of("phi3").max_context == 1024 and target_of("gpt2").max_context == 1024


def test_what_a_target_says_of_itself() -> None:
    target = target_of("llama")
    assert (target.hidden_size, target.vocab_size, target.num_layers) == (64, 260, 3)
    assert target.eos_token_ids == frozenset({258})
    assert target.num_parameters == sum(p.numel() for p in tiny_model("llama").parameters())
    assert torch.equal(target.lm_head_weight(), tiny_model("llama").lm_head.weight)
    assert torch.equal(target.embedding_weight(), tiny_model("llama").model.embed_tokens.weight)
    assert target_of("gemma2").num_parameters == sum(p.numel() for p in tiny_model("gemma2").parameters())  # tied: once
    examine(target)


def test_a_wider_narrowest_pass_changes_nothing_but_time() -> None:
    target = target_of("llama")
    text, tree = random_text(0, 12), DraftTree.root_only(torch.tensor([5]))
    narrow = target.new_cache(1, 16)
    target.prefill(narrow, 0, text)
    expected = target.tree_pass(narrow, tree)
    target.min_width = 5
    try:
        wide = target.new_cache(1, 13)  # no room to spare for the padding
        target.prefill(wide, 0, text)
        found = target.tree_pass(wide, tree)
        assert found.logits.shape == expected.logits.shape and found.hidden.shape == expected.hidden.shape
        assert torch.allclose(found.logits, expected.logits, atol=1e-5)
    finally:
        target.min_width = 1


def test_the_narrowest_pass_is_one_of_those_measured() -> None:
    assert fastest_width(target_of("llama")) in WIDTHS
