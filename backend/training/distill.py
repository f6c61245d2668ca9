"""Self-distillation: the target answers prompts itself, because heads learn best from text the target would write.

A thin layer over the decode loop: plain decoding of many rows at once. It knows prompts, answers and how to go on after
it was killed; it knows no drafter and no loss.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backend.acceptance import Rule, SamplingSettings
from backend.data.answers import Answer, AnswerKey, AnswerWriter, read_answers
from backend.data.prompts import Prompt
from backend.data.templates import encode_chat
from backend.decoding.loop import DecodeSettings, decode
from backend.decoding.records import DecodeResult
from backend.drafters.checkpoint import write_json_atomically
from backend.drafters.plain.drafter import PlainDrafter
from backend.errors import HeadwayError
from backend.targets.target import Target
from backend.training.config import DistillConfig


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
) -> DistillProgress:
    """Write the target's answers to `out`, one JSON line each; goes on where an earlier attempt at the same file
    stopped.

    Later turns of a conversation see the target's own earlier answers at the same temperature; after an empty answer a
    conversation ends. Raises HeadwayError when there is nothing to answer or a prompt does not fit.
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
            for answer in _answer(target, [task for task in wave if task.key() not in known], config, known, cancelled):
                writer.write(answer)
                known[answer.key] = answer
                progress = DistillProgress(progress.answers + 1, progress.tokens + len(answer.answer_ids), total)
                report(progress)
            if cancelled():
                break
    return progress


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
    return len(prompt.turns) if config.turns is None else min(config.turns, len(prompt.turns))


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
) -> Iterator[Answer]:
    """Decode tasks of one turn and temperature together."""
    encoded: list[tuple[_Task, list[int]]] = []
    for task in tasks:
        messages = _conversation(target, task, config, known)
        if messages is not None:
            encoded.append((task, encode_chat(target.tokenizer, messages)))
    # Rows decoded together all read as much cache as the longest of them, so neighbours should be of like length.
    encoded.sort(key=lambda pair: len(pair[1]))
    by_number = {task.number: (task, ids) for task, ids in encoded}
    settings = DecodeSettings(
        max_new_tokens=config.max_new_tokens,
        rule=Rule("rejection"),
        sampling=SamplingSettings(temperature=tasks[0].temperature if tasks else 0.0),
        seed=config.seed,
    )
    prompts = [ids for _, ids in by_number.values()]
    for record in decode(target, PlainDrafter(), prompts, settings, config.batch, cancelled, list(by_number)):
        if isinstance(record, DecodeResult) and record.finish_reason != "cancelled":
            task, ids = by_number[record.row]
            yield Answer(
                question_id=task.prompt.question_id,
                category=task.prompt.category,
                prompt_ids=tuple(ids),
                answer_ids=tuple(record.tokens),
                temperature=task.temperature,
                seed=task.seed,
                finish_reason=record.finish_reason,
                truncated=record.finish_reason == "length",
                turn=task.turn,
            )


def _conversation(
    target: Target, task: _Task, config: DistillConfig, known: Mapping[AnswerKey, Answer]
) -> list[dict[str, Any]] | None:
    """The messages before this answer; None when an earlier answer is missing or empty."""
    messages: list[dict[str, Any]] = []
    if config.system is not None:
        messages.append({"role": "system", "content": config.system})
    for turn in range(task.turn + 1):
        messages.append({"role": "user", "content": task.prompt.turns[turn]})
        if turn < task.turn:
            earlier = known.get(task.key(turn))
            text = target.tokenizer.decode(list(earlier.answer_ids), skip_special_tokens=True) if earlier else ""
            if not text.strip():
                return None
            messages.append({"role": "assistant", "content": text})
    return messages
