"""A prompt file as two: one to train on, one held out. By the hash of each prompt, so equal prompts never stand on both
sides, and a file that grows moves none of its old rows.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from backend.data.prompts import PromptRow, iter_prompts
from backend.errors import HeadwayError

SIDES = ("training", "held-out")


def write_split(
    path: str | Path,
    training: Path,
    held_out: Path,
    fraction: float,
    seed: int = 0,
    feed: Callable[[bytes], object] | None = None,
) -> tuple[int, int]:
    """Write both sides as JSONL and return how many rows each has; broken rows are left out.

    Rows keep all their fields; ids that the reading made, tools and special tokens announced for the whole file are
    written into them. Both files appear whole or not at all. Raises HeadwayError when a side would be empty or a file
    cannot be written.
    """
    if not 0 < fraction < 1:
        raise HeadwayError(f"The held-out part must lie between 0 and 1, but it is {fraction:g}.")
    counts = [0, 0]
    with _both((training, held_out)) as files:
        for row in iter_prompts(path, feed):
            if row.prompt is None:
                continue
            side = int(row.prompt.place(seed) < fraction)
            files[side].write((json.dumps(_whole(row), ensure_ascii=False) + "\n").encode())
            counts[side] += 1
        if 0 in counts:
            raise HeadwayError(
                f"Of {sum(counts)} prompts none would be {('trained on', 'held out')[counts.index(0)]}; choose another "
                "part, or bring more prompts."
            )
    return counts[0], counts[1]


def _whole(row: PromptRow) -> dict[str, Any]:
    """The row with everything that the file around it says about it."""
    assert row.prompt is not None
    prompt = row.prompt
    more: dict[str, Any] = {"question_id": prompt.question_id}
    if prompt.tools:
        more["tools"] = [dict(tool) for tool in prompt.tools]
    if prompt.special_tokens:
        more["special_tokens"] = list(prompt.special_tokens)
    return {**row.value, **more}


@contextmanager
def _both(paths: tuple[Path, Path]) -> Iterator[list[BinaryIO]]:
    """Both files under temporary names; at the end they are flushed to the disk and renamed."""
    parts = [path.with_name(f".{path.name}.{os.getpid()}.tmp") for path in paths]
    try:
        with ExitStack() as stack:
            files: list[BinaryIO] = []
            for part in parts:
                part.parent.mkdir(parents=True, exist_ok=True)
                files.append(stack.enter_context(part.open("wb")))
            yield files
            for file in files:
                file.flush()
                os.fsync(file.fileno())
        for part, path in zip(parts, paths, strict=True):
            os.replace(part, path)
    except OSError as error:
        raise HeadwayError(f"Cannot write {paths[0].parent}: {error.strerror or error}.") from None
    finally:
        for part in parts:
            with suppress(OSError):
                part.unlink()
