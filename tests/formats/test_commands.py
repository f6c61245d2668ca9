"""export, import and check from the command line: what they print, and their exit codes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import app
from backend.drafters.checkpoint import DrafterMeta, read_meta, write_model
from backend.drafters.layer.starting import layer_like
from backend.drafters.mtp.config import MtpConfig
from backend.drafters.mtp.model import MtpModel
from backend.engine.remember import register_drafter, register_version
from backend.settings import Settings
from backend.targets.opening import open_target
from dashboard.presenters.home import Known, version_rows
from storage import Store
from tests.formats.made import heads_for, scattered
from tests.support.adapters import tiny_adapter
from tests.tuning.made_up import calibration

TARGET = "tiny-llama"


@pytest.fixture
def drafter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Medusa heads with random weights for the tiny target."""
    monkeypatch.setenv("HEADWAY_HOME", str(tmp_path / "home"))
    settings = Settings.from_environ()
    settings.make_folders()
    return heads_for(tmp_path / "heads", open_target(TARGET, settings, "cpu"))


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


def test_an_export_says_which_configuration_it_is_for(
    drafter: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    adapter, settings = tiny_adapter(tmp_path / "tone"), Settings.from_environ()
    name = f"{TARGET}+lora:{adapter}+int8"
    heads = heads_for(tmp_path / "own", open_target(name, settings, "cpu"))
    out = tmp_path / "vllm"
    words = ["export", "--engine", "vllm", "--target", name, "--out", str(out), "--json"]
    assert app.main([*words, str(drafter)]) == 2
    assert "the adapter, quantisation differ" in capsys.readouterr().err.replace(" and ", ", ")
    assert app.main([*words, str(heads)]) == 0
    told = printed(capsys)
    assert f"vllm serve {TARGET} --speculative-config" in told["command"]
    assert any(f"made for {TARGET} with +lora:{adapter}+int8 behind it" in note for note in told["notes"])
    assert "Serve just that configuration" in (out / "README.md").read_text()


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
        assert app.main([*words, "--json"]) == 2, words  # quiet: loading may take a bar's while on a busy machine
        sentence = capsys.readouterr().err.strip()
        assert sentence and "\n" not in sentence and "Traceback" not in sentence
    assert not (tmp_path / "x").exists()


def test_a_tuned_tree_is_kept_and_an_export_takes_it_up(
    drafter: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Settings.from_environ()
    target = open_target(TARGET, settings, "cpu")
    weights = read_meta(drafter).weights_sha256
    about = {
        "version": target.identity.to_dict(), "dtype": "float32", "target": TARGET,
        "drafter": {"spec": str(drafter), "weights": weights, "family": "medusa", "name": "m"},
    }  # fmt: skip
    made = replace(calibration(6), conditions=about)
    setup = {"conditions": about, "shape": made.shape.to_json(), "ranks": 3, "parallel": True}
    with Store.open(settings.database) as store:
        version = register_version(store, target)
        heads = register_drafter(store, str(drafter), version)
        job = store.lease_job("host:1:x", job_id=store.create_job(kind="calibrate", name="c", config={}).id)
        assert job is not None
        walks = {f"T0|{number}": walk.to_dict() for number, walk in enumerate(made.walks)}
        store.put_items(job.id, job.attempt, {"setup": setup} | walks)
        store.end_job(job.id, job.attempt, "finished")
    assert app.main(["tune-tree", "--calibration", job.id, "--nodes", "2", "--json"]) == 0
    found = printed(capsys)
    words = ["export", str(drafter), "--engine", "vllm", "--target", TARGET]
    with Store.open(settings.database) as store:
        (tuned,) = store.list_jobs(kinds=["tune-tree"])
    assert (tuned.version_id, tuned.drafter_id) == (version, heads)
    assert tuned.result is not None and tuned.result["paths"] == found["paths"] and len(found["paths"]) == 2
    assert app.main([*words, "--tuned", tuned.id]) == 0
    told = capsys.readouterr().out
    out = settings.exports / "m-vllm"
    assert f"Wrote {out}" in told and "Checked as vllm reads it: nothing found." in told
    assert "tuned, from tuned.json" in (out / "README.md").read_text()
    assert app.main([*words, "--tuned", job.id]) == 2
    assert "is no tune-tree job but calibrate" in capsys.readouterr().err
    with Store.open(settings.database) as store:
        failed, exported = store.list_jobs(kinds=["export"])
        known = Known(store.list_versions(), store.list_drafters(), (), store.list_jobs(statuses=["finished"]))
    assert failed.status == "failed" and (exported.version_id, exported.drafter_id) == (version, heads)
    result = exported.result
    assert result is not None and result["out"] == str(out) and result["check"]["findings"] == []
    assert result["command"].startswith(f"vllm serve {TARGET} --speculative-config") and "m-vllm" in result["command"]
    assert result["command"] in (out / "README.md").read_text()
    done = {stage["name"]: stage["note"] for stage in version_rows(known)[0]["stages"] if stage["done"]}
    assert set(done) == {"trained", "tuned", "exported"} and done["tuned"] == "2 nodes for heads"
