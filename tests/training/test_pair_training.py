"""Drafters that learn from whole texts, in the one loop: killed and resumed they end with the same bits, and what is
learned from is what the settings say.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from backend.drafters.eagle.config import EagleSettings
from backend.drafters.eagle3.config import Eagle3Settings
from backend.drafters.family import FamilySettings
from backend.drafters.hydra.config import HydraSettings
from backend.drafters.learning import Learner
from backend.drafters.recipe import recipe_of
from backend.targets.target import Target
from backend.training.config import TrainConfig
from backend.training.loop import TrainResult, train
from tests.drafters.learned import features_for
from tests.drafters.stand_ins import tiny_target
from tests.training.stand_ins import Recorder, never
from tests.training.test_features import Pair, pairs

CONFIG = TrainConfig(
    epochs=3, batch_tokens=48, learning_rate=1e-3, checkpoint_every=4, evaluate_every=6, report_every=1, seed=3,
    decode_prompts=0,
)  # fmt: skip
FAMILIES: list[FamilySettings] = [
    EagleSettings(draft_vocab=200, noise=0.1, draft_depth=2),
    Eagle3Settings(draft_vocab=200, test_time_steps=2, draft_depth=2),
    HydraSettings(draft_vocab=200, num_heads=2, head_arch="prefix-mlp", dropout=0.1),
]


@pytest.fixture(scope="module")
def target() -> Target:
    return tiny_target()


def learner_of(settings: FamilySettings, target: Target, answers: list[Pair]) -> Learner:
    texts = [(*a.prompt_ids, *a.answer_ids) for a in answers]
    return recipe_of(settings.family).new_learner(settings, target, torch.arange(200), None, texts)


class Killed(Exception):
    """Stands for a kill signal."""


def dies_after(learner: Learner, steps: int) -> None:
    """The learner dies in the middle of a later step, when its noise is drawn and its checkpoint is some steps old."""
    inner, left = learner.loss, [steps]

    def loss(batch: object) -> object:
        found = inner(batch)
        left[0] -= 1
        if left[0] < 0:
            raise Killed
        return found

    learner.loss = loss  # type: ignore[assignment, method-assign]


def run(
    settings: FamilySettings, target: Target, folder: Path, kill: bool = False, config: TrainConfig = CONFIG
) -> tuple[Learner, TrainResult, Recorder]:
    answers, rng = pairs(24), random.Random(5)
    recorder = Recorder()
    while True:
        learner = learner_of(settings, target, answers)
        features = features_for(learner, target, answers, folder / "features")
        held_out = features_for(learner, target, answers[:3], folder / "held-out")
        if kill:
            dies_after(learner, rng.randint(4, 9))
        try:
            result = train(config, learner, features, held_out, recorder, never, folder / "run")
        except Killed:
            continue
        assert result.finish_reason == "done"
        return learner, result, recorder


@pytest.mark.parametrize("settings", FAMILIES, ids=lambda settings: settings.family)
def test_killed_it_ends_with_the_same_bits(settings: FamilySettings, target: Target, tmp_path: Path) -> None:
    whole, undisturbed, _ = run(settings, target, tmp_path / "whole")
    pieces, resumed, _ = run(settings, target, tmp_path / "pieces", kill=True)
    assert resumed.total_steps == undisturbed.total_steps > 12
    found = pieces.model.state_dict()
    assert all(torch.equal(value, found[name]) for name, value in whole.model.state_dict().items())
    assert undisturbed.ranks is not None and resumed.ranks is not None
    assert torch.equal(undisturbed.ranks, resumed.ranks)


@pytest.mark.parametrize("settings", FAMILIES, ids=lambda settings: settings.family)
def test_the_loss_falls_and_depths_are_counted_apart(settings: FamilySettings, target: Target, tmp_path: Path) -> None:
    longer = CONFIG.model_copy(update={"epochs": 12.0, "learning_rate": 5e-3})
    _, result, recorder = run(settings, target, tmp_path, False, longer)
    losses = [metrics["held_out_loss_0"] for _, metrics in recorder.rows if "held_out_loss_0" in metrics]
    assert losses[-1] < 0.9 * losses[0]
    assert result.evaluation is not None and len(result.evaluation.positions) == settings.depth
    assert result.evaluation.positions[0] > result.evaluation.positions[1] > 0


def test_gradients_are_cut_number_by_number(target: Target, tmp_path: Path) -> None:
    cut = CONFIG.model_copy(update={"gradient_value_clip": 1e-12, "steps": 1})
    answers = pairs(24)
    learner = learner_of(FAMILIES[1], target, answers)
    features = features_for(learner, target, answers, tmp_path / "features")
    train(cut, learner, features, features, Recorder(), never, tmp_path / "run")
    largest = max(float(weight.grad.abs().max()) for weight in learner.model.parameters() if weight.grad is not None)
    assert 0 < largest <= 1.01e-12


@pytest.mark.parametrize("norm", [None, "fc_norm", "norm_before_fc"])  # with a norm the states are not scaled
def test_an_attention_sink_is_kept_out_of_the_loss(target: Target, tmp_path: Path, norm: str | None) -> None:
    answers = pairs(6)
    learner = learner_of(FAMILIES[1].model_copy(update={norm: True} if norm else {}), target, answers)
    features = features_for(learner, target, answers, tmp_path)
    batch = features.batch(torch.arange(6), 0)
    usual = learner.model.extreme(batch.states)  # type: ignore[operator]
    assert not usual.any()
    batch.states[:, 0] *= 1e4
    assert learner.model.extreme(batch.states).nonzero()[:, 1].unique().tolist() == [0]  # type: ignore[operator]
    batch.learn[:] = False
    batch.learn[:, :3] = True  # the only token to be learned at depth 1 is predicted from the sink
    loss, _ = learner.loss(batch)
    assert loss.item() == 0


@pytest.mark.parametrize("loss", ["soft", "lk", "lk-hybrid"])
def test_hydra_can_learn_what_the_target_says(loss: str, target: Target, tmp_path: Path) -> None:
    settings = HydraSettings(num_heads=2, draft_vocab=200, loss=loss)
    _, result, recorder = run(settings, target, tmp_path, False, CONFIG.model_copy(update={"epochs": 12.0}))
    losses = [metrics["loss"] for _, metrics in recorder.rows if "loss" in metrics]
    assert sum(losses[-5:]) < 0.9 * sum(losses[:5]) and result.finish_reason == "done"


def test_hydras_teacher_is_the_state_before_the_token(target: Target, tmp_path: Path) -> None:
    """With one head the soft loss is the cross-entropy under the target's own distribution of the token t + 2."""
    answers = pairs(4)
    settings = HydraSettings(num_heads=1, draft_vocab=0, loss="soft")
    learner = recipe_of("hydra").new_learner(settings, target, None, None)
    batch = features_for(learner, target, answers, tmp_path).batch(torch.arange(12), 2)
    kept = batch.following[:, 1] >= 0
    taught = target.logits(batch.ahead[kept, 0]).softmax(-1)  # type: ignore[index]
    state = learner.model.state(0, batch.hidden[kept], batch.following[kept, :1])  # type: ignore[operator]
    scores = learner.model.scores(0, state)  # type: ignore[operator]
    expected = torch.nn.functional.cross_entropy(scores, taught)
    torch.testing.assert_close(learner.loss(batch)[0], expected, atol=1e-4, rtol=1e-4)
