"""Where a result came from, as far as this machine knows: the command that repeats it, packages, the code's commit.

Nothing here names a place of this machine: a drafter is shipped with it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from backend.engine.conditions import packages
from backend.jobs.as_text import as_command

ROOT = Path(__file__).resolve().parents[2]


def provenance(kind: str, config: BaseModel) -> dict[str, Any]:
    """command, packages and, in a git checkout, commit."""
    found: dict[str, Any] = {"command": as_command(kind, without_places(config)), "packages": packages()}
    commit = git_commit(ROOT)
    return found | ({"commit": commit} if commit else {})


def without_places(config: BaseModel) -> BaseModel:
    """The config with every absolute path cut down to its name."""
    changes: dict[str, Any] = {}
    for name in type(config).model_fields:
        value = getattr(config, name)
        if isinstance(value, str):
            changes[name] = _name(value)
        elif isinstance(value, tuple) and all(isinstance(one, str) for one in value):
            changes[name] = tuple(_name(one) for one in value)
    return config.model_copy(update=changes)


def _name(text: str) -> str:
    path = Path(text)
    return path.name if path.is_absolute() and "\n" not in text else text


def git_commit(folder: Path) -> str | None:
    """The commit that is checked out in `folder`, read from git's own files; None where that can't be told."""
    git = folder / ".git"
    try:
        head = (git / "HEAD").read_text(encoding="ascii").strip()
        if head.startswith("ref: "):
            name = head.removeprefix("ref: ")
            own = git / name
            head = own.read_text(encoding="ascii").strip() if own.is_file() else _packed(git / "packed-refs", name)
    except (OSError, UnicodeDecodeError):
        return None
    return head if re.fullmatch(r"[0-9a-f]{40,64}", head) else None


def _packed(path: Path, name: str) -> str:
    for line in path.read_text(encoding="ascii").splitlines():
        commit, _, ref = line.partition(" ")
        if ref == name:
            return commit
    return ""
