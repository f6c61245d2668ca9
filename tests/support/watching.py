"""Watching a step: how often it reads values back from the device, how much Python and how many operators it runs."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

#: Tensor methods that hand values to Python. `tolist`, `numpy` and `cpu` are seen by no dispatch mode.
READING = ("tolist", "item", "numpy", "cpu", "__bool__", "__int__", "__float__", "__index__", "__array__")
#: Operators that make a CUDA device and its host wait for each other.
WAITING = {
    "_local_scalar_dense", "is_nonzero", "equal", "nonzero", "nonzero_numpy", "argwhere", "masked_select", "unique_dim",
    "_unique2", "unique_consecutive", "repeat_interleave", "bincount", "histc",
}  # fmt: skip


class Operators(TorchDispatchMode):
    """Counts operators by name; boolean indices count as "boolean index"."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        self.counts[name] += 1
        if name.startswith(("index", "_index_put")) and isinstance(args[1], (list, tuple)):
            boolean = any(index is not None and index.dtype == torch.bool for index in args[1])
            self.counts["boolean index"] += boolean
        return func(*args, **(kwargs or {}))

    @property
    def waiting(self) -> int:
        return sum(self.counts[name] for name in (*WAITING, "boolean index"))


@contextmanager
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Counts the calls of Tensor methods that read values, calls inside such a call apart."""
    counts: Counter[str] = Counter()
    with monkeypatch.context() as patch:
        for name in READING:
            if hasattr(torch.Tensor, name):
                patch.setattr(torch.Tensor, name, _counting(name, getattr(torch.Tensor, name), counts))
        yield counts


def _counting(name: str, original: Callable[..., Any], counts: Counter[str]) -> Callable[..., Any]:
    def method(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        counts[name] += 1
        return original(self, *args, **kwargs)

    return method


@contextmanager
def python_calls() -> Iterator[Counter[str]]:
    """Counts the calls of functions, Python's and C's, by kind."""
    counts: Counter[str] = Counter()

    def profile(frame: Any, event: str, arg: Any) -> None:
        counts[event] += 1

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield counts
    finally:
        sys.setprofile(before)
