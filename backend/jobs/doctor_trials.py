"""What the acceptance doctor measures: the target's own answers, what the drafter guesses along them, and what it would
guess if one thing were undone.

Answers and trials are items of the job, so a diagnosis that was killed goes on. Knows how to undo; draws no
conclusions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from backend.acceptance import Rule, SamplingSettings
from backend.analysis.calibration import UNKNOWN, Walk, replay
from backend.analysis.doctor import Lengths, lengths_from
from backend.data.prompts import Prompt
from backend.data.templates import encode_raw
from backend.decoding.loop import DecodeSettings, decode
from backend.decoding.records import DecodeResult
from backend.drafters.base import Drafter
from backend.drafters.checkpoint import DrafterMeta, write_folder
from backend.drafters.plain.drafter import PlainDrafter
from backend.drafters.registry import load_drafter
from backend.errors import Cancelled, HeadwayError
from backend.jobs.asking import Question, questions_that_fit
from backend.jobs.context import JobContext
from backend.jobs.doctor_config import DoctorJobConfig
from backend.targets.target import FINAL, Target
from backend.trees import TreeShape, chain
from backend.tuning.forcing import ForcedText, Guesses, Reading, guess_along, measured_tree, state_facts, wide_of

FEW_TEXTS = 16  #: texts that states are looked at on


@dataclass
class Trials:
    """One drafter on one target. `prompts`: those of the files, in order."""

    config: DoctorJobConfig
    context: JobContext
    target: Target
    drafter: Drafter
    prompts: Sequence[Prompt]

    def __post_init__(self) -> None:
        self.tree = measured_tree(self.drafter)
        self.wide = wide_of(self.drafter, self.tree)
        self.texts = self.own_texts(self.config.temperature, self.config.raw)
        self.guesses = self.guess(self.texts)
        self.now = self.lengths(self.guesses)

    # -- the target's answers ------------------------------------------------------------------------------------------

    def own_texts(self, temperature: float, raw: bool) -> list[ForcedText]:
        """Every prompt that fits, with what the target answers; in the order of the prompts."""
        questions = self._questions(raw)
        part = f"answers, T = {temperature:g}{', raw' if raw else ''}"
        missing = [one for one in questions if one.key(part) not in self.context.items()]
        if missing:
            self._answer(missing, part, temperature, len(questions))
        items = self.context.items()
        found = [(one, tuple(items[one.key(part)]["ids"])) for one in questions]
        return [
            ForcedText(one.prompt.question_id, one.prompt.category, tuple(one.ids), ids)
            for one, ids in found
            if len(ids) >= 2
        ]

    def _questions(self, raw: bool) -> list[Question]:
        room = self.config.max_new_tokens + self.tree.max_depth
        if not raw:
            return questions_that_fit(self.target, self.prompts, room)
        asked = [(n, one, encode_raw(self.target.tokenizer, one.turns[0])) for n, one in enumerate(self.prompts)]
        found = [Question(n, one, ids) for n, one, ids in asked if len(ids) + room <= self.target.max_context]
        if not found:
            raise HeadwayError(
                f"None of the {len(self.prompts)} prompts fits into the context of {self.target.name}; take others."
            )
        return found

    def _answer(self, missing: list[Question], part: str, temperature: float, total: int) -> None:
        settings = DecodeSettings(
            self.config.max_new_tokens, Rule("rejection"), SamplingSettings(temperature), seed=self.config.seed
        )
        done, by_number = total - len(missing), {one.number: one for one in missing}
        stop, batch = self.context.should_stop, min(self.config.batch, len(missing))
        ids, numbers = [one.ids for one in missing], list(by_number)
        for record in decode(self.target, PlainDrafter(), ids, settings, batch, stop, numbers):
            if isinstance(record, DecodeResult) and record.finish_reason != "cancelled":
                self.context.item(by_number[record.row].key(part), {"ids": record.tokens})
                done += 1
                self.context.progress(done, total, "answers", part)
        self.stop_if_asked()

    def stop_if_asked(self) -> None:
        if self.context.should_stop():
            raise Cancelled("The diagnosis was stopped; what it has measured is kept.")

    # -- guesses -------------------------------------------------------------------------------------------------------

    def guess(
        self, texts: Sequence[ForcedText], reading: Reading | None = None, drafter: Drafter | None = None
    ) -> list[Guesses]:
        """Along these texts, with other states or another drafter where one is given."""
        wide = self.wide if drafter is None else wide_of(drafter, self.tree)
        found = guess_along(self.target, wide, texts, reading, self.config.batch, self.context.should_stop)
        self.stop_if_asked()
        return found

    def lengths(self, guesses: Sequence[Guesses], tree: TreeShape | None = None) -> Lengths:
        """With the measured tree, or another one that is part of it."""
        found = replay(tree or self.tree, [one.walk for one in guesses])
        return Lengths(found.tokens, found.steps)

    def tried(
        self,
        name: str,
        texts: Callable[[], Sequence[ForcedText]] | None = None,
        reading: Reading | None = None,
        drafter: Callable[[], Drafter] | None = None,
    ) -> Lengths:
        """One thing undone; kept, so that it is not measured twice."""
        key = f"trial|{name}"
        if key not in (items := self.context.items()):
            self.context.progress(0, 1, "", name)
            guesses = self.guess(texts() if texts else self.texts, reading, drafter() if drafter else None)
            self.context.item(key, self.lengths(guesses).to_dict())
            return self.lengths(guesses)
        return lengths_from(items[key])

    def with_map(self, folder_meta: DrafterMeta, tensors: dict[str, Tensor], token_map: Tensor) -> Drafter:
        """The same drafter with another token map."""
        place = self.context.folder / "undone"
        write_folder(place, folder_meta, tensors | {"token_map": token_map})
        return load_drafter(str(place), self.target, self.tree, force=True)[0]

    # -- evidence ------------------------------------------------------------------------------------------------------

    def hits(self, shift: int = 0) -> list[Walk]:
        """Chains of first guesses held against the tokens `shift` places further: rank 0 where right, else a miss."""
        found = []
        for one in self.guesses:
            tokens, depth = np.array(one.text.tokens), one.best.shape[1]
            ranks = np.full(one.ranks.shape, UNKNOWN, dtype=np.int8)
            for level in range(depth):
                places = np.arange(len(ranks)) + 1 + level + shift
                known = (places < len(tokens)) & (np.arange(len(ranks)) + 1 + level < len(tokens)) & (places >= 0)
                right = one.best[known, level] == tokens[places[known]]
                ranks[known, level] = np.where(right, 0, 1)
            found.append(Walk(one.text.name, one.text.category, 0.0, 0, ranks, np.zeros((len(ranks), 0), np.uint8)))
        return found

    def chain_lengths(self, shift: int) -> Lengths:
        found = replay(chain(self.tree.max_depth), self.hits(shift))
        return Lengths(found.tokens, found.steps)

    def first_guess(self, shift: int) -> tuple[int, int]:
        """(hits, tried) of the first guess."""
        first = np.concatenate([walk.ranks[:, 0] for walk in self.hits(shift)])
        return int((first == 0).sum()), int((first != UNKNOWN).sum())

    def states(self, texts: Sequence[Sequence[int]] | None = None) -> dict[str, dict[str, Any]]:
        """Sizes and directions of the states that it reads, as forcing.state_facts tells them."""
        listed = texts or [(*one.prompt, *one.tokens) for one in self.texts[:FEW_TEXTS]]
        return state_facts(self.target, listed[:FEW_TEXTS], self.drafter.reads or (FINAL,))

    def likeliest(self, pairs: Sequence[tuple[Sequence[int], Sequence[int], float]]) -> tuple[float, float, int]:
        """Of (prompt, answer, temperature): (share of tokens that are the target's likeliest, share that are expected
        to be in answers of its own at that temperature, tokens).
        """
        right = expected = total = 0.0
        for prompt, answer, temperature in pairs:
            logits = self.target.plain_logits(prompt, answer).float()
            top = logits.argmax(-1).cpu()
            right += float((top == torch.tensor(list(answer))).sum())
            law = (logits / temperature).softmax(-1).amax(-1) if temperature > 0 else torch.ones(len(answer))
            expected += float(law.sum())
            total += len(answer)
        return right / max(1.0, total), expected / max(1.0, total), int(total)
