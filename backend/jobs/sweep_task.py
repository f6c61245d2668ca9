"""A score of what answers are worth: exact match or regex against a file's own answers, or any command that prints a
number.

The file is JSONL: each row a prompt, as in any prompt file, with `answer`. Knows texts; no rule and no kind of job.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from backend.data.prompts import read_prompts
from backend.data.rows import iter_rows
from backend.decoding.loop import DecodeSettings, decode
from backend.decoding.records import DecodeResult
from backend.drafters.base import Drafter
from backend.errors import Cancelled, HeadwayError
from backend.jobs.asking import encode_first
from backend.targets.target import Target

COMMAND_S = 600.0
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


class TaskSettings(Protocol):
    """What a job is told of its task."""

    @property
    def task_file(self) -> str | None: ...

    @property
    def task_check(self) -> str: ...

    @property
    def task_command(self) -> str | None: ...

    @property
    def limit(self) -> int | None: ...


@dataclass(frozen=True)
class TaskRow:
    """A question, what a right answer is, and the prompt as tokens."""

    question_id: str
    answer: str
    ids: list[int]


class TaskScore:
    """The task file, read once. Raises HeadwayError when it holds no question with an answer, or a broken regex."""

    def __init__(self, config: TaskSettings, target: Target) -> None:
        assert config.task_file is not None
        self._config, self._target = config, target
        path = Path(config.task_file).expanduser()
        answers = _answers(path)
        rows = []
        for prompt in read_prompts(path, config.limit).prompts:
            if prompt.turns and prompt.turns[0] in answers:
                ids = encode_first(target, prompt)
                rows.append(TaskRow(prompt.question_id, answers[prompt.turns[0]], ids))
        if not rows:
            raise HeadwayError(f"{path} holds no prompt with an `answer`, so nothing can be scored by it.")
        self._rows = rows
        if config.task_check == "regex":
            for row in rows:
                pattern_of(row.answer)

    def score(
        self, drafter: Drafter, decoding: DecodeSettings, batch: int, stopped: Callable[[], bool] = lambda: False
    ) -> float:
        """Share of right answers, or the number that the command printed. Raises HeadwayError, Cancelled."""
        ids = [row.ids for row in self._rows]
        texts: dict[int, str] = {}
        for record in decode(self._target, drafter, ids, decoding, min(batch, len(ids)), stopped):
            if isinstance(record, DecodeResult) and record.finish_reason != "cancelled":
                texts[record.row] = record.text
        if len(texts) < len(ids):
            raise Cancelled("The trial was stopped.")
        listed = [texts[place] for place in range(len(ids))]
        if self._config.task_command is not None:
            return command_score(self._config.task_command, self._rows, listed)
        right = sum(is_right(self._config.task_check, row.answer, text)
                    for row, text in zip(self._rows, listed, strict=True))  # fmt: skip
        return right / len(listed)


def is_right(check: str, answer: str, text: str) -> bool:
    """exact: the text is the answer, however it is spaced. regex: the answer matches somewhere in the text."""
    if check == "regex":
        return pattern_of(answer).search(text) is not None
    return " ".join(text.split()) == " ".join(answer.split())


def pattern_of(answer: str) -> re.Pattern[str]:
    """Raises HeadwayError."""
    try:
        return re.compile(answer)
    except re.error as error:
        raise HeadwayError(f"The answer {answer[:40]!r} of the task is no regular expression: {error}.") from None


def command_score(command: str, rows: Sequence[TaskRow], texts: Sequence[str], limit_s: float = COMMAND_S) -> float:
    """The last number that the command prints; it is given the path of a JSONL file {question_id, answer, text}.

    Raises HeadwayError when it fails, takes too long or prints no number.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "answers.jsonl"
        lines = [json.dumps({"question_id": row.question_id, "answer": row.answer, "text": text}, ensure_ascii=False)
                 for row, text in zip(rows, texts, strict=True)]  # fmt: skip
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return printed_number(command, [str(file)], limit_s)


def printed_number(
    command: str, more: Sequence[str] = (), limit_s: float = COMMAND_S, environ: Mapping[str, str] | None = None
) -> float:
    """The last number that a command prints; `more`: words behind it, `environ`: variables on top of our own.

    Raises HeadwayError when it fails, takes too long or prints no number.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise HeadwayError(f"The task command can't be read ({error}); mind its quotation marks.") from None
    if not words:
        raise HeadwayError("The task command is empty; give one that prints a number.")
    try:
        done = subprocess.run(
            [*words, *more], capture_output=True, text=True, timeout=limit_s, check=False,
            env={**os.environ, **(environ or {})},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise HeadwayError(f"The task command did not end within {limit_s:.0f} s.") from None
    except OSError as error:
        raise HeadwayError(f"The task command {words[0]} can't be run: {error.strerror or error}.") from None
    numbers = _NUMBER.findall(done.stdout)
    if done.returncode or not numbers:
        last = (done.stderr or done.stdout).strip().splitlines()
        said = f" ({last[-1][:120]})" if last else ""
        raise HeadwayError(f"The task command printed no number, exit code {done.returncode}{said}.")
    return float(numbers[-1])


def _answers(path: Path) -> dict[str, str]:
    """First turn -> the row's answer."""
    found: dict[str, str] = {}
    for row in iter_rows(path):
        value: Any = row.value
        turns = value.get("turns") if isinstance(value, dict) else None
        if isinstance(value, dict) and isinstance(turns, list) and turns and "answer" in value:
            found[str(turns[0])] = str(value["answer"])
    return found
