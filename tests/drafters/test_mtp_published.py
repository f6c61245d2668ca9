"""MTP modules under the names that published checkpoints give them, against transformers' own decoder layers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import app
from backend.drafters.mtp.drafter import drafter_of
from backend.drafters.mtp.published import read_published
from backend.drafters.registry import load_drafter
from backend.errors import HeadwayError
from backend.targets.tiny import HIDDEN_SIZE, NUM_LAYERS, tiny_checkpoint, tiny_model
from backend.trees import chain
from tests.support.lossless import check_greedy
from tests.support.overfitting import batch_of
from tests.support.targets import random_text, target_of

H = HIDDEN_SIZE
#: layout -> (kind of target, where its first module stands, names of embedding norm, state norm, join, final norm)
LAYOUTS: dict[str, tuple[str, str, str, str, str, str]] = {
    "DeepSeek": ("llama", f"model.layers.{NUM_LAYERS}.", "enorm", "hnorm", "eh_proj", "shared_head.norm"),
    "Qwen3-Next": ("qwen3", "mtp.layers.0.", "pre_fc_norm_embedding", "pre_fc_norm_hidden", "fc", "norm"),
    "MiMo": (
        "qwen2", "model.mtp_layers.0.", "token_layernorm", "hidden_layernorm", "input_proj", "final_layernorm",
    ),
}  # fmt: skip


def module_tensors(layout: str, seed: int = 3) -> tuple[dict[str, Tensor], Any]:
    """One module's tensors by published name, and transformers' decoder layer with the same weights."""
    kind, prefix, *names = LAYOUTS[layout]
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> Tensor:
        spread = 0.2 if len(shape) == 1 else 1.0 / shape[-1] ** 0.5
        return spread * torch.randn(*shape, generator=generator) + (len(shape) == 1)

    layer = tiny_model(kind).model.layers[0]
    state = {name: random(*value.shape) for name, value in layer.state_dict().items()}
    layer.load_state_dict(state)
    outer = prefix.removesuffix("layers.0.") if layout == "Qwen3-Next" else prefix
    own = dict(zip(names, (random(H), random(H), random(H, 2 * H), random(H)), strict=True))
    tensors = {prefix + name: value for name, value in state.items()}
    tensors |= {f"{outer}{name}.weight": value for name, value in own.items()}
    if layout == "Qwen3-Next":  # stores norms as what is added to one
        tensors = {
            name: value - 1 if value.dim() == 1 and name.endswith("weight") else value
            for name, value in tensors.items()
        }
    return tensors, (layer, own)


def checkpoint(folder: Path, layout: str, extra: dict[str, Tensor] | None = None) -> Path:
    tiny_checkpoint(folder, LAYOUTS[layout][0])
    tensors, _ = module_tensors(layout)
    weights = load_file(folder / "model.safetensors") | tensors | (extra or {})
    save_file(
        {name: value.contiguous() for name, value in weights.items()}, folder / "model.safetensors", {"format": "pt"}
    )
    return folder


def rms(values: Tensor, weight: Tensor, eps: float) -> Tensor:
    return values * torch.rsqrt(values.square().mean(-1, keepdim=True) + eps) * weight


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_published_module_computes_what_its_own_layer_does(tmp_path: Path, layout: str) -> None:
    kind = LAYOUTS[layout][0]
    target, plain = target_of(kind), tiny_model(kind)
    name, model = read_published(checkpoint(tmp_path / "m", layout), target)
    assert name == layout and model.config.form == "shared" and model.config.draft_vocab_size is None
    layer, own = module_tensors(layout)[1]
    text = random_text(5, 12)
    batch = batch_of(target, model.reads, [(text[:4], text[4:])])
    eps = model.config.layer.rms_norm_eps
    enorm, hnorm, proj, norm = own.values()
    words = rms(plain.get_input_embeddings().weight[batch.tokens[:, 1:]], enorm, eps)
    states = rms(batch.states[:, :-1], hnorm, eps)
    parts = [states, words] if layout == "MiMo" else [words, states]
    entered = torch.cat(parts, -1) @ proj.T
    positions = torch.arange(entered.shape[1])[None]
    causal = torch.full((1, 1, len(positions[0]), len(positions[0])), torch.finfo(torch.float32).min).triu(1)
    with torch.no_grad():
        left = layer(
            entered, attention_mask=causal, position_embeddings=plain.model.rotary_emb(entered, positions),
            position_ids=positions,
        )  # fmt: skip
        left = left[0] if isinstance(left, tuple) else left
        expected = rms(left, norm, eps) @ plain.get_output_embeddings().weight.T
        inputs, residual = model.join(model.feature(batch.states[:, :-1]), batch.tokens[:, 1:])
        found = model.scores(_through(model, inputs, residual, positions))
        recycled = model.recycled(left)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(recycled, left if layout == "DeepSeek" else rms(left, norm, eps), atol=1e-5, rtol=1e-4)


def _through(model: Any, inputs: Tensor, residual: Tensor, positions: Tensor) -> Tensor:
    from backend.drafters.layer.attention import KeyBlock, attend

    causal = torch.ones(1, inputs.shape[1], inputs.shape[1], dtype=torch.bool).tril()
    block = KeyBlock(*model.layer.key_value(inputs, positions), causal)
    output: Tensor = model.layer.finish(residual, attend(model.layer.query(inputs, positions), [block]))
    return output


def test_the_command_writes_a_drafter_that_decodes_the_targets_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADWAY_HOME", str(tmp_path / "home"))
    folder, out = checkpoint(tmp_path / "m", "DeepSeek"), tmp_path / "read"
    assert app.main(["read-mtp", "--target", str(folder), "--out", str(out), "--json", "--device", "cpu"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["layout"] == "DeepSeek" and told["modules"] == 1 and len(told["tree"]) == 4
    drafter, warnings = load_drafter(str(out), target_of("llama"), force=True)  # the same weights, built in memory
    assert len(warnings) == 1 and drafter.family == "mtp" and drafter.shape.max_depth == 4
    check_greedy(target_of("llama"), drafter)


def test_two_modules_are_read_in_order(tmp_path: Path) -> None:
    second = {
        name.replace(f"layers.{NUM_LAYERS}.", f"layers.{NUM_LAYERS + 1}."): value + 0.25
        for name, value in module_tensors("DeepSeek")[0].items()
    }
    copies = {f"model.layers.{NUM_LAYERS}.embed_tokens.weight": target_of("llama").embedding_weight()}
    _, model = read_published(checkpoint(tmp_path / "m", "DeepSeek", second | copies), target_of("llama"))
    assert model.config.form == "modules" and model.config.num_modules == 2
    torch.testing.assert_close(model.parts[1].norm.weight, model.parts[0].norm.weight + 0.25)
    check_greedy(target_of("llama"), drafter_of("two", model.for_drafting(), chain(2)))


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"mlp.experts.0.gate_proj.weight": torch.zeros(4, H)}, "experts"),
        ({"self_attn.q_proj.weight": torch.zeros(128, H)}, "does not fit"),
        ({"embed_tokens.weight": torch.zeros(260, H)}, "embedding of its own"),
    ],
)
def test_modules_that_can_not_be_run_are_refused(tmp_path: Path, extra: dict[str, Tensor], words: str) -> None:
    named = {f"model.layers.{NUM_LAYERS}.{name}": value for name, value in extra.items()}
    with pytest.raises(HeadwayError, match=words):
        read_published(checkpoint(tmp_path / "m", "DeepSeek", named), target_of("llama"))


def test_a_checkpoint_without_modules_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match="no MTP modules"):
        read_published(tiny_checkpoint(tmp_path / "m"), target_of("llama"))
