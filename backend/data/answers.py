"""What the target answered: the record, the file that grows while answers are made, and the small packed file to keep.

The growing file is JSONL, one whole line a write, so a killed writer loses at most its last line. The packed file is
one compressed .npz. Knows no model and no tokenizer: answers are token ids.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from backend.errors import HeadwayError

FINISH_REASONS = ("eos", "length", "stop")
PACK_VERSION = 1
AnswerKey = tuple[str, int, float, int]


@dataclass(frozen=True)
class Answer:
    """One answer of the target to one turn.

    `prompt_ids` hold everything before the answer (template, history); `answer_ids` end with the end token when
    `finish_reason` is eos. `truncated`: the answer was cut at a length limit. `turn` counts the user's turns from 0.
    """

    question_id: str
    category: str
    prompt_ids: tuple[int, ...]
    answer_ids: tuple[int, ...]
    temperature: float
    seed: int
    finish_reason: str
    truncated: bool
    turn: int = 0

    def __post_init__(self) -> None:
        for name in ("prompt_ids", "answer_ids"):
            ids = tuple(int(token) for token in getattr(self, name))
            if ids and not 0 <= min(ids) <= max(ids) < 2**32:
                raise ValueError(f"{name} must lie in [0, 2**32), got {min(ids)} to {max(ids)}")
            object.__setattr__(self, name, ids)
        if self.finish_reason not in FINISH_REASONS:
            raise ValueError(f"finish_reason must be one of {', '.join(FINISH_REASONS)}, got {self.finish_reason!r}")

    @property
    def key(self) -> AnswerKey:
        """What tells this answer from all others: question, turn, temperature, seed."""
        return (self.question_id, self.turn, self.temperature, self.seed)

    def place(self) -> float:
        """Where the hash of the prompt's tokens falls in [0, 1)."""
        digest = hashlib.sha256(json.dumps(list(self.prompt_ids)).encode()).digest()
        return int.from_bytes(digest[:8]) / 2**64


@dataclass(frozen=True)
class AnswerFile:
    """The answers of a growing file, in order, and how many lines at its end were cut off (0 or 1)."""

    answers: tuple[Answer, ...]
    num_cut_lines: int


