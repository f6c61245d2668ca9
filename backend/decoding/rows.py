"""One sequence of a batch: what the host knows of it while it is decoded.

Keeps the counts, cuts at end tokens, stop strings and the limit, and makes the records. It does not touch tensors or
the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from backend.decoding.grammar import GrammarRow
from backend.decoding.records import DecodeResult, PrefillTrace, StepTrace, TreeTrace
from backend.decoding.text import TextStream


@dataclass
class StepNumbers:
    """One row's part of what a step copied to the host."""

    committed: list[int]  #: accepted tokens, then the target's own next token
    num_drafted: int
    num_tried: int
    path: list[int] | None
    tree: TreeTrace | None


@dataclass
class Row:
    """A sequence being decoded. `index` is its number among the prompts of the run; `grammar`: what it is held to."""

    index: int
    prompt_tokens: int
    limit: int
    eos: frozenset[int]
    text: TextStream
    grammar: GrammarRow | None = None
    tokens: list[int] = field(default_factory=list)
    finish_reason: str | None = None
    num_steps: int = 0
    num_drafted: int = 0
    num_accepted: int = 0
    num_cut: int = 0
    accepted_per_depth: list[int] = field(default_factory=list)
    drafted_per_depth: list[int] = field(default_factory=list)
    prefill_ms: float = 0.0
    draft_ms: float = 0.0
    verify_ms: float = 0.0
    commit_ms: float = 0.0
    overhead_ms: float = 0.0

    @property
    def remaining(self) -> int:
        return self.limit - len(self.tokens)

    def prefilled(self, token: int, prefill_ms: float) -> PrefillTrace:
        """The first token came out of the prompt."""
        self.prefill_ms = prefill_ms
        self._append([token])
        return PrefillTrace(self.index, self.prompt_tokens, token, self._piece(), prefill_ms)

    def stepped(self, numbers: StepNumbers, parts_ms: Sequence[float], step_ms: float) -> StepTrace:
        """Count one step; `parts_ms` are its draft, verify and commit times."""
        draft_ms, verify_ms, commit_ms = parts_ms
        accepted = len(numbers.committed) - 1
        kept = self._append(numbers.committed)
        cut = len(numbers.committed) - kept
        self.num_steps += 1
        self.num_drafted += numbers.num_drafted
        self.num_accepted += accepted
        self.num_cut += cut
        _count(self.accepted_per_depth, accepted)
        _count(self.drafted_per_depth, numbers.num_tried)
        self.draft_ms += draft_ms
        self.verify_ms += verify_ms
        self.commit_ms += commit_ms
        self.overhead_ms += step_ms - draft_ms - verify_ms - commit_ms
        return StepTrace(
            row=self.index,
            step=self.num_steps,
            num_drafted=numbers.num_drafted,
            num_accepted=accepted,
            num_tried=numbers.num_tried,
            num_cut=cut,
            tokens=numbers.committed[:kept],
            text=self._piece(),
            draft_ms=draft_ms,
            verify_ms=verify_ms,
            commit_ms=commit_ms,
            step_ms=step_ms,
            path=numbers.path,
            tree=numbers.tree,
        )

    def result(self) -> DecodeResult:
        depth = max(len(self.drafted_per_depth), len(self.accepted_per_depth))
        return DecodeResult(
            row=self.index,
            prompt_tokens=self.prompt_tokens,
            tokens=list(self.tokens),
            text=self.text.text,
            num_steps=self.num_steps,
            num_drafted=self.num_drafted,
            num_accepted=self.num_accepted,
            num_cut=self.num_cut,
            accepted_per_depth=_padded(self.accepted_per_depth, depth),
            drafted_per_depth=_padded(self.drafted_per_depth, depth),
            prefill_ms=self.prefill_ms,
            draft_ms=self.draft_ms,
            verify_ms=self.verify_ms,
            commit_ms=self.commit_ms,
            overhead_ms=self.overhead_ms,
            finish_reason=self.finish_reason or "cancelled",
        )

    def _append(self, tokens: Sequence[int]) -> int:
        """Take tokens until the answer is over; returns how many were taken."""
        for taken, token in enumerate(tokens, start=1):
            self.tokens.append(token)
            if self.grammar is not None:
                self.grammar.write([token])
            if token in self.eos:
                self.finish_reason = "eos"
            elif self.text.push(token):
                self.finish_reason = "stop"
            elif len(self.tokens) >= self.limit:
                self.finish_reason = "length"
            if self.finish_reason:
                return taken
        return len(tokens)

    def _piece(self) -> str:
        return self.text.finish() if self.finish_reason else self.text.take()


def _count(counts: list[int], depth: int) -> None:
    counts.extend([0] * (depth - len(counts)))
    for d in range(depth):
        counts[d] += 1


def _padded(counts: list[int], length: int) -> list[int]:
    return counts + [0] * (length - len(counts))


def piece_of(tokenizer: Any, token: int) -> str:
    """A single token as text, special tokens shown as they are written."""
    return str(tokenizer.decode([token], skip_special_tokens=False, clean_up_tokenization_spaces=False))
