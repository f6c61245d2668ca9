"""Linear layers whose weights are laid out once for oneDNN, for float32 on CPUs.

torch's default float32 linear is slow when there are few rows, which is all that decoding has: on two AVX2 cores a pass
over 16 rows costs about 2.6 plain steps with it and 1.5 with packed weights, and a plain step itself is faster. The
packed weight is opaque; whoever needs the numbers (hashing, LM-head rows) reads them before packing. Other devices and
dtypes keep what they have.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class PackedLinear(nn.Module):
    """y = x W^T + b with W [out, in] packed for oneDNN; not trainable, not saved."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), None)
        self.register_buffer("packed", packed, persistent=False)
        self.register_buffer("bias", None if bias is None else bias.detach(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")  # type: ignore[no-any-return]


class _PlainLinear(nn.Module):
    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.register_buffer("weight", weight.detach(), persistent=False)
        self.register_buffer("bias", None if bias is None else bias.detach(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight, self.bias)  # type: ignore[arg-type]


def can_pack(weight: Tensor) -> bool:
    """Whether packing is possible and pays: dense float32 on a CPU with oneDNN."""
    dense = weight.device.type == "cpu" and weight.dtype == torch.float32 and weight.dim() == 2
    return dense and weight.numel() > 0 and torch.backends.mkldnn.is_available()


def pack_linear(weight: Tensor, bias: Tensor | None = None) -> nn.Module:
    """The fastest inference-only linear for weight [out, in]: packed on float32 CPUs, plain elsewhere."""
    return PackedLinear(weight, bias) if can_pack(weight) else _PlainLinear(weight, bias)


def pack_model(model: nn.Module) -> int:
    """Replace every nn.Linear of `model` that can be packed, freeing the unpacked weight; returns their number.

    A weight shared with the embedding (tied heads) stays with the embedding; only the linear's use of it is packed.
    """
    replaced = 0
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear and can_pack(child.weight):
                setattr(module, name, PackedLinear(child.weight, child.bias))
                replaced += 1
    return replaced
