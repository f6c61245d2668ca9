"""How much a product with a few rows costs in the layouts that torch offers, next to one row in the plain layout.

    python -m benchmarks.matrix_layouts

A verification pass is mostly such products, so this is the floor of its cost: where no layout makes eight rows cheap,
no engine built on them can. Layouts take turns over distinct matrices that together are larger than the caches; the
fastest round counts. `--compile` also asks torch.compile for kernels made for each shape (needs a C++ compiler, and
minutes).
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from backend.targets.kernels import cpu_name
from benchmarks.common import start_fast, table

SHAPES = {"feed-forward, in": (1536, 576), "feed-forward, out": (576, 1536), "LM head": (49152, 576)}  #: SmolLM2-135M
ROWS = (1, 2, 4, 8, 16)
WORKING_SET = 112 << 20  #: bytes of distinct matrices
HINTS = (1, 4, 16, 64)  #: rows that oneDNN is told to expect when it packs
Layout = Callable[[Tensor], None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--compile", action="store_true", help="also kernels of torch.compile")
    parser.add_argument("--out", metavar="FILE.json")
    args = parser.parse_args()
    start_fast("benchmarks.matrix_layouts")
    found: dict[str, dict[str, dict[int, float]]] = {}
    for name, shape in SHAPES.items():
        found[name] = measure(shape, args.repeats, args.compile)
        base = found[name]["plain"][1]
        print(f"\n{name}, {shape[0]} x {shape[1]}: one plain row takes {base:.2f} ms")
        print(
            table(
                [
                    ["rows", *found[name]],
                    *([str(n), *(f"{times[n] / base:.2f}" for times in found[name].values())] for n in ROWS),
                ]
            )
        )
    if args.out:
        conditions = {"processor": cpu_name(), "threads": torch.get_num_threads(), "torch": torch.__version__,
                      "load": [round(value, 2) for value in os.getloadavg()]}  # fmt: skip
        Path(args.out).write_text(
            json.dumps({"conditions": conditions, "ms": found}, indent=1) + "\n", encoding="utf-8"
        )


@torch.inference_mode()
def measure(shape: tuple[int, int], repeats: int, compiled: bool) -> dict[str, dict[int, float]]:
    """Layout -> rows -> milliseconds of all matrices."""
    weights = [torch.rand(shape) for _ in range(max(1, WORKING_SET // (4 * shape[0] * shape[1])))]
    layouts = layouts_of(weights)
    if compiled:
        layouts["compiled"] = compiled_layout(weights)
    times: dict[str, dict[int, float]] = {name: {} for name in layouts}
    for rows in ROWS:
        x = torch.rand(rows, shape[1])
        for name in layouts:
            times[name][rows] = float("inf")
        for repeat in range(repeats + 1):
            for name, layout in layouts.items():
                started = time.perf_counter()
                layout(x)
                if repeat:  # the first round warms up
                    times[name][rows] = min(times[name][rows], 1000 * (time.perf_counter() - started))
    return times


def layouts_of(weights: list[Tensor]) -> dict[str, Layout]:
    operators: Any = torch.ops.mkldnn
    turned = [weight.t().contiguous() for weight in weights]

    def packed(hint: int) -> Layout:
        laid_out = [operators._reorder_linear_weight(weight, hint) for weight in weights]
        return lambda x: _each(lambda weight: operators._linear_pointwise(x, weight, None, "none", [], ""), laid_out)

    return {
        "plain": lambda x: _each(lambda weight: nn.functional.linear(x, weight), weights),
        "turned": lambda x: _each(lambda weight: x @ weight, turned),
        "row by row": lambda x: _each(lambda weight: [torch.mv(weight, row) for row in x], weights),
        **{f"oneDNN, packed for {hint}": packed(hint) for hint in HINTS},
    }


def compiled_layout(weights: list[Tensor]) -> Layout:
    """Weights frozen into the graph, so that they may be packed, and kernels tried out for each shape."""
    import torch._inductor.config as inductor

    inductor.freezing, inductor.max_autotune, inductor.max_autotune_gemm_backends = True, True, "CPP,ATEN"
    module = _Layers(weights).eval()
    made = torch.compile(module, dynamic=False)

    def run(x: Tensor) -> None:
        with torch.inference_mode(False), torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made(x.clone())

    return run


class _Layers(nn.Module):
    """The matrices as layers, which freezing knows how to pack."""

    def __init__(self, weights: list[Tensor]) -> None:
        super().__init__()
        with torch.inference_mode(False):
            self.layers = nn.ModuleList(nn.Linear(w.shape[1], w.shape[0], bias=False) for w in weights)
            for layer, weight in zip(self.layers, weights, strict=True):
                layer.weight = nn.Parameter(weight.clone(), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([layer(x).sum() for layer in self.layers])


def _each(multiply: Callable[[Tensor], object], weights: list[Tensor]) -> None:
    for weight in weights:
        multiply(weight)


if __name__ == "__main__":
    main()
