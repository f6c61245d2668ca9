"""The table of runs as values for JSON and CSV: rows, groups, and what differs between some of them. Pure functions of
records.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dashboard.presenters.as_csv import as_csv
from dashboard.presenters.runs import run_row

#: name in the address -> (heading, what the store groups by)
GROUPS: dict[str, tuple[str, str]] = {
    "version": ("Version", "version_id"),
    "drafter": ("Drafter", "drafter_name"),
    "tree": ("Tree", "settings.request.tree"),
    "temperature": ("Temperature", "settings.request.temperature"),
    "rule": ("Rule", "settings.request.rule"),
    "tag": ("Tag", "tag"),
    "status": ("Status", "status"),
}
#: column -> what the store sorts by
SORTS: dict[str, str] = {
    "at": "created_at",
    "target": "version_label",
    "drafter": "drafter_name",
    "status": "status",
    "tokens": "num_tokens",
    "steps": "num_steps",
    "acceptance_length": "acceptance_length",
    "tokens_per_s": "tokens_per_s",
    "wall_ms": "wall_ms",
}
COLUMNS = (
    "id", "at", "status", "prompt", "target", "drafter", "tree", "temperature", "rule", "tokens", "steps",
    "acceptance_length", "tokens_per_s", "wall_ms", "contended", "tags",
)  # fmt: skip
#: attribute of the record, name for people, digits after the point
FIGURES = (
    ("acceptance_length", "Acceptance length", 2),
    ("tokens_per_s", "Tokens/s", 1),
    ("num_tokens", "Tokens", 0),
    ("num_steps", "Steps", 0),
    ("num_drafted", "Drafted", 0),
    ("num_accepted", "Accepted", 0),
    ("prefill_ms", "Prefill, ms", 0),
    ("draft_ms", "Drafting, ms", 0),
    ("verify_ms", "Verifying, ms", 0),
    ("wall_ms", "Whole run, ms", 0),
)
#: attribute of the record -> its entry in the glossary
METRICS: Mapping[str, str] = {
    "acceptance_length": "acceptance_length",
    "tokens_per_s": "tokens_per_s",
    "num_accepted": "acceptance_rate",
    "draft_ms": "time_shares",
    "verify_ms": "time_shares",
}
OWN_TREE = "the drafter's own"


def table_row(run: Any) -> dict[str, Any]:
    """One line of the table, from a store's RunSummary."""
    request = run.settings.get("request") or {}
    return run_row(run) | {
        "tree": request.get("tree") or OWN_TREE,
        "own_tree": not request.get("tree"),
        "temperature": request.get("temperature"),
        "rule": request.get("rule"),
        "tokens_per_s": run.tokens_per_s,
        "wall_ms": run.wall_ms,
        "contended": run.contended,
        "tags": list(run.tags),
    }


def table_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """The columns of COLUMNS, tags with a space between; empty where a run has no number."""
    listed = ({**row, "tags": " ".join(row["tags"])} for row in rows)
    return as_csv(COLUMNS, ([row[name] for name in COLUMNS] for row in listed))


def group_row(group: Any, by: str, labels: Mapping[str, str]) -> dict[str, Any]:
    """One group: its name for people, its key for the filter, counts and pooled ratios."""
    name = group.key
    if by == "version":
        name = labels.get(group.key or "", group.key)
    missing = {"tree": OWN_TREE, "tag": "no tag", "version": "unknown"}.get(by, "not told")
    return {
        "filter": _filter_text(group.key, by),
        "name": missing if name is None else name,
        "runs": group.num_runs,
        "measured": group.num_measured,
        "tokens": group.totals.get("num_tokens", 0),
        "acceptance_length": group.acceptance_length,
        "tokens_per_s": group.tokens_per_s,
    }


def _filter_text(key: str | None, by: str) -> str | None:
    """What the address says to show this group alone; None where that can't be said. Settings are told as JSON."""
    if by in ("tree", "rule"):
        return json.dumps(key, ensure_ascii=False)
    return "null" if key is None and by == "temperature" else key


def comparison(runs: Sequence[Any]) -> dict[str, Any]:
    """{runs, figures, differing, equal}: settings whose values differ come first, equal ones once.

    `runs` are RunRecords. Each list item is {name, values} with a value a run, equal ones {name, value}; figures also
    say their digits after the point and their entry in the glossary, if they have one.
    """
    differing, equal = differences([settings_of(run) for run in runs])
    figures = [
        {"name": label, "metric": METRICS.get(name), "digits": digits, "values": [getattr(run, name) for run in runs]}
        for name, label, digits in FIGURES
    ]
    heads = [{**table_row(run), "text": run.text, "notes": run.notes} for run in runs]
    return {"runs": heads, "figures": figures, "differing": differing, "equal": equal}


def differences(flat: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Settings whose values differ as {name, values}, one a setting, and equal ones as {name, value}."""
    differing, equal = [], []
    for name in dict.fromkeys(name for one in flat for name in one):
        values = [one.get(name) for one in flat]
        if all(value == values[0] for value in values[1:]):
            equal.append({"name": name, "value": values[0]})
        else:
            differing.append({"name": name, "values": values})
    return differing, equal


def settings_of(run: Any) -> dict[str, Any]:
    """Everything that determines a run, flat: what was asked for first, then where it ran."""
    named = {"prompt": run.prompt, "version": run.version_label, "drafter id": run.drafter_id}
    request = dict(run.settings.get("request") or {})
    request.pop("messages", None)  # the prompt stands for them, unless earlier turns differ
    turns = (run.messages or [])[:-1]
    if turns:
        named["earlier turns"] = json.dumps(turns, ensure_ascii=False)
    rest = {name: value for name, value in run.settings.items() if name not in ("request", "drafter_name", "version")}
    flat = {**named, **flattened(request), **flattened({"contended": run.contended, **rest})}
    return {name.replace("_", " "): value for name, value in flat.items()}


def flattened(values: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Nested dictionaries as one with dotted names; lists as JSON."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            flat |= flattened(value, f"{before}{name}.")
        else:
            flat[before + name] = json.dumps(value) if isinstance(value, list) else value
    return flat
