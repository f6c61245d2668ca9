"""Several adapters of a tiny target: what the comparison leaves, kills anywhere, bad input, the command."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import app
from backend.analysis.many_adapters import DRAFTERS, MIXTURE, NGRAM, OWN, PLAIN, SHARED
from backend.drafters.checkpoint import read_meta
from backend.drafters.registry import load_drafter
from backend.errors import HeadwayError, MismatchError
from backend.jobs.adapters_config import AdaptersJobConfig
from backend.jobs.adapters_job import run
from backend.jobs.adapters_stages import check_together, tree_for
from backend.jobs.context import ConsoleContext
from backend.jobs.kinds import JOB_KINDS
from backend.settings import Settings
from backend.targets.opening import open_target
from backend.targets.tiny import tiny_tokenizer
from storage import Store
from tests.formats.made import heads_for
from tests.support.adapters import tiny_adapter

WORDS = ("rain", "snow", "wind", "sun", "fog", "hail")
TINY = {
    "target": "tiny-llama", "family": "medusa", "epochs": 1.0, "batch_tokens": 32, "max_new_tokens": 10, "batch": 8,
    "answer_temperatures": (0.0,), "held_out": 0.4,
}  # fmt: skip


@pytest.fixture(scope="module")
def tones(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Two adapters of the tiny target."""
    folder = tmp_path_factory.mktemp("adapters")
    return {name: str(tiny_adapter(folder / name, seed=seed)) for seed, name in enumerate(("kind", "curt"))}


@pytest.fixture
def prompts(tmp_path: Path) -> str:
    file = tmp_path / "asked.jsonl"
    rows = [{"question_id": f"q{n}", "turns": [f"Say {WORDS[n % 6]} {n} times."]} for n in range(20)]
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return str(file)


def asked(tones: dict[str, str], file: str, out: Path, **more: Any) -> AdaptersJobConfig:
    given = {
        "adapter": tuple(f"{name}={place}" for name, place in tones.items()),
        "prompts": tuple(f"{name}={file}" for name in tones),
        "out": str(out),
    }
    return AdaptersJobConfig.model_validate({**TINY, **given, **more})


def context_at(settings: Settings, folder: Path, store: Store | None = None) -> ConsoleContext:
    folder.mkdir(exist_ok=True)
    return ConsoleContext(settings, folder, quiet=True, store=store)


class Killed(BaseException):
    """As if the process were gone: nobody handles it."""


def counted(report: dict[str, Any]) -> dict[str, Any]:
    """What of a report no clock decides."""
    rows = {
        one["name"]: [
            (row["drafter"], row["acceptance_length"], row["marginal"], row["conditional"]) for row in one["rows"]
        ]
        for one in report["adapters"]
    }
    tokens = {name: {drafter: one["tokens"] for drafter, one in own.items()} for name, own in report["times"].items()}
    memory = {name: cost["megabytes"] for name, cost in report["costs"]["own"].items()}
    return {"rows": rows, "tokens": tokens, "memory": memory, "traffic": report["traffic"]}


