"""A release on a tiny target: what it leaves, where limits fail it, what serves now beside it, and kills anywhere."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest

import app
from backend.drafters.checkpoint import read_meta
from backend.errors import HeadwayError
from backend.jobs.context import ConsoleContext
from backend.jobs.release_config import ReleaseJobConfig
from backend.jobs.release_job import run
from backend.jobs.release_stages import Serving, scored
from backend.jobs.stage import ITEMS, StageContext
from backend.settings import Settings
from backend.targets.tiny import tiny_checkpoint
from storage import Store

WORDS = ("rain", "snow", "wind", "sun", "fog", "hail")
TINY = {
    "target": "tiny-llama", "family": "medusa", "epochs": 1.0, "batch_tokens": 32, "max_new_tokens": 8,
    "answer_temperatures": (0.0,), "cost_seconds": 0.05, "held_out": 0.4, "nodes": 4, "batch": 8,
}  # fmt: skip


@pytest.fixture
def prompts(tmp_path: Path) -> str:
    file = tmp_path / "asked.jsonl"
    rows = [{"question_id": f"q{n}", "turns": [f"Say {WORDS[n % 6]} {n} times."], "answer": "."} for n in range(20)]
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return str(file)


def asked(prompts: str, out: Path, **more: Any) -> ReleaseJobConfig:
    return ReleaseJobConfig.model_validate({**TINY, "prompts": (prompts,), "out": str(out), **more})


class Killed(BaseException):
    """As if the process were gone: nobody handles it."""


@pytest.fixture
def at_home(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_HOME", str(settings.home))
    monkeypatch.setenv("HEADWAY_CACHE", str(settings.cache))


@pytest.mark.usefixtures("at_home")
def test_the_command_makes_a_drafter_and_fails_below_a_limit(
    prompts: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "released"
    words = [
        "release", "--target", "tiny-llama", "--prompts", prompts, "--family", "medusa", "--epochs", "1",
        "--batch-tokens", "32", "--max-new-tokens", "8", "--answer-temperatures", "0", "--cost-seconds", "0.05",
        "--held-out", "0.4", "--nodes", "4", "--no-store", "--json",
    ]  # fmt: skip
    assert app.main([*words, "--out", str(out), "--min-acceptance", "1"]) == 0
    done = json.loads(capsys.readouterr().out)
    report = json.loads((out / "report.json").read_text())
    assert done["passed"] and done["weights"] == read_meta(out / "drafter").weights_sha256
    assert report["measured"]["lengths"]["train"] == done["acceptance_length"] >= 1
    assert read_meta(out / "drafter").tree == (report["tree"] or [[0], [0, 0], [0, 0, 0], [0, 0, 0, 0]])
    assert (out / "report.md").read_text().startswith("# released: passed")
    assert app.main([*words, "--out", str(tmp_path / "again"), "--min-acceptance", "4.9"]) == 1
    assert not json.loads(capsys.readouterr().out)["passed"]
    assert "FAILED: acceptance length" in (tmp_path / "again" / "report.md").read_text()
    assert app.main([*words, "--out", str(out)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert not list(tmp_path.glob(".*"))


def test_a_folder_with_another_release_is_left_alone(settings: Settings, prompts: str, tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    for seed, sentence in ((1, "none would be held out"), (2, "an unfinished release with other settings")):
        with pytest.raises(HeadwayError, match=sentence):
            context = ConsoleContext(settings, tmp_path / "job", quiet=True)
            run(asked(prompts, tmp_path / "out", seed=seed, held_out=0.01), context)


def test_killed_anywhere_it_makes_the_same_drafter(settings: Settings, prompts: str, tmp_path: Path) -> None:
    calls = 0

    def made(name: str, kill_at: int | None) -> str:
        """The weights' hash of a release that is killed at the given call and then begun again."""
        nonlocal calls
        calls, folder, out = 0, tmp_path / name, tmp_path / f"{name}-out"
        folder.mkdir()

        def told() -> bool:
            nonlocal calls
            calls += 1
            if calls == kill_at:
                raise Killed
            return False

        for _ in range(2):
            try:
                context = ConsoleContext(settings, folder, quiet=True, stopped=told)
                return str(run(asked(prompts, out, seed=3), context)["weights"])
            except Killed:
                continue
        raise AssertionError("killed twice")

    whole = made("whole", None)
    total, rng = calls, random.Random(0)
    for moment in sorted(rng.sample(range(1, total + 1), 5)):
        assert made(f"killed-{moment}", moment) == whole, moment