class AnswerWriter:
    """Appends answers to a JSONL file, each written through to the disk. One writer a file; use it as a context.

    A cut last line is removed on opening. Raises HeadwayError when the file cannot be opened or written.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        with _told(self.path, "write"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("ab+", buffering=0)
            self._size = _whole_lines(self._file)
            self._file.truncate(self._size)

    def write(self, answer: Answer) -> None:
        """Append one answer; afterwards it is on the disk. On failure (full disk) nothing of it stays."""
        line = (json.dumps(asdict(answer), ensure_ascii=False) + "\n").encode()
        with _told(self.path, "write"):
            try:
                written = 0
                while written < len(line):  # an unbuffered write may take only a part
                    written += self._file.write(line[written:])
                os.fsync(self._file.fileno())
            except OSError:
                self._file.truncate(self._size)
                raise
        self._size += len(line)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> AnswerWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_answers(path: str | Path) -> AnswerFile:
    """Read a growing file. A cut last line is ignored and counted; damage elsewhere raises HeadwayError."""
    path = Path(path)
    with _told(path, "read"):
        data = path.read_bytes()
    lines = data.split(b"\n")
    rest = lines.pop()
    answers = [_answer_in(line, number, path) for number, line in enumerate(lines, 1)]
    return AnswerFile(tuple(answers), int(bool(rest)))


def iter_answers(path: str | Path, feed: Callable[[bytes], object] | None = None) -> Iterator[Answer]:
    """The answers of a growing file one after another, without holding the file; `feed` is given its bytes in order.

    A cut last line is passed over. Errors as in `read_answers`.
    """
    path = Path(path)
    with _told(path, "read"), path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if feed is not None:
                feed(line)
            if line.endswith(b"\n"):
                yield _answer_in(line, number, path)


def read_any(path: Path) -> Sequence[Answer]:
    """Answers of a growing or a packed file. Raises HeadwayError when there are none."""
    if not path.is_file():
        raise HeadwayError(f"There is no file {path}; make answers with `distill` first.")
    answers = unpack_answers(path) if path.suffix == ".npz" else read_answers(path).answers
    if not answers:
        raise HeadwayError(f"{path} holds no answers; make some with `distill` first.")
    return answers


def finished_keys(path: str | Path) -> set[AnswerKey]:
    """The keys of all complete answers in the file, to go on where a killed run stopped; none when there is no file."""
    return {answer.key for answer in read_answers(path).answers} if Path(path).exists() else set()


def pack_answers(answers: Sequence[Answer], path: str | Path) -> None:
    """Write all answers to one compressed .npz. The file appears whole or not at all.

    Arrays: `ids` (all prompt and answer tokens, uint16 where they fit, else uint32), `lengths [n, 2]` (prompt, answer),
    `temperature`, `seed`, `turn`, `finish_reason`, `truncated` (each [n]), `names` (UTF-8 JSON of ids and categories).
    Equal answers give equal bytes. Raises HeadwayError when the file cannot be written.
    """
    path = Path(path)
    flat = np.array([token for a in answers for token in (*a.prompt_ids, *a.answer_ids)], dtype=np.uint32)
    small = not flat.size or int(flat.max()) < 2**16
    names = json.dumps([[a.question_id, a.category] for a in answers], ensure_ascii=False).encode()
    arrays: dict[str, NDArray[Any]] = {
        "version": np.array(PACK_VERSION, dtype=np.uint32),
        "ids": flat.astype(np.uint16) if small else flat,
        "lengths": np.array([[len(a.prompt_ids), len(a.answer_ids)] for a in answers], np.uint32).reshape(-1, 2),
        "temperature": np.array([a.temperature for a in answers], dtype=np.float64),
        "seed": np.array([a.seed for a in answers], dtype=np.int64),
        "turn": np.array([a.turn for a in answers], dtype=np.uint32),
        "finish_reason": np.array([FINISH_REASONS.index(a.finish_reason) for a in answers], dtype=np.uint8),
        "truncated": np.array([a.truncated for a in answers], dtype=np.bool_),
        "names": np.frombuffer(names, dtype=np.uint8),
    }
    with _told(path, "write"):
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace_whole(path, lambda file: np.savez_compressed(file, allow_pickle=False, **arrays))


def unpack_answers(path: str | Path) -> list[Answer]:
    """Read what pack_answers wrote. Raises HeadwayError for a missing, damaged or newer file."""
    path = Path(path)
    try:
        # The file is opened here because numpy leaves a damaged one open.
        with _told(path, "read"), path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        if int(arrays["version"]) != PACK_VERSION:
            raise HeadwayError(f"{path} was packed by another version of Headway; make it anew with `distill`.")
        return _unpacked(arrays)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, EOFError, zipfile.BadZipFile, zlib.error):
        raise HeadwayError(f"{path} is no packed answer file or is damaged; make it anew with `distill`.") from None


def _unpacked(arrays: dict[str, NDArray[Any]]) -> list[Answer]:
    names = json.loads(arrays["names"].tobytes())
    columns = [arrays[key].tolist() for key in ("temperature", "seed", "turn", "finish_reason", "truncated")]
    ids = arrays["ids"].tolist()
    lengths = arrays["lengths"].tolist()
    if sum(map(sum, lengths)) != len(ids):
        raise ValueError("the lengths do not add up to the number of tokens")
    answers, at = [], 0
    for (name, category), (num_prompt, num_answer), row in zip(names, lengths, zip(*columns, strict=True), strict=True):
        temperature, seed, turn, reason, truncated = row
        middle, end = at + num_prompt, at + num_prompt + num_answer
        prompt_ids, answer_ids = tuple(ids[at:middle]), tuple(ids[middle:end])
        reason = FINISH_REASONS[reason]
        answers.append(Answer(name, category, prompt_ids, answer_ids, temperature, seed, reason, truncated, turn))
        at = end
    return answers


def _answer_in(line: bytes, number: int, path: Path) -> Answer:
    try:
        return _answer(json.loads(line))
    except (ValueError, TypeError, KeyError):
        raise HeadwayError(f"Line {number} of {path} is no answer; delete it or make the file anew.") from None


def _answer(row: Any) -> Answer:
    """Build an answer from a parsed line. Raises TypeError or ValueError for anything else."""
    if not isinstance(row, dict) or not row.keys() <= {field.name for field in fields(Answer)}:
        raise TypeError("not the keys of an answer")
    texts = [row.get(key) for key in ("question_id", "category", "finish_reason")]
    numbers = [row.get("seed"), row.get("turn", 0), *row.get("prompt_ids", ()), *row.get("answer_ids", ())]
    if not all(isinstance(text, str) for text in texts) or not all(type(number) is int for number in numbers):
        raise TypeError("a text or a number has the wrong type")
    return Answer(**{**row, "temperature": float(row["temperature"]), "truncated": bool(row["truncated"])})


def _whole_lines(file: BinaryIO | Any) -> int:
    """The number of bytes up to and including the last line end."""
    file.seek(0)
    return int(file.read().rfind(b"\n")) + 1


def _replace_whole(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Write to a temporary name beside the file, flush it to the disk, then rename: never half a file."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _told(path: Path, verb: str) -> Iterator[None]:
    """Turn an operating-system error into one sentence."""
    try:
        yield
    except OSError as error:
        raise HeadwayError(f"Cannot {verb} the answers in {path}: {error.strerror or error}.") from None
