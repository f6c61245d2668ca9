"""Medusa-2: what is minimised, in which stages, that a stopped run goes on, and what the job leaves behind."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
import torch
from torch.nn import functional

import app
from backend.data.answers import Answer, pack_answers
from backend.drafters.checkpoint import read_meta
from backend.drafters.learning import IGNORE, FeatureBatch
from backend.drafters.medusa.config import MedusaSettings
from backend.drafters.medusa.recipe import RECIPE
from backend.drafters.medusa.train import MedusaLearner
from backend.drafters.plain.drafter import PlainDrafter
from backend.drafters.registry import load_drafter
from backend.errors import HeadwayError, MismatchError
from backend.settings import Settings
from backend.targets.opening import open_target
from backend.targets.tiny import tiny_checkpoint, tiny_model
from backend.training.answer_run import texts_of
from backend.training.backbone import Backbone
from backend.training.joint import JointRun, train_jointly
from backend.training.joint_config import JointConfig
from tests.support.lossless import check_greedy, greedy
from tests.support.targets import random_text, target_of
from tests.training.stand_ins import Recorder, never

BASE = JointConfig(
    steps=6, batch_tokens=64, head_rate=1e-2, backbone_rate=1e-3, heads_alone=0.5, lora_rank=4, label_weight=0.5,
    report_every=1,
)  # fmt: skip


def answers(count: int = 12) -> list[Answer]:
    prompts = [random_text(100 + number, 3 + number % 5) for number in range(count)]
    texts = greedy(target_of("llama"), PlainDrafter(), 12, 8, prompts)
    return [
        Answer(f"q{n}", "none", tuple(prompt), tuple(text.tokens), 0.0, 0, "length", True)
        for n, (prompt, text) in enumerate(zip(prompts, texts, strict=True))
    ]


def new_learner() -> MedusaLearner:
    return RECIPE.new_learner(MedusaSettings(num_heads=2, draft_vocab=0), target_of("llama"), None, None)


def weights_of(backbone: Backbone) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in backbone.trained().items()}


@pytest.mark.parametrize("part", ["lora", "full"])
def test_heads_learn_alone_first_and_then_the_backbone_moves(tmp_path: Path, part: str) -> None:
    config = BASE.model_copy(update={"backbone": part})
    backbone, learner, recorder = Backbone.of(tiny_model("llama"), config), new_learner(), Recorder()
    before = weights_of(backbone)
    heads = learner.model.block_weight.detach().clone()
    early = config.model_copy(update={"steps": 6, "checkpoint_every": 3})
    calls = iter(range(100))
    assert not train_jointly(
        early, backbone, learner, target_of("llama"), answers(), recorder, lambda: next(calls) >= 3, tmp_path
    )
    assert all(torch.equal(value, before[name]) for name, value in weights_of(backbone).items())
    assert not torch.equal(learner.model.block_weight, heads)
    assert train_jointly(early, backbone, learner, target_of("llama"), answers(), recorder, never, tmp_path)
    assert any(not torch.equal(value, before[name]) for name, value in weights_of(backbone).items())
    assert [step for step, _ in recorder.rows] == [1, 2, 3, 4, 5, 6]
    assert (
        "kl_per_token" not in recorder.rows[2][1] and recorder.rows[3][1]["kl_per_token"] < 1e-6
    )  # still the original
    assert recorder.last("kl_per_token") > 0


def test_a_stopped_run_takes_the_steps_that_a_whole_one_takes(tmp_path: Path) -> None:
    config = BASE.model_copy(update={"heads_alone": 0.2})
    found = []
    for stops in ([100], [2, 100]):
        for stop in stops:
            torch.manual_seed(1)  # low-rank additions are drawn from torch's own generator
            backbone, learner, recorder = Backbone.of(tiny_model("llama"), config), new_learner(), Recorder()
            target, folder = target_of("llama"), tmp_path / str(len(stops))

            def stopped(recorder: Recorder = recorder, stop: int = stop) -> bool:
                return len(recorder.rows) >= stop

            train_jointly(config, backbone, learner, target, answers(), recorder, stopped, folder)
        found.append({**weights_of(backbone), "heads": learner.model.output.detach().clone()})
    torch.testing.assert_close(found[0], found[1])


def test_gradients_are_those_of_the_whole_loss_at_once(tmp_path: Path) -> None:
    config = BASE.model_copy(update={"backbone": "full"})
    torch.manual_seed(0)
    model = tiny_model("llama", seed=5)  # not the original, so that the divergence pulls
    backbone, learner, original = Backbone.of(model, config), new_learner(), target_of("llama")
    run = JointRun(config, backbone, learner, original, answers(4), Recorder(), tmp_path)
    texts = texts_of(run.answers, learner.horizon, run.device)
    hidden = backbone.hidden(texts.tokens, texts.inside)[texts.places]
    run._backward(texts, hidden, together=True)
    found = {name: value.grad.clone() for name, value in backbone.trained().items() if value.grad is not None}
    twin = copy.deepcopy(learner)
    model.zero_grad()
    out = model(input_ids=texts.tokens, attention_mask=texts.inside.long(), output_hidden_states=True)
    hidden, logits = out.hidden_states[-1][texts.places], out.logits[texts.places]
    before = original.logits(original.hidden_states(texts.tokens, texts.inside)[texts.places]).clone()
    loss = functional.cross_entropy(logits, texts.following[:, 0]) * config.label_weight
    log_p, log_q = before.log_softmax(-1), logits.log_softmax(-1)
    loss = loss + config.original_weight * (log_p.exp() * (log_p - log_q)).sum(-1).mean()
    labels, _ = twin.labels(FeatureBatch(hidden, texts.following))
    for head, scores in enumerate(twin.heads(hidden)):
        one = functional.cross_entropy(scores, labels[head], ignore_index=IGNORE)
        loss = loss + config.head_weight * twin.config.decay**head * one
    loss.backward()
    for name, value in backbone.trained().items():
        torch.testing.assert_close(found[name], value.grad, atol=2e-5, rtol=1e-3, msg=name)


def test_lora_merges_into_what_it_computed() -> None:
    backbone = Backbone.of(tiny_model("qwen2"), BASE)
    ids, mask = torch.tensor([[5, 6, 7, 8]]), torch.ones(1, 4, dtype=torch.bool)
    for value in backbone.trained().values():
        torch.nn.init.normal_(value, std=0.1)
    with torch.no_grad():
        before = backbone.hidden(ids, mask)
        plain = tiny_model("qwen2").base_model(input_ids=ids).last_hidden_state
        merged = backbone.merged()
        after = merged.base_model(input_ids=ids).last_hidden_state
    torch.testing.assert_close(after, before, atol=1e-4, rtol=1e-3)
    assert not torch.allclose(after, plain, atol=1e-2)
    assert sorted(merged.state_dict()) == sorted(tiny_model("qwen2").state_dict())


def test_the_job_makes_a_new_version_and_heads_that_refuse_the_original(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADWAY_HOME", str(tmp_path / "home"))
    folder, out, file = tiny_checkpoint(tmp_path / "m"), tmp_path / "heads", tmp_path / "a.npz"
    pack_answers(answers(16), file)
    words = [
        "joint", "--target", str(folder), "--answers", str(file), "--out", str(out), "--device", "cpu",
        "--steps", "8", "--batch-tokens", "64", "--num-heads", "2", "--draft-vocab", "0", "--lora-rank", "4",
        "--heads-alone", "0.25", "--held-out", "0.3", "--tree-nodes", "4", "--json",
    ]  # fmt: skip
    assert app.main(words) == 0
    told = json.loads(capsys.readouterr().out)
    assert 0 < told["quality"]["kl_per_token"] < 1 and told["quality"]["tokens"] > 20
    note = json.loads((Path(told["version_out"]) / "headway-version.json").read_text())
    meta = read_meta(out)
    assert note["quality"] == told["quality"] == meta.numbers["target_changed"]
    assert note["original"]["weights_id"] != meta.version["weights_id"]
    settings = Settings.from_environ()
    original = open_target(str(folder), settings, "cpu")
    with pytest.raises(MismatchError):
        load_drafter(str(out), original)
    changed = open_target(told["version_out"], settings, "cpu")
    drafter, warnings = load_drafter(str(out), changed)
    assert warnings == [] and changed.identity.weights_id == meta.version["weights_id"]
    check_greedy(changed, drafter, 8)
    (tmp_path / "heads-2-target").mkdir()
    again = [word if word != str(out) else str(tmp_path / "heads-2") for word in words]
    assert app.main(again) == 2 and "choose another folder" in capsys.readouterr().err


def test_a_quantised_target_is_refused() -> None:
    model = tiny_model("llama")
    model.config.quantization_config = {"quant_method": "bitsandbytes"}
    with pytest.raises(HeadwayError, match="quantised"):
        Backbone.of(model, BASE)


def test_half_precision_takes_low_rank_additions_in_single_precision_and_nothing_else() -> None:
    with pytest.raises(HeadwayError, match="--dtype float32"):
        Backbone.of(tiny_model("llama").bfloat16(), BASE.model_copy(update={"backbone": "full"}))
    backbone = Backbone.of(tiny_model("llama").bfloat16(), BASE)
    assert {value.dtype for value in backbone.trained().values()} == {torch.float32}
    hidden = backbone.hidden(torch.tensor([[5, 6, 7]]), torch.ones(1, 3, dtype=torch.bool))
    hidden.float().sum().backward()
    assert any(value.grad is not None for value in backbone.trained().values())
    assert {value.dtype for value in backbone.merged().parameters()} == {torch.bfloat16}
