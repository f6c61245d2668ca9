"""An evaluation on a tiny target: turns, parts, stopping and going on, and what it refuses to mix."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import app
from backend.analysis.counts import TIMES
from backend.analysis.evaluation import PLAIN, part_from_dict, table
from backend.errors import Cancelled, HeadwayError
from backend.jobs import evaluate_job
from backend.jobs.context import ConsoleContext
from backend.jobs.evaluate_config import PROMPTS_PER_ROW, SETUP, EvaluateJobConfig, blocks

Items = dict[str, dict[str, Any]]
COUNTED = {"contender", "set", "temperature", "batch"}


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    made = []
    for name, count in (("poems", 6), ("proofs", 3)):
        rows = [{"question_id": f"{name}-{i}", "category": "xy"[i % 2], "turns": [f"{name} {i} " * (i + 1), "more"]}
                for i in range(count)]  # fmt: skip
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        made.append(str(path))
    return made


def config_of(files: list[str], **changes: Any) -> EvaluateJobConfig:
    values: dict[str, Any] = {
        "target": "tiny-llama", "drafters": ("ngram",), "prompts": tuple(files), "temperatures": (0.0, 1.0),
        "batches": (1, 3), "max_new_tokens": 9, "trees": ("chain-2", "chain-4"),
    }  # fmt: skip
    return EvaluateJobConfig(**values | changes)


def without_times(items: Items) -> Items:
    """What has to be the same in every measurement."""
    found = {}
    for key, data in items.items():
        if key == SETUP:
            found[key] = data | {"min_width": None}
            continue
        answers = [{k: v for k, v in one.items() if k not in TIMES} for one in data["answers"]]
        found[key] = {name: data[name] for name in COUNTED} | {"answers": answers}
    return found


def test_every_prompt_is_answered_by_everyone_in_every_configuration(files: list[str], context: Any) -> None:
    made, config = context(), config_of(files)
    done = evaluate_job.run(config, made)
    parts = [part_from_dict(data) for key, data in made.items().items() if key != SETUP]
    assert (
        done["answers"]
        == sum(len(part.answers) for part in parts)
        == 9 * config_of(files, trees=()).num_configurations * 3 // 2
    )
    rows = [row for row in table(parts) if row.category is None]
    assert {row.contender for row in rows} == {PLAIN, "ngram · chain-2", "ngram · chain-4"}
    for part in parts:
        for one in part.answers:
            assert one.num_tokens == 1 + one.num_steps + one.num_accepted - one.num_cut <= 9
            assert one.decode_ms <= one.row_ms + 1e-6
            assert one.tried_by_class is not None and one.accepted_by_class is not None
            if not one.num_cut:  # what the end cut off is not written and has no class
                assert sum(one.tried_by_class) == sum(one.drafted_per_depth)
                assert sum(one.accepted_by_class) == one.num_accepted
    for row in rows:
        assert row.num_paired == row.num_prompts and not row.contended
        assert row.num_same == (row.num_prompts if row.temperature == 0 else None)  # an exact rule changes nothing
        assert row.mean_rows is not None and 1 - 1e-9 <= row.mean_rows <= row.batch + 1e-9
        if row.batch == 3:
            assert row.mean_rows > 1.5  # a finished row is replaced at once
    written = json.loads(Path(done["table"]).read_text())
    assert written["setup"] == made.items()[SETUP] and len(written["rows"]) == len(table(parts))


def test_stopped_anywhere_it_goes_on_and_finds_the_same(files: list[str], context: Any) -> None:
    config, whole = config_of(files[:1], batches=(1, 2), trees=("chain-2",), max_new_tokens=6, limit=4), context()
    evaluate_job.run(config, whole)
    found: Items = {}
    for patience in (0, 9, 40, 1000):
        asked: list[int] = []
        now = context(found, stopped=lambda asked=asked, patience=patience: asked.append(1) or len(asked) > patience)
        if patience < 1000:
            with pytest.raises(Cancelled, match="is kept"):
                evaluate_job.run(config, now)
            assert len(now.items()) < len(whole.items())
        else:
            evaluate_job.run(config, now)
        assert {key: now.items()[key] for key in found} == found  # nothing was measured twice
        found = now.items()
    assert without_times(found) == without_times(whole.items())
    assert len(table_of(now)) == len(table_of(whole))


def table_of(context: ConsoleContext) -> list[Any]:
    return table([part_from_dict(data) for key, data in context.items().items() if key != SETUP])


def test_it_does_not_go_on_with_other_prompts(files: list[str], context: Any) -> None:
    config, first = config_of(files[:1], batches=(1,), temperatures=(0.0,)), context()
    evaluate_job.run(config, first)
    longer = Path(files[0])
    longer.write_text(longer.read_text() + json.dumps({"question_id": "new", "turns": ["A new one."]}) + "\n")
    with pytest.raises(HeadwayError, match="a prompt set changed since it began"):
        evaluate_job.run(config, context(first.items()))


def test_a_machine_that_changed_is_named(files: list[str], context: Any) -> None:
    config, first = config_of(files[:1], batches=(1,), temperatures=(0.0,)), context()
    evaluate_job.run(config, first)
    items = first.items()
    items[SETUP] = items[SETUP] | {"packages": {"torch": "1.0"}, "threads": 77}
    with pytest.raises(HeadwayError, match="the number of threads and a package changed"):
        evaluate_job.run(config, context(items))


def test_impossible_combinations_are_named_and_left_out(files: list[str], context: Any) -> None:
    made = context()
    done = evaluate_job.run(config_of(files, trees=("chain-2", "3x2"), batches=(1, 5), temperatures=(0.0,)), made)
    assert len(done["skipped"]) == 2
    assert "ngram with the tree 3x2 is left out: N-gram lookup proposes one chain" in done["skipped"][0]
    assert done["skipped"][1] == "proofs in batches of 5 is left out: it has only 3 prompts."
    with pytest.raises(HeadwayError, match="proposes one chain"):
        evaluate_job.run(config_of(files, trees=("3x2",)), context())
    with pytest.raises(HeadwayError, match="Nothing can be measured: poems in batches of 9"):
        evaluate_job.run(config_of(files, batches=(9,)), context())


def test_prompts_that_do_not_fit_are_left_out_for_everyone(files: list[str], context: Any) -> None:
    made = context()
    with Path(files[0]).open("a") as file:
        file.write(json.dumps({"question_id": "long", "turns": ["word " * 1000]}) + "\nno json\n")
    evaluate_job.run(config_of(files[:1], batches=(1,), temperatures=(0.0,), trees=()), made)
    found = made.items()[SETUP]["sets"]["poems"]
    assert (found["prompts"], found["left_out"], found["broken"]) == (6, 1, 1)
    assert {row.num_prompts for row in table_of(made) if row.category is None} == {6}


def test_without_the_lease_every_part_is_contended(files: list[str], context: Any, tmp_path: Path) -> None:
    import subprocess
    import sys

    program = (
        "import sys; from pathlib import Path; from backend.engine.lease import hold_device\n"
        "with hold_device(Path(sys.argv[1]), 'cpu', 'testing'):\n"
        "    print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen([sys.executable, "-c", program, str(tmp_path / "home")], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)  # fmt: skip
    with holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        made = context()
        evaluate_job.run(config_of(files[1:], batches=(1,), temperatures=(0.0,)), made)
        assert all(row.contended for row in table_of(made))
        holder.communicate("")


def test_blocks_cover_every_prompt_once_and_the_first_turn_rotates(files: list[str]) -> None:
    config = config_of(files, batches=(1, 2, 16))
    planned = list(blocks(config, {"a": 3 * PROMPTS_PER_ROW * 2 + 1, "b": 1}))
    for name, batch, pieces in (("a", 1, 49), ("a", 2, 3), ("a", 16, 1), ("b", 1, 1), ("b", 2, 0)):
        own = [one for one in planned if (one.set, one.batch, one.temperature) == (name, batch, 0.0)]
        assert len(own) == pieces
        covered = [number for one in own for number in range(one.start, one.end)]
        assert covered == list(range({"a": 49, "b": 1}[name] if own else 0))
    firsts = [one.order(["x", "y", "z"])[0] for one in planned[:6]]
    assert firsts == ["x", "y", "z", "x", "y", "z"]
    keys = [one.key(who) for one in planned for who in one.order(["x", "y"])]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"rule": "greedy"}, "greedy rule is exact at temperature 0 only"),
        ({"batches": (1, 1)}, "batches names something twice"),
        ({"drafters": ("nobody",)}, "Unknown drafter"),
        ({"prompts": ("missing.jsonl",)}, "missing.jsonl can't be read"),
        ({"trees": ("bush",)}, "Unknown tree"),
    ],
)
def test_mistakes_are_one_sentence(files: list[str], context: Any, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(HeadwayError, match=sentence):
        evaluate_job.run(config_of(files, **changes), context())


def test_the_command_prints_the_table(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADWAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    words = ["evaluate", "--target", "tiny-llama", "--drafter", "ngram", "--prompts", files[0], "--prompts", files[1],
             "--limit", "2", "--temperatures", "0,0.5", "--batches", "1,2", "--max-new-tokens", "5"]  # fmt: skip
    assert app.main([*words, "--json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert err == "" and found["setup"]["config"]["drafters"] == ["ngram"]
    whole = [row for row in found["rows"] if row["category"] is None]
    assert len(whole) == (2 + 1) * 2 * 2 * 2  # sets and their mean, temperatures, batches, contenders
    assert {row["num_prompts"] for row in whole} == {2, 4}
    assert app.main([*words, "--no-store", "--tree", "chain-3"]) == 0
    out, _ = capsys.readouterr()
    assert "ngram · chain-3" in out and out.startswith("set") and len(out.splitlines()) == 25
    assert app.main([*words, "--rule", "greedy", "--json"]) == 2
    assert capsys.readouterr().err.startswith("The greedy rule is exact at temperature 0 only")
