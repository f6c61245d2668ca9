"""The decode loop: one for every drafter, every rule, every tree and any number of rows.

    draft:   the drafter proposes a tree under each row's root (the last committed token)
    verify:  one target pass over root and drafted nodes gives the target's logits at every node
    commit:  the acceptance rule picks a path; its cache entries stay, all others are forgotten; the target's own token
             after the path becomes the next root

Plain decoding is this loop with a drafter that proposes nothing. The loop knows no family of drafters and no form of
page: it takes token ids and yields records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b

import torch
from torch import Tensor

from backend.acceptance import Rule, SamplingSettings, check, mark_seen, seen_tokens, verify
from backend.decoding.clock import Stopwatch, now_ms
from backend.decoding.grammar import Grammar, forbid
from backend.decoding.held_draft import held_draft
from backend.decoding.readout import committed_tokens, numbers_of, pack
from backend.decoding.records import DecodeResult, Detail, PrefillTrace, StepTrace
from backend.decoding.rows import Row, piece_of
from backend.decoding.text import TextStream
from backend.drafters.base import DraftContext, Drafter
from backend.errors import HeadwayError
from backend.targets.target import Target, commit
from backend.trees import DraftTree

Record = PrefillTrace | StepTrace | DecodeResult


@dataclass(frozen=True)
class DecodeSettings:
    """What determines a run besides target, drafter and prompts.

    Every row draws from a generator of its own, seeded anew in each step from `seed`, the row's number and how many
    tokens it has, so what a row says does not depend on which rows happen to be decoded beside it. (Sampled drafts are
    drawn for all rows together; they change which tokens are tried, never their distribution.)

    With a `grammar` every answer is held to it, at the price of two more copies between host and device a step.
    `hold_draft`: drafts are held to it too, see held_draft.py; more is accepted then, and the same is written.
    """

    max_new_tokens: int = 128
    rule: Rule = field(default_factory=Rule)
    sampling: SamplingSettings = field(default_factory=SamplingSettings)
    stop: tuple[str, ...] = ()
    seed: int = 0
    detail: Detail = Detail.COUNTS
    ignore_eos: bool = False
    grammar: Grammar | None = None
    hold_draft: bool = True


def decode(
    target: Target,
    drafter: Drafter,
    prompts: Iterable[Sequence[int]],
    settings: DecodeSettings,
    batch: int = 1,
    cancelled: Callable[[], bool] = lambda: False,
    numbers: Sequence[int] | None = None,
) -> Iterator[Record]:
    """Answer `prompts` (token ids), up to `batch` at a time; a finished row is replaced by the next prompt at once.

    Yields a PrefillTrace when a row starts, a StepTrace per row and step, a DecodeResult when a row ends; `row` in each
    is the prompt's number: its place in `prompts`, or numbers[place], so that work taken up again draws what it would
    have drawn. `cancelled` is asked once a step; when it says so, every open row ends with reason cancelled.

    Raises HeadwayError before the first record for an empty or over-long prompt, for a rule that does not fit the
    temperature, and for a number of new tokens or rows below 1.
    """
    check(settings.rule, settings.sampling)
    if batch < 1:
        raise HeadwayError(f"The number of rows decoded at once must be at least 1, but it is {batch}.")
    if settings.max_new_tokens < 1:
        raise HeadwayError(f"The number of new tokens must be at least 1, but it is {settings.max_new_tokens}.")
    listed = [list(prompt) for prompt in prompts]
    numbered = list(zip(numbers or range(len(listed)), listed, strict=True))
    for prompt in listed:
        _check_prompt(target, drafter, prompt, settings)
    if listed:
        yield from _Batch(target, drafter, numbered, settings, min(batch, len(listed))).run(cancelled)


def _check_prompt(target: Target, drafter: Drafter, prompt: list[int], settings: DecodeSettings) -> None:
    if not prompt:
        raise HeadwayError("The prompt is empty; write at least one character.")
    needed = len(prompt) + settings.max_new_tokens + drafter.shape.max_depth
    if needed > target.max_context:
        raise HeadwayError(
            f"The prompt has {len(prompt)} tokens and {settings.max_new_tokens} new ones are asked for; {target.name} "
            f"has room for {target.max_context - drafter.shape.max_depth} in all: shorten the prompt or ask for fewer."
        )


class _Batch:
    """Slots 0..active-1 hold open rows; state tensors have one row a slot and are written in place."""

    def __init__(
        self,
        target: Target,
        drafter: Drafter,
        prompts: list[tuple[int, list[int]]],
        settings: DecodeSettings,
        slots: int,
    ) -> None:
        self.target, self.drafter, self.settings = target, drafter, settings
        self.waiting = prompts[::-1]
        shape = drafter.shape
        longest = max(len(prompt) for _, prompt in prompts) + settings.max_new_tokens
        room = longest + shape.num_nodes + shape.max_depth + 2
        self.cache = target.new_cache(slots, room)
        self.slots = slots
        self.rows: list[Row] = []
        self.generators = [torch.Generator() for _ in range(slots)]
        self.draft_generator = torch.Generator(device=target.device).manual_seed(_mixed(settings.seed, -1, 0))
        self.tokens = torch.zeros(slots, room, dtype=torch.int64, device=target.device)
        self.hidden = torch.zeros(slots, target.hidden_size, dtype=target.dtype, device=target.device)
        self.states: Tensor | None = None  # [slots, S, F], what the drafter reads, at the positions committed last
        self.num_states = torch.ones(slots, dtype=torch.int64, device=target.device)
        self.seen: Tensor | None = None
        if settings.sampling.needs_seen:
            self.seen = torch.zeros(slots, target.vocab_size, dtype=torch.bool, device=target.device)
        self.pieces = lru_cache(maxsize=65536)(lambda token: piece_of(target.tokenizer, token))
        self.watch = Stopwatch(target.device)
        drafter.start(slots, room)

    def run(self, cancelled: Callable[[], bool]) -> Iterator[Record]:
        while self.waiting or self.rows:
            if cancelled():
                yield from (row.result() for row in self.rows)
                return
            while self.waiting and len(self.rows) < self.slots:
                yield from self._open(len(self.rows))
            if self.rows:
                yield from self._step()
                yield from self._close_finished()

    # -- rows come and go ----------------------------------------------------------------------------------------------

    @torch.inference_mode()
    def _open(self, slot: int) -> Iterator[Record]:
        """Read the next prompt into a free slot; the row may be over with its first token."""
        index, prompt = self.waiting.pop()
        started = now_ms()
        self.cache.clear(slot)
        hidden, states = self.target.prefill_with_states(self.cache, slot, prompt, self.drafter.reads)
        self.tokens[slot, : len(prompt)] = torch.tensor(prompt, device=self.target.device)
        seen = None
        if self.seen is not None:
            lengths = torch.tensor([len(prompt)], device=self.target.device)
            seen = self.seen[slot : slot + 1]
            seen.copy_(seen_tokens(self.tokens[slot : slot + 1], lengths, self.target.vocab_size))
        grammar = self.settings.grammar.start() if self.settings.grammar is not None else None
        logits = self.target.logits(hidden)[:, None]
        if grammar is not None:
            logits = forbid(logits, grammar.allowed([prompt[-1]], [-1]).to(logits.device))
        first = verify(
            self.settings.rule,
            DraftTree.root_only(self.tokens[slot, len(prompt) - 1 : len(prompt)]),
            logits,
            self.settings.sampling,
            generator=[self.generators[slot].manual_seed(_mixed(self.settings.seed, index, 0))],
            seen=seen,
        ).next_token
        self.hidden[slot] = hidden[0]
        self.tokens[slot, len(prompt)] = first[0]
        if seen is not None:
            mark_seen(seen, first[:, None])
        token = int(first.item())
        eos = frozenset() if self.settings.ignore_eos else self.target.eos_token_ids
        text = TextStream(self.target.tokenizer, self.settings.stop)
        row = Row(index, len(prompt), self.settings.max_new_tokens, eos, text, grammar)
        trace = row.prefilled(token, now_ms() - started)
        if row.finish_reason:
            yield from (trace, row.result())
            return
        self.rows.append(row)
        self.drafter.replace_rows([slot])
        if states is not None:
            self.drafter.read_prompt(slot, self.tokens[slot, : len(prompt) + 1], states)
            self._keep_states(slice(slot, slot + 1), states[None, -1:], torch.ones_like(first))
        yield trace

    @torch.inference_mode()
    def _close_finished(self) -> Iterator[Record]:
        """Report rows that are over and close the gaps: the last open slot moves into each freed one."""
        for slot in range(len(self.rows) - 1, -1, -1):
            row = self.rows[slot]
            if row.finish_reason is None:
                continue
            yield row.result()
            last = len(self.rows) - 1
            if slot != last:
                self._move(last, slot)
            self.rows[slot] = self.rows[last]
            self.rows.pop()

    def _move(self, source: int, target: int) -> None:
        self.cache.copy_row(source, target)
        for state in (self.tokens, self.hidden, self.seen, self.states, self.num_states):
            if state is not None:
                state[target] = state[source]
        self.drafter.move_row(source, target)

    # -- one step ------------------------------------------------------------------------------------------------------

    @torch.inference_mode()
    def _step(self) -> Iterator[Record]:
        settings, rows = self.settings, slice(0, len(self.rows))
        started = now_ms()
        self.watch.restart()
        draft, masks = self.drafter.draft(self._context(rows)), None
        self.watch.mark()
        if settings.grammar is not None:
            grammars = [row.grammar for row in self.rows if row.grammar is not None]
            draft, masks = held_draft(draft, grammars, settings.hold_draft)
        out = self.target.tree_pass(self.cache, draft.tree, rows, self.drafter.reads)
        self.watch.mark()
        seen = self.seen[rows] if self.seen is not None else None
        logits = out.logits if masks is None else forbid(out.logits, masks)
        accepted = verify(
            settings.rule,
            draft.tree,
            logits,
            settings.sampling,
            generator=self._chance(),
            distribution=draft.distribution,
            seen=seen,
        )
        count = commit(self.cache, rows, accepted.path)
        committed = committed_tokens(draft, accepted)
        readout = pack(draft, accepted, committed, logits, settings.sampling, seen, settings.detail)
        self._remember(rows, committed, accepted.num_accepted, out.hidden, accepted.last_node)
        if out.states is not None:
            kept = torch.nn.functional.pad(accepted.path.clamp(min=0), (1, 0))  # the root and the accepted nodes
            batch = torch.arange(kept.shape[0], device=kept.device)[:, None]
            self._keep_states(rows, out.states[batch, kept], accepted.num_accepted + 1)
        host = readout.to_host()
        self.watch.mark()
        numbers = [numbers_of(values, self.pieces) for values in host]
        count([len(part.committed) for part in numbers])
        parts = self.watch.parts_ms()
        step_ms = now_ms() - started
        for row, part in zip(self.rows, numbers, strict=True):
            yield row.stepped(part, parts, step_ms)

    def _chance(self) -> list[torch.Generator]:
        """The open rows' generators. Seeded anew in each step: how many numbers the last one took depends on how deep
        its tree was, and that depends on the other rows.
        """
        if self.settings.sampling.greedy:
            return self.generators[: len(self.rows)]
        seed = self.settings.seed
        pairs = zip(self.generators, self.rows, strict=False)
        return [generator.manual_seed(_mixed(seed, row.index, len(row.tokens))) for generator, row in pairs]

    def _context(self, rows: slice) -> DraftContext:
        lengths = [length + 1 for length in self.cache.lengths[rows]]  # the root is committed but not yet in the cache
        return DraftContext(
            tokens=self.tokens[rows],
            lengths=self.cache.lengths_on_device(rows) + 1,
            hidden=self.hidden[rows],
            temperature=self.settings.sampling.temperature,
            generator=self.draft_generator,
            max_depth=max(row.remaining for row in self.rows) - 1,
            host_lengths=lengths,
            states=None if self.states is None else self.states[rows],
            num_states=None if self.states is None else self.num_states[rows],
        )

    def _keep_states(self, rows: slice, states: Tensor, counts: Tensor) -> None:
        """Hold states [B, S, F], of which counts [B] are real, until the next draft reads them."""
        if self.states is None:
            width = self.drafter.shape.max_depth + 1
            self.states = states.new_zeros(self.slots, width, states.shape[-1])
        self.states[rows, : states.shape[1]] = states
        self.num_states[rows] = counts

    def _remember(
        self, rows: slice, committed: Tensor, num_accepted: Tensor, hidden: Tensor, last_node: Tensor
    ) -> None:
        """Write the committed tokens behind each row's text, and the state from which the new root was predicted."""
        lengths = self.cache.lengths_on_device(rows)[:, None] + 1
        columns = torch.arange(committed.shape[1], device=self.target.device)
        self.tokens[rows].scatter_(1, lengths + columns, committed)
        batch = torch.arange(committed.shape[0], device=self.target.device)
        self.hidden[rows] = hidden[batch, last_node]
        if self.seen is not None:
            mark_seen(self.seen[rows], torch.where(columns <= num_accepted[:, None], committed, -1))


def _mixed(seed: int, row: int, position: int) -> int:
    """32 bits (torch's Mersenne twister takes no more) out of three numbers; neighbours give unrelated ones."""
    return int.from_bytes(blake2b(f"{seed} {row} {position}".encode(), digest_size=4).digest(), "little")
