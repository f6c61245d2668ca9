"""Fine-tuning: what is learned and what is not, new tokens, that a stopped run goes on, and what comes out of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.nn import functional

import app
from backend.data.prompts import read_prompts
from backend.errors import HeadwayError
from backend.jobs.finetune_job import GivenAnswer
from backend.settings import Settings
from backend.targets.identity import compare
from backend.targets.opening import open_target
from backend.targets.tiny import tiny_checkpoint, tiny_model, tiny_tokenizer
from backend.training.answer_run import texts_of
from backend.training.backbone import Backbone, give_room
from backend.training.finetune import FinetuneRun, answer_loss, finetune
from backend.training.finetune_config import FinetuneConfig
from storage import Store
from tests.support.adapters import tiny_adapter
from tests.support.targets import random_text
from tests.training.stand_ins import Recorder, never

ROOT = Path(__file__).resolve().parents[2]
CPU = torch.device("cpu")
BASE = FinetuneConfig(steps=6, batch_tokens=64, rate=1e-2, lora_rank=4, report_every=1)
TOKENS = ["<|call|>", "<|end_call|>"]


def answers(count: int = 12, last: int = 0) -> list[GivenAnswer]:
    return [
        GivenAnswer(random_text(100 + n, 3 + n % 5), [*random_text(200 + n % 3, 6), *([last] if last else [])])
        for n in range(count)
    ]


def run(config: FinetuneConfig, backbone: Backbone, folder: Path, recorder: Recorder, stop_at: int = 100) -> bool:
    return finetune(
        config, backbone, answers(), {"target": "t"}, CPU, 64, recorder, lambda: len(recorder.rows) >= stop_at, folder
    )


@pytest.mark.parametrize("part", ["lora", "full"])
def test_the_answers_become_likelier(tmp_path: Path, part: str) -> None:
    config = BASE.model_copy(update={"backbone": part, "steps": 30})
    backbone, recorder = Backbone.of(tiny_model("llama"), config), Recorder()
    before, count = answer_loss(backbone, answers(), CPU)
    assert count == 12 * 6
    assert run(config, backbone, tmp_path, recorder)
    after, _ = answer_loss(backbone, answers(), CPU)
    assert after < 0.6 * before and recorder.last("loss") < recorder.rows[0][1]["loss"]
    merged, _ = answer_loss(Backbone(backbone.merged()), answers(), CPU)
    assert merged == pytest.approx(after, rel=1e-3)


def test_a_stopped_run_takes_the_steps_that_a_whole_one_takes(tmp_path: Path) -> None:
    found = []
    for stops in ([100], [2, 100]):
        for stop in stops:
            torch.manual_seed(1)  # low-rank additions are drawn from torch's own generator
            backbone, recorder = Backbone.of(tiny_model("llama"), BASE), Recorder()
            done = run(BASE, backbone, tmp_path / str(len(stops)), recorder, stop)
        assert done
        found.append({name: value.detach().clone() for name, value in backbone.trained().items()})
    torch.testing.assert_close(found[0], found[1])
    other = BASE.model_copy(update={"rate": 1e-3})
    with pytest.raises(HeadwayError, match="differs in settings"):
        run(other, Backbone.of(tiny_model("llama"), other), tmp_path / "1", Recorder())


def test_gradients_are_those_of_the_whole_loss_at_once_and_prompts_teach_nothing(tmp_path: Path) -> None:
    config = BASE.model_copy(update={"backbone": "full"})
    backbone = Backbone.of(tiny_model("llama"), config)
    made = FinetuneRun(config, backbone, answers(4), {}, CPU, 64, Recorder(), tmp_path)
    loss = made.learn(made.answers)["loss"]
    found = {name: value.grad.clone() for name, value in backbone.trained().items() if value.grad is not None}
    backbone.model.zero_grad()
    texts = texts_of(made.answers, 1, CPU)
    labels = torch.full_like(texts.tokens, -100)
    labels[:, :-1] = texts.tokens[:, 1:].where(texts.places[:, :-1], torch.tensor(-100))
    logits = backbone.model(input_ids=texts.tokens, attention_mask=texts.inside.long()).logits
    whole = functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
    whole.backward()
    assert loss == pytest.approx(float(whole.detach()), rel=1e-5)
    for name, value in backbone.trained().items():
        torch.testing.assert_close(found[name], value.grad, atol=2e-5, rtol=1e-3, msg=name)


@pytest.mark.parametrize("kind", ["llama", "qwen2", "gemma2", "gpt_neox"])
def test_new_tokens_are_learned_and_old_rows_stay(tmp_path: Path, kind: str) -> None:
    model, tokenizer = tiny_model(kind), tiny_tokenizer()
    old = [
        weight.detach().clone()
        for weight in (model.get_input_embeddings().weight, model.get_output_embeddings().weight)
    ]
    new = give_room(model, tokenizer, [*TOKENS, *TOKENS])
    assert new >= 2 and tokenizer.encode("a<|call|>", add_special_tokens=False)[-1] == len(tokenizer) - 2
    assert give_room(model, tokenizer, TOKENS) == 0
    backbone = Backbone.of(model, BASE.model_copy(update={"steps": 20}), new)
    last = tokenizer.convert_tokens_to_ids(TOKENS[1])
    learned = answers(8, last)
    before, _ = answer_loss(backbone, learned, CPU)
    config = BASE.model_copy(update={"steps": 20})
    assert finetune(config, backbone, learned, {}, CPU, 64, Recorder(), never, tmp_path)
    after, _ = answer_loss(backbone, learned, CPU)
    merged = backbone.merged()
    again, _ = answer_loss(Backbone(merged), learned, CPU)
    assert after < before and again == pytest.approx(after, rel=2e-3)
    first = len(tokenizer) - 2
    for weight, one in zip(
        (merged.get_input_embeddings().weight, merged.get_output_embeddings().weight), old, strict=True
    ):
        assert weight.shape[0] >= len(tokenizer) and torch.equal(weight[:first], one[:first])
    head = merged.get_output_embeddings().weight
    assert not torch.equal(head[len(tokenizer) - 1], head[len(tokenizer) - 2])  # one of them was to be foretold


def test_what_no_tokenizer_or_model_takes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match="None of the answers fits into 4 tokens"):
        finetune(BASE, Backbone.of(tiny_model("llama"), BASE), answers(), {}, CPU, 4, Recorder(), never, tmp_path)


def rows(path: Path, count: int = 30) -> Path:
    lines = [json.dumps({"special_tokens": TOKENS})]
    for number in range(count):
        call = f'{TOKENS[0]}{{"n": {number % 3}}}{TOKENS[1]}'
        messages = [{"role": "user", "content": f"give {number}"}, {"role": "assistant", "content": call}]
        lines.append(json.dumps({"question_id": f"q{number}", "messages": messages}))
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_command_makes_a_new_version_that_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADWAY_HOME", str(tmp_path / "home"))
    folder, file = tiny_checkpoint(tmp_path / "m"), rows(tmp_path / "calls.jsonl")
    words = [
        "finetune", "--target", str(folder), "--answers", str(file), "--device", "cpu", "--steps", "8",
        "--batch-tokens", "256", "--lora-rank", "4", "--held-out", "0.3", "--json",
    ]  # fmt: skip
    assert app.main(words) == 0
    told = json.loads(capsys.readouterr().out)
    out = Path(told["out"])
    assert out.parent == tmp_path / "home" / "versions" and told["numbers"]["new_tokens"] == 2
    assert told["numbers"]["perplexity_after"] < told["numbers"]["perplexity_before"]
    assert told["numbers"]["trained_answers"] + told["numbers"]["held_out_answers"] == 30
    note = json.loads((out / "headway-version.json").read_text())
    assert note["made_by"] == "fine-tune" and note["numbers"] == told["numbers"] and "finetune" in note["command"]
    settings = Settings.from_environ()
    first, second = (open_target(str(place), settings, "cpu").identity for place in (folder, out))
    assert compare(first, second) == ["weights", "tokenizer"] and note["original"] == first.to_dict()
    with Store.open(settings.database) as store:
        (job,) = store.list_jobs(kinds=["finetune"])
        assert job.status == "finished" and job.version_id is not None
        made = store.get_version(job.version_id)
        assert made.source == str(out) and made.identity.weights_id == second.weights_id
        assert made.parent_id is not None and store.get_version(made.parent_id).source == str(folder)
    (tmp_path / "mine").mkdir()
    assert app.main([*words, "--out", str(tmp_path / "mine")]) == 2
    assert "was not made by this job; choose another folder" in capsys.readouterr().err
    file.write_text('{"turns": ["only a question"]}\n')
    assert app.main(words) == 2 and "gives an answer" in capsys.readouterr().err


def test_a_target_with_an_adapter_learns_from_where_the_adapter_left_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The new version is whole: it holds the adapter, and without a step of training it is the target itself."""
    monkeypatch.setenv("HEADWAY_HOME", str(tmp_path / "home"))
    folder, adapter = tiny_checkpoint(tmp_path / "m"), tiny_adapter(tmp_path / "tone")
    file, name = rows(tmp_path / "calls.jsonl"), f"{folder}+lora:{adapter}"
    words = ["finetune", "--answers", str(file), "--device", "cpu", "--steps", "1", "--batch-tokens", "256",
             "--lora-rank", "4", "--json"]  # fmt: skip
    assert app.main([*words, "--target", name, "--rate", "1e-9"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert Path(told["out"]).name == "m-tone-calls"
    settings = Settings.from_environ()
    original, made = (open_target(one, settings, "cpu") for one in (name, told["out"]))
    assert compare(original.identity, made.identity) == ["weights", "adapter", "tokenizer"]
    ids = torch.tensor([[1, 2, 3, 4]])
    states = [one.hidden_states(ids, torch.ones_like(ids, dtype=torch.bool)) for one in (original, made)]
    torch.testing.assert_close(*states, atol=1e-4, rtol=1e-4)
    assert app.main([*words, "--target", f"{folder}+int8"]) == 2
    assert "A quantised target can't be trained; leave +int8 out" in capsys.readouterr().err


@pytest.mark.parametrize("script", ["make_tool_calls", "make_bulletins"])
def test_the_generators_write_rows_that_can_be_learned(tmp_path: Path, script: str) -> None:
    files = [tmp_path / "rows.jsonl", tmp_path / "held.jsonl"]
    command = [
        sys.executable,
        f"scripts/{script}.py",
        str(files[0]),
        "--held-out",
        str(files[1]),
        "--held-out-rows",
        "20",
    ]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    written = files[0].read_bytes()
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    assert files[0].read_bytes() == written
    read = [read_prompts(file) for file in files]
    assert [len(file.prompts) for file in read] == [500, 20] and not read[0].broken
    assert not {one.asked for one in read[0].prompts} & {one.asked for one in read[1].prompts}
    assert len({one.category for one in read[0].prompts}) > 4
    for prompt in read[0].prompts[:50]:
        assert prompt.wanted
        if prompt.special_tokens:
            call = json.loads(prompt.wanted)
            assert set(call) == {"name", "arguments"} and call["arguments"]
