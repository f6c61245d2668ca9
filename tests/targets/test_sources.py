"""What a typed target name resolves to, and the one sentence for what cannot be one."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path

import pytest

from backend.errors import HeadwayError
from backend.settings import Settings
from backend.targets import sources
from backend.targets.sources import (
    TINY_KINDS,
    AdapterSource,
    Quantisation,
    SourceKind,
    TargetSource,
    absolute_target,
    builtin_names,
    published_name,
    resolve_source,
    short_name,
)
from backend.targets.tiny import KINDS


def test_builtin_names_resolve() -> None:
    names = builtin_names()
    assert names[0] == "smollm2-135m" and "tiny-llama" in names
    for name in names:
        assert resolve_source(name).kind is not SourceKind.FOLDER
    assert resolve_source("tiny-gpt_neox") == TargetSource("tiny-gpt_neox", SourceKind.TINY, tiny_kind="gpt_neox")
    assert resolve_source(" tiny-llama:7 ").seed == 7


def test_the_tiny_kinds_are_those_that_can_be_made() -> None:
    assert TINY_KINDS == KINDS


def test_smollm2_comes_from_the_package_else_from_the_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class File:
        name = "SmolLM2-135M-Instruct.Q4_1.gguf"

        def locate(self) -> Path:
            return tmp_path / self.name

    monkeypatch.setattr(sources.importlib.metadata, "files", lambda name: [File()])
    assert resolve_source("smollm2-135m").kind is SourceKind.HUB  # listed, but not there
    (tmp_path / File.name).write_bytes(b"GGUF")
    assert resolve_source("SmolLM2-135M").path == tmp_path / File.name

    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(sources.importlib.metadata, "files", missing)
    assert resolve_source("smollm2-135m").hub_id == "HuggingFaceTB/SmolLM2-135M-Instruct"


def test_folders_and_files(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert resolve_source(str(tmp_path)) == TargetSource(str(tmp_path), SourceKind.FOLDER, path=tmp_path)
    gguf = tmp_path / "sub" / "model.gguf"
    gguf.parent.mkdir()
    gguf.write_bytes(b"GGUF")
    assert resolve_source(str(gguf)).kind is SourceKind.GGUF
    assert resolve_source(str(gguf.parent)).path == gguf
    (gguf.parent / "other.gguf").write_bytes(b"GGUF")
    with pytest.raises(HeadwayError, match="2 GGUF files"):
        resolve_source(str(gguf.parent))


def test_hub_ids_may_name_a_revision() -> None:
    found = resolve_source("owner/model-1.5@refs/pr/2")
    assert (found.kind, found.hub_id, found.revision) == (SourceKind.HUB, "owner/model-1.5", "refs/pr/2")
    assert resolve_source("gpt2").hub_id == "gpt2"


@pytest.mark.parametrize(
    "name",
    [
        "./nothing/here",
        "/no/such/folder",
        "a/b/c",
        "a model",
        "${HOME}",
        "<script>alert(1)</script>",
        "🙂",
        "gone.gguf",
    ],
)
def test_unknown_names_say_what_was_tried(name: str) -> None:
    with pytest.raises(HeadwayError, match=r"There is no target .*built-in name.*folder or file.*hub id") as caught:
        resolve_source(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("name", "part"), [("", "No target was named"), ("tiny-nope", "no built-in target")])
def test_other_bad_names(name: str, part: str) -> None:
    with pytest.raises(HeadwayError, match=part):
        resolve_source(name)


@pytest.mark.parametrize("name", ["a\x00b", "x" * 5000, "a\nb"])
def test_hostile_names_give_one_short_sentence(name: str) -> None:
    with pytest.raises(HeadwayError) as caught:
        resolve_source(name)
    assert "\n" not in str(caught.value) and "\x00" not in str(caught.value) and len(str(caught.value)) < 400


def test_an_adapter_folder_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "owner/base"}))
    with pytest.raises(HeadwayError, match="LoRA adapter for “owner/base”"):
        resolve_source(str(tmp_path))


def test_other_folders_and_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match="holds no model"):
        resolve_source(str(tmp_path))
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"")
    with pytest.raises(HeadwayError, match="not a GGUF file"):
        resolve_source(str(file))


def test_settings_come_from_the_environment_with_defaults() -> None:
    chosen = Settings.from_environ({"HEADWAY_HOME": "/srv/home", "HEADWAY_CACHE": "/srv/cache"})
    assert (chosen.home, chosen.cache) == (Path("/srv/home"), Path("/srv/cache"))
    default = Settings.from_environ({"HEADWAY_HOME": ""})
    assert default.home == Path.home() / ".local/share/headway" and default.cache == Path.home() / ".cache/headway"


def test_what_stands_behind_a_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a+dapter").mkdir()
    (tmp_path / "a+dapter" / "adapter_config.json").write_text("{}")
    found = resolve_source(" tiny-llama:3+lora:a+dapter+int8 ")
    assert (found.kind, found.seed, found.quantisation) == (SourceKind.TINY, 3, Quantisation.INT8)
    assert found.name == "tiny-llama:3+lora:a+dapter+int8" and found.base_name == "tiny-llama:3"
    assert found.adapter == AdapterSource("a+dapter", merged=False, path=tmp_path / "a+dapter")
    assert found.with_merged_adapter().adapter == AdapterSource("a+dapter", merged=True, path=tmp_path / "a+dapter")
    hub = resolve_source("owner/model@main+merged:owner/adapter@refs/pr/2")
    assert (hub.hub_id, hub.revision, hub.quantisation) == ("owner/model", "main", None)
    assert hub.adapter == AdapterSource("owner/adapter@refs/pr/2", True, None, "owner/adapter", "refs/pr/2")
    assert resolve_source("tiny-llama+bnb4").needs_cuda and not found.needs_cuda
    assert resolve_source("tiny-llama").with_merged_adapter() == resolve_source("tiny-llama")


def test_a_path_that_exists_is_not_taken_apart(tmp_path: Path) -> None:
    folder = tmp_path / "model+int8"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    assert resolve_source(str(folder)).quantisation is None
    assert resolve_source(f"{folder}+int8").path == folder


def test_names_of_what_is_made_with_a_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tone").mkdir()
    assert short_name("smollm2-135m+lora:tone+int8") == "smollm2-135m+tone+int8"
    assert short_name("owner/model+merged:me/my-adapter@main") == "model+my-adapter"
    assert (short_name("/a/b"), short_name("tiny-llama+bnb8")) == ("b", "tiny-llama+bnb8")
    assert absolute_target("smollm2-135m+lora:tone+int8") == f"smollm2-135m+lora:{tmp_path / 'tone'}+int8"
    assert absolute_target("owner/model+int8") == "owner/model+int8"


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("tiny-llama+int8+lora:x", "one adapter may stand behind the model, and one quantisation behind that"),
        ("tiny-llama+lora:x+merged:y", "one adapter may stand"),
        ("tiny-llama+int8+bnb4", "one quantisation behind that"),
        ("tiny-llama+lora:./gone", "There is no adapter “./gone”"),
        ("tiny-llama+lora:a b", "There is no adapter “a b”"),
        ("tiny-llama+lora:.", "holds no LoRA adapter: adapter_config.json is not in it"),
        ("+int8", "No target was named"),
        ("tiny-llama+int4", "There is no target “tiny-llama\\+int4”"),
        ("tiny-llama+lora:" + "x" * 5000, "adapter"),
    ],
)
def test_parts_that_cannot_be_read(name: str, part: str) -> None:
    with pytest.raises(HeadwayError, match=part) as caught:
        resolve_source(name)
    assert len(str(caught.value)) < 400


def test_names_that_mean_the_same_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert published_name("smollm2-135m") == published_name("HuggingFaceTB/SmolLM2-135M-Instruct")
    assert published_name("tiny-llama") == published_name("tiny-llama:0") != published_name("tiny-llama:1")
    assert published_name("Owner/Model@main") == "owner/model"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "owner" / "model").mkdir(parents=True)
    assert published_name("owner/model") is None  # a folder of that name is meant
    assert published_name("/models/x") is None and published_name("gpt2") is None