def test_what_serves_now_is_started_from_and_measured_beside(
    settings: Settings, store: Store, prompts: str, tmp_path: Path
) -> None:
    def released(name: str, **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        folder = tmp_path / name
        folder.mkdir()
        context = ConsoleContext(settings, folder, quiet=True, store=store)
        done = run(asked(prompts, tmp_path / f"{name}-out", **more), context)
        return done, json.loads(Path(done["report"]).read_text())

    old = tiny_checkpoint(tmp_path / "old")
    first, report = released("first", target=str(old))
    assert report["started_from"] is None and report["against_serving"] is None and first["passed"]
    (version,) = store.list_versions()
    store.label_version(version.id, "serving", True)
    print_score = f"{sys.executable} -c \"import os; print('score', len(os.environ['HEADWAY_TARGET']) * 0 + 0.75)\""
    new = tiny_checkpoint(tmp_path / "new", seed=1)
    limits = {"max_drop": "99 %", "eval": print_score, "min_score": 0.8}
    second, report = released("second", target=str(new), compare_warm_start=True, **limits)
    assert report["started_from"] and set(report["measured"]["lengths"]) == {"train", "scratch"}
    assert report["measured"]["old"]["acceptance_length"] >= 1
    assert report["serving"]["measured"]["length"] == report["against_serving"]["serving"]
    assert report["against_serving"]["change"] == pytest.approx(
        report["against_serving"]["new"] / report["against_serving"]["serving"] - 1
    )
    assert report["scores"] == {"new": 0.75, "serving": 0.75}
    assert [one["passed"] for one in report["checks"]] == [True, False] and not second["passed"]
    assert {one.path for one in store.list_drafters()} >= {str(Path(second["out"]) / "drafter")}
    third, report = released("third", target=str(new), eval=prompts, eval_check="regex", family="hydra")
    assert report["started_from"] is None  # another family
    assert 0 <= report["scores"]["new"] <= 1 and third["passed"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"max_drop": "5%"}, "label a version `serving`"),
        ({"max_drop": "a lot"}, "The largest drop is a share"),
        ({"max_drop": "150%"}, "The largest drop is a share"),
        ({"min_score": 0.5}, "A least score needs an evaluation"),
        ({"compare_warm_start": True, "warm_start": False}, "nothing to compare it with"),
        ({"compare_warm_start": True}, "There is no drafter to start from"),
        ({"held_out": 0.01}, "none would be held out"),
        ({"target": "nobody"}, "There is no target"),
    ],
)
def test_mistakes_are_one_sentence(
    settings: Settings, prompts: str, tmp_path: Path, changes: dict[str, Any], sentence: str
) -> None:
    (tmp_path / "job").mkdir()
    with pytest.raises(HeadwayError, match=sentence):
        run(asked(prompts, tmp_path / "out", **changes), ConsoleContext(settings, tmp_path / "job", quiet=True))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("command", "sentence"),
    [("false", "printed no number, exit code 1"), ("nosuchcommand", "can't be run"), ("echo none", "no number"),
     ("echo 'x", "mind its quotation marks")],
)  # fmt: skip
def test_an_evaluation_that_fails_is_told(
    settings: Settings, prompts: str, tmp_path: Path, command: str, sentence: str
) -> None:
    (tmp_path / "job").mkdir()
    context = StageContext(ConsoleContext(settings, tmp_path, quiet=True), "job")
    with pytest.raises(HeadwayError, match=sentence):
        scored(asked(prompts, tmp_path / "out", eval=command), context, "none", Serving(None, None))


def test_parts_of_a_stage_outlive_a_kill(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    first = StageContext(ConsoleContext(settings, tmp_path, quiet=True), "one")
    first.item("a", {"x": 1})
    first.item("a", {"x": 2})
    with (tmp_path / "one" / ITEMS).open("a") as file:
        file.write('["b", {"x"')
    again = StageContext(ConsoleContext(settings, tmp_path, quiet=True), "one")
    assert again.items() == {"a": {"x": 2}}
    again.item("c", {"y": 3})
    assert again.items() == {"a": {"x": 2}, "c": {"y": 3}}