def test_every_drafter_is_measured_on_every_adapter(
    settings: Settings, store: Store, tones: dict[str, str], prompts: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    config = asked(tones, prompts, out, traffic=("kind=3", "curt=1"))
    done = run(config, context_at(settings, tmp_path / "job", store))
    report = json.loads(Path(done["report"]).read_text())
    assert report["traffic"] == {"kind": 0.75, "curt": 0.25} and report["no_mixture"] is None
    for one in report["adapters"]:
        assert [row["drafter"] for row in one["rows"]] == list(DRAFTERS) and one["prompts"] >= 5
        assert one["verdict"] in ("earns", "does not", "too few") and one["name"] in one["sentence"]
        rows = {row["drafter"]: row for row in one["rows"]}
        assert all(rows[name]["acceptance_length"] >= 1 for name in (SHARED, OWN, MIXTURE, NGRAM))
        assert rows[SHARED]["over_shared"] is None and rows[OWN]["over_shared_interval"]
        assert rows[PLAIN]["speedup"] == pytest.approx(1) and rows[OWN]["marginal"]
    assert {one["strategy"] for one in report["strategies"]} == {SHARED, OWN, MIXTURE, "earned", NGRAM, PLAIN}
    own = next(one for one in report["strategies"] if one["strategy"] == OWN)
    assert own["megabytes"] == pytest.approx(sum(cost["megabytes"] for cost in report["costs"]["own"].values()))
    assert report["costs"]["own"]["kind"]["minutes"] >= 0
    assert (out / "report.md").read_text().startswith("# out: which adapter earns its own heads?\n\n- ")

    base, kind, curt = (open_target(name, settings, "cpu") for name in ("tiny-llama", *map(config.version_of, tones)))
    mixture = read_meta(out / MIXTURE)
    assert mixture.version == kind.identity.to_dict() and mixture.also == [curt.identity.to_dict()]
    assert [one["version"] for one in mixture.lineage["also"]] == mixture.also
    for target in (kind, curt):  # it learned from both, so it is none of another version
        assert load_drafter(str(out / MIXTURE), target)[1] == []
    with pytest.raises(MismatchError, match="the adapter differ"):
        load_drafter(str(out / MIXTURE), base)
    with pytest.raises(MismatchError, match="the adapter differ"):
        load_drafter(str(out / "own-kind"), curt)
    assert read_meta(out / SHARED).version == base.identity.to_dict()

    recorded = {(one.path, one.version_id) for one in store.list_drafters()}
    assert sum(path == str(out / MIXTURE) for path, _ in recorded) == 2 and len(recorded) == 5
    with pytest.raises(HeadwayError, match="is there already"):
        run(config, context_at(settings, tmp_path / "again"))


def test_killed_anywhere_it_gives_the_same_table(
    settings: Settings, tones: dict[str, str], prompts: str, tmp_path: Path
) -> None:
    calls = 0

    def made(name: str, kill_at: int | None) -> dict[str, Any]:
        """The counts of a comparison that is killed at the given call and then begun again."""
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
                return counted(json.loads(Path(run(asked(tones, prompts, out, seed=3), context)["report"]).read_text()))
            except Killed:
                continue
        raise AssertionError("killed twice")

    whole = made("whole", None)
    total, rng = calls, random.Random(0)
    for moment in sorted(rng.sample(range(1, total + 1), 2)):
        assert made(f"killed-{moment}", moment) == whole, moment


def test_a_shared_drafter_that_is_given_lends_its_tree(
    settings: Settings, tones: dict[str, str], prompts: str, tmp_path: Path
) -> None:
    heads = heads_for(tmp_path / "heads", open_target("tiny-llama", settings, "cpu"))
    config = asked(tones, prompts, tmp_path / "out", shared=str(heads))
    tree = read_meta(heads).tree
    assert tree and tree_for(config) == json.dumps(tree) and tree_for(asked(tones, prompts, tmp_path)) == "chain"
    assert tree_for(asked(tones, prompts, tmp_path, shared=str(heads), family="hydra")) == "chain"
    with pytest.raises(HeadwayError, match="no heads that adapters could share"):
        tree_for(asked(tones, prompts, tmp_path, shared="ngram"))
    done = run(config, context_at(settings, tmp_path / "job"))
    out = Path(done["out"])
    assert not (out / SHARED).exists() and read_meta(out / "own-kind").tree == tree
    report = json.loads(Path(done["report"]).read_text())
    assert report["costs"]["joint"][SHARED]["megabytes"] > 0


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"adapter": ("kind=x",)}, "Two or more adapters are compared, and 1 was given"),
        ({"adapter": ("kind=x", "curt=x")}, "stands there under two names"),
        ({"adapter": ("kind=x", "kind=y")}, "Two adapters are called kind"),
        ({"adapter": ("kind=x", "y")}, "An adapter is given as NAME=ADAPTER"),
        ({"adapter": ("kind=x", "a/b=y")}, "can't be an adapter's"),
        ({"prompts": ("kind=f",)}, "curt has no prompts"),
        ({"prompts": ("kind=f", "curt=f", "rude=f")}, "The prompts name rude"),
        ({"traffic": ("rude=1",)}, "The traffic names rude"),
        ({"traffic": ("kind=0", "curt=0")}, "adds up to nothing"),
        ({"traffic": ("kind=-1",)}, "can't be -1"),
        ({"traffic": ("kind=much",)}, "has to be a number"),
        ({"traffic": ("kind=1", "kind=2")}, "stands there twice"),
        ({"target": "tiny-llama+lora:x"}, "name the model alone"),
    ],
)
def test_mistakes_in_what_is_asked_are_one_sentence(
    tones: dict[str, str], prompts: str, tmp_path: Path, changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(HeadwayError, match=sentence):
        asked(tones, prompts, tmp_path / "out", **changes)


def test_adapters_that_can_not_be_compared_cost_nothing(
    settings: Settings, tones: dict[str, str], prompts: str, tmp_path: Path
) -> None:
    elsewhere = tiny_adapter(tmp_path / "elsewhere", base="owner/other-model")
    wide = tiny_adapter(tmp_path / "wide", seed=5)
    tokenizer = tiny_tokenizer()
    tokenizer.add_tokens(["<call>"], special_tokens=True)
    tokenizer.save_pretrained(wide)
    copy = tiny_adapter(tmp_path / "copy", seed=0)
    for number, (other, sentence) in enumerate([
        (elsewhere, "trained for owner/other-model, but the target is tiny-llama"),
        (wide, "so no drafter can be shared"),
        (copy, "hold the same numbers"),
        (tmp_path / "nowhere", "no adapter"),
    ]):  # fmt: skip
        folder = tmp_path / f"job-{number}"
        with pytest.raises(HeadwayError, match=sentence):
            run(asked({"kind": tones["kind"], "odd": str(other)}, prompts, tmp_path / "out"),
                context_at(settings, folder))  # fmt: skip
        assert not (tmp_path / "out").exists() and not (folder / "prompts").exists()


def test_without_a_common_vocabulary_there_is_no_mixture(tones: dict[str, str], prompts: str, tmp_path: Path) -> None:
    seen = {
        name: {"version": {"adapter_id": name}, "vocab_size": 260, "vocabulary": "same"} for name in ("a", "b", "c")
    }
    config = asked(tones, prompts, tmp_path)
    assert check_together(config, seen) is None
    seen["c"]["vocabulary"] = "other"
    assert "c changes the embedding or the output head" in str(check_together(config, seen))


def test_paths_are_settled_behind_their_names(
    tones: dict[str, str], prompts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kind = JOB_KINDS["adapters"]
    config = asked({"kind": tones["kind"], "curt": "owner/curt"}, Path(prompts).name, Path("out"))
    settled = kind.settled(config)
    assert isinstance(settled, AdaptersJobConfig)
    assert settled.files == {"kind": [prompts], "curt": [prompts]} and settled.adapters["curt"] == "owner/curt"
    assert settled.out == str(tmp_path / "out") and kind.exclusive(config) == f"file:{tmp_path / 'out'}"
    assert kind.summary(settled) == "Adapters out with tiny-llama"


def test_the_command_says_the_report_and_records_the_job(
    settings: Settings, tones: dict[str, str], prompts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("HEADWAY_HOME", str(settings.home))
    monkeypatch.setenv("HEADWAY_CACHE", str(settings.cache))
    words = [
        "adapters", "--target", "tiny-llama", "--family", "medusa", "--epochs", "1", "--batch-tokens", "32",
        "--max-new-tokens", "8", "--answer-temperatures", "0", "--held-out", "0.4", "--measured", "6",
        "--min-gain", "0.1", "--traffic", "kind=2", "--traffic", "curt=1",
    ]  # fmt: skip
    for name, place in tones.items():
        words += ["--adapter", f"{name}={place}", "--prompts", f"{name}={prompts}"]
    assert app.main([*words, "--out", str(tmp_path / "out"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report == json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["config"]["min_gain"] == 0.1 and len(report["adapters"]) == 2
    with Store.open(settings.database) as store:
        (job,) = store.list_jobs(kinds=["adapters"])
        assert job.status == "finished" and job.result is not None and len(job.result["adapters"]) == 2
    assert app.main([*words, "--out", str(tmp_path / "out"), "--no-store"]) == 2
    assert "is there already" in capsys.readouterr().err
    assert not list(tmp_path.glob(".*"))
