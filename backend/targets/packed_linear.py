"""Linear layers whose weights are laid out once for oneDNN, for float32 on CPUs.

torch's default float32 linear is slow when there are few rows, which is all that decoding has: on two AVX2 cores a pass
over 16 rows costs about 2.6 plain steps with it and 1.5 with packed weights. For a single row it depends on the
processor; kernels.py measures it. The packed weight is opaque; whoever needs the numbers (hashing, LM-head rows) reads
them before packing. Other devices and dtypes keep what they have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import torch
from torch import Tensor, nn

from backend.targets.adapters import lora_parts

PackedFrom = Callable[[Tensor], int]

NEVER: Final = 1 << 30  #: more rows than any pass has


class RowLinear(nn.Module):
    """y = x W^T + b with W [out, in]; not trainable, not saved.

    From `packed_from` rows on the weight packed for oneDNN is used, below that the plain one. Only what is used is
    kept: with 1 the plain weight is let go, with NEVER nothing is packed.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, packed_from: int = 1) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.packed_from = packed_from
        packed = plain = None
        if packed_from < NEVER:
            packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), None)
        if packed_from > 1:
            plain = weight.detach()
        self.register_buffer("packed", packed, persistent=False)
        self.register_buffer("plain", plain, persistent=False)
        self.register_buffer("bias", None if bias is None else bias.detach(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.packed_from == 1 or x.numel() >= self.packed_from * self.in_features:
            return torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")  # type: ignore[no-any-return]
        return nn.functional.linear(x, self.plain, self.bias)  # type: ignore[arg-type]


def can_pack(weight: Tensor) -> bool:
    """Whether packing is possible and pays: dense float32 on a CPU with oneDNN. Quantised weights, tensors of classes
    of their own, say that they are float32 and are not.
    """
    plain = type(weight) in (Tensor, nn.Parameter)
    dense = plain and weight.device.type == "cpu" and weight.dtype == torch.float32 and weight.dim() == 2
    return dense and weight.numel() > 0 and torch.backends.mkldnn.is_available()


def pack_linear(weight: Tensor, bias: Tensor | None = None, packed_from: PackedFrom | None = None) -> nn.Module:
    """An inference-only linear for weight [out, in], packed on float32 CPUs where that pays; see RowLinear."""
    if not can_pack(weight):
        return RowLinear(weight, bias, NEVER)
    return RowLinear(weight, bias, packed_from(weight) if packed_from else 1)


def pack_model(model: nn.Module, packed_from: PackedFrom | None = None) -> int:
    """Replace every nn.Linear of `model` that can be packed; returns their number.

    `packed_from` says for a weight from how many rows on packing pays; None packs all for any number of rows. A weight
    shared with the embedding (tied heads) stays with the embedding whatever the layout of the linear's use of it.
    """
    found = list(_packable(model))
    for module, name, child in found:
        setattr(module, name, pack_linear(child.weight, child.bias, packed_from))
    return len(found)


def packable_bytes(model: nn.Module) -> int:
    """Bytes of the weights that `pack_model` would replace: what a second layout of all of them costs."""
    return sum(4 * child.weight.numel() for _, _, child in _packable(model))


def _packable(model: nn.Module) -> Iterator[tuple[nn.Module, str, nn.Linear]]:
    """(parent, name, linear); without what an active adapter reads itself, since a packed matrix can't be read."""
    kept = {id(part) for layer in model.modules() for part in lora_parts(layer)}
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear and id(child) not in kept and can_pack(child.weight):
                yield module, name, child
