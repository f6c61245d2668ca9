"""Version identity: the same for the same weights however stored, another as soon as anything that matters differs."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from backend.errors import MismatchError
from backend.targets import identity
from backend.targets.identity import (
    VersionIdentity,
    check_match,
    compare,
    template_id,
    tokenizer_id,
    version_identity,
    weights_id_of_folder,
    weights_id_of_state,
)
from backend.targets.loading import load_model
from backend.targets.tiny import tiny_checkpoint, tiny_model, tiny_tokenizer

FIRST = VersionIdentity("w1", "none", "none", "t1", "c1", name="first")


def rewrite(folder: Path, tensors: dict[str, Tensor]) -> None:
    save_file(
        {name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors", {"format": "pt"}
    )


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.mark.parametrize("kind", ["llama", "gemma2", "gpt2", "gpt_neox", "mixtral", "deepseek_v3", "phi3", "falcon"])
def test_folder_and_loaded_model_agree(tmp_path: Path, cache: Path, kind: str) -> None:
    folder = tiny_checkpoint(tmp_path / kind, kind)
    found = weights_id_of_folder(folder, cache)
    loaded = load_model(str(folder), "cpu")
    assert found == weights_id_of_state(loaded.model.state_dict())
    assert found == weights_id_of_state(tiny_model(kind).state_dict())
    assert found != weights_id_of_state(tiny_model(kind, seed=1).state_dict())


def test_a_lossless_conversion_keeps_the_id(tmp_path: Path, cache: Path) -> None:
    model = tiny_model("llama")
    torch.nn.Module.to(model, torch.bfloat16)
    model.save_pretrained(tmp_path / "bf16")
    narrow = weights_id_of_folder(tmp_path / "bf16", cache)
    tiny_tokenizer().save_pretrained(tmp_path / "bf16")
    wide = load_model(str(tmp_path / "bf16"), "cpu", "float32")
    assert weights_id_of_state(wide.model.state_dict()) == narrow
    double = {name: tensor.double() for name, tensor in model.state_dict().items()}
    assert weights_id_of_state(double) == narrow
    assert weights_id_of_state(tiny_model("llama").state_dict()) != narrow  # rounding to bfloat16 was not lossless


def test_the_dtype_a_target_is_loaded_in_does_not_count(tmp_path: Path, cache: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "model")
    found = {
        version_identity(load_model(name, "cpu", dtype), cache)
        for name in (str(folder), "tiny-llama")
        for dtype in ("float32", "bfloat16")
    }
    assert len(found) == 1


def test_shards_order_and_prefix_do_not_count(tmp_path: Path, cache: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "one", "gpt2")
    expected = weights_id_of_folder(folder, cache)
    tiny_model("gpt2").save_pretrained(tmp_path / "many", max_shard_size="200KB")
    assert len(list((tmp_path / "many").glob("*.safetensors"))) > 1
    assert weights_id_of_folder(tmp_path / "many", cache) == expected
    tensors = load_file(folder / "model.safetensors")
    bare = {name.removeprefix("transformer."): tensor for name, tensor in reversed(tensors.items())}
    assert set(bare) != set(tensors)
    rewrite(folder, bare)
    assert weights_id_of_folder(folder, cache) == expected


def test_a_tied_head_counts_once() -> None:
    state = tiny_model("gemma2").state_dict()
    without = {name: tensor for name, tensor in state.items() if name != "lm_head.weight"}
    assert weights_id_of_state(state) == weights_id_of_state(without)
    untied = {**state, "lm_head.weight": state["lm_head.weight"] * 2}
    assert weights_id_of_state(untied) != weights_id_of_state(state)


@pytest.mark.parametrize("change", ["value", "shape", "name", "swap", "missing"])
def test_any_real_change_changes_the_id(change: str) -> None:
    state = {name: tensor.clone() for name, tensor in tiny_model("llama").state_dict().items()}
    before = weights_id_of_state(state)
    first, second = "model.layers.0.mlp.up_proj.weight", "model.layers.1.mlp.up_proj.weight"
    if change == "value":
        state[first][0, 0] = torch.nextafter(state[first][0, 0], torch.tensor(9.0))
    elif change == "shape":
        state[first] = state[first].reshape(64, 128)
    elif change == "name":
        state["model.layers.0.mlp.other.weight"] = state.pop(first)
    elif change == "swap":
        state[first], state[second] = state[second], state[first]
    else:
        del state[first]
    assert weights_id_of_state(state) != before


def test_blocks_do_not_change_the_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    state = tiny_model("llama").state_dict()
    whole = weights_id_of_state(state)
    monkeypatch.setattr(identity, "_BLOCK", 100)
    assert weights_id_of_state(state) == whole


def test_the_id_is_kept_until_a_file_changes(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tiny_checkpoint(tmp_path / "model")
    first = weights_id_of_folder(folder, cache)
    with monkeypatch.context() as patch:
        patch.setattr(identity, "_digest", lambda tensor: pytest.fail("hashed again"))
        assert weights_id_of_folder(folder, cache) == first
    (note,) = (cache / "identity").iterdir()
    note.write_text("{ broken")
    assert weights_id_of_folder(folder, cache) == first
    tensors = load_file(folder / "model.safetensors")
    tensors["model.norm.weight"] += 1
    rewrite(folder, tensors)
    later = (folder / "model.safetensors").stat().st_mtime_ns + 10**9
    os.utime(folder / "model.safetensors", ns=(later, later))
    assert weights_id_of_folder(folder, cache) != first


def test_a_cache_that_cannot_be_written_is_no_obstacle(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "model")
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    assert weights_id_of_folder(folder, blocked) == weights_id_of_state(tiny_model("llama").state_dict())


def test_tokenizer_id_covers_what_makes_ids(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()
    same = tokenizer_id(tokenizer)
    tokenizer(["a", "bcd"], padding=True, truncation=True, max_length=2)  # leaves settings behind in the backend
    assert tokenizer_id(tokenizer) == same
    tokenizer.save_pretrained(tmp_path)
    assert tokenizer_id(type(tokenizer).from_pretrained(tmp_path)) == same
    tokenizer.add_tokens(["new"])
    assert tokenizer_id(tokenizer) != same
    other = tiny_tokenizer()
    other.eos_token = "<|endoftext|>"
    assert tokenizer_id(other) != same


def test_template_id(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()
    before = template_id(tokenizer)
    tokenizer.chat_template += " "
    assert template_id(tokenizer) not in (before, "none")
    tokenizer.chat_template = None
    assert template_id(tokenizer) == "none"


def test_identity_survives_json_and_name_does_not_count() -> None:
    assert VersionIdentity.from_dict(json.loads(json.dumps(FIRST.to_dict()))) == FIRST
    assert replace(FIRST, name="other") == FIRST and replace(FIRST, name="other").short == FIRST.short
    assert replace(FIRST, template_id="c2").short != FIRST.short and len(FIRST.short) == 12
    for values in ({"weights_id": "w"}, {**FIRST.to_dict(), "more": "x"}, {**FIRST.to_dict(), "weights_id": 3}):
        with pytest.raises(ValueError, match="a version identity has the parts"):
            VersionIdentity.from_dict(values)  # type: ignore[arg-type]


def test_equal_versions_match_in_silence() -> None:
    assert compare(FIRST, FIRST) == [] and check_match(FIRST, replace(FIRST, name="renamed")) is None


@pytest.mark.parametrize("part", ["weights_id", "adapter_id", "quantisation", "tokenizer_id"])
def test_a_part_that_matters_refuses_unless_forced(part: str) -> None:
    word = part.removesuffix("_id")
    second = replace(FIRST, name="second", **{part: "other"})
    assert compare(FIRST, second) == [word]
    with pytest.raises(MismatchError, match=rf"first \(.*second \(.*the {word} differ"):
        check_match(FIRST, second)
    assert "forced" in (check_match(FIRST, second, force=True) or "")


def test_a_template_only_warns_and_several_parts_are_listed() -> None:
    assert "the chat template differ" in (check_match(FIRST, replace(FIRST, template_id="c2")) or "")
    second = replace(FIRST, weights_id="w2", tokenizer_id="t2", template_id="c2")
    with pytest.raises(MismatchError, match="the weights, tokenizer and chat template differ"):
        check_match(FIRST, second)
