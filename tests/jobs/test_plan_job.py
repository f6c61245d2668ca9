"""Measuring on a tiny target: real seconds and bytes, nothing left behind, and a plan that says it was measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from backend.data.answers import pack_answers
from backend.errors import HeadwayError
from backend.jobs.context import ConsoleContext
from backend.jobs.kinds import JOB_KINDS
from backend.jobs.plan_config import PlanJobConfig
from backend.settings import Settings
from backend.training.plan_facts import answer_facts, machine_speed, target_facts
from backend.training.plan_given import Probe
from backend.training.planner import plan
from tests.training.test_planner import made_up


def context(settings: Settings, folder: Path) -> ConsoleContext:
    folder.mkdir(parents=True, exist_ok=True)
    return ConsoleContext(settings, folder, quiet=True)


@pytest.mark.parametrize(
    "drafter",
    [
        {"family": "medusa", "num_heads": 2},
        {"family": "hydra", "num_heads": 2, "loss": "lk"},
        {"family": "eagle3", "test_time_steps": 2, "draft_depth": 2},
    ],
    ids=lambda drafter: str(drafter["family"]),
)
def test_a_probe_measures_and_leaves_nothing(settings: Settings, tmp_path: Path, drafter: dict[str, object]) -> None:
    pack_answers(made_up(120), tmp_path / "answers.npz")
    config = PlanJobConfig.model_validate(
        {
            "target": "tiny-llama", "answers": str(tmp_path / "answers.npz"), "seconds": 0.5,
            "drafter": drafter, "training": {"batch_tokens": 4096},
        }
    )  # fmt: skip
    folder = tmp_path / "job"
    result = JOB_KINDS["plan"].run(config, context(settings, folder))
    found = Probe.from_json(result["probe"])
    assert min(found.step_s, found.capture_tokens_per_s, found.evaluate_positions_per_s, found.draft_step_s) > 0
    assert found.checkpoint_bytes > 0 and found.train_peak_bytes >= 0
    assert list(folder.iterdir()) == []
    facts = target_facts("tiny-llama")
    again = plan(config, facts, answer_facts(Path(config.answers), config.held_out, 1024), found, machine_speed())
    assert again.measured and again.minutes == pytest.approx(result["minutes"], rel=0.01)


def test_answers_of_another_target_are_refused(settings: Settings, tmp_path: Path) -> None:
    answers = made_up(5)
    strange = [answers[0].__class__(**{**answers[0].__dict__, "answer_ids": (5000,)})]
    pack_answers(strange, tmp_path / "answers.npz")
    config = PlanJobConfig(target="tiny-llama", answers=str(tmp_path / "answers.npz"))
    with pytest.raises(HeadwayError, match="answers of another target"):
        JOB_KINDS["plan"].run(config, context(settings, tmp_path / "job"))
