"""The registry: versions by path, labels, what differs between two, and files that changed or went."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import app
from backend.errors import HeadwayError
from backend.jobs.short_process import ask
from backend.jobs.version_files import answer, checked, described, differing
from backend.jobs.version_words import to_check
from backend.jobs.versions_command import one_of
from backend.settings import Settings
from backend.targets.opening import open_target
from backend.targets.tiny import tiny_checkpoint
from storage import Store
from tests.support.adapters import tiny_adapter


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("HEADWAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    return Settings.from_environ()


def said(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    assert app.main(["versions", *words, "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def tuned(folder: Path, out: Path) -> Path:
    """A copy with other weights in one layer and another template."""
    shutil.copytree(folder, out)
    file = out / "model.safetensors"
    weights = load_file(file)
    name = next(
        name for name in weights if ".layers.1." in name and name.endswith("weight") and weights[name].dim() == 2
    )
    save_file(weights | {name: weights[name] * 1.1}, file, metadata={"format": "pt"})
    place = out / "chat_template.jinja"
    text = (
        place.read_text()
        if place.is_file()
        else json.loads((out / "tokenizer_config.json").read_text())["chat_template"]
    )
    place.write_text(text.replace("assistant", "helper"))
    return out


def test_a_target_is_what_loading_it_would_say_it_is(tmp_path: Path, settings: Settings) -> None:
    folder = tiny_checkpoint(tmp_path / "m")
    loaded = open_target(str(folder), settings, "cpu")
    found = described(str(folder), settings)
    assert found["identity"] == loaded.identity.to_dict()
    assert found["num_parameters"] == loaded.num_parameters and found["model_type"] == "llama"
    assert described("tiny-llama", settings)["identity"]["weights_id"] == found["identity"]["weights_id"]


def test_a_process_of_its_own_answers_or_says_why_not(settings: Settings) -> None:
    request = {"home": str(settings.home), "cache": str(settings.cache), "action": "describe", "source": "./missing"}
    with pytest.raises(HeadwayError, match="There is no target"):
        ask("backend.jobs.version_files", request, 120.0, "Reading the files")
    with pytest.raises(HeadwayError, match="Searching took too long"):
        ask("backend.jobs.version_files", request, 0.0, "Searching")


def test_versions_are_registered_labelled_and_noted(
    tmp_path: Path, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tiny_checkpoint(tmp_path / "base")
    other = tuned(folder, tmp_path / "tuned")
    (base,) = said(capsys, "register", str(folder))
    (child,) = said(capsys, "register", str(other), "--parent", "base", "--name", "calls")
    assert child["parent_id"] == base["id"] and child["source"] == str(other) and base["label"] == "base"
    assert said(capsys, "register", str(folder))[0]["id"] == base["id"]
    said(capsys, "label", "base", "serving")
    (now,) = said(capsys, "label", "calls", "serving")
    assert now["labels"] == ["serving"]
    said(capsys, "note", "serving", "for the shop")
    listed = {one["label"]: one for one in said(capsys)}
    assert listed["base"]["labels"] == [] and listed["calls"]["notes"] == "for the shop"
    assert said(capsys, "unlabel", "serving", "serving")[0]["labels"] == []
    with Store.open(settings.database) as store:
        assert one_of(store, base["weights_id"][:8]).id == base["id"]
    for words, sentence in (
        (["label", "nobody", "x"], "There is no version “nobody”"),
        (["label", "base", "a, b"], "without a comma"),
        (["label", "base"], "takes VERSION LABEL, not 1 words"),
        (["register", str(tmp_path / "missing")], "There is no target"),
    ):
        assert app.main(["versions", *words]) == 2
        assert sentence in capsys.readouterr().err


def test_what_changed_is_told_by_layer_and_word(tmp_path: Path, settings: Settings) -> None:
    folder = tiny_checkpoint(tmp_path / "base")
    base = {"source": str(folder), "identity": described(str(folder), settings)["identity"]}
    other = {"source": str(tuned(folder, tmp_path / "tuned")), "identity": None}
    found = differing(base, other, settings)
    assert found["parts"] == ("weights", "chat template")
    changed = {one["name"]: one for one in found["layers"] if one["changed"]}
    assert list(changed) == ["layer 1"] and changed["layer 1"]["changed"] == 1
    first, second = (load_file(place / "model.safetensors") for place in (folder, tmp_path / "tuned"))
    layer = [name for name in first if ".layers.1." in name]
    apart = sum(float((second[name] - first[name]).double().square().sum()) for name in layer)
    before = sum(float(first[name].double().square().sum()) for name in layer)
    assert changed["layer 1"]["change"] == pytest.approx((apart / before) ** 0.5)
    assert any(line.startswith("+") and "helper" in line for line in found["template"])
    with pytest.raises(HeadwayError, match="now holds another version than the one that was registered"):
        differing(base, other | {"identity": base["identity"]}, settings)
    same = differing(base, base, settings)
    assert same["parts"] == () and not any(one["change"] for one in same["layers"]) and same["template"] == ()


def test_files_that_changed_or_went_are_found_by_their_hash(tmp_path: Path, settings: Settings) -> None:
    folder = tiny_checkpoint(tmp_path / "base")
    with Store.open(":memory:") as store:
        from backend.engine.remember import register_version

        version = store.get_version(register_version(store, open_target(str(folder), settings, "cpu")))
        asked = to_check(version, [])
        assert checked(asked, settings)["state"] == "there"
        folder.rename(tmp_path / "moved")
        gone = checked(asked, settings)
        assert gone["state"] == "gone" and gone["moved"] == str(tmp_path / "moved")
        tuned(tmp_path / "moved", folder)
        changed = checked(asked, settings)
        assert changed["state"] == "changed" and "now holds another version" in changed["sentence"]
        assert changed["moved"] == str(tmp_path / "moved")
        elsewhere = checked({**asked, "source": "smollm2-135m"}, settings)
        assert elsewhere["state"] == "elsewhere" and elsewhere["moved"] is None
        assert checked({**asked, "source": "./went"}, settings)["state"] == "gone"


def test_a_drafter_whose_weights_changed_is_marked(tmp_path: Path, settings: Settings) -> None:
    weights = tmp_path / "heads" / "model.safetensors"
    weights.parent.mkdir()
    save_file({"a": torch.ones(2)}, weights)
    from backend.drafters.checkpoint import file_sha256

    drafter = {"id": "d", "name": "heads", "path": str(weights.parent), "weights_hash": file_sha256(weights)}
    folder = tiny_checkpoint(tmp_path / "base")
    version = {"id": "v", "source": str(folder), "identity": described(str(folder), settings)["identity"]}
    states = []
    for change in (lambda: None, lambda: save_file({"a": torch.zeros(2)}, weights), weights.unlink):
        change()
        found = answer({
            "home": str(settings.home), "cache": str(settings.cache), "action": "check",
            "versions": [version | {"drafters": [drafter]}],
        })  # fmt: skip
        states.append(found[0]["drafters"][0]["state"])
    assert states == ["there", "changed", "gone"]


def test_a_check_on_the_command_line_ends_with_1_where_something_is_wrong(
    tmp_path: Path, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tiny_checkpoint(tmp_path / "base")
    said(capsys, "register", str(folder))
    assert app.main(["versions", "check"]) == 0 and "there" in capsys.readouterr().out
    shutil.rmtree(folder)
    assert app.main(["versions", "check"]) == 1 and "is gone" in capsys.readouterr().out


def test_a_version_with_an_adapter_is_registered_compared_and_checked(tmp_path: Path, settings: Settings) -> None:
    folder, adapter = tiny_checkpoint(tmp_path / "base"), tiny_adapter(tmp_path / "tone")
    name = f"{folder}+lora:{adapter}+int8"
    found = described(name, settings)
    assert (found["name"], found["source"]) == ("base+tone+int8", name)
    base = {"source": str(folder), "identity": described(str(folder), settings)["identity"]}
    changed = differing(base, {"source": name, "identity": found["identity"]}, settings)
    assert changed["parts"] == ("adapter", "quantisation") and not any(one["change"] for one in changed["layers"])
    assert changed["settings"]["adapter: r"] == (None, 4)
    assert changed["settings"]["quantisation"] == (None, "torchao-int8")

    def state(source: str = name) -> dict[str, Any]:
        asked = {"id": "x", "source": source, "identity": found["identity"], "drafters": []}
        return checked(asked, settings)

    assert state()["state"] == "there"
    folder.rename(tmp_path / "moved")
    assert state()["state"] == "gone" and state()["moved"] == f"{tmp_path / 'moved'}+lora:{adapter}+int8"
    (tmp_path / "moved").rename(folder)
    tiny_adapter(adapter, seed=1)
    assert state()["state"] == "changed"
    named = f"tiny-llama+lora:{adapter}"
    assert state(named)["state"] == "changed" and "another adapter" in state(named)["sentence"]
    (adapter / "adapter_config.json").unlink()
    assert state()["state"] == "changed" and "holds no LoRA adapter" in state()["sentence"]
