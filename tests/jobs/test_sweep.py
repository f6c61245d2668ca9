"""A sweep's coordinator with made-up workers: kills, pauses, a database that is away, pruning. And the command."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import app
from backend.errors import Cancelled, HeadwayError
from backend.jobs import sweep_job
from backend.jobs.carry_out import carry_out
from backend.jobs.context import ConsoleContext, JobContext
from backend.jobs.kinds import JOB_KINDS
from backend.jobs.store_context import StoreContext
from backend.jobs.sweep_config import SETUP, SweepJobConfig
from backend.jobs.sweep_executors import LocalExecutor, order_of
from backend.settings import Settings
from storage import Store, UnavailableError, owner_token
from tests.jobs import sweep_fake
from tests.jobs.conftest import wait_for

TREES = ["chain-1", "chain-2", "chain-3", "2x1", "2x2", "3x1"]


@pytest.fixture
def prompts(tmp_path: Path) -> str:
    path = tmp_path / "poems.jsonl"
    rows = [{"question_id": f"q{n}", "turns": [f"Poem {n}."]} for n in range(sweep_fake.PROMPTS)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.fixture
def config(prompts: str) -> Callable[..., SweepJobConfig]:
    def make(**changes: Any) -> SweepJobConfig:
        values: dict[str, Any] = {"target": "tiny-llama", "prompts": (prompts,), "limit": None, "sampler": "grid",
                                  "space": {"drafter": "none, ngram", "tree": TREES, "temperature": [0, 1]},
                                  "prune_p": 0, "objectives": ("acceptance_length",)}  # fmt: skip
        return SweepJobConfig(**values | changes)

    return make


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[int]]:
    """fake(pause, trouble) makes sweeps use made-up workers; the list it gives fills with their process ids."""

    def use(pause_s: float = 0.0, trouble: str = "") -> list[int]:
        pids: list[int] = []

        def executor(config: SweepJobConfig, context: JobContext) -> LocalExecutor:
            command = (sys.executable, "-m", "tests.jobs.sweep_fake", str(pause_s), trouble)
            order = order_of(config, context.settings, context.folder, context.job_id)
            return LocalExecutor(order, config.workers, context.folder / "workers.log", command, pids.append)

        monkeypatch.setattr(sweep_job, "_executor", executor)
        return pids

    return use


def console(settings: Settings, items: dict[str, Any] | None = None, **rest: Any) -> ConsoleContext:
    folder = settings.home / "job"
    folder.mkdir(parents=True, exist_ok=True)
    return ConsoleContext(settings, folder, quiet=True, parts=dict(items or {}), **rest)


def table(context: Any) -> list[tuple[Any, ...]]:
    """What has to be the same however often the sweep was disturbed."""
    found = [data for key, data in context.items().items() if key != SETUP]
    keys = ("number", "state", "values", "figures", "reason")
    return sorted((json.dumps([one[key] for key in keys]) for one in found), key=lambda row: json.loads(row)[0])


def test_a_grid_is_tried_once_each_and_what_is_the_same_is_skipped(config: Any, fake: Any, settings: Settings) -> None:
    fake()
    context = console(settings)
    done = sweep_job.run(config(objectives=("speed",)), context)
    # Plain decoding is the same with every tree: two temperatures remain of twelve settings.
    assert done["trials"] == {"finished": 14, "skipped": 10}
    assert "comes to the same as trial 0" in done["skipped"][0]
    written = json.loads(Path(done["table"]).read_text())
    speeds = {one["number"]: one["figures"].get("speed") for one in written["trials"]}
    best = max((speed, number) for number, speed in speeds.items() if speed)
    assert (done["best"]["figures"]["speed"], done["best"]["number"]) == best
    assert written["front"] == [best[1]] and written["setup"]["target"] == "made-up"
    assert len([key for key in context.items() if key.startswith("trial ")]) == 24


def test_stopped_and_taken_up_again_it_finds_the_same(config: Any, fake: Any, settings: Settings) -> None:
    fake(0.01)
    whole = console(settings)
    sweep_job.run(config(), whole)
    found: dict[str, Any] = {}
    for patience in (2, 8, 30, 10_000):
        asked: list[int] = []
        context = console(settings, found, stopped=lambda a=asked, p=patience: a.append(1) or len(a) > p)
        if patience < 10_000:
            with pytest.raises(Cancelled, match="are kept"):
                sweep_job.run(config(), context)
        else:
            sweep_job.run(config(), context)
        found = context.items()
    assert table(context) == table(whole)


def test_a_killed_worker_costs_its_own_trial_only(config: Any, fake: Any, settings: Settings) -> None:
    fake()
    whole = console(settings)
    sweep_job.run(config(), whole)
    pids = fake(0.0, "dies:13")
    disturbed = console(settings)
    sweep_job.run(config(), disturbed)
    assert len(pids) == 2 and table(disturbed) == table(whole)
    attempts = {one["number"]: one["attempt"] for key, one in disturbed.items().items() if key != SETUP}
    assert attempts[13] == 2 and all(attempt <= 1 for number, attempt in attempts.items() if number != 13)


def test_several_workers_find_what_one_finds(config: Any, fake: Any, settings: Settings) -> None:
    fake(0.002)
    one, three = console(settings), console(settings)
    sweep_job.run(config(), one)
    pids = fake(0.002)
    sweep_job.run(config(workers=3), three)
    assert len(pids) == 3 and table(one) == table(three)


def test_losers_are_given_up(config: Any, fake: Any, settings: Settings) -> None:
    fake(0.01)
    context = console(settings)
    done = sweep_job.run(config(prune_p=0.01, objectives=("speed",), space={"tree": TREES}), context)
    trials = [one for key, one in context.items().items() if key != SETUP]
    pruned = [one for one in trials if one["state"] == "pruned"]
    assert pruned and all("beat it on the first" in one["reason"] for one in pruned)
    best = max(sweep_fake.speed_of(one["settings"]) for one in trials)
    assert sweep_fake.speed_of(done["best"]["settings"]) == best


def test_settings_that_a_worker_refuses_are_skipped_with_its_sentence(config: Any, fake: Any, settings: Any) -> None:
    fake()
    done = sweep_job.run(config(space={"tree": ["7x7x7", "2x2"], "drafter": "ngram"}), console(settings))
    assert done["trials"] == {"finished": 1, "skipped": 1}
    assert "too wide for made-up heads" in done["skipped"][0]


@pytest.mark.parametrize(("trouble", "sentence"), [("mute", "No worker of the sweep starts"), ("broken", "no target")])
def test_workers_that_cannot_begin_end_the_sweep_with_a_sentence(
    config: Any, fake: Any, settings: Settings, trouble: str, sentence: str
) -> None:
    fake(0.0, trouble)
    with pytest.raises(HeadwayError, match=sentence):
        sweep_job.run(config(), console(settings))


def test_it_does_not_go_on_with_another_target(config: Any, fake: Any, settings: Settings) -> None:
    fake()
    context = console(settings)
    sweep_job.run(config(), context)
    items = context.items()
    items[SETUP] = items[SETUP] | {"dtype": "bfloat16"}
    del items["trial 000023"]
    with pytest.raises(HeadwayError, match="the dtype changed since it began"):
        sweep_job.run(config(), console(settings, items))


def stored(store: Store, settings: Settings, config: SweepJobConfig) -> StoreContext:
    made = store.create_job(kind="sweep", name="Sweep", config=config.model_dump(mode="json"))
    job = store.lease_job(owner_token(), job_id=made.id)
    assert job is not None
    return StoreContext(store, job, settings, on_stale=lambda: None, say=lambda text: None, beat_s=0.05)


def test_pause_resume_and_a_database_that_is_away(
    config: Any, fake: Any, store: Store, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(0.02)
    context = stored(store, settings, config())
    put, away_until = store.put_items, time.monotonic() + 1.0

    def flaky(job_id: str, attempt: int, items: Any) -> None:
        if time.monotonic() < away_until:
            raise UnavailableError("The database is away.")
        put(job_id, attempt, items)

    monkeypatch.setattr(store, "put_items", flaky)

    def pause_after_a_few() -> None:
        wait_for(lambda: sum(item.data.get("state") == "finished" for item in store.items(context.job.id)) >= 3)
        store.request_job(context.job.id, "pause")

    asking = threading.Thread(target=pause_after_a_few)
    asking.start()
    assert carry_out(context).status == "paused"
    asking.join()
    before = {item.key: item.data for item in store.items(context.job.id)}
    assert SETUP in before and 1 < len(before) < 25
    store.resume_job(context.job.id)
    job = store.lease_job(owner_token(), job_id=context.job.id)
    assert job is not None and job.attempt == 2
    again = StoreContext(store, job, settings, on_stale=lambda: None, say=lambda text: None, beat_s=0.05)
    outcome = carry_out(again)
    assert outcome.status == "finished" and outcome.result is not None
    assert outcome.result["trials"] == {"finished": 14, "skipped": 10}
    after = {item.key: item.data for item in store.items(job.id)}
    kept = {key: one for key, one in before.items() if key != SETUP and one["state"] == "finished"}
    assert kept and {key: after[key] for key in kept} == kept  # nothing was measured twice
    (version,) = store.list_versions()
    assert store.get_job(job.id).version_id == version.id


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"space": {}}, "turns no knob"),
        ({"space": {"tree": "2x2"}, "objectives": ("speed",), "workers": 2}, "one trial at a time"),
        ({"space": {"learning_rate": "1e-4 to 1e-2 log"}}, "belong to training"),
        ({"objectives": ("train_s",)}, "Nothing is trained here"),
        ({"answers": "a.jsonl"}, "train their own drafter"),
        ({"objectives": ("speedup",), "plain_prompts": 0}, "needs plain decoding"),
        ({"ray_address": "here:1"}, "needs the executor ray"),
        ({"task_check": "command"}, "needs one"),
    ],
)
def test_what_cannot_be_is_said_before_anything_starts(config: Any, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(HeadwayError, match=sentence):
        config(**changes)


def test_ray_is_named_when_it_is_missing(config: Any, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(HeadwayError, match="package ray is not installed"):
        sweep_job.run(config(executor="ray"), console(settings))


def test_the_kind_is_known_and_its_places_are_absolute(config: Any, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    made = config(prompts=("poems.jsonl",), task_file="poems.jsonl")
    settled = JOB_KINDS["sweep"].settled(made)
    assert settled.prompts == (str(tmp_path / "poems.jsonl"),) and settled.task_file == str(tmp_path / "poems.jsonl")
    assert JOB_KINDS["sweep"].doing == "sweeping"


def test_the_command_takes_a_file_and_prints_one_object(
    fake: Any, prompts: str, tmp_path: Path, monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    fake()
    monkeypatch.setenv("HEADWAY_HOME", str(tmp_path / "home"))
    file = tmp_path / "sweep.yaml"
    file.write_text(
        "target: tiny-llama\nlimit: null\nsampler: grid\nspace:\n  tree: [chain-1, 2x1]\n  drafter: ngram\n"
        "  temperature: 0.7\nobjectives: [speed]\n"
    )
    command = ["sweep", "--config", str(file), "--prompts", prompts]
    assert app.main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["values"]["tree"] for one in found["trials"]] == ["chain-1", "2x1"]
    assert found["best"] in (0, 1) and found["trials"][found["best"]]["front"]
    assert app.main([*command, "--no-store"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines[0].split()[:4]) == ["drafter", "temperature", "tree", "trial"] and len(lines) == 3
    assert app.main([*command, "--space", '{"tree": "fir, "}']) == 0  # named and skipped
    assert "Unknown tree 'fir'" in capsys.readouterr().out
