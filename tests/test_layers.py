"""The import contracts of pyproject.toml hold, and each of them can fail. Knows only the names of the rooms."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("dashboard", "backend", "storage")
DOWNWARD = "The dashboard sees the backend, the backend sees the store"


def lint(tree: Path) -> subprocess.CompletedProcess[str]:
    """Runs import-linter on the rooms under `tree`. A room that is missing, where it would stop, is added empty."""
    for room in ROOMS:
        if not (tree / room).exists():
            (tree / room).mkdir()
            (tree / room / "__init__.py").touch()
    shutil.copy(ROOT / "pyproject.toml", tree)
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as main; main()", "--no-cache"]
    environment = {**os.environ, "COLUMNS": "200"}
    return subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, timeout=300)


def write_modules(tree: Path, modules: dict[str, str]) -> None:
    """Writes each source at its dotted name, with the packages above it."""
    for name, source in {"backend.trees": "", "backend.acceptance": "", **modules}.items():
        folder = tree.joinpath(*name.split("."))
        folder.mkdir(parents=True, exist_ok=True)
        for package in (folder, *folder.parents):
            if package == tree:
                break
            (package / "__init__.py").touch()
        (folder / "__init__.py").write_text(source)


def test_rooms_import_only_downward(tmp_path: Path) -> None:
    for room in ROOMS:
        if (ROOT / room).exists():
            (tmp_path / room).symlink_to(ROOT / room)
    result = lint(tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("module", "source", "contract"),
    [
        ("storage", "import backend", DOWNWARD),
        ("backend.decoding", "import dashboard", DOWNWARD),
        ("dashboard.pages", "import app", "Nothing imports app.py"),
        ("backend.trees", "import backend.decoding", "Inside backend, imports only point downward"),
        ("backend.engine", "import backend.jobs", "Inside backend, imports only point downward"),
        ("backend.trees", "import backend.acceptance", "Inside backend, imports only point downward"),
        ("backend.decoding", "def f():\n    import storage", "In backend, only engine and jobs know the store"),
        ("backend.trees", "import transformers", "Trees and acceptance know no model"),
        ("storage", "import torch", "The store knows neither torch nor Gradio"),
        ("dashboard.pages", "def f():\n    import vllm", "No process of ours imports vllm"),
    ],
)
def test_contract_is_broken_by(tmp_path: Path, module: str, source: str, contract: str) -> None:
    rooms = {"backend.decoding": "", "backend.engine": "", "backend.jobs": "", "storage": "", "dashboard.pages": ""}
    write_modules(tmp_path, {**rooms, module: source})
    result = lint(tmp_path)
    broken = [line for line in result.stdout.splitlines() if line.strip().startswith(contract)]
    assert result.returncode == 1
    assert broken and broken[0].rstrip().endswith("BROKEN"), result.stdout + result.stderr


def test_engine_and_jobs_may_use_the_store(tmp_path: Path) -> None:
    modules = {"backend.engine": "import storage.runs", "backend.jobs": "import storage", "storage.runs": ""}
    write_modules(tmp_path, modules)
    result = lint(tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.skipif(not (ROOT / "app.py").exists(), reason="app.py is not written yet")
def test_starting_imports_no_vllm() -> None:
    program = "import sys, app; sys.exit('vllm' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
