"""The examination at the door: passes what is right, refuses what is not, and can fail."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from backend.errors import HeadwayError
from backend.targets import tree_pass
from backend.targets.self_test import examine, refuse_stateful, tolerance, tree_pass_error
from backend.targets.target import Target
from backend.targets.tiny import tiny_model
from tests.support.targets import SUPPORTED, target_of, wrap


def one_sentence(error: HeadwayError) -> bool:
    return str(error).endswith(".") and "\n" not in str(error)


@pytest.mark.parametrize("kind", SUPPORTED)
def test_every_supported_family_passes(kind: str) -> None:
    target = target_of(kind)
    assert tree_pass_error(target) < 1e-4
    examine(target)
    refuse_stateful(target.model)


def see_siblings(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    right = tree_pass.mask_inputs

    def wrong(*args):
        inputs = right(*args)
        return replace(inputs, ancestors=torch.ones_like(inputs.ancestors).tril())

    monkeypatch.setattr(tree_pass, "mask_inputs", wrong)


def count_columns_as_positions(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(inputs):
        return inputs.lengths[:, None] + torch.arange(inputs.depths.shape[-1])

    monkeypatch.setattr(tree_pass, "positions", wrong)


def forget_the_prompts_end(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    right = tree_pass.visible

    def wrong(inputs, window):
        seen = right(inputs, window)
        seen[:, :, 4] = False
        return seen

    monkeypatch.setattr(tree_pass, "visible", wrong)


def mix_rows_up(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    right = target.tree_pass

    def wrong(*args):
        out = right(*args)
        return replace(out, logits=out.logits.flip(0))

    monkeypatch.setattr(target, "tree_pass", wrong)


@pytest.mark.parametrize("spoil", [see_siblings, count_columns_as_positions, forget_the_prompts_end, mix_rows_up])
@pytest.mark.parametrize("kind", ["llama", "mistral", "gpt2"])
def test_a_wrong_tree_pass_is_refused(kind: str, spoil, monkeypatch: pytest.MonkeyPatch) -> None:
    target = target_of(kind)
    spoil(target, monkeypatch)
    with pytest.raises(HeadwayError, match="other answers on a draft tree") as caught:
        examine(target)
    assert one_sentence(caught.value) and target.name in str(caught.value)


@pytest.mark.parametrize("kind", ["bloom", "mpt"])
def test_alibi_is_refused(kind: str) -> None:
    with pytest.raises(
        HeadwayError, match=r"ForCausalLM can't be a target: .* ALiBi, .* several tokens share"
    ) as caught:
        examine(wrap(tiny_model(kind), f"tiny-{kind}"))
    assert one_sentence(caught.value)


def test_running_states_are_refused() -> None:
    with pytest.raises(HeadwayError, match="MambaForCausalLM keeps a running state") as caught:
        refuse_stateful(tiny_model("mamba"))
    assert one_sentence(caught.value)
    config = SimpleNamespace(layer_types=["full_attention", "linear_attention"])
    config.get_text_config = lambda decoder: config
    with pytest.raises(HeadwayError, match="running state"):
        refuse_stateful(SimpleNamespace(config=config))


def test_nan_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    target = target_of("llama")
    right = target.tree_pass
    monkeypatch.setattr(target, "tree_pass", lambda *a: replace(right(*a), logits=right(*a).logits * float("nan")))
    with pytest.raises(HeadwayError, match="other answers"):
        examine(target)


def test_an_error_without_words_still_makes_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    target = target_of("llama")

    def fail(*_):
        raise RuntimeError

    monkeypatch.setattr(target, "tree_pass", fail)
    with pytest.raises(HeadwayError, match="RuntimeError") as caught:
        examine(target)
    assert one_sentence(caught.value)


def test_coarser_numbers_are_given_more_room() -> None:
    assert tolerance(torch.float64) < tolerance(torch.float32) < tolerance(torch.bfloat16) < 0.2


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", ["llama", "mistral", "gpt2"])
def test_half_precision_passes_and_its_mistakes_are_still_seen(
    kind: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = wrap(tiny_model(kind).to(dtype), f"tiny-{kind}")
    examine(target)
    see_siblings(target, monkeypatch)
    with pytest.raises(HeadwayError, match="other answers on a draft tree"):
        examine(target)
