"""Runs every check of the project, pytest last so that its closing line ends the output. Knows only command lines.

All tests together run in several processes, the tests of a file in one of them. With arguments only pytest runs, with
those arguments and in one process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

MOST_PROCESSES = 4  #: each needs one to two gigabytes, and tests of pages start browsers and servers besides
ROOT = Path(__file__).resolve().parent.parent
STRICT_ROOMS = ("storage", "backend")


def checks() -> dict[str, list[str]]:
    """The static checks by name, as arguments of `python -m`. The import contracts are one of the tests."""
    rooms = [room for room in STRICT_ROOMS if (ROOT / room).is_dir()]
    return {"ruff": ["ruff", "check", "."], "mypy": ["mypy", "--strict", *rooms]}


def in_processes() -> list[str]:
    """pytest's arguments for all tests."""
    return ["-n", str(min(os.cpu_count() or 1, MOST_PROCESSES)), "--dist", "loadfile"]


def run_module(arguments: Sequence[str]) -> int:
    print("$ python -m", *arguments, flush=True)
    return subprocess.call([sys.executable, "-m", *arguments], cwd=ROOT)


def main(arguments: Sequence[str]) -> int:
    """Exit status: pytest's where that is not 0, else 1 when a static check failed, else 0."""
    failed = [] if arguments else [name for name, command in checks().items() if run_module(command) != 0]
    status = run_module(["pytest", *(arguments or in_processes())])
    if failed:
        print("These checks failed before pytest:", ", ".join(failed), flush=True)
    return status or int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
