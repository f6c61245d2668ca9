"""A trial on a tiny target: what it measures, against the loop's own records; tasks; training; the real worker."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from backend.acceptance import Rule, SamplingSettings
from backend.analysis.drift import accepted_flags, drift_of
from backend.decoding.loop import DecodeSettings, decode
from backend.decoding.records import DecodeResult, Detail, StepTrace
from backend.drafters.ngram.config import NgramConfig
from backend.drafters.ngram.drafter import NgramDrafter
from backend.errors import Cancelled, HeadwayError
from backend.jobs import sweep_job
from backend.jobs.context import ConsoleContext
from backend.jobs.sweep_config import SweepJobConfig
from backend.jobs.sweep_task import TaskRow, command_score, is_right
from backend.jobs.sweep_trial import TrialBench
from backend.settings import Settings
from backend.sweeps.scoring import log_probs
from tests.support.targets import random_text, target_of

TYPICAL = {"drafter": "ngram", "tree": "chain-3", "temperature": 0.8, "rule": "typical", "epsilon": 0.02, "delta": 0.2}


@pytest.fixture
def prompts(tmp_path: Path) -> str:
    path = tmp_path / "poems.jsonl"
    rows = [{"question_id": f"q{n}", "turns": [f"{n}{n} " * 6]} for n in range(3)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def config_of(prompts: str, **changes: Any) -> SweepJobConfig:
    values: dict[str, Any] = {"target": "tiny-llama", "prompts": (prompts,), "space": {"tree": "chain-3"},
                              "max_new_tokens": 18, "samples": 2, "plain_prompts": 1, "limit": 2}  # fmt: skip
    return SweepJobConfig(**values | changes)


@pytest.fixture
def bench(prompts: str, settings: Settings, tmp_path: Path) -> TrialBench:
    made = TrialBench(config_of(prompts), settings, tmp_path / "trials")
    setup = made.open()
    assert setup["prompts"] == [f"poems|q{n}|{sample}" for n in range(2) for sample in range(2)]
    return made


def test_the_scored_log_probabilities_are_those_of_the_steps() -> None:
    """The slow twin: the whole tree of every step with its probabilities, as the Live page has them."""
    target, drafter = target_of("llama"), NgramDrafter(NgramConfig())
    sampling, rule = SamplingSettings(temperature=0.8), Rule("typical", 0.02, 0.2)
    prompt = random_text(1, 6) * 3
    settings = DecodeSettings(40, rule, sampling, seed=3, detail=Detail.FULL, ignore_eos=True)
    records = list(decode(target, drafter, [prompt], settings))
    (result,) = [one for one in records if isinstance(one, DecodeResult)]
    log_p, _ = log_probs(target, prompt, result.tokens, sampling)
    flags = accepted_flags(records)[0]  # type: ignore[arg-type]
    assert any(flags) and not all(flags) and len(flags) == len(log_p) - 1
    place = 1
    for step in [one for one in records if isinstance(one, StepTrace)]:
        assert step.tree is not None and step.path is not None
        for column in step.path[: len(step.tokens)]:
            seen = step.tree.target_probs[column]
            assert seen == pytest.approx(2.718281828459045 ** log_p[place], rel=1e-3)
            assert flags[place - 1]
            place += 1
        place += len(step.tokens) > step.num_accepted
    assert place == len(result.tokens)
    drift = drift_of(log_p[1:], flags, exact=False)
    assert 0 < (drift.mean_total_variation or 0) < 1 and drift.kl > drift.total_variation


def test_trials_are_paired_repeatable_and_measured_whole(bench: TrialBench) -> None:
    seen: list[int] = []
    first = bench.measure(0, TYPICAL, True, lambda prompts, speed: seen.append(len(prompts)))
    again = bench.measure(1, TYPICAL, True)
    counted = ("key", "tokens", "steps", "accepted", "drift", "kl")
    assert [[getattr(p, n) for n in counted] for p in first.prompts] == [
        [getattr(p, n) for n in counted] for p in again.prompts
    ]
    assert seen == [1, 2, 3, 4] and len({p.key for p in first.prompts}) == 4
    figures = first.figures
    assert figures["speed"] and figures["speedup"] and first.plain_speed
    assert 1 <= figures["acceptance_length"] <= 4 and 0 < figures["drift"] < 1  # type: ignore[operator]
    assert figures["diversity"] and figures["distinct_2"] and figures["perplexity"]
    exact = bench.measure(2, TYPICAL | {"rule": "rejection"}, True)
    assert exact.figures["drift"] == 0 == exact.figures["kl"]
    assert (exact.figures["acceptance_length"] or 9) < (figures["acceptance_length"] or 0)


def test_batches_answer_the_same_and_stopping_stops(bench: TrialBench) -> None:
    one = bench.measure(0, TYPICAL | {"max_depth": 2}, True)
    many = bench.measure(1, TYPICAL | {"max_depth": 2, "batch": 3}, True)
    assert {p.key: p.tokens for p in one.prompts} == {p.key: p.tokens for p in many.prompts}
    pairs = zip(one.prompts, many.prompts, strict=True)  # beside a longer row the last step may draft past the end
    assert all(0 <= b.accepted - a.accepted <= 2 for a, b in pairs)
    with pytest.raises(Cancelled):
        bench.measure(2, TYPICAL, False, stopped=lambda: True)
    with pytest.raises(HeadwayError, match="one chain"):
        bench.measure(3, TYPICAL | {"tree": "2x2"}, False)


def test_right_answers_are_counted() -> None:
    assert is_right("exact", "4 2", " 4  2\n") and not is_right("exact", "42", "42.")
    assert is_right("regex", r"\b42\b", "It is 42.") and not is_right("regex", r"^42", "It is 42.")
    with pytest.raises(HeadwayError, match="no regular expression"):
        is_right("regex", "(", "x")


def test_a_command_gives_the_score(tmp_path: Path) -> None:
    script = tmp_path / "score.py"
    script.write_text(
        "import json, sys\nrows = [json.loads(line) for line in open(sys.argv[-1], encoding='utf-8')]\n"
        "print('scored', len(rows))\nprint(sum(r['answer'] in r['text'] for r in rows) / len(rows))\n"
    )
    rows = [TaskRow("a", "cat", [1]), TaskRow("b", "dog", [1])]
    assert command_score(f"{sys.executable} {script}", rows, ["a cat", "a cow"]) == 0.5
    for command, sentence in (
        (f"{sys.executable} -c 'print(1); raise SystemExit(3)'", "exit code 3"),
        (f"{sys.executable} -c 'pass'", "printed no number"),
        ("/no/such/program", "can't be run"),
    ):
        with pytest.raises(HeadwayError, match=sentence):
            command_score(command, rows, ["", ""])
    with pytest.raises(HeadwayError, match="did not end within"):
        command_score(f"{sys.executable} -c 'import time; time.sleep(9)'", rows, ["", ""], limit_s=0.2)


def test_a_task_file_scores_every_trial(prompts: str, settings: Settings, tmp_path: Path) -> None:
    task = tmp_path / "task.jsonl"
    task.write_text('{"turns": ["Say a."], "answer": "[^q]"}\n{"turns": ["Say b."], "answer": "no such text here"}\n')
    made = TrialBench(config_of(prompts, task_file=str(task), task_check="regex"), settings, tmp_path / "trials")
    made.open()
    assert made.measure(0, TYPICAL, False).figures["task_score"] == 0.5
    task.write_text('{"turns": ["Say a."]}\n')
    with pytest.raises(HeadwayError, match="no prompt with an `answer`"):
        TrialBench(config_of(prompts, task_file=str(task)), settings, tmp_path / "trials").open()


def test_real_workers_measure_the_grid_and_the_dial(prompts: str, settings: Settings, tmp_path: Path) -> None:
    """Two processes, acceptance length: the table that one bench in this process finds too."""
    space = {"drafter": "ngram", "tree": "chain-3", "temperature": [0.8], "rule": "typical, rejection",
             "epsilon": [0.02, 0.2]}  # fmt: skip
    config = config_of(prompts, space=space, sampler="grid", objectives=("acceptance_length", "drift"), workers=2,
                       plain_prompts=0, limit=2, samples=1, max_new_tokens=12)  # fmt: skip
    context = ConsoleContext(settings, tmp_path / "job", quiet=True)
    context.folder.mkdir()
    done = sweep_job.run(config, context)
    assert done["trials"] == {"finished": 3, "skipped": 1}
    trials = [one for one in json.loads(Path(done["table"]).read_text())["trials"] if one["state"] == "finished"]
    assert any(one["reference"] for one in trials)
    assert set(done["front"]) <= {one["number"] for one in trials if not one["reference"]}
    own = TrialBench(config, settings, tmp_path / "trials")
    own.open()
    for one in trials:
        here = own.measure(one["number"], one["settings"], True).figures
        for name in ("acceptance_length", "drift", "kl", "distinct_2", "tokens"):
            assert one["figures"][name] == here[name], (one["number"], name)


def test_a_training_trial_trains_and_is_measured(prompts: str, settings: Settings, tmp_path: Path) -> None:
    from backend.jobs import distill_job
    from backend.jobs.configs import DistillJobConfig

    out = tmp_path / "answers.jsonl"
    distilling = DistillJobConfig(target="tiny-llama", prompts=(prompts,), out=str(out), max_new_tokens=24,
                                  temperatures=(0.0, 1.0))  # fmt: skip
    (tmp_path / "d").mkdir()
    distill_job.run(distilling, ConsoleContext(settings, tmp_path / "d", quiet=True))
    train = {"drafter": {"num_heads": 2}, "training": {"steps": 4, "batch_tokens": 32, "decode_prompts": 0},
             "held_out": 0.4, "tree_nodes": 2}  # fmt: skip
    config = config_of(prompts, space={"learning_rate": "0.001, 0.01", "data_rows": [4]}, answers=str(out), train=train,
                       samples=1, objectives=("acceptance_length", "train_s"))  # fmt: skip
    bench = TrialBench(config, settings, tmp_path / "trials")
    bench.open()
    found = bench.measure(0, {"learning_rate": 0.01, "data_rows": 4, "temperature": 0.0}, False)
    assert found.figures["train_s"] is not None and found.figures["acceptance_length"]
    lineage = json.loads((Path(str(found.drafter)) / "headway.json").read_text())["lineage"]
    assert lineage["training"]["learning_rate"] == 0.01 and lineage["training"]["steps"] == 4
    with pytest.raises(HeadwayError, match="holds 6 answers, so 99"):
        bench.measure(1, {"data_rows": 99}, False)
