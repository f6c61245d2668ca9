"""The training loop: it learns, resumes bit for bit after any kill, stops when asked, and refuses to go on with
nonsense.
"""

import random
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import Tensor

from backend.drafters.learning import FeatureBatch
from backend.drafters.medusa.train import MedusaLearner
from backend.errors import HeadwayError
from backend.training.config import TrainConfig
from backend.training.loop import TrainResult, train
from backend.training.schedule import learning_rate
from backend.training.state import STATE
from tests.training.stand_ins import MadeUpFeatures, Recorder, never, new_learner, weights_of

CONFIG = TrainConfig(
    epochs=3, batch_tokens=32, learning_rate=0.02, checkpoint_every=7, evaluate_every=10, report_every=1, seed=3
)
TRAIN, HELD_OUT = MadeUpFeatures(300), MadeUpFeatures(70, seed=1)


def run(
    folder: Path, learner: MedusaLearner | None = None, config: TrainConfig = CONFIG, recorder: Recorder | None = None
) -> TrainResult:
    made = learner or new_learner()
    return train(config, made, TRAIN, HELD_OUT, recorder or Recorder(), never, folder)


def test_it_learns_and_reports(tmp_path: Path) -> None:
    recorder = Recorder()
    result = run(tmp_path, recorder=recorder, config=CONFIG.model_copy(update={"epochs": 30.0}))
    assert result.finish_reason == "done" and result.steps == result.total_steps == 30 * (300 // 32)
    first = recorder.rows[0][1]
    assert result.evaluation is not None and result.ranks is not None
    assert recorder.last("held_out_top1_0") > first["held_out_top1_0"] + 0.3
    assert recorder.last("held_out_loss_1") < first["held_out_loss_1"]
    assert result.ranks.shape == (70, 2)
    assert {"loss", "loss_0", "loss_1", "gradient_norm", "learning_rate", "train_s"} <= recorder.rows[1][1].keys()


class Killed(Exception):
    """Stands for a kill signal."""


class DiesAt(MedusaLearner):
    """Dies in the middle of a step."""

    steps_left = 0

    def loss(self, batch: FeatureBatch) -> tuple[Tensor, Tensor]:
        if self.steps_left == 0:
            raise Killed
        self.steps_left -= 1
        return super().loss(batch)


def test_killed_at_random_steps_and_resumed_it_ends_bit_for_bit_the_same(tmp_path: Path) -> None:
    undisturbed = run(tmp_path / "whole")
    rng = random.Random(5)
    for attempt in range(8):
        folder, kills = tmp_path / f"run-{attempt}", 0
        while True:
            # A new process has other initial weights; all that counts comes from the state, or from step 0 with the
            # right ones.
            learner = DiesAt(new_learner().heads)
            learner.steps_left = rng.randint(1, 15)
            torch.manual_seed(rng.randrange(1000))
            try:
                result = run(folder, learner)
                break
            except Killed:
                kills += 1
        assert kills > 0 and result.steps == undisturbed.steps
        for name, value in weights_of(tmp_path / "whole").items():
            assert torch.equal(value, weights_of(folder)[name]), name
        assert result.ranks is not None and undisturbed.ranks is not None
        assert torch.equal(result.ranks, undisturbed.ranks)


def test_a_resumed_run_has_the_threads_it_began_with(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    seen: list[int] = []

    class Looks(DiesAt):
        def loss(self, batch: FeatureBatch) -> tuple[Tensor, Tensor]:
            seen.append(torch.get_num_threads())
            return super().loss(batch)

    try:
        torch.set_num_threads(2)
        first = Looks(new_learner().heads)
        first.steps_left = 15
        with pytest.raises(Killed):
            run(tmp_path, first)
        torch.set_num_threads(1)
        second = Looks(new_learner().heads)
        second.steps_left = 1000
        run(tmp_path, second)
        assert len(seen) > 16 and set(seen) == {2}
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_a_kill_while_writing_leaves_the_old_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tmp_path, config=CONFIG.model_copy(update={"steps": 7}))
    before = (tmp_path / STATE).read_bytes()
    save = torch.save

    def half_written(state: object, path: Path) -> None:
        save({"half": torch.zeros(3)}, path)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", half_written)
    with pytest.raises(HeadwayError, match="No space left"):
        train(
            CONFIG.model_copy(update={"steps": 7}),
            new_learner(),
            TRAIN,
            HELD_OUT,
            Recorder(),
            lambda: True,
            tmp_path / "new",
        )
    assert not (tmp_path / "new" / STATE).exists()
    assert (tmp_path / STATE).read_bytes() == before


def test_stopping_saves_and_goes_on_later(tmp_path: Path) -> None:
    recorder, learner = Recorder(), new_learner()
    result = train(CONFIG, learner, TRAIN, HELD_OUT, recorder, lambda: len(recorder.rows) > 12, tmp_path / "a")
    assert result.finish_reason == "stopped" and 0 < result.steps < result.total_steps
    assert run(tmp_path / "a").finish_reason == "done"
    run(tmp_path / "b")
    for name, value in weights_of(tmp_path / "a").items():
        assert torch.equal(value, weights_of(tmp_path / "b")[name])


def test_a_finished_run_started_again_gives_its_numbers(tmp_path: Path) -> None:
    first, again = run(tmp_path), run(tmp_path)
    assert again.finish_reason == "done" and again.evaluation is not None and first.evaluation is not None
    assert torch.equal(again.evaluation.hits, first.evaluation.hits)


class Explodes(MedusaLearner):
    """Its loss stops being a number at the eleventh step."""

    seen = 0

    def loss(self, batch: FeatureBatch) -> tuple[Tensor, Tensor]:
        self.seen += 1
        loss, per_head = super().loss(batch)
        return (loss * float("nan") if self.seen == 11 else loss), per_head


def test_a_loss_that_is_no_number_ends_the_run_with_its_reason(tmp_path: Path) -> None:
    learner = Explodes(new_learner().heads)
    result = run(tmp_path, learner)
    assert result.finish_reason == "not_finite" and "step 10" in result.reason
    assert all(bool(torch.isfinite(p).all()) for p in learner.model.parameters())
    assert torch.load(tmp_path / STATE, weights_only=True)["step"] == 7


def test_another_run_in_the_folder_is_refused(tmp_path: Path) -> None:
    run(tmp_path)
    with pytest.raises(HeadwayError, match="settings"):
        run(tmp_path, config=CONFIG.model_copy(update={"learning_rate": 0.5}))
    with pytest.raises(HeadwayError, match="features"):
        train(CONFIG, new_learner(), MadeUpFeatures(300, seed=9), HELD_OUT, Recorder(), never, tmp_path)
    run(tmp_path, config=CONFIG.model_copy(update={"report_every": 5}))  # how often it reports is free


def test_a_damaged_state_and_too_little_data_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / STATE).write_bytes(b"PK nothing")
    with pytest.raises(HeadwayError, match="delete it to start over"):
        run(tmp_path)
    with pytest.raises(HeadwayError, match="fewer than one batch"):
        train(CONFIG, new_learner(), MadeUpFeatures(31), HELD_OUT, Recorder(), never, tmp_path)


def test_learning_rate_rises_and_falls() -> None:
    config = TrainConfig(learning_rate=1.0, warmup_fraction=0.1, final_fraction=0.2)
    rates = [learning_rate(config, step, 100) for step in range(101)]
    assert rates[0] == pytest.approx(0.1) and rates[9] == pytest.approx(1.0) and rates[10] == pytest.approx(1.0)
    assert rates[55] == pytest.approx(0.6) and rates[100] == pytest.approx(0.2)
    assert all(a >= b for a, b in pairwise(rates[10:]))


def test_every_position_is_seen_once_an_epoch(tmp_path: Path) -> None:
    seen: list[int] = []

    class Watched(MadeUpFeatures):
        def batch(self, positions: Tensor, horizon: int) -> FeatureBatch:
            seen.extend(positions.tolist())
            return super().batch(positions, horizon)

    train(
        CONFIG.model_copy(update={"epochs": 1.0}),
        new_learner(),
        Watched(320),
        MadeUpFeatures(0),
        Recorder(),
        never,
        tmp_path,
    )
    assert sorted(seen) == list(range(320)) and seen != sorted(seen)
