"""GGUF files: converted once, exactly, and never seen half done. The file is written here, at toy size."""

from __future__ import annotations

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import SafetensorError
from transformers import PreTrainedModel

from backend.errors import HeadwayError
from backend.settings import Settings
from backend.targets import gguf as conversion
from backend.targets.gguf import convert_gguf, converted_folder
from backend.targets.loading import load_model
from backend.targets.tiny import tiny_model, tiny_tokenizer

gguf = pytest.importorskip("gguf")


def toy() -> PreTrainedModel:
    """The tiny Llama with one token more: a GGUF tokenizer must have a merge, here h + e."""
    return tiny_model("llama", vocab_size=261, bos_token_id=256, eos_token_id=258, pad_token_id=259)


def permuted(weight: torch.Tensor, heads: int) -> np.ndarray:
    """GGUF keeps Llama's query and key rows in interleaved rotary order: [heads, 2, d/2, H] -> [heads, d/2, 2, H]."""
    rows, width = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, width).swapaxes(1, 2).reshape(rows, width).numpy()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy, written as llama.cpp would."""
    path = tmp_path_factory.mktemp("gguf") / "toy.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    config = toy().config
    writer.add_context_length(1024)
    writer.add_embedding_length(64)
    writer.add_block_count(3)
    writer.add_feed_forward_length(128)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_key_length(16)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(261)
    vocabulary = tiny_tokenizer().get_vocab()
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([*sorted(vocabulary, key=lambda token: vocabulary[token]), "he"])
    writer.add_token_types([1] * 256 + [3] * 4 + [1])
    writer.add_token_merges(["h e"])
    writer.add_bos_token_id(256)
    writer.add_eos_token_id(258)
    writer.add_pad_token_id(259)
    writer.add_chat_template(tiny_tokenizer().chat_template)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 3)
    for name, tensor in toy().state_dict().items():
        stem = names.get_name(name, try_suffixes=(".weight",))
        heads = {"q_proj": 4, "k_proj": 2}.get(name.split(".")[-2])
        writer.add_tensor(stem, permuted(tensor, heads) if heads else tensor.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_the_converted_model_is_the_same_model(file: Path, tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home", cache=tmp_path / "cache")
    told: list[float] = []
    loaded = load_model(str(file), "cpu", settings=settings, progress=lambda fraction, _: told.append(fraction))
    tokens = torch.tensor([[1, 2, 3, 4, 5]])
    with torch.no_grad():
        difference = (loaded.model(tokens).logits - toy()(tokens).logits).abs().max()
    assert difference < 1e-5
    assert loaded.tokenizer("hé<|im_end|>he").input_ids == [*"hé".encode(), 258, 260]
    assert loaded.tokenizer.chat_template == tiny_tokenizer().chat_template
    assert told == sorted(told) and len(told) > 4
    assert loaded.folder == converted_folder(file, settings.cache)
    config = json.loads((loaded.folder / "config.json").read_text())
    assert config["rms_norm_eps"] == toy().config.rms_norm_eps and "quantization_config" not in config
    assert json.loads((loaded.folder / "generation_config.json").read_text())["eos_token_id"] == 258
    assert all(stat.S_IMODE(entry.stat().st_mode) == 0o644 for entry in loaded.folder.iterdir())


def test_two_at_once_convert_once(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Path] = []

    def convert(path: Path, folder: Path, report: object) -> None:
        made.append(folder)
        folder.mkdir()

    monkeypatch.setattr(conversion, "_convert_into", convert)
    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(lambda _: convert_gguf(file, tmp_path), range(4)))
    assert made == list(found)


def test_a_failed_conversion_leaves_nothing(file: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(file.read_bytes()[:3000])
    with pytest.raises(HeadwayError, match="damaged, or its architecture"):
        convert_gguf(damaged, tmp_path / "cache")
    assert [entry.suffix for entry in (tmp_path / "cache" / "targets").iterdir()] in ([], [".lock"])
    damaged.write_bytes(b"PK\x03\x04")
    with pytest.raises(HeadwayError, match="not a GGUF file"):
        convert_gguf(damaged, tmp_path / "cache")


def test_a_full_disk_is_said_and_leaves_nothing(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: PreTrainedModel, folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(b"half")
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(PreTrainedModel, "save_pretrained", full)
    with pytest.raises(HeadwayError, match="the disk is full or not writable"):
        convert_gguf(file, tmp_path)
    assert [entry.suffix for entry in (tmp_path / "targets").iterdir()] in ([], [".lock"])


def test_a_cache_that_cannot_be_written_is_said(file: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file, not a folder")
    with pytest.raises(HeadwayError, match=r"could not be converted into .*: "):
        convert_gguf(file, blocked)


def test_another_content_gets_another_folder(tmp_path: Path) -> None:
    large = bytearray(b"GGUF" + bytes(70 * 2**20))
    path = tmp_path / "large.gguf"
    path.write_bytes(large)
    before = converted_folder(path, tmp_path)
    assert converted_folder(path, tmp_path) == before
    large[-1] = 1
    path.write_bytes(large)
    assert converted_folder(path, tmp_path) != before
