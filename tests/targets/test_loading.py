"""Loading: each kind of source gives the same model it was saved from; whatever is broken gives one sentence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from huggingface_hub.errors import LocalEntryNotFoundError
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertModel, T5Config

from backend.errors import HeadwayError
from backend.targets import hub, loading, memory
from backend.targets.checkpoint import stored_tensors
from backend.targets.loading import choose_device, choose_dtype, estimate_memory, load_model
from backend.targets.sources import resolve_source
from backend.targets.tiny import tiny_checkpoint, tiny_model, tiny_tokenizer

CPU = torch.device("cpu")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny_checkpoint(tmp_path / "model", "llama", seed=1)


def refusal(source: Path | str, **options: object) -> str:
    with pytest.raises(HeadwayError) as caught:
        load_model(str(source), "cpu", **options)  # type: ignore[arg-type]
    sentence = str(caught.value)
    assert "\n" not in sentence and sentence.endswith(".")
    return sentence


def test_a_folder_loads_as_it_was_saved(folder: Path) -> None:
    told: list[tuple[float, str]] = []
    loaded = load_model(str(folder), "cpu", progress=lambda fraction, sentence: told.append((fraction, sentence)))
    tokens = torch.tensor([[5, 6, 7]])
    with torch.no_grad():
        assert torch.equal(loaded.model(tokens).logits, tiny_model("llama", seed=1)(tokens).logits)
    assert not loaded.model.training and loaded.dtype == torch.float32 and loaded.device == CPU
    assert loaded.folder == folder and loaded.tokenizer("a").input_ids == [97]
    fractions = [fraction for fraction, _ in told]
    assert fractions == sorted(fractions) and fractions[0] == 0.0 and fractions[-1] == 1.0
    assert "0.1 million weights" in told[-1][1]


@pytest.mark.parametrize("kind", ["mixtral", "gpt2", "gemma3", "mamba"])
def test_other_families_load(tmp_path: Path, kind: str) -> None:
    loaded = load_model(str(tiny_checkpoint(tmp_path, kind)), "cpu", "bfloat16")
    assert loaded.model.config.vocab_size == 260
    assert next(loaded.model.parameters()).dtype == torch.bfloat16 == loaded.dtype


def test_a_tiny_target_needs_no_files() -> None:
    loaded = load_model("tiny-qwen3:4", "cpu", "bf16")
    assert loaded.folder is None and next(loaded.model.parameters()).dtype == torch.bfloat16
    assert loaded.memory.weights_bytes == 2 * loaded.memory.num_weights


def test_device_and_dtype_are_chosen_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_dtype(None, CPU) == torch.float32
    assert choose_dtype("bf16", CPU) == choose_dtype(torch.bfloat16, CPU) == torch.bfloat16
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    assert choose_dtype("auto", torch.device("cuda")) == torch.bfloat16
    assert choose_device("cpu") == CPU
    for device in ("nonsense", "meta", "cuda:99"):
        with pytest.raises(HeadwayError, match="device"):
            choose_device(device)
    for dtype in ("int8", torch.int8, ""):
        with pytest.raises(HeadwayError, match="dtype"):
            choose_dtype(dtype, CPU)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert choose_device() == torch.device("mps")


def test_memory_estimate_is_exact_for_weights_and_cache(folder: Path) -> None:
    estimate = estimate_memory(str(folder), "bfloat16", "cpu")
    assert estimate.num_weights == sum(p.numel() for p in tiny_model("llama").parameters())
    assert estimate.weights_bytes == 2 * estimate.num_weights
    assert estimate.kv_bytes_per_token == 3 * 2 * 2 * 16 * 2  # layers, keys and values, heads, head size, bytes
    used = estimate.weights_bytes + 20 * estimate.kv_bytes_per_token
    assert estimate.total_bytes(10, 2) == used + estimate.pass_bytes and estimate.pass_bytes > 0
    assert estimate_memory("tiny-llama", "bfloat16", "cpu") == estimate


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        *((kind, {}) for kind in ("llama", "gpt_neox", "falcon", "deepseek_v3", "gpt2", "gemma2", "phi", "bloom")),
        ("falcon", {"new_decoder_architecture": False, "multi_query": True}),
        ("falcon", {"new_decoder_architecture": False, "multi_query": False, "num_kv_heads": 4}),
    ],
)
def test_cache_estimate_equals_what_transformers_caches(kind: str, options: dict[str, int]) -> None:
    model = tiny_model(kind, **options)
    cache = model(torch.tensor([[1, 2, 3, 4]]), use_cache=True).past_key_values
    held = sum(layer.keys.numel() + layer.values.numel() for layer in cache.layers) * 4
    assert memory.kv_bytes_per_token(model.config, torch.float32) * 4 == held


def test_a_target_without_attention_has_no_growing_cache() -> None:
    assert memory.kv_bytes_per_token(tiny_model("mamba").config, torch.float32) == 0


def test_too_little_memory_is_said_before_loading(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda device: 100_000)
    monkeypatch.setattr(loading, "_load_weights", lambda *args: pytest.fail("weights were read"))
    assert "needs 577 kB for its weights, but only 100 kB are free on cpu" in refusal(folder)


def test_memory_is_told_and_checked_in_all_for_the_context_asked_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    loaded = load_model(str(folder), "cpu", progress=lambda _, sentence: told.append(sentence), context=1000)
    total = memory.bytes_in_words(loaded.memory.total_bytes(1000))
    assert f"about {total} in all: 577 kB of weights" in told[-1] and "of cache for 1000 tokens" in told[-1]
    monkeypatch.setattr(memory, "available_bytes", lambda device: 600_000)
    monkeypatch.setattr(loading, "_load_weights", lambda *args: pytest.fail("weights were read"))
    assert f"needs {total} for its weights and a text of 1000 tokens" in refusal(folder, context=1000)


def test_bytes_read_well() -> None:
    shown = [memory.bytes_in_words(count) for count in (0, 999, 999_600, 538_060_032, 14 * 10**9, 5 * 10**12)]
    assert shown == ["0 bytes", "999 bytes", "1 MB", "538 MB", "14 GB", "5 TB"]


def test_a_checkpoint_cut_short_is_refused(folder: Path) -> None:
    weights = folder / "model.safetensors"
    content = weights.read_bytes()
    for part in (content[:-10], content[:100], content[:4], b""):
        weights.write_bytes(part)
        assert "damaged or cut short" in refusal(folder)
    weights.unlink()
    assert "no weight files" in refusal(folder)


def test_a_missing_tensor_is_refused_not_made_up(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    assert "model.layers.1.mlp.up_proj.weight" in refusal(folder)


def test_a_tensor_of_another_shape_is_refused(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors["model.norm.weight"] = torch.ones(65)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    assert "damaged" in refusal(folder)


def test_a_missing_shard_is_named(folder: Path) -> None:
    index = {"metadata": {}, "weight_map": {"a": "model-00001-of-00002.safetensors"}}
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "model-00001-of-00002.safetensors is missing" in refusal(folder)
    (folder / "model.safetensors.index.json").write_text("{}")
    assert "lists no weight files" in refusal(folder)


def test_a_missing_tokenizer_is_said(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink()
    assert "no readable tokenizer" in refusal(folder)


def test_a_tokenizer_of_another_model_is_refused(folder: Path) -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.add_tokens(["beyond"])
    tokenizer.save_pretrained(folder)
    assert "a token 260, but the model knows only 260 tokens" in refusal(folder)


def test_models_of_other_kinds_are_refused(tmp_path: Path) -> None:
    small = {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "intermediate_size": 8,
        "vocab_size": 9,
    }
    BertModel(BertConfig(**small)).save_pretrained(tmp_path / "bert")
    assert "not a causal language model (it is BertModel)" in refusal(tmp_path / "bert")
    T5Config(architectures=["T5ForConditionalGeneration"]).save_pretrained(tmp_path / "t5")
    assert "not a causal language model" in refusal(tmp_path / "t5")


def test_broken_configurations_are_refused(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text("{ broken")
    assert "damaged" in refusal(folder)
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "never-heard-of"}))
    assert "does not know" in refusal(folder)
    own = {"auto_map": {"AutoConfig": "code.Config", "AutoModelForCausalLM": "code.Model"}, "model_type": "own"}
    (folder / "config.json").write_text(json.dumps({**config, **own}))
    (folder / "code.py").write_text("raise SystemExit('this code must not run')\n")
    assert "--trust-remote-code" in refusal(folder)


def test_a_hub_model_is_taken_from_where_the_client_puts_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str | None, bool]] = []

    def snapshot(repo: str, revision: str | None, allow_patterns: list[str], dry_run: bool = False) -> object:
        asked.append((repo, revision, "*.py" in allow_patterns))
        return [SimpleNamespace(file_size=1000, will_download=True)] if dry_run else str(folder)

    monkeypatch.setattr(hub, "snapshot_download", snapshot)
    loaded = load_model("owner/model@main", "cpu")
    assert loaded.folder == folder and set(asked) == {("owner/model", "main", False)}
    free = SimpleNamespace(free=500)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: free)
    assert "needs 1 kB on disk, but only 500 bytes are free" in refusal("owner/model")


def test_an_unknown_hub_model_says_what_was_tried_and_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*args: object, **options: object) -> str:
        raise LocalEntryNotFoundError("Bearer hf_secret was refused at some address")

    monkeypatch.setattr(hub, "snapshot_download", unreachable)
    sentence = refusal("owner/nowhere")
    assert "owner/nowhere" in sentence and "built-in name" in sentence and "hub" in sentence
    assert "hf_secret" not in sentence


def test_headers_tell_tensors_without_reading_them(folder: Path) -> None:
    tensors = {tensor.name: tensor for tensor in stored_tensors(folder)}
    head = tensors["lm_head.weight"]
    assert head.shape == (260, 64) and head.dtype == "F32" and head.num_bytes == 260 * 64 * 4


def test_a_source_may_be_resolved_beforehand(folder: Path) -> None:
    assert load_model(resolve_source(str(folder)), CPU, torch.float32).source.path == folder
