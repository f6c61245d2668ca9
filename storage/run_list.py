"""Which runs there are: the table of runs filtered, sorted, counted and grouped, each a function of an open session.

Knows the tables; reads neither traces nor long texts unless it must search them. Figures are sums of stored counts; the
ratios among them have the same definition as the properties of `RunSummary`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, and_, case, func, literal, or_, select, type_coerce
from sqlalchemy.orm import Session

from storage import patterns
from storage.columns import ExactText, JsonText
from storage.errors import NotFoundError
from storage.records import RunFilter, RunGroup, RunOrder, RunRecord, RunSort, RunSummary
from storage.tables import DecodeRun, Version

_PROMPT_START = 200
_DERIVED = {
    "prompt_start": func.substr(DecodeRun.prompt, 1, _PROMPT_START, type_=ExactText),
    "version_label": Version.label,
}
_TUPLES = ("tags", "tokens", "accepted_per_depth", "drafted_per_depth")
_SEARCHED = (DecodeRun.prompt, DecodeRun.text, DecodeRun.notes, DecodeRun.drafter_name)
_TAGS_TEXT = type_coerce(DecodeRun.tags, ExactText)
_DECODE_MS = DecodeRun.draft_ms + DecodeRun.verify_ms + DecodeRun.commit_ms + DecodeRun.overhead_ms
_COUNTS = ("prompt_tokens", "num_tokens", "num_steps", "num_drafted", "num_accepted", "num_cut")
_TIMES = ("prefill_ms", "draft_ms", "verify_ms", "commit_ms", "overhead_ms", "wall_ms")
_FIGURES: dict[str, ColumnElement[Any]] = {
    **{name: getattr(DecodeRun, name) for name in _COUNTS + _TIMES},
    "acceptance_length": 1 + DecodeRun.num_accepted * 1.0 / func.nullif(DecodeRun.num_steps, 0),
    "tokens_per_s": (DecodeRun.num_tokens - 1) * 1000.0 / func.nullif(_DECODE_MS, 0.0),
}
_SORTS: dict[str, ColumnElement[Any]] = _FIGURES | {
    "created_at": DecodeRun.id,
    "version_label": Version.label,
    **{
        name: getattr(DecodeRun, name)
        for name in ("started_at", "finished_at", "trashed_at", "status", "drafter_name", "finish_reason", "contended")
    },
}
_ORDERS: dict[RunOrder, RunSort] = {
    "newest": RunSort(by="created_at"),
    "oldest": RunSort(by="created_at", descending=False),
    "most_tokens": RunSort(by="num_tokens"),
    "longest": RunSort(by="wall_ms"),
    "best_acceptance": RunSort(by="acceptance_length"),
}
_GROUPS = ("drafter_name", "drafter_id", "version_id", "status", "finish_reason", "contended")


def get(session: Session, run_id: str) -> RunRecord | None:
    """One run with all but its steps; None if there is none."""
    row = session.execute(_select(RunRecord).where(DecodeRun.id == run_id)).one_or_none()
    return None if row is None else RunRecord(**_values(row))


def several(session: Session, run_ids: list[str]) -> dict[str, RunRecord]:
    """Those of some runs that there are, with all but their steps, by id."""
    rows = session.execute(_select(RunRecord).where(DecodeRun.id.in_(run_ids)))
    return {row.id: RunRecord(**_values(row)) for row in rows}


def summaries_of(session: Session, run_ids: Sequence[str]) -> dict[str, RunSummary]:
    """The lines of some runs by id. NotFoundError if one is not there."""
    rows = session.execute(_select(RunSummary).where(DecodeRun.id.in_(run_ids)))
    found = {row.id: RunSummary(**_values(row)) for row in rows}
    for run_id in run_ids:
        if run_id not in found:
            raise NotFoundError(f"There is no run {run_id} in this store; list the runs to see their ids.")
    return found


def summaries(
    session: Session, where: RunFilter, order: RunOrder | RunSort, limit: int, offset: int
) -> list[RunSummary]:
    """One page of the table of runs."""
    query = _select(RunSummary).where(*_conditions(session, where)).order_by(*_ordered(order))
    return [RunSummary(**_values(row)) for row in session.execute(query.limit(limit).offset(offset))]


def page(
    session: Session, where: RunFilter, order: RunOrder | RunSort, limit: int, offset: int
) -> tuple[list[RunSummary], int]:
    """One page of the table and how many runs the filter leaves; texts are searched once for both."""
    if not (where.search or where.regex):
        return summaries(session, where, order, limit, offset), count(session, where)
    query = select(DecodeRun.id).outerjoin(Version, Version.id == DecodeRun.version_id)
    ids = list(session.scalars(query.where(*_conditions(session, where)).order_by(*_ordered(order))))
    wanted = ids[offset : offset + limit]
    rows = session.execute(_select(RunSummary).where(DecodeRun.id.in_(wanted)))
    found = {row.id: RunSummary(**_values(row)) for row in rows}
    return [found[run_id] for run_id in wanted if run_id in found], len(ids)


def count(session: Session, where: RunFilter) -> int:
    """How many runs a filter leaves."""
    query = select(func.count()).select_from(DecodeRun).where(*_conditions(session, where))
    return session.execute(query).scalar_one()


def grouped(session: Session, where: RunFilter, by: str) -> list[RunGroup]:
    """The runs a filter leaves, by what they have in common; the largest group first."""
    column, keys_of = _grouping(session.get_bind().dialect.name, by)
    parts = [part for figure in _FIGURES.values() for part in (func.sum(figure), func.count(figure))]
    pooled = func.sum(_DECODE_MS), func.sum(DecodeRun.num_tokens - 1)
    query = select(column, func.count(), *pooled, *parts).where(*_conditions(session, where)).group_by(column)
    totals: dict[str | None, list[float]] = {}
    for value, *numbers in session.execute(query):
        for key in keys_of(value):
            sums = totals.setdefault(key, [0.0] * len(numbers))
            totals[key] = [a + (b or 0) for a, b in zip(sums, numbers, strict=True)]
    groups = [_group(key, numbers) for key, numbers in totals.items()]
    return sorted(groups, key=lambda group: (-group.num_runs, group.key is None, group.key or ""))


def _grouping(dialect: str, by: str) -> tuple[ColumnElement[Any], Callable[[Any], list[str | None]]]:
    """What the database groups by, and the keys that each of its values belongs to."""
    if by in _GROUPS:
        return getattr(DecodeRun, by), lambda value: [_as_key(value)]
    if by == "tag":
        return DecodeRun.tags.expression, lambda tags: list(dict.fromkeys(tags)) or [None]
    first, *path = by.split(".")
    if first != "settings" or not all([*path, path]):
        raise ValueError(f"runs are grouped by {', '.join(_GROUPS)}, tag or settings.NAME, got {by!r}")
    if dialect != "sqlite" or '"' in by:
        return DecodeRun.settings.expression, lambda settings: [_as_key(_at(settings, path))]
    # Nearly every run has settings of its own (a seed), but few values at one place, so SQLite takes them out. Asked
    # for the same place twice it answers in JSON, where true is not 1. Settings with an escape or NaN it cannot read.
    text, place = type_coerce(DecodeRun.settings, ExactText), "$" + "".join(f'."{name}"' for name in path)
    taken_out = case((func.json_valid(text) == 1, func.json_extract(text, place, place)), else_=text)
    return type_coerce(taken_out, JsonText), lambda value: [
        _as_key(value[0] if isinstance(value, list) else _at(value, path))
    ]


def _at(value: Any, path: list[str]) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _as_key(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


def _group(key: str | None, numbers: list[float]) -> RunGroup:
    num_runs, decode_ms, num_after_first, *figures = numbers
    sums, counts = figures[0::2], figures[1::2]
    sums_by_name = dict(zip(_FIGURES, sums, strict=True))
    means = {name: total / n for name, total, n in zip(_FIGURES, sums, counts, strict=True) if n}
    steps = sums_by_name["num_steps"]
    return RunGroup(
        key=key,
        num_runs=int(num_runs),
        num_measured=int(counts[list(_FIGURES).index("num_steps")]),
        totals={name: int(sums_by_name[name]) for name in _COUNTS},
        acceptance_length=1 + sums_by_name["num_accepted"] / steps if steps else None,
        tokens_per_s=1000 * num_after_first / decode_ms if decode_ms else None,
        means=means,
    )


def _select(record: type[RunSummary]) -> Select[Any]:
    names = [field.name for field in fields(record)]
    named: list[ColumnElement[Any]] = [
        (_DERIVED[name] if name in _DERIVED else getattr(DecodeRun, name)).label(name) for name in names
    ]
    return select(*named).select_from(DecodeRun).outerjoin(Version, Version.id == DecodeRun.version_id)


def _values(row: Row[Any]) -> dict[str, Any]:
    values = dict(row._mapping)
    for name in _TUPLES:
        if values.get(name) is not None:
            values[name] = tuple(values[name])
    return values


def _ordered(order: RunOrder | RunSort) -> tuple[ColumnElement[Any], ...]:
    sort = order if isinstance(order, RunSort) else _ORDERS[order]
    if sort.by not in _SORTS:
        raise ValueError(f"runs are sorted by one of {', '.join(_SORTS)}, got {sort.by!r}")
    column = _SORTS[sort.by]
    directed = column.desc() if sort.descending else column.asc()
    if sort.by == "created_at":  # ids sort by time, and are an index
        return (directed,)
    # Runs without the figure come last: "is NULL" sorts false before true (NULLS LAST needs a newer SQLite than some).
    return column.is_(None), directed, DecodeRun.id.desc()


def _conditions(session: Session, where: RunFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if where.trashed is not None:
        conditions.append(DecodeRun.trashed_at.is_not(None) if where.trashed else DecodeRun.trashed_at.is_(None))
    if where.status is not None:
        conditions.append(DecodeRun.status == where.status)
    if where.contended is not None:
        conditions.append(DecodeRun.contended.is_(where.contended))
    if where.drafter is not None:
        conditions.append(or_(DecodeRun.drafter_name == where.drafter, DecodeRun.drafter_id == where.drafter))
    if where.version_id is not None:
        conditions.append(DecodeRun.version_id == where.version_id)
    dialect = session.get_bind().dialect.name
    conditions += [_has_tag(dialect, tag) for tag in where.tags]
    conditions += [_has_setting(dialect, name, value) for name, value in where.settings]
    if where.search:
        conditions.append(_search(dialect, where.search))
    if where.regex:
        conditions.append(_matches(dialect, where.regex))
    return conditions


def _search(dialect: str, wanted: str) -> ColumnElement[bool]:
    wanted_in = [(column, wanted) for column in _SEARCHED] + [(_TAGS_TEXT, _in_json(wanted))]
    if dialect == "sqlite":  # its LIKE does not tell a from A, and lower() would copy every text
        found = [column.contains(text, autoescape=True) for column, text in wanted_in]
    else:
        found = [column.icontains(text, autoescape=True) for column, text in wanted_in]
    return or_(DecodeRun.id == wanted, *found)


def _has_tag(dialect: str, tag: str) -> ColumnElement[bool]:
    # The tag with its quotation marks, as the column spells it; LIKE would not tell a from A.
    find = func.instr if dialect == "sqlite" else func.strpos
    return find(_TAGS_TEXT, literal(f'"{_in_json(tag)}"', ExactText)) > 0


def _has_setting(dialect: str, name: str, value: Any) -> ColumnElement[bool]:
    # As the column spells it, up to the next comma or the end of its object: 0.7 must not find 0.75.
    find = func.instr if dialect == "sqlite" else func.strpos
    spelled = json.dumps({name: value}, ensure_ascii=False, separators=(",", ":"))[1:-1]
    text = type_coerce(DecodeRun.settings, ExactText)
    return or_(*(find(text, literal(spelled + end, ExactText)) > 0 for end in ",}"))


def _matches(dialect: str, pattern: str) -> ColumnElement[bool]:
    patterns.check(pattern)
    searched = (*_SEARCHED, _TAGS_TEXT)
    if dialect == "sqlite":
        found = func.headway_matches(literal(pattern, ExactText), *searched) == 1
        if (needed := patterns.needed(pattern)) is None:
            return found
        text, at_end = needed
        end = "\n" if at_end else ""
        texts = [type_coerce(column.concat(end), ExactText) if end else column for column in searched]
        return and_(or_(*(func.instr(one, literal(text + end, ExactText)) > 0 for one in texts)), found)
    return or_(*(column.regexp_match(patterns.for_postgres(pattern)) for column in searched))


def _in_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]
