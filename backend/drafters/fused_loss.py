"""Cross-entropy of a linear layer over a large vocabulary, without keeping the scores.

Scores of K heads, T positions and Vd tokens are by far the largest thing in training heads. Each head's scores are
computed, turned into their own gradient in place, multiplied back, and dropped, so that they are passed over few times
and only one head's exist at once. Knows no family. The obvious version is torch's own cross_entropy on a product; the
test compares them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from backend.drafters.learning import IGNORE, products_in


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, states: Tensor, output: Tensor, labels: Tensor, weight: Tensor, compute: torch.dtype
    ) -> Tensor:
        sums = weight.new_zeros(len(states), dtype=torch.float32)
        grad_states, grad_output = torch.empty_like(states), torch.zeros_like(output)
        for head, state in enumerate(states):
            shared = head if len(output) > 1 else 0
            matrix, rows = output[shared].to(compute), state.to(compute)
            scores = (rows @ matrix.T).float()  # [T, Vd]
            target = labels[head].clamp(min=0)[:, None]
            learn = (labels[head] != IGNORE)[:, None]
            top = scores.amax(dim=1, keepdim=True)
            own = scores.gather(1, target) - top
            scores.sub_(top).exp_()
            total = scores.sum(dim=1, keepdim=True)
            sums[head] = weight[head] * ((total.log() - own) * learn).sum()
            scale = weight[head] * learn
            scores.mul_(scale / total)  # now the gradient, but for the label's own - 1
            scores.scatter_add_(1, target, -scale.to(scores.dtype))
            slope = scores.to(compute)
            grad_states[head] = slope @ matrix
            grad_output[shared] += slope.T @ rows
        ctx.save_for_backward(grad_states, grad_output)
        return sums

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad_states, grad_output = ctx.saved_tensors
        # Every head's sum enters the loss with the same factor; the weights are inside already.
        factor = grads[0][0]
        return grad_states * factor, grad_output * factor, None, None, None


def linear_cross_entropy(
    states: Tensor, output: Tensor, labels: Tensor, weight: Tensor, compute: torch.dtype = torch.float32
) -> Tensor:
    """Weighted sums of the cross-entropy of K heads; add them up to get the loss.

    Args:
        states: float [K, T, H].
        output: float [K or 1, Vd, H], one layer a head or one for all.
        labels: int64 [K, T], IGNORE where there is none.
        weight: float [K], factor of each head's sum.
        compute: dtype of the matrix products; bfloat16 is faster where the hardware has it. Under autocast its own.

    Returns float32 [K]: weight[k] * sum over positions of -log softmax(states[k] output[k]^T)[label]. The gradient is
    right only when all K sums enter the loss with one common factor, as in their plain sum.
    """
    compute = products_in(compute, states.device)
    with torch.autocast(states.device.type, enabled=False):  # every product below says itself what it is in
        result: Tensor = _LinearCrossEntropy.apply(states, output, labels, weight, compute)  # type: ignore[no-untyped-call]
    return result
