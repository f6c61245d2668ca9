"""From how many rows on a packed matrix is faster than a plain one, on this machine, for every shape of matrix.

Neither layout wins everywhere: on two Zen 4 cores packed matrices are faster from the first row, on two Emerald Rapids
cores the plain ones are for one and two rows and for small matrices whatever the rows. The answer is measured once a
machine and remembered in the cache folder, so that later runs use the same kernels and write the same tokens. Knows
matrices and a clock, no model.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from backend.targets.packed_linear import NEVER, RowLinear, can_pack

ROWS = (1, 2, 4, 8, 16)  #: rows that are timed: what decoding has
CHOICES = (*ROWS, NEVER)
SMALL = 1 << 16  #: numbers in a matrix below which nothing is measured
WORKING_SET = 96 << 20  #: bytes of distinct matrices that are multiplied in turns, so that caches don't hold them
MOST_COPIES = 64
REPEATS = 7
GAIN = 0.03  #: two layouts must be better by this share, so that chance does not decide

Times = dict[int, tuple[float, float]]  #: rows -> (plain, packed), in any unit


class Kernels:
    """Answers `packed_from` for a matrix. `file`: where answers are kept; None keeps them for the process only.

    What was measured while the machine was busy is not written down: it would slow every later run.
    """

    def __init__(
        self,
        file: Path | None = None,
        measure: Callable[[tuple[int, int]], Times] | None = None,
        busy: Callable[[], bool] | None = None,
    ) -> None:
        self._file, self._measure, self._busy = file, measure or time_layouts, busy or machine_is_busy
        self._machine = machine_key()
        self._known: dict[str, dict[str, list[int]]] = _read(file)

    def packed_from(self, weight: Tensor, two_layouts: bool = True) -> int:
        """Fewest rows that go through the packed layout of `weight` [out, in]; 1: all, NEVER: none.

        With `two_layouts` False one layout has to do for all, to save memory.
        """
        if weight.numel() < SMALL or not can_pack(weight):
            return 1
        rows, columns = weight.shape
        key, mine = f"{rows}x{columns}", self._known.setdefault(self._machine, {})
        if key not in mine:
            times = self._measure((rows, columns))
            mine[key] = [choose(times, CHOICES), choose(times, (1, NEVER))]
            if not self._busy():
                self._write()
        return mine[key][0 if two_layouts else 1]

    def _write(self) -> None:
        if self._file is None:
            return
        partial = self._file.with_name(f".{self._file.name}.{os.getpid()}.partial")
        with suppress(OSError):  # a cache that can't be written is measured again next time
            self._file.parent.mkdir(parents=True, exist_ok=True)
            partial.write_text(json.dumps(self._known, indent=1) + "\n", encoding="utf-8")
            os.replace(partial, self._file)


def choose(times: Times, choices: tuple[int, ...]) -> int:
    """The threshold with the least time over all row counts, each counted in units of its faster layout."""

    def cost(threshold: int) -> float:
        return sum(
            (packed if rows >= threshold else plain) / min(plain, packed) for rows, (plain, packed) in times.items()
        )

    best = min(choices, key=cost)
    simplest = min((1, NEVER), key=cost)
    return best if cost(best) < (1 - GAIN) * cost(simplest) else simplest


@torch.inference_mode()
def time_layouts(shape: tuple[int, int]) -> Times:
    """Milliseconds of both layouts for a matrix of this shape, taking turns. The fastest round of each counts: what
    other programs take away on a busy machine is no property of a layout.
    """
    copies = min(MOST_COPIES, max(1, WORKING_SET // (4 * shape[0] * shape[1])))
    weights = [torch.rand(shape) for _ in range(copies)]
    layers: dict[str, list[nn.Module]] = {
        "plain": [RowLinear(weight, None, NEVER) for weight in weights],
        "packed": [RowLinear(weight, None, 1) for weight in weights],
    }
    found: Times = {}
    for rows in ROWS:
        x = torch.rand(1, rows, shape[1])
        times: dict[str, list[float]] = {"plain": [], "packed": []}
        for repeat in range(REPEATS + 1):
            for name, listed in layers.items():
                started = time.perf_counter()
                for layer in listed:
                    layer(x)
                if repeat:  # the first round warms up
                    times[name].append(1000 * (time.perf_counter() - started))
        found[rows] = (min(times["plain"]), min(times["packed"]))
    return found


def machine_is_busy() -> bool:
    """Whether others compute so much that times measured now say little: more programs want to run than there are
    processors, this one counted.
    """
    try:
        return os.getloadavg()[0] > 1.5 * (os.cpu_count() or 1)
    except (AttributeError, OSError):  # not told on this system
        return False


def cpu_name() -> str:
    """The processor as it calls itself, such as "AMD EPYC 9R14"."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def machine_key() -> str:
    """What the answers hold for."""
    capability = torch.backends.cpu.get_cpu_capability()
    return f"{cpu_name()}, {capability}, {torch.get_num_threads()} threads, torch {torch.__version__}"


def _read(file: Path | None) -> dict[str, dict[str, list[int]]]:
    if file is None or not file.is_file():
        return {}
    with suppress(OSError, ValueError):
        stored: Any = json.loads(file.read_text(encoding="utf-8"))
        if isinstance(stored, dict) and all(_is_answers(answers) for answers in stored.values()):
            return stored
    return {}


def _is_answers(answers: Any) -> bool:
    return isinstance(answers, dict) and all(
        isinstance(pair, list) and len(pair) == 2 and all(type(number) is int for number in pair)
        for pair in answers.values()
    )
