"""The command line as a script sees it: JSON on stdout, one sentence and exit code 2 for mistakes, nothing half
done.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import app
from backend.data.answers import read_answers
from backend.jobs.kinds import JOB_KINDS
from tests.support.adapters import tiny_adapter

DECODE_KEYS = {
    "prompt_tokens", "tokens", "text", "num_steps", "num_drafted", "num_accepted", "num_cut", "acceptance_length",
    "accepted_per_depth", "drafted_per_depth", "tried_by_class", "accepted_by_class", "tokens_per_s",
    "end_to_end_tokens_per_s", "prefill_ms", "draft_ms", "verify_ms", "commit_ms", "finish_reason",
}  # fmt: skip
TINY = ["--target", "tiny-llama"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADWAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.jsonl"
    rows = [
        {"question_id": f"q{i}", "category": "x", "turns": [f"Say {i} please.", "Again."][: 1 + i % 2]}
        for i in range(6)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = app.main(list(words))
    out, err = capsys.readouterr()
    return code, out, err


def test_decode_prints_one_object_a_prompt_in_order(capsys: pytest.CaptureFixture[str], prompts: Path) -> None:
    words = ("decode", *TINY, "--drafter", "ngram", "--prompts", str(prompts), "--max-new-tokens", "9", "--json")
    code, out, err = run(capsys, *words, "--batch", "3")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and err == "" and len(rows) == 6
    assert all(set(row) >= DECODE_KEYS for row in rows)
    for row in rows:
        assert len(row["tokens"]) == 1 + row["num_steps"] + row["num_accepted"] - row["num_cut"] <= 9
        assert set(row["tried_by_class"]) == {"special", "format", "content"}
        assert sum(row["accepted_by_class"].values()) <= row["num_accepted"]
    _, alone, _ = run(capsys, *words, "--limit", "2")
    assert [json.loads(line)["tokens"] for line in alone.splitlines()] == [row["tokens"] for row in rows[:2]]


def test_decode_follows_a_schema_from_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"enum": ["red", "green"]}')
    words = ("decode", *TINY, "--drafter", "ngram", "--prompt", "A colour?", "--json", "--json-schema", str(schema))
    code, out, err = run(capsys, *words, "--temperature", "1")
    assert code == 0 and err == "" and json.loads(json.loads(out)["text"]) in ("red", "green")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--prompt", ""], "prompt is empty"),
        (["--prompt", "x", "--temperature", "1", "--rule", "greedy"], "greedy rule"),
        (["--prompt", "x", "--tree", "[[1,2]]"], "no parent"),
        (["--prompt", "x", "--tree", "[[1,"], "not valid JSON"),
        (["--prompt", "x", "--max-new-tokens", "0"], "The longest answer must be 1 to 8192 tokens, but it is 0."),
        (["--prompt", "x", "--max-new-tokens", "8000"], "shorten the prompt"),
        (["--prompt", "x", "--drafter", "nobody"], "Unknown drafter"),
        (["--prompt", "x", "--target", "no-such-model"], "There is no target"),
        (["--prompts", "missing.jsonl"], "missing.jsonl"),
        (["--prompt", "x", "--json-schema", "missing.json"], "neither JSON nor a readable file"),
        (["--prompt", "x", "--json-schema", "{"], "The schema is no JSON"),
        (["--prompt", "x", "--json-schema", '{"type": "colour"}'], "The schema can't be followed"),
        (["--prompt", "x", "--batch", "0"], "--batch"),
        (["--prompts", "prompts/demo.jsonl", "--limit", "0"], "limit must be at least 1"),
        (["--prompt", "word " * 2000], "shorten the prompt"),
    ],
)
def test_mistakes_are_one_sentence(capsys: pytest.CaptureFixture[str], words: list[str], sentence: str) -> None:
    code, out, err = run(capsys, "decode", *TINY, "--drafter", "ngram", "--json", *words)
    assert code == 2 and out == "" and sentence in err
    assert len(err.strip().splitlines()) == 1 and "Traceback" not in err


@pytest.mark.parametrize("variable", ["HEADWAY_HOME", "HEADWAY_CACHE"])
def test_a_folder_that_cannot_be_made_is_one_sentence_that_names_the_variable(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str
) -> None:
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv(variable, str(tmp_path / "file" / "below"))
    code, out, err = run(capsys, "runs")
    assert code == 2 and out == "" and f"set {variable} to a folder" in err and len(err.strip().splitlines()) == 1


def test_distil_train_decode_and_the_heads_of_another_target_are_refused(
    capsys: pytest.CaptureFixture[str], prompts: Path, tmp_path: Path
) -> None:
    answers, packed, heads = tmp_path / "a.jsonl", tmp_path / "a.npz", tmp_path / "heads"
    distil = ("distill", *TINY, "--prompts", str(prompts), "--out", str(answers), "--pack", str(packed), "--json")
    code, out, err = run(capsys, *distil, "--max-new-tokens", "30", "--batch", "4")
    assert code == 0 and err == "" and json.loads(out)["answers"] == 18
    whole = read_answers(answers).answers
    answers.write_bytes(answers.read_bytes()[: answers.stat().st_size // 2])  # as if killed in the middle of a line
    assert run(capsys, *distil, "--max-new-tokens", "30", "--batch", "4")[0] == 0
    assert sorted(read_answers(answers).answers, key=str) == sorted(whole, key=str)
    train = ("train", *TINY, "--answers", str(packed), "--out", str(heads), "--num-heads", "2", "--draft-vocab", "100")
    code, out, err = run(capsys, *train, "--batch-tokens", "32", "--epochs", "1", "--half", "--json")
    assert (code, err) == (0, "") and json.loads(out)["numbers"]["steps"] > 0
    decode = ("decode", "--drafter", str(heads), "--prompt", "hi", "--max-new-tokens", "8", "--json")
    code, out, _ = run(capsys, *decode, *TINY)
    plain = run(capsys, "decode", *TINY, "--drafter", "none", "--prompt", "hi", "--max-new-tokens", "8", "--json")[1]
    assert code == 0 and json.loads(out)["tokens"] == json.loads(plain)["tokens"]
    code, out, err = run(capsys, *decode, "--target", "tiny-llama:1")
    assert code == 2 and out == "" and "weights" in err and len(err.strip().splitlines()) == 1
    code, out, err = run(capsys, *decode, "--target", "tiny-llama:1", "--force")
    assert code == 0 and json.loads(out)["tokens"] and "weights" in err


def test_answers_of_two_targets_are_never_mixed(
    capsys: pytest.CaptureFixture[str], prompts: Path, tmp_path: Path
) -> None:
    out = tmp_path / "a.jsonl"
    words = ("--prompts", str(prompts), "--out", str(out), "--temperatures", "0", "--max-new-tokens", "5", "--json")
    assert run(capsys, "distill", *TINY, *words)[0] == 0
    before = out.read_bytes()
    code, _, err = run(capsys, "distill", "--target", "tiny-qwen3", *words)
    assert code == 2 and "another target" in err and out.read_bytes() == before
    code, _, err = run(capsys, "distill", *TINY, *words, "--seed", "3")
    assert code == 2 and "other settings" in err and out.read_bytes() == before


def test_answers_that_another_tokenizer_wrote_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ("--answers", "prompts/answers-smollm2-135m.npz", "--out", str(tmp_path / "heads"))
    code, _, err = run(capsys, "train", *TINY, *words, "--json")
    assert code == 2 and "another target" in err and len(err.strip().splitlines()) == 1


@pytest.mark.parametrize("words", [["decode", "--max-new-tokens", "abc"], ["decode", "--prompt"], ["nothing"]])
def test_the_parser_speaks_one_sentence_too(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        app.main(words)
    assert ended.value.code == 2 and len(capsys.readouterr().err.strip().splitlines()) == 1


def test_distil_can_stop_at_the_first_turn(capsys: pytest.CaptureFixture[str], prompts: Path, tmp_path: Path) -> None:
    out = tmp_path / "first.jsonl"
    words = ("distill", *TINY, "--prompts", str(prompts), "--out", str(out), "--temperatures", "0", "--turns", "1")
    code, text, _ = run(capsys, *words, "--max-new-tokens", "5", "--json")
    assert code == 0 and json.loads(text)["answers"] == 6
    assert {answer.turn for answer in read_answers(out).answers} == {0}


def test_a_damaged_checkpoint_is_one_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "headway.json").write_text("{")
    code, out, err = run(capsys, "decode", *TINY, "--drafter", str(broken), "--prompt", "x")
    assert code == 2 and out == "" and "damaged" in err


def test_runs_says_when_there_are_none_and_refuses_a_file_that_is_no_database(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, out, _ = run(capsys, "runs")
    assert code == 0 and "No runs yet" in out
    rubbish = tmp_path / "rubbish.db"
    rubbish.write_bytes(b"not a database at all" * 100)
    code, out, err = run(capsys, "runs", "--db", str(rubbish))
    assert code == 2 and out == "" and len(err.strip().splitlines()) == 1
    assert rubbish.read_bytes() == b"not a database at all" * 100


def test_serving_to_others_needs_a_password(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HEADWAY_PASSWORD", raising=False)
    monkeypatch.delenv("HEADWAY_TOKEN", raising=False)
    code, _, err = run(capsys, "serve", "--host", "0.0.0.0")
    assert code == 2 and "password" in err


def test_a_target_with_an_adapter_is_named_in_one_word(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_adapter(tmp_path / "tone")
    monkeypatch.chdir(tmp_path)

    def tokens(target: str, drafter: str = "none") -> list[int]:
        words = ("decode", "--target", target, "--drafter", drafter, "--prompt", "Say it.", "--max-new-tokens", "12")
        code, out, err = run(capsys, *words, "--json")
        assert code == 0 and err == "", err
        found: list[int] = json.loads(out)["tokens"]
        return found

    active = tokens("tiny-llama+lora:tone", "ngram")
    assert active == tokens("tiny-llama+merged:tone") != tokens("tiny-llama")
    assert tokens("tiny-llama+lora:tone+int8", "ngram") == tokens("tiny-llama+lora:tone+int8")
    code, out, err = run(capsys, "decode", "--target", "tiny-llama+lora:gone", "--prompt", "x")
    assert code == 2 and out == "" and "gone" in err and err.count("\n") == 1
    config = JOB_KINDS["distill"].config.model_validate({"target": "tiny-llama+lora:tone+int8", "prompts": ["x.jsonl"]})
    settled = JOB_KINDS["distill"].settled(config)
    assert settled.model_dump()["target"] == f"tiny-llama+lora:{tmp_path / 'tone'}+int8"
    assert "tiny-llama+tone+int8" in JOB_KINDS["distill"].summary(settled)
