"""Joint training: what is minimised, in which stages, that a stopped run goes on, and what the job leaves behind.

Medusa-2 throughout; what is the same whatever the family, or differs, for MTP modules, Hydra and EAGLE too.
"""

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
from backend.drafters.eagle.config import EagleSettings
from backend.drafters.eagle3.config import Eagle3Settings
from backend.drafters.family import FamilySettings
from backend.drafters.hydra.config import HydraSettings
from backend.drafters.layer.attention import KeyBlock, attend
from backend.drafters.learning import IGNORE, FeatureBatch, Learner
from backend.drafters.medusa.config import MedusaSettings
from backend.drafters.medusa.recipe import RECIPE
from backend.drafters.medusa.train import MedusaLearner
from backend.drafters.mtp.config import MtpSettings
from backend.drafters.mtp.model import seen_by
from backend.drafters.plain.drafter import PlainDrafter
from backend.drafters.recipe import recipe_of
from backend.drafters.registry import load_drafter
from backend.errors import HeadwayError, MismatchError
from backend.settings import Settings
from backend.targets.opening import open_target
from backend.targets.tiny import tiny_checkpoint, tiny_model
from backend.training.answer_run import Texts, texts_of
from backend.training.backbone import Backbone
from backend.training.joint import JointRun, train_jointly
from backend.training.joint import batch_of as batch_of_states
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
    run._backward(texts, backbone.hidden(texts.tokens, texts.inside), together=True)
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


MTP_FORMS = {
    "modules": MtpSettings(form="modules", draft_depth=2, draft_vocab=0, loss="hard", decay=1.0),
    "parallel": MtpSettings(form="parallel", draft_depth=2, draft_vocab=0, loss="hard", decay=1.0),
}
OTHERS = MTP_FORMS | {
    "hydra": HydraSettings(num_heads=2, draft_vocab=0, loss="soft"),
    "hydra++": HydraSettings(num_heads=2, draft_vocab=0, loss="soft", head_arch="prefix-mlp"),
    "eagle": EagleSettings(draft_depth=2, draft_vocab=100, noise=0.0),
}


def any_learner(settings: FamilySettings) -> Learner:
    tokens = torch.arange(settings.draft_vocab) * 2 if settings.draft_vocab else None
    return recipe_of(settings.family).new_learner(settings, target_of("llama"), tokens, None)


def module_losses(learner: Learner, texts: Texts, hidden: torch.Tensor, model: torch.nn.Module) -> list[torch.Tensor]:
    """Each depth's cross-entropy as the papers write it: with the target's own embedding and output head."""
    words, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight  # type: ignore[operator]
    found, state, width = [], hidden, texts.tokens.shape[1]
    learn = functional.pad(texts.places, (1, 0))[:, :-1]
    columns = torch.arange(width)
    for depth, part in enumerate(learner.model.parts, start=1):  # type: ignore[union-attr, arg-type]
        ahead = functional.pad(texts.tokens, (0, depth))[:, depth:]
        sequential = learner.model.config.form == "modules"  # type: ignore[union-attr]
        inputs, residual = part.join(state, functional.embedding(ahead, words) if sequential else None)
        seen = seen_by(columns[None], columns, depth - 1 if sequential else 0)
        keys, values = part.layer.key_value(inputs, columns[None])
        attended = attend(part.layer.query(inputs, columns[None]), [KeyBlock(keys, values, seen)])
        output = part.layer.finish(residual, attended)
        scores = part.norm(output) @ head.T
        labels = functional.pad(texts.tokens, (0, depth + 1))[:, depth + 1 :]
        known = functional.pad(learn, (0, depth + 1))[:, depth + 1 :]
        found.append(functional.cross_entropy(scores[known], labels[known]))
        state = output if sequential else hidden
    return found


@pytest.mark.parametrize("form", MTP_FORMS)
def test_mtp_modules_and_backbone_get_the_gradients_of_the_published_objective(tmp_path: Path, form: str) -> None:
    """L_LM + lambda * mean of the depths' losses, embedding and output head shared and learning from both."""
    config = BASE.model_copy(update={"backbone": "full", "label_weight": 1.0, "original_weight": 0.0})
    torch.manual_seed(0)
    model = tiny_model("llama", seed=5)
    backbone, learner, original = Backbone.of(model, config), any_learner(MTP_FORMS[form]), target_of("llama")
    run = JointRun(config, backbone, learner, original, answers(4), Recorder(), tmp_path)
    texts = texts_of(run.answers, learner.horizon, run.device)
    metrics = run._backward(texts, backbone.hidden(texts.tokens, texts.inside), together=True)
    both = {**backbone.trained(), **dict(learner.model.named_parameters())}
    found = {name: value.grad.clone() for name, value in both.items() if value.grad is not None}
    model.zero_grad()
    learner.model.zero_grad()
    out = model(input_ids=texts.tokens, attention_mask=texts.inside.long(), output_hidden_states=True)
    depths = module_losses(learner, texts, out.hidden_states[-1], model)
    loss = functional.cross_entropy(out.logits[texts.places], texts.following[:, 0])
    drafted = torch.stack(depths).mean()
    (loss + config.head_weight * drafted).backward()
    assert metrics["loss"] == pytest.approx(drafted.item(), rel=1e-4)
    assert {name for name, value in both.items() if value.grad is not None} == set(found)
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, both[name].grad, atol=2e-5, rtol=1e-3, msg=name)


