"""What a run keeps and when it gives up: the best weights by a judge, the same after any kill; a loss that explodes."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from backend.drafters.learning import FeatureBatch
from backend.drafters.medusa.train import MedusaLearner
from backend.errors import HeadwayError
from backend.training.config import TrainConfig
from backend.training.judge import Judged
from backend.training.kept import kept_steps, weights_file
from backend.training.loop import TrainResult, train
from backend.training.state import BEST, load_state
from backend.training.watch import LossWatch
from tests.training.stand_ins import MadeUpFeatures, Recorder, never, new_learner

CONFIG = TrainConfig(
    steps=40, batch_tokens=32, learning_rate=0.02, checkpoint_every=7, evaluate_every=5, report_every=2, seed=3
)
TRAIN, HELD_OUT = MadeUpFeatures(300), MadeUpFeatures(70, seed=1)


def wobbling(learner: MedusaLearner) -> Callable[[], Judged]:
    """A judge that depends on the weights alone and does not simply rise."""

    def judge() -> Judged:
        weight = learner.heads.block_weight.detach()
        accepted = 1_000 + round(1_000 * float(torch.sin(40 * weight.sum())))
        return Judged(1_000, accepted, (accepted // 2, accepted // 4), (1_000, accepted // 2))

    return judge


def run(folder: Path, learner: MedusaLearner, recorder: Recorder, config: TrainConfig = CONFIG) -> TrainResult:
    return train(config, learner, TRAIN, HELD_OUT, recorder, never, folder, wobbling(learner))


def figures(recorder: Recorder) -> dict[int, dict[str, float]]:
    """What was reported of each step, without times."""
    merged: dict[int, dict[str, float]] = {}
    for step, metrics in recorder.rows:
        merged.setdefault(step, {}).update({name: value for name, value in metrics.items() if name != "train_s"})
    return merged


def test_the_run_ends_with_the_best_weights_and_says_which(tmp_path: Path) -> None:
    learner, recorder = new_learner(), Recorder()
    result = run(tmp_path, learner, recorder)
    lengths = {step: row["acceptance_length"] for step, row in figures(recorder).items() if "acceptance_length" in row}
    assert len(lengths) == 9 and len(set(lengths.values())) > 5
    best = max(lengths, key=lambda step: (lengths[step], step))
    assert 0 < best < 40, "the best of all must be one in the middle for this test to say anything"
    assert (result.kept_step, result.acceptance_length) == (best, lengths[best])
    kept = load_state(tmp_path, BEST)
    assert kept is not None and kept["step"] == best
    assert all(torch.equal(value, kept["model"][name]) for name, value in learner.model.state_dict().items())
    held = {name.removeprefix("held_out_"): value for name, value in figures(recorder)[best].items()}
    assert result.evaluation is not None
    assert all(held[name] == value for name, value in result.evaluation.as_metrics().items())
    counted = figures(recorder)[best]
    accepted = round(1_000 * (counted["acceptance_length"] - 1))
    assert counted["accept_marginal_0"] == accepted // 2 / 1_000
    assert counted["accept_conditional_1"] == accepted // 4 / (accepted // 2)
    last = run(tmp_path / "last", new_learner(), Recorder(), CONFIG.model_copy(update={"keep": "last"}))
    assert last.kept_step == 40 and last.acceptance_length is None


class Killed(Exception):
    """Stands for a kill signal."""


class DiesAt(MedusaLearner):
    """Dies in the middle of a step or of an evaluation."""

    left = 0

    def _count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Killed

    def loss(self, batch: FeatureBatch) -> tuple[Tensor, Tensor]:
        self._count()
        return super().loss(batch)

    def evaluate(self, batch: FeatureBatch) -> tuple[object, Tensor]:  # type: ignore[override]
        self._count()
        return super().evaluate(batch)


def test_killed_anywhere_it_keeps_the_same_weights_and_the_same_curve(tmp_path: Path) -> None:
    whole, recorder = new_learner(), Recorder()
    undisturbed = run(tmp_path / "whole", whole, recorder)
    rng = random.Random(11)
    for attempt in range(6):
        told, kills = Recorder(), 0
        while True:
            learner = DiesAt(new_learner().heads)
            learner.left = rng.randint(1, 24)
            try:
                result = run(tmp_path / f"run-{attempt}", learner, told)
                break
            except Killed:
                kills += 1
        assert kills > 0
        assert (result.kept_step, result.acceptance_length) == (undisturbed.kept_step, undisturbed.acceptance_length)
        assert all(
            torch.equal(value, learner.model.state_dict()[name]) for name, value in whole.model.state_dict().items()
        )
        assert figures(told) == figures(recorder)


def test_judging_draws_nothing_from_the_generators(tmp_path: Path) -> None:
    def noisy() -> Judged:
        return Judged(100, int(torch.randint(100, ())), (), ())

    plain, judged = new_learner(), new_learner()
    config = CONFIG.model_copy(update={"keep": "last"})
    train(config, plain, TRAIN, HELD_OUT, Recorder(), never, tmp_path / "a")
    torch.manual_seed(99)
    train(config, judged, TRAIN, HELD_OUT, Recorder(), never, tmp_path / "b", noisy)
    assert all(torch.equal(v, judged.model.state_dict()[n]) for n, v in plain.model.state_dict().items())
    states = [load_state(tmp_path / name) for name in ("a", "b")]
    assert states[0] is not None and states[1] is not None
    assert torch.equal(states[0]["random"]["cpu"], states[1]["random"]["cpu"])


class Explodes(MedusaLearner):
    """From the twentieth step on its loss is a hundred times too large."""

    seen = 0

    def loss(self, batch: FeatureBatch) -> tuple[Tensor, Tensor]:
        self.seen += 1
        loss, per_head = super().loss(batch)
        return (loss * 100 if self.seen >= 20 else loss), per_head


def test_a_loss_that_stays_exploded_ends_the_run_with_its_reason(tmp_path: Path) -> None:
    config = CONFIG.model_copy(update={"explosion_reports": 3})
    result = train(config, Explodes(new_learner().heads), TRAIN, HELD_OUT, Recorder(), never, tmp_path)
    assert result.finish_reason == "exploded" and "3 reports in a row" in result.reason and result.steps == 24
    endured = train(CONFIG, Explodes(new_learner().heads), TRAIN, HELD_OUT, Recorder(), never, tmp_path / "endured")
    assert endured.finish_reason == "done"


def test_one_outlier_is_no_explosion_and_memory_survives_a_checkpoint() -> None:
    watch = LossWatch(factor=4.0, reports=2)
    assert not any(watch.add(loss) for loss in (3.0, 2.0, 20.0, 2.0, 20.0))
    later = LossWatch(factor=4.0, reports=2)
    later.load(watch.state())
    assert later.add(21.0)


def test_a_run_goes_on_only_from_the_weights_it_started_with(tmp_path: Path) -> None:
    train(CONFIG, new_learner(), TRAIN, HELD_OUT, Recorder(), never, tmp_path, origin="one")
    with pytest.raises(HeadwayError, match="starting weights"):
        train(CONFIG, new_learner(), TRAIN, HELD_OUT, Recorder(), never, tmp_path, origin="other")


def test_the_newest_checkpoints_keep_their_weights_and_none_of_a_later_step_is_left(tmp_path: Path) -> None:
    train(CONFIG, new_learner(), TRAIN, HELD_OUT, Recorder(), never, tmp_path / "two")
    assert kept_steps(tmp_path / "two") == [35, 40]
    longer = CONFIG.model_copy(update={"kept_checkpoints": 4, "steps": 35})
    learner = new_learner()
    train(longer, learner, TRAIN, HELD_OUT, Recorder(), never, tmp_path / "four")
    assert kept_steps(tmp_path / "four") == [14, 21, 28, 35]
    stored = load_state(tmp_path / "four", weights_file(35))
    assert stored is not None and (stored["family"], stored["step"]) == ("medusa", 35)
    assert all(torch.equal(value, stored["model"][name]) for name, value in learner.model.state_dict().items())
    (tmp_path / "four" / weights_file(35)).rename(tmp_path / "four" / weights_file(99))  # of a future that never came
    none = longer.model_copy(update={"kept_checkpoints": 0})  # may differ between attempts
    train(none, new_learner(), TRAIN, HELD_OUT, Recorder(), never, tmp_path / "four")
    assert kept_steps(tmp_path / "four") == [14, 21, 28]
    fresh = none.model_copy(update={"seed": 4})
    train(fresh, new_learner(), TRAIN, HELD_OUT, Recorder(), never, tmp_path / "none")
    assert kept_steps(tmp_path / "none") == []
