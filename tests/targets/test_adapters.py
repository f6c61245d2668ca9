"""Targets with a LoRA adapter: what is served is what peft computes, active or merged, in every part of the target."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from peft import PeftModel
from torch import Tensor

from backend.acceptance import Rule
from backend.decoding.loop import DecodeSettings, decode
from backend.decoding.records import DecodeResult
from backend.drafters.ngram.config import NgramConfig
from backend.drafters.ngram.drafter import NgramDrafter
from backend.drafters.registry import load_drafter
from backend.errors import HeadwayError, MismatchError
from backend.settings import Settings
from backend.targets.describing import describe
from backend.targets.loading import load_model
from backend.targets.opening import open_target
from backend.targets.packed_linear import RowLinear
from backend.targets.self_test import tree_pass_error
from backend.targets.target import FINAL, Target
from backend.targets.tiny import tiny_checkpoint, tiny_model, tiny_tokenizer
from backend.targets.tokenizer import load_tokenizer
from backend.training.features import capture
from backend.trees import product
from tests.formats.made import heads_for
from tests.support.adapters import tiny_adapter
from tests.support.drafters import random_medusa
from tests.support.lossless import check_greedy
from tests.support.targets import random_text

TEXT = random_text(7, 24)
IDS = torch.tensor([TEXT])
MASK = torch.ones_like(IDS, dtype=torch.bool)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("home")
    return Settings(home=folder / "home", cache=folder / "cache")


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_adapter(tmp_path_factory.mktemp("adapter"), base="tiny-llama")


@pytest.fixture(scope="module")
def active(settings: Settings, adapter: Path) -> Target:
    return open_target(f"tiny-llama+lora:{adapter}", settings, "cpu")


@pytest.fixture(scope="module")
def merged(settings: Settings, adapter: Path) -> Target:
    return open_target(f"tiny-llama+merged:{adapter}", settings, "cpu")


def reference_of(folder: Path, kind: str = "llama") -> Any:
    """peft's own model, with attention as it stands in books: transformers' faster one knows no soft cap."""
    base = tiny_model(kind)
    base.set_attn_implementation("eager")
    return PeftModel.from_pretrained(base, str(folder)).eval()


def peft_states(folder: Path, kind: str = "llama") -> tuple[Tensor, ...]:
    """transformers' hidden states [1, T, H] of peft's own model: entering each layer, then after the final norm."""
    model = reference_of(folder, kind)
    with torch.inference_mode():
        found: tuple[Tensor, ...] = model(input_ids=IDS, output_hidden_states=True, use_cache=False).hidden_states
    return found


def own_states(target: Target) -> Tensor:
    """[layers, T, H], as features are captured."""
    layers = [*range(target.num_layers), FINAL]
    found = target.hidden_states(IDS, MASK, layers)[0]
    return found.unflatten(-1, (len(layers), -1)).transpose(0, 1)


def test_active_equals_merged_equals_peft_and_not_the_base(active: Target, merged: Target, adapter: Path) -> None:
    expected = torch.cat(peft_states(adapter))
    size = float(expected.abs().max())
    for target in (active, merged):
        torch.testing.assert_close(own_states(target), expected, atol=1e-5 * size, rtol=0)
    said = [one.plain_logits(TEXT, [1]) for one in (active, merged)]
    torch.testing.assert_close(*said, atol=1e-5 * float(said[0].abs().max()), rtol=0)
    with torch.inference_mode():
        base = tiny_model("llama")(input_ids=IDS, output_hidden_states=True, use_cache=False).hidden_states
    assert (expected - torch.cat(base)).abs().max() > 0.05


def test_the_tree_pass_holds_and_base_matrices_are_packed(active: Target, merged: Target) -> None:
    assert tree_pass_error(active) < 1e-4 and tree_pass_error(merged) < 1e-4
    if torch.backends.mkldnn.is_available():
        kinds = {name.rpartition(".")[2]: type(one) for name, one in active.model.named_modules() if "q_proj" in name}
        assert kinds["base_layer"] is RowLinear and kinds["default"] is torch.nn.Linear
        assert not any(type(one) is torch.nn.Linear for one in merged.model.modules())


@pytest.mark.parametrize("mode", ["active", "merged"])
def test_decoding_writes_what_generate_writes(
    active: Target, merged: Target, adapter: Path, mode: str
) -> None:
    target = active if mode == "active" else merged
    model = reference_of(adapter)
    asked = {"max_new_tokens": 20, "do_sample": False, "eos_token_id": None, "pad_token_id": 259}
    expected = model.generate(input_ids=IDS, attention_mask=MASK.long(), **asked)[0, len(TEXT) :].tolist()
    for drafter in (NgramDrafter(NgramConfig()), random_medusa(target, product([3, 2]))):
        run = DecodeSettings(20, Rule("greedy"), ignore_eos=True)
        found = [one for one in decode(target, drafter, [TEXT], run) if isinstance(one, DecodeResult)]
        assert found[0].tokens == expected
    check_greedy(target, random_medusa(target, product([3, 2])))


def test_a_version_of_its_own_that_refuses_the_bases_heads(
    active: Target, merged: Target, settings: Settings, adapter: Path, tmp_path: Path
) -> None:
    base = open_target("tiny-llama", settings, "cpu")
    assert active.identity == merged.identity != base.identity
    assert active.identity.weights_id == base.identity.weights_id
    assert active.identity.adapter_id.startswith("lora-") and base.identity.adapter_id == "none"
    other = tiny_adapter(tmp_path / "other", seed=1)
    assert describe(f"tiny-llama+lora:{other}", settings).identity.adapter_id != active.identity.adapter_id
    assert describe(active.name, settings).identity == active.identity
    heads = heads_for(tmp_path / "heads", base)
    with pytest.raises(MismatchError, match=r"tiny-llama .* but the target is .*\+lora:.*the adapter differ"):
        load_drafter(str(heads), active)
    drafter, warnings = load_drafter(str(heads), active, force=True)
    assert "forced" in " ".join(warnings)
    check_greedy(active, drafter)


def test_the_identity_is_of_the_numbers_not_of_the_file(settings: Settings, adapter: Path, tmp_path: Path) -> None:
    def told(folder: Path) -> str:
        return describe(f"tiny-llama+lora:{folder}", settings).identity.adapter_id

    copy = tiny_adapter(tmp_path / "copy", base="tiny-llama")
    config = copy / "adapter_config.json"
    content = json.loads(config.read_text())
    config.write_text(json.dumps(content | {"lora_dropout": 0.5, "peft_version": "0"}))
    assert told(copy) == told(adapter)
    config.write_text(json.dumps(content | {"lora_alpha": 16}))
    assert told(copy) != told(adapter)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("llama", {"modules": ["q_proj", "embed_tokens", "lm_head"]}),  # drafters read these two matrices
        ("llama", {"modules": ["q_proj"], "modules_to_save": ["embed_tokens", "lm_head"]}),
        ("llama", {"modules": ["q_proj"], "trainable_token_indices": [3, 7, 258]}),
        ("llama", {"use_dora": True}),
        ("gpt2", {"modules": ["c_attn"], "fan_in_fan_out": True}),
        ("gemma2", {"modules": ["q_proj", "gate_proj"], "use_rslora": True}),
    ],
)
@pytest.mark.parametrize("how", ["lora", "merged"])
def test_every_kind_of_adapter(
    settings: Settings, tmp_path: Path, kind: str, options: dict[str, Any], how: str
) -> None:
    folder = tiny_adapter(tmp_path, kind, **options)
    target = open_target(f"tiny-{kind}+{how}:{folder}", settings, "cpu")
    torch.testing.assert_close(own_states(target), torch.cat(peft_states(folder, kind)), atol=2e-5, rtol=2e-5)
    with torch.inference_mode():
        logits = reference_of(folder, kind)(input_ids=IDS, use_cache=False).logits[0]
    final = own_states(target)[-1]
    torch.testing.assert_close(target.logits(final), logits, atol=1e-4, rtol=1e-4)
    plain = torch.nn.functional.linear(final, target.lm_head_weight())  # what learners compute losses from
    if kind == "llama":
        torch.testing.assert_close(plain, logits, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(target.embedding_weight()[IDS[0]], own_states(target)[0], atol=1e-5, rtol=1e-5)


def test_an_adapter_may_bring_tokens(settings: Settings, tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.add_tokens(["<tool_call>", "</tool_call>"], special_tokens=True)
    folder = tiny_adapter(tmp_path / "adapter", "llama")
    tokenizer.save_pretrained(folder)
    base = tiny_checkpoint(tmp_path / "base")
    name = f"{base}+lora:{folder}"
    target = open_target(name, settings, "cpu")
    assert target.vocab_size == 262 and target.tokenizer.convert_tokens_to_ids("<tool_call>") == 260
    assert load_tokenizer(name, settings).convert_tokens_to_ids("</tool_call>") == 261
    assert target.identity == describe(name, settings).identity
    assert target.identity.tokenizer_id != describe(str(base), settings).identity.tokenizer_id


def test_an_adapter_of_another_model_is_refused_with_both_names(settings: Settings, tmp_path: Path) -> None:
    elsewhere = tiny_adapter(tmp_path / "one", base="owner/other-model")
    with pytest.raises(HeadwayError, match=r"trained for owner/other-model, but the target is tiny-llama"):
        load_model(f"tiny-llama+lora:{elsewhere}", "cpu", settings=settings)
    seed = tiny_adapter(tmp_path / "two", base="tiny-llama:1")
    with pytest.raises(HeadwayError, match=r"trained for tiny-llama:1, but the target is tiny-llama;"):
        load_model(f"tiny-llama+merged:{seed}", "cpu", settings=settings)
    there = "/models/on/another/machine"
    shapes = tiny_adapter(tmp_path / "three", "gpt_neox", base=there, modules=["query_key_value"])
    with pytest.raises(HeadwayError, match=r"trained for /models/on/another/machine and does not fit tiny-llama"):
        load_model(f"tiny-llama+lora:{shapes}", "cpu", settings=settings)
    wide = tiny_model("llama", intermediate_size=256)
    wide.save_pretrained(tmp_path / "wide")
    tiny_tokenizer().save_pretrained(tmp_path / "wide")
    nameless = tiny_adapter(tmp_path / "four")
    with pytest.raises(HeadwayError, match=r"trained for another model and does not fit"):
        load_model(f"{tmp_path / 'wide'}+lora:{nameless}", "cpu", settings=settings)


def test_other_adapters_are_refused(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tiny_adapter(tmp_path)
    config = folder / "adapter_config.json"
    good = json.loads(config.read_text())

    def refusal(how: str = "lora", **changed: Any) -> str:
        config.write_text(json.dumps(good | changed))
        with pytest.raises(HeadwayError) as caught:
            load_model(f"tiny-llama+{how}:{folder}", "cpu", settings=settings)
        return str(caught.value)

    assert "of the kind PREFIX_TUNING; only LoRA" in refusal(peft_type="PREFIX_TUNING")
    assert "aLoRA" in refusal(alora_invocation_tokens=[1])
    assert "write +lora:" in refusal("merged", target_parameters=["x"])
    weights = folder / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(HeadwayError, match="damaged"):
        describe(f"tiny-llama+lora:{folder}", settings)
    weights.unlink()
    assert "incomplete: adapter_model.safetensors is missing" in refusal()
    monkeypatch.setitem(sys.modules, "peft", None)
    tiny_weights = tmp_path / "adapter_model.bin"
    tiny_weights.write_bytes(b"")
    assert "needs the package peft; install it with pip install" in refusal()



@pytest.mark.parametrize("mode", ["active", "merged"])
def test_features_are_those_of_the_served_configuration(
    active: Target, merged: Target, adapter: Path, tmp_path: Path, mode: str
) -> None:
    """What heads learn from is peft's own last hidden state, and not the base model's."""
    target = active if mode == "active" else merged
    answer = SimpleNamespace(prompt_ids=tuple(TEXT[:9]), answer_ids=tuple(TEXT[9:]))
    found = capture(target, [answer], tmp_path / "own").batch(torch.arange(len(TEXT) - 9), 1).hidden.float()
    expected = peft_states(adapter)[-1][0, 8:-1]
    torch.testing.assert_close(found, expected, atol=5e-3, rtol=5e-3)  # kept in half precision
    plain = open_target("tiny-llama", Settings(home=tmp_path / "home", cache=tmp_path / "cache"), "cpu")
    base = capture(plain, [answer], tmp_path / "base").batch(torch.arange(len(TEXT) - 9), 1).hidden.float()
    assert (base - expected).abs().max() > 0.05
