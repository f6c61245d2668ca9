"""Tiny targets: the tokenizer gives text back unchanged, models are reproducible and use their context."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer

from backend.targets.tiny import KINDS, VOCAB_SIZE, tiny_checkpoint, tiny_model, tiny_tokenizer

TOKENIZER = tiny_tokenizer()


@given(st.text())
def test_tokenizer_gives_any_text_back(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER(text).input_ids) == text


def test_a_token_is_a_byte_and_specials_follow() -> None:
    assert TOKENIZER("é🙂").input_ids == list("é🙂".encode())
    assert len(TOKENIZER) == VOCAB_SIZE == 260
    assert (TOKENIZER.bos_token_id, TOKENIZER.eos_token_id, TOKENIZER.pad_token_id) == (256, 258, 259)


def test_chat_template_marks_turns_and_assistant_tokens() -> None:
    turns = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}]
    text = TOKENIZER.apply_chat_template(turns[:1], tokenize=False, add_generation_prompt=True)
    assert text == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    encoded = TOKENIZER.apply_chat_template(turns, return_dict=True)
    assert encoded["input_ids"][-5:] == [10, *b"yo", 258, 10]


@pytest.mark.parametrize("kind", KINDS)
def test_model_is_reproducible_and_looks_at_its_context(kind: str) -> None:
    model, again, other = tiny_model(kind, seed=1), tiny_model(kind, seed=1), tiny_model(kind, seed=2)
    tokens = torch.randint(0, 256, (2, 12), generator=torch.Generator().manual_seed(0))  # [2, 12]
    changed = tokens.clone()
    changed[:, 6] = (changed[:, 6] + 1) % 256
    with torch.no_grad():
        logits = model(input_ids=tokens).logits
        assert torch.equal(logits, again(input_ids=tokens).logits)
        assert not torch.allclose(logits, other(input_ids=tokens).logits, atol=0.1)
        moved = (model(input_ids=changed).logits - logits).abs()
    assert moved[:, :6].max() < 1e-4  # causal
    assert moved[:, -1].max() > 0.5  # and not blind to what came before
    top = logits.softmax(-1).amax(-1)
    assert 0.05 < top.median() < 0.6
    assert not model.training and logits.dtype == torch.float32 and logits.shape == (2, 12, VOCAB_SIZE)


def test_vocabulary_and_settings_can_be_chosen() -> None:
    model = tiny_model("llama", vocab_size=32, num_hidden_layers=1)
    assert model.config.vocab_size == 32 and model.config.num_hidden_layers == 1
    assert model.config.eos_token_id is None
    assert tiny_model("llama").config.eos_token_id == 258


def test_global_random_state_is_left_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    tiny_model("llama")
    assert torch.equal(torch.rand(3), expected)


def test_unknown_kind_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"llama, qwen2.*got 'nope'"):
        tiny_model("nope")


def test_checkpoint_loads_again(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "tiny", "gemma2", seed=3)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tokens = torch.tensor([[1, 2, 3]])
    with torch.no_grad():
        assert torch.equal(model(input_ids=tokens).logits, tiny_model("gemma2", seed=3)(input_ids=tokens).logits)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer("hé").input_ids == TOKENIZER("hé").input_ids
    assert tokenizer.chat_template == TOKENIZER.chat_template