@pytest.mark.parametrize("part", ["lora", "full"])
@pytest.mark.parametrize("name", OTHERS)
def test_other_families_learn_alone_first_and_then_pull_the_backbone(tmp_path: Path, name: str, part: str) -> None:
    config = BASE.model_copy(update={"backbone": part, "original_weight": 0.0, "label_weight": 0.0})
    backbone, learner, recorder = Backbone.of(tiny_model("llama"), config), any_learner(OTHERS[name]), Recorder()
    before = weights_of(backbone)
    drafter = {key: value.detach().clone() for key, value in learner.model.named_parameters()}
    calls = iter(range(100))
    early = config.model_copy(update={"checkpoint_every": 3})
    stop, target = lambda: next(calls) >= 3, target_of("llama")
    assert not train_jointly(early, backbone, learner, target, answers(), recorder, stop, tmp_path)
    assert all(torch.equal(value, before[key]) for key, value in weights_of(backbone).items())
    assert any(not torch.equal(value, drafter[key]) for key, value in learner.model.named_parameters())
    assert train_jointly(early, backbone, learner, target, answers(), recorder, never, tmp_path)
    # Nothing but the drafter's loss is left, so it is what moved the backbone.
    assert any(not torch.equal(value, before[key]) for key, value in weights_of(backbone).items())
    assert recorder.last("kl_per_token") > 0


def test_what_is_taught_is_not_pulled_to_the_learner() -> None:
    """Of a soft loss the teacher's states and rows are constants: only what the heads read has a gradient."""
    learner, target = any_learner(OTHERS["hydra"]), target_of("llama")
    texts = texts_of(answers(2), learner.horizon, target.device)
    hidden = target.hidden_states(texts.tokens, texts.inside).clone().requires_grad_()
    batch = batch_of_states(learner, texts, hidden)
    assert isinstance(batch, FeatureBatch) and batch.ahead is not None
    assert batch.hidden.requires_grad and not batch.ahead.requires_grad
    row, column = (place.tolist() for place in texts.places.nonzero(as_tuple=True))
    for position, (text, place) in enumerate(zip(row, column, strict=True)):
        known = int((batch.following[position] != IGNORE).sum())
        for ahead in range(min(known, 2)):
            if place + 1 + ahead < hidden.shape[1]:
                assert torch.equal(batch.ahead[position, ahead], hidden[text, place + 1 + ahead])


def test_families_that_read_inner_layers_are_refused(tmp_path: Path) -> None:
    learner = any_learner(Eagle3Settings(draft_depth=2, draft_vocab=100))
    backbone = Backbone.of(tiny_model("llama"), BASE)
    with pytest.raises(HeadwayError, match=r"eagle3.*last hidden states alone; choose medusa"):
        train_jointly(BASE, backbone, learner, target_of("llama"), answers(), Recorder(), never, tmp_path)


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


FAMILY_WORDS = {
    "medusa": ("--num-heads", "2", "--lora-rank", "4"),
    "mtp": ("--family", "mtp", "--form", "modules", "--draft-depth", "2", "--backbone", "full"),
    "hydra": ("--family", "hydra", "--head-arch", "prefix-mlp", "--num-heads", "2", "--lora-rank", "4"),
}


@pytest.mark.parametrize("family", FAMILY_WORDS)
def test_the_job_makes_a_new_version_and_a_drafter_that_refuses_the_original(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], family: str
) -> None:
    monkeypatch.setenv("HEADWAY_HOME", str(tmp_path / "home"))
    folder, out, file = tiny_checkpoint(tmp_path / "m"), tmp_path / "heads", tmp_path / "a.npz"
    pack_answers(answers(16), file)
    words = [
        "joint", "--target", str(folder), "--answers", str(file), "--out", str(out), "--device", "cpu",
        "--steps", "8", "--batch-tokens", "64", "--draft-vocab", "0", *FAMILY_WORDS[family],
        "--heads-alone", "0.25", "--held-out", "0.3", "--tree-nodes", "4", "--json",
    ]  # fmt: skip
    assert app.main(words) == 0
    told = json.loads(capsys.readouterr().out)
    assert 0 < told["quality"]["kl_per_token"] < 1 and told["quality"]["tokens"] > 20
    note = json.loads((Path(told["version_out"]) / "headway-version.json").read_text())
    assert note["made_by"] == ("medusa-2" if family == "medusa" else f"joint-{family}")
    meta = read_meta(out)
    assert meta.family == family
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
    if family != "medusa":
        return
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
