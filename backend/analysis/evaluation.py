"""From the measured parts of an evaluation to its table: drafters against plain decoding, by set, domain and overall.

A part is what one contender did with one block of prompts at one temperature and batch; a cell (set, temperature,
batch) is complete when every contender has answered every prompt. Speedups compare the same prompts only, so the table
can be read while it fills. Knows numbers; no drafter, no store, no page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import fsum
from typing import Any

import numpy as np

from backend.analysis.bootstrap import Draws, Interval, interval, ratio_draws
from backend.analysis.counts import PromptCounts, add_depths, counts_from_dict, totals_of
from backend.analysis.speed import conditional_acceptance, speed_identity

PLAIN = "plain"  #: the contender that drafts nothing
MEAN = "mean over sets"


@dataclass(frozen=True)
class Part:
    """One contender's answers to a block of prompts, measured in one go.

    Args:
        contended: measured without the device lease.
        others_busy: share of the machine's processors that other programs used meanwhile; None where unknown.
    """

    contender: str
    set: str
    temperature: float
    batch: int
    answers: tuple[PromptCounts, ...]
    contended: bool = False
    others_busy: float | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def part_from_dict(data: Mapping[str, Any]) -> Part:
    """Back from JSON. Raises KeyError when a field is missing."""
    return Part(
        contender=data["contender"],
        set=data["set"],
        temperature=data["temperature"],
        batch=data["batch"],
        answers=tuple(counts_from_dict(one) for one in data["answers"]),
        contended=data["contended"],
        others_busy=data["others_busy"],
    )


@dataclass(frozen=True)
class Row:
    """One line of the table. Counts are sums over `num_prompts` answers; a figure without data is None.

    Args:
        category: the domain within the set; None for the whole set.
        num_paired: prompts that plain decoding has answered too: what the speedup and its terms rest on.
        num_same: of those, answers equal to plain decoding's token for token; None above temperature 0.
        tried_by_class, accepted_by_class: tokens written where something had been drafted, and those drafted right, by
            class (token_classes.py); () where they were not counted. `by_class` is their ratio.
        marginal, conditional: acceptance at depth 1, 2, ...: of all steps, or of those that drafted a child there.
        verify, draft, overhead: v, c and o of a step in units of a plain step; `explained` is what they give.
        tokens_per_s: of all rows together, prefill left out; `end_to_end_tokens_per_s` counts it.
        row_tokens_per_s: what the asker of one of the rows sees.
        mean_rows: rows open at once, averaged over time.
        best: names of figures in which this row beats every other of its group by more than chance.
    """

    contender: str
    set: str
    category: str | None
    temperature: float
    batch: int
    num_prompts: int
    num_paired: int = 0
    num_tokens: int = 0
    num_steps: int = 0
    num_drafted: int = 0
    num_accepted: int = 0
    num_cut: int = 0
    num_repeated: int = 0
    num_same: int | None = None
    accepted_per_depth: tuple[int, ...] = ()
    drafted_per_depth: tuple[int, ...] = ()
    tried_by_class: tuple[int, ...] = ()
    accepted_by_class: tuple[int, ...] = ()
    by_class: tuple[float | None, ...] = ()
    marginal: tuple[float, ...] = ()
    conditional: tuple[float | None, ...] = ()
    acceptance_length: float | None = None
    acceptance_interval: Interval | None = None
    speedup: float | None = None
    speedup_interval: Interval | None = None
    verify: float | None = None
    draft: float | None = None
    overhead: float | None = None
    explained: float | None = None
    tokens_per_s: float | None = None
    end_to_end_tokens_per_s: float | None = None
    row_tokens_per_s: float | None = None
    mean_rows: float | None = None
    repeated: float | None = None
    contended: bool = False
    others_busy: float | None = None
    best: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class _Line:
    """A row with the resampled values behind its intervals, and the prompts that each of these figures rests on."""

    row: Row
    speedup: Draws | None
    acceptance_length: Draws | None
    prompts: dict[str, tuple[str, ...]]


Cell = tuple[str, float, int]  # set, temperature, batch


class Evaluation:
    """Parts as they come in, and the table of what is there. Only cells with news are computed again."""

    def __init__(self) -> None:
        self._parts: dict[Cell, dict[str, Part]] = {}
        self._done: dict[Cell, tuple[list[_Line], dict[str, list[Row]]]] = {}

    def add(self, key: str, part: Part) -> None:
        """Take a part; one that comes again under the same key replaces the first."""
        cell = (part.set, part.temperature, part.batch)
        self._parts.setdefault(cell, {})[key] = part
        self._done.pop(cell, None)

    def rows(self) -> list[Row]:
        """All rows: by set, temperature and batch, for each contender the whole set and then its domains, where there
        are several; means over sets last. Plain decoding comes first, then contenders by name.
        """
        found: list[Row] = []
        whole: dict[tuple[float, int], list[dict[str, _Line]]] = {}
        for cell in sorted(self._parts):
            if cell not in self._done:
                self._done[cell] = _cell_lines(cell, list(self._parts[cell].values()))
            lines, domains = self._done[cell]
            whole.setdefault(cell[1:], []).append({line.row.contender: line for line in lines})
            found += [row for line in lines for row in (line.row, *domains[line.row.contender])]
        for _, sets in sorted(whole.items()):
            if len(sets) > 1:
                found += [line.row for line in _marked(_mean_lines(sets))]
        return found


def table(parts: Iterable[Part]) -> list[Row]:
    """The rows of parts that are all there; see `Evaluation.rows`."""
    evaluation = Evaluation()
    for number, part in enumerate(parts):
        evaluation.add(str(number), part)
    return evaluation.rows()


@dataclass
class _Known:
    """What is known of one contender in one cell."""

    answers: dict[str, PromptCounts] = field(default_factory=dict)
    contended: bool = False
    busy: list[float] = field(default_factory=list)


def _cell_lines(cell: Cell, parts: Sequence[Part]) -> tuple[list[_Line], dict[str, list[Row]]]:
    """The lines of the whole set, and for each contender the rows of its domains; none where there is but one."""
    known: dict[str, _Known] = {}
    for part in parts:
        one = known.setdefault(part.contender, _Known())
        one.answers |= {answer.prompt: answer for answer in part.answers}
        one.contended |= part.contended
        one.busy += [] if part.others_busy is None else [part.others_busy]
    plain = known[PLAIN].answers if PLAIN in known else {}
    lines, domains = [], {}
    for contender in sorted(known, key=lambda name: (name != PLAIN, name)):
        own = known[contender]
        lines.append(_line(contender, cell, None, own, plain))
        categories = sorted({answer.category for answer in own.answers.values()})
        parted = categories if len(categories) > 1 else []
        domains[contender] = [_line(contender, cell, category, own, plain).row for category in parted]
    return _marked(lines), domains


def _line(contender: str, cell: Cell, category: str | None, known: _Known, plain: Mapping[str, PromptCounts]) -> _Line:
    own = {p: a for p, a in sorted(known.answers.items()) if category in (None, a.category)}
    answers = list(own.values())
    length = ratio_draws([a.num_accepted + a.num_steps for a in answers], [a.num_steps for a in answers], cell[0])
    row = replace(
        _sums(Row(contender, cell[0], category, cell[1], cell[2], len(answers)), answers),
        acceptance_interval=interval(length, len(answers)) if contender != PLAIN else None,
        contended=known.contended,
        others_busy=fsum(known.busy) / len(known.busy) if known.busy else None,
    )
    return _compared(row, length, own, {p: plain[p] for p in own if p in plain})


def _sums(row: Row, answers: Sequence[PromptCounts]) -> Row:
    """The row with counts, and the ratios that need no other contender."""
    sums = totals_of(answers)
    tokens, repeated = sum(a.num_tokens for a in answers), sum(a.num_repeated for a in answers)
    prefill_ms, row_ms = sum(a.prefill_ms for a in answers), sum(a.row_ms for a in answers)
    return replace(
        row,
        num_tokens=tokens,
        num_steps=sums.steps,
        num_drafted=sums.drafted,
        num_accepted=sums.accepted,
        num_cut=sum(a.num_cut for a in answers),
        num_repeated=repeated,
        acceptance_length=_over(sums.steps + sums.accepted, sums.steps),
        tokens_per_s=_over(1000 * sums.tokens, sums.decode_ms),
        end_to_end_tokens_per_s=_over(1000 * tokens, sums.decode_ms + prefill_ms),
        row_tokens_per_s=_over(1000 * sums.tokens, row_ms),
        mean_rows=_over(row_ms, sums.decode_ms),
        repeated=_over(repeated, tokens),
        **_depths(answers, sums.steps),
        **_classes(answers),
    )


def _depths(answers: Sequence[PromptCounts], steps: int) -> dict[str, Any]:
    accepted = add_depths([a.accepted_per_depth for a in answers])
    drafted = add_depths([a.drafted_per_depth for a in answers])
    return {
        "accepted_per_depth": accepted,
        "drafted_per_depth": drafted,
        "marginal": tuple(count / steps for count in accepted),
        "conditional": tuple(conditional_acceptance(accepted, drafted)),
    }


def _classes(answers: Sequence[PromptCounts]) -> dict[str, Any]:
    tried, accepted = ([getattr(a, f"{name}_by_class") for a in answers] for name in ("tried", "accepted"))
    if any(one is None for one in tried):
        return {}
    sums = add_depths(tried), add_depths(accepted)
    return {
        "tried_by_class": sums[0],
        "accepted_by_class": sums[1],
        "by_class": tuple(_over(right, there) for there, right in zip(*sums, strict=True)),
    }


def _compared(row: Row, length: Draws, own: Mapping[str, PromptCounts], plain: Mapping[str, PromptCounts]) -> _Line:
    """The row with what its prompts say beside plain decoding of the same prompts."""
    mine, theirs = [own[p] for p in plain], list(plain.values())
    here, there = totals_of(mine), totals_of(theirs)
    prompts = {"speedup": tuple(plain), "acceptance_length": tuple(own)}
    row = replace(row, num_paired=len(mine))
    if row.temperature == 0:
        row = replace(row, num_same=sum(a.digest == b.digest for a, b in zip(mine, theirs, strict=True)))
    if not here.steps or not there.steps or not here.decode_ms or not there.decode_ms:
        return _Line(row, None, length, prompts)
    identity = speed_identity(here, there)
    speed = _speed_draws(mine, row.set) / _speed_draws(theirs, row.set)
    row = replace(
        row,
        speedup=identity.speedup,
        speedup_interval=interval(speed, len(mine)) if row.contender != PLAIN else None,
        verify=identity.verify,
        draft=identity.draft,
        overhead=identity.overhead,
        explained=identity.explained,
    )
    return _Line(row, speed, length, prompts)


def _speed_draws(answers: Sequence[PromptCounts], name: str) -> Draws:
    return ratio_draws([a.num_tokens - 1 for a in answers], [a.decode_ms for a in answers], name)


def _mean_lines(sets: Sequence[Mapping[str, _Line]]) -> list[_Line]:
    """Unweighted means over sets, of contenders that have been measured on all of them."""
    common = [name for name in sets[0] if all(name in lines for lines in sets)]
    return [_mean_line([lines[name] for lines in sets]) for name in common]


SUMS = ("num_prompts", "num_paired", "num_tokens", "num_steps", "num_drafted", "num_accepted", "num_cut",
        "num_repeated", "num_same")  # fmt: skip
MEANS = ("acceptance_length", "speedup", "verify", "draft", "overhead", "explained", "tokens_per_s",
         "end_to_end_tokens_per_s", "row_tokens_per_s", "mean_rows", "repeated", "others_busy")  # fmt: skip


def _mean_line(lines: Sequence[_Line]) -> _Line:
    rows = [line.row for line in lines]
    first = rows[0]
    values: dict[str, Any] = {name: _known(sum, [getattr(row, name) for row in rows]) for name in SUMS}
    values |= {name: _known(_mean, [getattr(row, name) for row in rows]) for name in MEANS}
    values |= {
        "accepted_per_depth": add_depths([row.accepted_per_depth for row in rows]),
        "drafted_per_depth": add_depths([row.drafted_per_depth for row in rows]),
        "tried_by_class": add_depths([row.tried_by_class for row in rows]),
        "accepted_by_class": add_depths([row.accepted_by_class for row in rows]),
        "by_class": _mean_by_depth([row.by_class for row in rows], missing=None),
        "marginal": _mean_by_depth([row.marginal for row in rows], missing=0.0),
        "conditional": _mean_by_depth([row.conditional for row in rows], missing=None),
    }
    speedup = _mean_draws([line.speedup for line in lines])
    length = _mean_draws([line.acceptance_length for line in lines])
    for name, draws in (("speedup_interval", speedup), ("acceptance_interval", length)):
        known = draws is not None and first.contender != PLAIN
        values[name] = interval(draws, values["num_paired"]) if known and draws is not None else None
    row = Row(
        contender=first.contender,
        set=MEAN,
        category=None,
        temperature=first.temperature,
        batch=first.batch,
        contended=any(row.contended for row in rows),
        **values,
    )
    prompts = {
        name: tuple(f"{line.row.set} {prompt}" for line in lines for prompt in line.prompts[name])
        for name in lines[0].prompts
    }
    return _Line(row, speedup, length, prompts)


def _mean_by_depth(rows: Sequence[Sequence[float | None]], missing: float | None) -> tuple[Any, ...]:
    """Depth by depth; a set that lacks one counts as `missing` there, or not at all (None)."""
    found = []
    for depth in range(max(map(len, rows), default=0)):
        values = [row[depth] if depth < len(row) else missing for row in rows]
        known = [value for value in values if value is not None]
        found.append(_mean(known) if known else None)
    return tuple(found)


def _mean_draws(draws: Sequence[Draws | None]) -> Draws | None:
    """Sets are drawn independently of each other; larger ones may have fewer repetitions."""
    present = [one for one in draws if one is not None]
    if len(present) < len(draws):
        return None
    shortest = min(map(len, present))
    mean: Draws = np.mean([one[:shortest] for one in present], axis=0)
    return mean


def _marked(lines: Sequence[_Line]) -> list[_Line]:
    """The same lines; where one beats all others of the group by more than chance, it says so in `best`."""
    drafting = [line for line in lines if line.row.contender != PLAIN]
    winners = {
        "speedup": _winner(lines, "speedup"),
        "acceptance_length": _winner(drafting, "acceptance_length"),
    }
    found = []
    for line in lines:
        best = tuple(name for name, winner in winners.items() if winner is line)
        found.append(replace(line, row=replace(line.row, best=best)) if best else line)
    return found


def _winner(lines: Sequence[_Line], figure: str) -> _Line | None:
    """The line with the greatest figure, if its paired difference to the second is above 0 with 95 % confidence."""
    able = [line for line in lines if getattr(line.row, figure) is not None and getattr(line, figure) is not None]
    ranked = sorted(able, key=lambda line: float(getattr(line.row, figure)), reverse=True)
    if len(ranked) < 2 or ranked[0].prompts[figure] != ranked[1].prompts[figure]:
        return None
    first, second = getattr(ranked[0], figure), getattr(ranked[1], figure)
    between = interval(first - second, len(ranked[0].prompts[figure]))
    return ranked[0] if between is not None and between.low > 0 else None


def _over(numerator: float, denominator: float) -> float | None:
    return numerator / denominator if denominator else None


def _known(combine: Any, values: Sequence[Any]) -> Any:
    """The combination of values, None when one is missing."""
    return None if any(value is None for value in values) else combine(values)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
