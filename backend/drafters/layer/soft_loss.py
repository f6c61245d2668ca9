"""Cross-entropy against the target's own distribution over the draft vocabulary, without keeping either's scores.

Teacher and drafter score thousands of tokens at every position; a chunk of positions is scored by both, turned into the
drafter's gradient in place, multiplied back, and dropped. Knows no family. The obvious version is torch's own functions
on whole products; the test compares them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

CHUNK = 512  #: positions scored at once


class _SoftCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        output: Tensor,
        teacher: Tensor,
        teacher_rows: Tensor,
        weight: Tensor,
        compute: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        loss, hits = weight.new_zeros(()), weight.new_zeros(())
        train_output = output.requires_grad
        grad_states = torch.empty_like(states)
        grad_output = torch.zeros_like(output) if train_output else None
        matrix, target_matrix = output.to(compute), teacher_rows.to(compute)
        for start in range(0, len(states), CHUNK):
            here = slice(start, start + CHUNK)
            rows = states[here].to(compute)
            scores = (rows @ matrix.T).float()  # [C, Vd]
            wanted = (teacher[here].to(compute) @ target_matrix.T).float()
            scale = weight[here, None]
            hits += ((scores.argmax(1) == wanted.argmax(1)) * (weight[here] > 0)).sum()
            wanted = torch.softmax(wanted, dim=1)
            scores = torch.log_softmax(scores, dim=1)
            loss -= ((wanted * scores).sum(1) * weight[here]).sum()
            slope = (scores.exp_().sub_(wanted)).mul_(scale).to(compute)
            grad_states[here] = slope @ matrix
            if grad_output is not None:
                grad_output += slope.T @ rows
        ctx.save_for_backward(grad_states, grad_output)
        ctx.mark_non_differentiable(hits)
        return loss, hits

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad_states, grad_output = ctx.saved_tensors
        factor = grads[0]
        return grad_states * factor, None if grad_output is None else grad_output * factor, None, None, None, None


def soft_cross_entropy(
    states: Tensor,
    output: Tensor,
    teacher: Tensor,
    teacher_rows: Tensor,
    weight: Tensor,
    compute: torch.dtype = torch.float32,
) -> tuple[Tensor, Tensor]:
    """Sum over positions of weight[t] * cross-entropy(softmax(teacher[t] teacher_rows^T), states[t] output^T).

    Args:
        states: float [T, H], the drafter's; output: float [Vd, H], its output rows.
        teacher: float [T, Ht], the target's last hidden states; teacher_rows: float [Vd, Ht], the target's output rows
            of the tokens that can be drafted, so its distribution is renormalised over them.
        weight: float32 [T], 0 where nothing is to be learned.
        compute: dtype of the products.

    Returns (float32 scalar, number of positions of weight above 0 where both have the same best token).
    """
    result: tuple[Tensor, Tensor] = _SoftCrossEntropy.apply(  # type: ignore[no-untyped-call]
        states, output, teacher, teacher_rows, weight, compute
    )
    return result
