"""Self-distillation: the target answers prompts itself, because heads learn best from text the target would write.

A thin layer over the decode loop: plain decoding of many rows at once. It knows prompts, answers and how to go on after
it was killed; it knows no drafter and no loss.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from backend.acceptance import Rule, SamplingSettings
from backend.data.answers import Answer, AnswerKey, AnswerWriter, read_answers
from backend.data.prompts import Prompt
from backend.data.templates import encode_chat
from backend.decoding.loop import DecodeSettings, decode
from backend.decoding.records import DecodeResult
from backend.drafters.checkpoint import flush_to_disk, write_json_atomically
from backend.drafters.plain.drafter import PlainDrafter
from backend.errors import HeadwayError
from backend.targets.target import Target
from backend.training.config import DistillConfig


class Answerer(Protocol):
    """Whoever answers prompts (token ids by number) at a temperature: yields (number, tokens, finish reason) as answers
    end, in any order. Cancelled, it ends early.
    """

    def __call__(
        self, prompts: Mapping[int, list[int]], temperature: float, config: DistillConfig, cancelled: Callable[[], bool]
    ) -> Iterator[tuple[int, Sequence[int], str]]: ...


@dataclass(frozen=True)
class DistillProgress:
    """Reported after every answer: answers and tokens so far (those of earlier attempts included), and answers in
    all.
    """

    answers: int
    tokens: int
    total: int


@dataclass(frozen=True)
class _Task:
    """One answer to be made: a prompt's turn at a temperature; `number` stays the same however often the job is
    resumed.
    """

    number: int
    prompt: Prompt
    turn: int
    temperature: float
    seed: int

    def key(self, turn: int | None = None) -> AnswerKey:
        """The key of this answer, or of the answer to another turn of the same conversation."""
        return (self.prompt.question_id, self.turn if turn is None else turn, self.temperature, self.seed)


def distill(
    target: Target,
    prompts: Sequence[Prompt],
    config: DistillConfig,
    out: Path,
    report: Callable[[DistillProgress], None] = lambda progress: None,
    cancelled: Callable[[], bool] = lambda: False,
    say: Callable[[str], None] = lambda sentence: None,
    answerer: Answerer | None = None,
) -> DistillProgress:
    """Write the target's answers to `out`, one JSON line each; goes on where an earlier attempt at the same file
    stopped.

    Later turns of a conversation see the target's own earlier answers at the same temperature; after an empty answer a
    conversation ends. Where a row has tool calls, its own conversation up to each answer is given instead, since a
    tool's output belongs to the call that asked for it. A prompt that does not leave room for an answer in the
    target's context is left out, and `say` gets a sentence that names it. `answerer`: who answers; default: the decode
    loop. Raises HeadwayError when there is nothing to answer or a prompt can't be rendered.
    """
    if not prompts:
        raise HeadwayError("There are no prompts to answer; choose a file with at least one.")
    _check_same_job(target, config, out)
    known = {answer.key: answer for answer in read_answers(out).answers} if out.exists() else {}
    total = num_answers(prompts, config)
    progress = DistillProgress(len(known), sum(len(answer.answer_ids) for answer in known.values()), total)
    report(progress)
    with AnswerWriter(out) as writer:
        for wave in _waves(prompts, config):
            missing = [task for task in wave if task.key() not in known]
            for answer in _answer(target, missing, config, known, cancelled, say, answerer or _own_loop(target)):
                writer.write(answer)
                known[answer.key] = answer
                progress = DistillProgress(progress.answers + 1, progress.tokens + len(answer.answer_ids), total)
                report(progress)
            if cancelled():
                break
    return progress


def in_order(out: Path, prompts: Sequence[Prompt], config: DistillConfig) -> None:
    """Put the answers in the order of the work, turn by turn; answers to other prompts stay in front.

    They end up in the file in the order in which they ended, and that depends on where earlier attempts were killed.
    The file is replaced whole. Raises HeadwayError.
    """
    tasks = [task.key() for wave in _waves(prompts, config) for task in wave]
    order = {key: place for place, key in enumerate(tasks)}
    places = [order.get(answer.key, -1) for answer in read_answers(out).answers]
    if places == sorted(places):
        return
    lines = out.read_bytes().splitlines(keepends=True)[: len(places)]
    ordered = b"".join(line for _, line in sorted(zip(places, lines, strict=True), key=lambda pair: pair[0]))
    partial = out.with_name(f".{out.name}.order.partial")
    try:
        partial.write_bytes(ordered)
        flush_to_disk(partial)
        os.replace(partial, out)
        flush_to_disk(out.parent)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise HeadwayError(f"The answers in {out} could not be put in order: {error.strerror or error}.") from None


def _check_same_job(target: Target, config: DistillConfig, out: Path) -> None:
    """Keep beside `out` who answers and how; refuse to go on with a file that somebody else's answers are in."""
    version = {key: value for key, value in target.identity.to_dict().items() if key != "name"}
    answering = config.model_dump(mode="json", include={"max_new_tokens", "seed", "system"})
    job = {"version": version, "answering": answering}
    note = out.with_name(out.name + ".job.json")
    if not note.exists():
        note.parent.mkdir(parents=True, exist_ok=True)
        write_json_atomically(note, job)
        return
    try:
        before = json.loads(note.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise HeadwayError(f"{note} is damaged; delete it together with {out.name}, or choose another --out.") from None
    differs = [part for part in job if before.get(part) != job[part]]
    if differs:
        what = " and ".join({"version": "another target", "answering": "other settings"}[part] for part in differs)
        raise HeadwayError(f"{out} holds answers of {what}; choose another --out, so that they are not mixed.")


def num_answers(prompts: Sequence[Prompt], config: DistillConfig) -> int:
    """How many answers the job makes when no conversation ends early."""
    return sum(_turns(prompt, config) for prompt in prompts) * len(config.temperatures)


def _turns(prompt: Prompt, config: DistillConfig) -> int:
    return prompt.num_questions if config.turns is None else min(config.turns, prompt.num_questions)


def _waves(prompts: Sequence[Prompt], config: DistillConfig) -> Iterator[list[_Task]]:
    """Turn by turn, since a turn needs the answers before it; within a turn one temperature after the other."""
    number = 0
    for turn in range(max(_turns(prompt, config) for prompt in prompts)):
        for temperature in config.temperatures:
            wave = []
            for prompt in prompts:
                if turn < _turns(prompt, config):
                    wave.append(_Task(number, prompt, turn, temperature, config.seed))
                    number += 1
            yield wave


def _answer(
    target: Target,
    tasks: Sequence[_Task],
    config: DistillConfig,
    known: Mapping[AnswerKey, Answer],
    cancelled: Callable[[], bool],
    say: Callable[[str], None],
    answerer: Answerer,
) -> Iterator[Answer]:
    """Answer tasks of one turn and temperature together."""
    encoded: list[tuple[_Task, list[int]]] = []
    room = target.max_context - config.max_new_tokens
    for task in tasks:
        ids = _encoded(target, task, config, known)
        if ids is not None and len(ids) <= room:
            encoded.append((task, ids))
        elif ids is not None:
            say(
                f"Prompt {task.prompt.question_id} is left out: it has {len(ids):,} tokens, and {target.name} has room "
                f"for {room:,} beside an answer of {config.max_new_tokens:,}."
            )
    # Rows decoded together all read as much cache as the longest of them, so neighbours should be of like length.
    encoded.sort(key=lambda pair: len(pair[1]))
    by_number = {task.number: (task, ids) for task, ids in encoded}
    temperature = tasks[0].temperature if tasks else 0.0
    asked = {number: ids for number, (_, ids) in by_number.items()}
    for number, tokens, reason in answerer(asked, temperature, config, cancelled):
        task, ids = by_number[number]
        yield Answer(
            question_id=task.prompt.question_id,
            category=task.prompt.category,
            prompt_ids=tuple(ids),
            answer_ids=tuple(tokens),
            temperature=task.temperature,
            seed=task.seed,
            finish_reason=reason,
            truncated=reason == "length",
            turn=task.turn,
        )


def _own_loop(target: Target) -> Answerer:
    """Plain decoding of many rows at once."""

    def answer(
        prompts: Mapping[int, list[int]], temperature: float, config: DistillConfig, cancelled: Callable[[], bool]
    ) -> Iterator[tuple[int, Sequence[int], str]]:
        settings = DecodeSettings(
            max_new_tokens=config.max_new_tokens,
            rule=Rule("rejection"),
            sampling=SamplingSettings(temperature=temperature),
            seed=config.seed,
        )
        listed = list(prompts.values())
        for record in decode(target, PlainDrafter(), listed, settings, config.batch, cancelled, list(prompts)):
            if isinstance(record, DecodeResult) and record.finish_reason != "cancelled":
                yield record.row, record.tokens, record.finish_reason

    return answer


def _encoded(target: Target, task: _Task, config: DistillConfig, known: Mapping[AnswerKey, Answer]) -> list[int] | None:
    """Everything before this answer as tokens; None when an earlier answer is missing or empty."""
    prompt = task.prompt
    own = [] if prompt.uses_tools else [_said(target, known.get(task.key(turn))) for turn in range(task.turn)]
    if not all(text.strip() for text in own):
        return None
    try:
        messages = prompt.question(task.turn, own, config.system)
        return encode_chat(target.tokenizer, messages, tools=prompt.tools, special_tokens=prompt.special_tokens)
    except HeadwayError as error:
        raise HeadwayError(f"Prompt {prompt.question_id} cannot be answered: {error}") from None


def _said(target: Target, answer: Answer | None) -> str:
    return str(target.tokenizer.decode(list(answer.answer_ids), skip_special_tokens=True)) if answer else ""
