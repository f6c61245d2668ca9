"""Targets whose matrices are rounded at load: int8 by torchao here, bitsandbytes in tests/gpu."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from backend.drafters.registry import load_drafter
from backend.errors import HeadwayError, MismatchError
from backend.settings import Settings
from backend.targets import quantising
from backend.targets.describing import describe
from backend.targets.loading import load_model
from backend.targets.memory import estimate_model
from backend.targets.opening import open_target
from backend.targets.quantising import check_quantisation, held_bytes, quantised_memory
from backend.targets.self_test import tree_pass_error
from backend.targets.sources import resolve_source
from backend.targets.target import Target
from backend.targets.tiny import tiny_checkpoint, tiny_model
from backend.trees import product
from tests.formats.made import heads_for
from tests.support.adapters import tiny_adapter
from tests.support.drafters import random_medusa
from tests.support.lossless import check_greedy
from tests.support.targets import random_text

quantising.look_beside()
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torchao") is None, reason="torchao is not there; see requirements-int8.txt"
)
IDS = torch.tensor([random_text(7, 24)])


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("home")
    return Settings(home=folder / "home", cache=folder / "cache")


@pytest.fixture(scope="module")
def rounded(settings: Settings) -> Target:
    return open_target("tiny-llama+int8", settings, "cpu")


def by_hand(model: Any) -> Any:
    """Every matrix but the head as round(w / s) s with s = largest |w| of its output / 127.5, the rule of torchao."""
    with torch.no_grad():
        for name, module in model.named_modules():
            if isinstance(module, nn.Linear) and name != "lm_head":
                scale = module.weight.abs().amax(1, keepdim=True) / 127.5
                # The largest weight of a row is 127.5 scales: how that tie rounds hangs on the product being this one.
                module.weight.copy_((module.weight * (1 / scale)).round().clamp(-128, 127) * scale)
    return model


def logits_of(target: Target) -> torch.Tensor:
    return target.plain_logits(IDS[0, :-1].tolist(), [int(IDS[0, -1])])


def test_int8_is_what_rounding_by_hand_gives_and_not_the_base(rounded: Target) -> None:
    with torch.inference_mode():
        expected = by_hand(tiny_model("llama"))(input_ids=IDS[:, :-1], use_cache=False).logits[0, -1:]
        base = tiny_model("llama")(input_ids=IDS[:, :-1], use_cache=False).logits[0, -1:]
    torch.testing.assert_close(logits_of(rounded), expected, atol=1e-4, rtol=1e-4)
    assert (logits_of(rounded) - base).abs().max() > 1e-3


def test_decoding_equals_its_own_plain_decoding(rounded: Target) -> None:
    assert tree_pass_error(rounded) < 1e-4
    check_greedy(rounded, random_medusa(rounded, product([3, 2])))


def test_a_version_of_its_own(rounded: Target, settings: Settings, tmp_path: Path) -> None:
    base = open_target("tiny-llama", settings, "cpu")
    assert (base.identity.quantisation, rounded.identity.quantisation) == ("none", "torchao-int8")
    assert rounded.identity.weights_id == base.identity.weights_id
    assert describe("tiny-llama+int8", settings).identity == rounded.identity
    heads = heads_for(tmp_path / "heads", base)
    with pytest.raises(MismatchError, match="the quantisation differ"):
        load_drafter(str(heads), rounded)
    assert load_drafter(str(heads), rounded, force=True)[1]


@pytest.mark.parametrize("how", ["lora", "merged"])
def test_with_an_adapter(settings: Settings, tmp_path: Path, how: str) -> None:
    """Under an active adapter the base is rounded and the adapter is not; a merged one is rounded with it."""
    folder = tiny_adapter(tmp_path)
    target = open_target(f"tiny-llama+{how}:{folder}+int8", settings, "cpu")
    whole = load_model(f"tiny-llama+{how}:{folder}", "cpu", settings=settings).model
    if how == "lora":
        for layer in whole.modules():
            if hasattr(layer, "base_layer"):
                by_hand(nn.Sequential(layer.base_layer))
        named = [(n, m) for n, m in whole.named_modules() if isinstance(m, nn.Linear)]
        for name, module in named:
            if not any(part in name for part in ("lora_", "base_layer", "lm_head")):
                by_hand(nn.Sequential(module))
    else:
        by_hand(whole)
    with torch.inference_mode():
        expected = whole(input_ids=IDS[:, :-1], use_cache=False).logits[0, -1:]
    torch.testing.assert_close(logits_of(target), expected, atol=1e-4, rtol=1e-4)
    assert target.identity.quantisation == ("torchao-int8" if how == "lora" else "torchao-int8-merged")
    check_greedy(target, random_medusa(target, product([2, 2])))


def test_from_a_folder_it_takes_a_quarter_of_the_memory(settings: Settings, tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "model")
    told: list[str] = []
    loaded = load_model(f"{folder}+int8", "cpu", settings=settings, progress=lambda _, sentence: told.append(sentence))
    whole = load_model(str(folder), "cpu", settings=settings)
    matrices = sum(
        4 * one.weight.numel() for name, one in whole.model.named_modules()
        if isinstance(one, nn.Linear) and name != "lm_head"
    )  # fmt: skip
    saved = held_bytes(whole.model) - held_bytes(loaded.model)
    assert 0.7 * matrices < saved < 0.75 * matrices
    assert loaded.memory.weights_bytes == held_bytes(loaded.model) < whole.memory.weights_bytes


def test_what_cannot_be_rounded_is_said(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    int8, bnb = resolve_source("tiny-llama+int8"), resolve_source("tiny-llama+bnb4")
    config, cuda = tiny_model("llama").config, torch.device("cuda")
    with pytest.raises(HeadwayError, match=r"\+int8 is for the CPU and the target goes to cuda; write \+bnb8"):
        check_quantisation(int8, config, cuda)
    with pytest.raises(HeadwayError, match=r"\+bnb4 needs a CUDA device and the target goes to cpu; write \+int8"):
        load_model("tiny-llama+bnb4", "cpu", settings=settings)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(HeadwayError, match=r"needs the package torchao; install it with pip install --no-deps"):
        check_quantisation(int8, config, torch.device("cpu"))
    with pytest.raises(HeadwayError, match=r"needs the package bitsandbytes; install it with pip install"):
        check_quantisation(bnb, config, cuda)
    monkeypatch.undo()
    config.quantization_config = {"quant_method": "gptq"}
    with pytest.raises(HeadwayError, match=r"tiny-llama is quantised already; leave \+int8 out"):
        check_quantisation(int8, config, torch.device("cpu"))
    with pytest.raises(HeadwayError, match="no linear layers that"):
        quantising.round_to_int8(tiny_model("gpt2"), resolve_source("tiny-gpt2+int8"))


def test_memory_is_told_before_bitsandbytes_loads() -> None:
    model = tiny_model("llama")
    whole = estimate_model(model, model.config, torch.bfloat16)
    outer = 2 * 260 * 64
    for name, bits in (("bnb8", 8), ("bnb4", 4.5)):
        told = quantised_memory(whole, resolve_source(f"tiny-llama+{name}"), model.config, torch.bfloat16)
        assert told.weights_bytes == int(2 * outer + (whole.num_weights - outer) * bits / 8)
    assert quantised_memory(whole, resolve_source("tiny-llama+int8"), model.config, torch.bfloat16) == whole
