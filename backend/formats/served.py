"""From what a person calls a drafter to vLLM's speculative config: exported folders, n-gram lookup, a smaller model.

A drafter in Headway's own format has to be exported first. Knows no server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from backend.errors import HeadwayError
from backend.formats.folder import NOTE, read_published
from backend.formats.recognise import recognise
from backend.targets.checkpoint import read_json

NGRAM: Final = {"prompt_lookup_max": 3, "prompt_lookup_min": 1}
USUAL_TOKENS: Final = 4  #: drafted at a time where nothing says how many
#: families that vLLM runs as a method of the same name
METHODS: Final = ("medusa", "eagle", "eagle3", "mtp")


@dataclass(frozen=True)
class Speculation:
    """vLLM's speculative config. `inside`: a folder that is the target with the drafter in it, served in its place."""

    config: Mapping[str, Any]
    inside: Path | None = None

    @property
    def tokens(self) -> int:
        """Drafted at a time."""
        return int(self.config["num_speculative_tokens"])


def speculation_of(folder: Path, tokens: int | None) -> Speculation:
    """Of a folder that vLLM reads. `tokens`: drafted at a time; None takes what the export noted, else the usual.

    Raises HeadwayError for a folder of another engine or of Headway's own format.
    """
    if (folder / "headway.json").is_file():
        raise HeadwayError(f"{folder} is in Headway's own format; export it for vllm first.")
    if not folder.is_dir():
        raise HeadwayError(f"There is no folder {folder}; give one that `export --engine vllm` wrote.")
    note = read_json(folder / NOTE) if (folder / NOTE).is_file() else {}
    if note and note.get("engine") != "vllm":
        raise HeadwayError(f"{folder} was exported for {note.get('engine')}; export it for vllm.")
    family = str(note.get("family") or recognise(read_published(folder)).family)
    if family not in METHODS:
        raise HeadwayError(f"vLLM runs no drafter of the family {family}; it runs {', '.join(METHODS)}.")
    depth = tokens or int(note.get("num_speculative_tokens") or USUAL_TOKENS)
    config: dict[str, Any] = {"method": family, "model": str(folder.absolute()), "num_speculative_tokens": depth}
    if family == "mtp":
        del config["model"]
        return Speculation(config, folder)
    return Speculation(config)


def ngram_speculation(tokens: int | None) -> Speculation:
    """Guesses copied from the text so far."""
    return Speculation({"method": "ngram", "num_speculative_tokens": tokens or USUAL_TOKENS, **NGRAM})


def model_speculation(folder: Path, tokens: int | None) -> Speculation:
    """A smaller model of its own."""
    return Speculation(
        {"method": "draft_model", "model": str(folder), "num_speculative_tokens": tokens or USUAL_TOKENS}
    )
