"""A step in bfloat16: the curve stays close to that of float32, weights and optimiser stay whole, losses with gradients
of their own give what they give when told to, and a killed run ends with the same bits.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from backend.drafters.eagle.config import EagleSettings
from backend.drafters.eagle3.config import Eagle3Settings
from backend.drafters.family import FamilySettings
from backend.drafters.fused_loss import linear_cross_entropy
from backend.drafters.hydra.config import HydraSettings
from backend.drafters.layer.token_loss import LOSSES, Teacher, token_loss
from backend.drafters.learning import IGNORE
from backend.drafters.medusa.config import MedusaSettings
from backend.drafters.mtp.config import MtpSettings
from backend.drafters.peagle.config import PeagleSettings
from backend.errors import HeadwayError
from backend.targets.target import Target
from backend.training.config import TrainConfig
from backend.training.planner import decides
from backend.training.state import load_state
from tests.drafters.stand_ins import tiny_target
from tests.training.test_pair_training import CONFIG, run
from tests.training.test_planner import config

LOW = CONFIG.model_copy(update={"precision": "bfloat16"})
SMALL = {"draft_vocab": 200, "draft_depth": 2}
FAMILIES: list[FamilySettings] = [
    MedusaSettings(num_heads=2, draft_vocab=200),
    HydraSettings(num_heads=2, draft_vocab=200, loss="lk"),
    EagleSettings(**SMALL, test_time_steps=2, feature_weight=0.5),
    Eagle3Settings(**SMALL, test_time_steps=2, fc_norm=True),
    MtpSettings(**SMALL, test_time_steps=2),
    MtpSettings(**SMALL, form="modules"),
    PeagleSettings(**SMALL),
]


@pytest.fixture(scope="module")
def target() -> Target:
    return tiny_target()


@pytest.mark.parametrize("settings", FAMILIES, ids=lambda one: f"{one.family}-{getattr(one, 'form', '')}".rstrip("-"))
def test_the_curve_is_close_to_that_of_float32(settings: FamilySettings, target: Target, tmp_path: Path) -> None:
    learner, _, recorder = run(settings, target, tmp_path, False, LOW)
    (tmp_path / "run").rename(tmp_path / "low")
    _, _, whole = run(settings, target, tmp_path, False, CONFIG)
    losses, expected = ([row["loss"] for _, row in one.rows if "loss" in row] for one in (recorder, whole))
    assert losses != expected and losses == pytest.approx(expected, rel=0.03)
    assert {weight.dtype for weight in learner.model.parameters()} == {torch.float32}
    state = load_state(tmp_path / "low")
    assert state is not None
    moments = [value for one in state["optimiser"]["state"].values() for value in one.values()]
    assert {value.dtype for value in moments} == {torch.float32}
    assert not any(module._forward_pre_hooks for module in learner.model.modules()), "nothing stays behind"


def gradients(loss: torch.Tensor, *of: torch.Tensor) -> list[torch.Tensor]:
    return list(torch.autograd.grad(loss, of))


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("states_in", [torch.float32, torch.bfloat16])
def test_a_loss_over_the_vocabulary_takes_autocasts_numbers(name: str, states_in: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(40, 16, generator=generator).to(states_in).requires_grad_()
    output = torch.randn(30, 16, generator=generator).requires_grad_()
    taught, labels = torch.randn(40, 16, generator=generator), torch.randint(30, (40,), generator=generator)
    given = (taught, labels, torch.full((40,), 1 / 40), Teacher(torch.randn(30, 16, generator=generator)))
    with torch.autocast("cpu", torch.bfloat16):
        loss = token_loss(name, states, output, *given)
    told = token_loss(name, states, output, *given, torch.bfloat16)
    assert loss.dtype == torch.float32 and torch.equal(loss, told)
    found = gradients(loss, states, output)
    assert all(map(torch.equal, found, gradients(told, states, output)))
    whole = states.detach().float().requires_grad_()
    exact = token_loss(name, whole, output, *given)
    assert loss.item() == pytest.approx(exact.item(), rel=0.02)
    for mine, right in zip(found, gradients(exact, whole, output), strict=True):
        torch.testing.assert_close(mine.float(), right, atol=0.02 * float(right.abs().max()), rtol=0.05)


def test_so_does_that_of_heads() -> None:
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(2, 40, 16, generator=generator).requires_grad_()
    output = torch.randn(2, 30, 16, generator=generator).requires_grad_()
    labels = torch.randint(30, (2, 40), generator=generator)
    labels[0, :5] = IGNORE
    weight = torch.tensor([0.1, 0.05])
    with torch.autocast("cpu", torch.bfloat16):
        loss = linear_cross_entropy(states, output, labels, weight).sum()
    told = linear_cross_entropy(states, output, labels, weight, torch.bfloat16).sum()
    exact = linear_cross_entropy(states, output, labels, weight).sum()
    assert torch.equal(loss, told) and loss.item() != exact.item() == pytest.approx(loss.item(), rel=0.02)
    assert all(map(torch.equal, gradients(loss, states, output), gradients(told, states, output)))


def test_killed_it_ends_with_the_same_bits(target: Target, tmp_path: Path) -> None:
    whole, undisturbed, _ = run(FAMILIES[3], target, tmp_path / "whole", False, LOW)
    pieces, resumed, _ = run(FAMILIES[3], target, tmp_path / "pieces", True, LOW)
    assert resumed.steps == undisturbed.steps
    found = pieces.model.state_dict()
    assert all(torch.equal(value, found[name]) for name, value in whole.model.state_dict().items())


def test_runs_from_before_there_was_a_choice_go_on(target: Target, tmp_path: Path) -> None:
    run(FAMILIES[0], target, tmp_path, False, CONFIG)
    state = load_state(tmp_path / "run")
    assert state is not None and "precision" not in state["run"]["settings"], "as an earlier version wrote it"
    run(FAMILIES[0], target, tmp_path, False, TrainConfig(**CONFIG.model_dump()))
    with pytest.raises(HeadwayError, match="differs in settings"):
        run(FAMILIES[0], target, tmp_path, False, LOW)


def test_probes_are_of_one_precision() -> None:
    before, low = decides(config()), decides(config(training={"precision": "bfloat16"}))
    assert "precision" not in before and low == before | {"precision": "bfloat16"}
