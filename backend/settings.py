"""Where things lie on this machine: the only module that reads the environment.

Knows no model, store or page. Whoever needs a place is handed a `Settings`; tests hand in their own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from backend.errors import HeadwayError


@dataclass(frozen=True)
class Settings:
    """`home`: what must be kept (store, trained drafters). `cache`: what can be made again (converted models). `vllm`:
    the environment vLLM runs in, when it is not the home folder's own.
    """

    home: Path
    cache: Path
    vllm: Path | None = None

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] | None = None) -> Settings:
        """Reads HEADWAY_HOME (default ~/.local/share/headway), HEADWAY_CACHE (default ~/.cache/headway) and
        HEADWAY_VLLM.
        """
        values = os.environ if environ is None else environ
        home = values.get("HEADWAY_HOME") or "~/.local/share/headway"
        cache = values.get("HEADWAY_CACHE") or "~/.cache/headway"
        vllm = values.get("HEADWAY_VLLM")
        return cls(
            home=Path(home).expanduser().absolute(),
            cache=Path(cache).expanduser().absolute(),
            vllm=Path(vllm).expanduser().absolute() if vllm else None,
        )

    def make_folders(self) -> None:
        """Make both folders where they are missing; HeadwayError that names the variable when one can't be made."""
        for name, folder in (("HEADWAY_HOME", self.home), ("HEADWAY_CACHE", self.cache)):
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise HeadwayError(
                    f"The folder {folder} can't be made ({error.strerror}); set {name} to a folder that can be written."
                ) from error

    @property
    def database(self) -> Path:
        """Where runs are remembered unless a command is told otherwise."""
        return self.home / "runs.db"

    @property
    def drafters(self) -> Path:
        """Where trained drafters are put unless a command is told otherwise."""
        return self.home / "drafters"

    @property
    def versions(self) -> Path:
        """Where versions of targets that were made here are put unless a job is told otherwise."""
        return self.home / "versions"

    @property
    def exports(self) -> Path:
        """Where drafters are written for engines unless a job is told otherwise."""
        return self.home / "exports"

    @property
    def jobs(self) -> Path:
        """One folder a job: its log, checkpoints and whatever it needs to go on."""
        return self.home / "jobs"

    @property
    def answers(self) -> Path:
        """Where the target's own answers are put unless a job is told otherwise."""
        return self.home / "answers"

    @property
    def vllm_env(self) -> Path:
        """vLLM's own environment: where it is, or where it would be made."""
        return self.vllm or self.home / "vllm"

    @property
    def features(self) -> Path:
        """Cached hidden states, one folder a content: jobs over the same answers share them."""
        return self.cache / "features"
