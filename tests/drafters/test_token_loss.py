"""Losses by name against their obvious versions, made of torch's own functions on whole products."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from backend.drafters.layer import token_loss as module
from backend.drafters.layer.token_loss import LOSSES, Teacher, token_loss

T, H, HT, VD = 29, 8, 10, 13


def given(seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Teacher]:
    """states, output, taught, labels, weight, teacher."""
    generator = torch.Generator().manual_seed(seed)
    states, output = torch.randn(T, H, generator=generator), torch.randn(VD, H, generator=generator)
    taught, rows = torch.randn(T, HT, generator=generator), torch.randn(VD, HT, generator=generator)
    labels, weight = torch.randint(0, VD, (T,), generator=generator), torch.rand(T, generator=generator)
    weight[::5] = 0
    return states, output, taught, labels, weight, Teacher(rows)


def obvious(name: str, scores: Tensor, wanted: Tensor, labels: Tensor) -> Tensor:
    """Loss of each position, from whole scores; what is a constant is detached."""
    q, p = scores.softmax(1), wanted.softmax(1)
    accepted = torch.minimum(p, q).sum(1)
    distance = functional.kl_div(scores.log_softmax(1), p, reduction="none").sum(1)
    weight = torch.exp(-3 * accepted.detach())
    return {
        "soft": functional.cross_entropy(scores, p, reduction="none"),
        "kl": distance,
        "hard": functional.cross_entropy(scores, labels, reduction="none"),
        "lk": -accepted.log(),
        "lk-hybrid": weight * distance + (1 - weight) * (1 - accepted),
    }[name]


@pytest.mark.parametrize("chunk", [7, 512])
@pytest.mark.parametrize("name", LOSSES)
def test_loss_and_gradients_equal_the_obvious_ones(name: str, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", chunk)
    states, output, taught, labels, weight, teacher = given()
    states.requires_grad_()
    output.requires_grad_()
    fused = token_loss(name, states, output, taught, labels, weight, teacher)
    by_states, by_output = torch.autograd.grad(2 * fused, (states, output))
    plain = (obvious(name, states @ output.T, taught @ teacher.rows.T, labels) * weight).sum()
    expected = torch.autograd.grad(2 * plain, (states, output))
    torch.testing.assert_close(fused, plain, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close((by_states, by_output), expected, atol=1e-5, rtol=1e-4)


def test_soft_and_kl_pull_alike_and_kl_ends_at_zero() -> None:
    states, output, taught, labels, weight, teacher = given(1)
    states.requires_grad_()
    slopes = [
        torch.autograd.grad(token_loss(name, states, output, taught, labels, weight, teacher), states)[0]
        for name in ("soft", "kl")
    ]
    torch.testing.assert_close(*slopes)
    same = token_loss("kl", taught, teacher.rows, taught, labels, weight, teacher)
    assert same.item() == pytest.approx(0, abs=1e-5)
    assert token_loss("lk", taught, teacher.rows, taught, labels, weight, teacher).item() == pytest.approx(0, abs=1e-4)


def test_a_capped_teacher_is_the_capped_one() -> None:
    states, output, taught, labels, weight, teacher = given(2)
    capped = Teacher(teacher.rows, cap=2.0)
    wanted = 2.0 * torch.tanh(taught @ teacher.rows.T / 2.0)
    expected = (obvious("kl", states @ output.T, wanted, labels) * weight).sum()
    torch.testing.assert_close(token_loss("kl", states, output, taught, labels, weight, capped), expected)


def test_frozen_rows_get_no_gradient_and_no_position_no_loss() -> None:
    states, output, taught, labels, weight, teacher = given(3)
    nothing = token_loss("soft", states[:0].requires_grad_(), output, taught[:0], labels[:0], weight[:0], teacher)
    nothing.backward()
    assert nothing.item() == 0 and output.grad is None
