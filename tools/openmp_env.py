"""The OpenMP settings a process of ours starts with. Knows files and environment variables, nothing about torch.

Torch ships GNU's OpenMP, whose threads spin while they wait. With two OpenMP programs on one machine, or a busy
machine, that slows decoding down many times. Intel's runtime from PyPI gives its threads up after a few milliseconds.
It has to be loaded before torch, so it can only be chosen by whoever starts the process.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from pathlib import Path

LIBRARY = "libiomp5.so"
BLOCKTIME_MS = "5"


def openmp_env(venv_prefix: str | Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables to add to `environ` when starting a Python of the environment at `venv_prefix`.

    Empty where there is nothing to do: not Linux on x86_64, intel-openmp not installed (as on CUDA machines), or the
    user has already set LD_PRELOAD or any KMP_* variable, whose choice then stands.
    """
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64":
        return {}
    if environ.get("LD_PRELOAD") or any(name.startswith("KMP_") for name in environ):
        return {}
    library = Path(venv_prefix) / "lib" / LIBRARY
    # The dynamic linker splits LD_PRELOAD at spaces and colons and knows no quoting.
    if not library.is_file() or any(char in str(library) for char in " :"):
        return {}
    return {"LD_PRELOAD": str(library), "KMP_BLOCKTIME": BLOCKTIME_MS}
