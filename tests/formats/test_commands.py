"""export, import and check from the command line: what they print, and their exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import app
from backend.drafters.checkpoint import DrafterMeta, write_model
from backend.drafters.layer.starting import layer_like
from backend.drafters.medusa.config import MedusaConfig
from backend.drafters.medusa.model import MedusaHeads
from backend.drafters.mtp.config import MtpConfig
from backend.drafters.mtp.model import MtpModel
from backend.settings import Settings
from backend.targets.opening import open_target
from tests.formats.made import scattered

TARGET = "tiny-llama"


@pytest.fixture
def drafter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Medusa heads with random weights for the tiny target."""
    monkeypatch.setenv("HEADWAY_HOME", str(tmp_path / "home"))
    settings = Settings.from_environ()
    settings.make_folders()
    version = open_target(TARGET, settings, "cpu").identity.to_dict()
    heads = MedusaHeads(MedusaConfig(hidden_size=64, vocab_size=260, num_heads=2, draft_vocab_size=None))
    scattered(heads)
    meta = DrafterMeta(family="medusa", name="m", config={}, version=version, tree=[[0], [0, 0]])
    write_model(tmp_path / "heads", "medusa", heads.config, heads, meta, torch.float32)
    return tmp_path / "heads"


def printed(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_out_and_back_again(drafter: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, back = str(tmp_path / "vllm"), str(tmp_path / "back")
    words = ["export", str(drafter), "--engine", "vllm", "--target", TARGET, "--out", out, "--json"]
    assert app.main(words) == 0
    told = printed(capsys)
    assert (told["family"], told["engine"], told["num_speculative_tokens"]) == ("medusa", "vllm", 2)
    assert app.main(["check", out, "--target", TARGET, "--engine", "vllm", "--json"]) == 0
    assert printed(capsys)["findings"] == []
    assert app.main(["import", out, "--target", TARGET, "--out", back, "--json"]) == 0
    assert printed(capsys)["family"] == "medusa"
    config = json.loads((tmp_path / "vllm/config.json").read_text())
    del config["medusa_fc_bias"]
    (tmp_path / "vllm/config.json").write_text(json.dumps(config))
    assert app.main(["check", out, "--json"]) == 1
    assert [one["id"] for one in printed(capsys)["findings"]] == ["medusa-bias-dropped"]
    assert app.main(["check", out]) == 1
    assert "loads without a word" in capsys.readouterr().out


def test_mtp_goes_inside_its_target(drafter: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = Settings.from_environ()
    target = open_target(TARGET, settings, "cpu")
    model = MtpModel(MtpConfig(layer=layer_like(target), vocab_size=260, draft_vocab_size=None, recycle_normed=True))
    scattered(model)
    meta = DrafterMeta(family="mtp", name="m", config={}, version=target.identity.to_dict())
    write_model(tmp_path / "mtp", "mtp", model.config, model, meta, torch.float32)
    out = str(tmp_path / "whole")
    assert app.main(["export", str(tmp_path / "mtp"), "--engine", "vllm", "--target", TARGET, "--out", out]) == 0
    assert "whole target" in capsys.readouterr().err
    assert app.main(["check", out, "--target", TARGET, "--json"]) == 0
    assert printed(capsys)["family"] == "mtp"
    open_target(out, settings, "cpu")  # as a target it is whole: an engine without the module loads it too


def test_misuse_is_one_sentence_and_exit_code_2(
    drafter: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--out", str(tmp_path / "x")]
    for words in (
        ["export", str(drafter), "--engine", "vllm", *out],
        ["export", "ngram", "--engine", "vllm", "--target", TARGET, *out],
        ["export", str(drafter), "--engine", "sglang", "--target", TARGET, *out],
        ["import", str(tmp_path / "nothing"), "--target", TARGET, *out],
        ["check", str(tmp_path / "nothing")],
        ["check", str(drafter)],
    ):
        assert app.main(words) == 2, words
        sentence = capsys.readouterr().err.strip()
        assert sentence and "\n" not in sentence and "Traceback" not in sentence
    assert not (tmp_path / "x").exists()
