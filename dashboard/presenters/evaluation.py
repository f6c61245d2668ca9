"""An evaluation as the page shows it and as it is taken along: groups of rows with honest labels, CSV, a guess of the
time it takes. Pure functions of a job's items; loads no model code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backend.analysis.evaluation import MEAN, PLAIN, Row
from backend.analysis.token_classes import CLASSES
from dashboard.presenters.as_csv import as_csv

BUSY = 0.15  #: share of the processors that other programs may use before a row says so
FEW = 5  #: prompts below which there is no interval
EXACT = ("exact", "The output is the target's own: the same tokens at temperature 0, the same distribution above.")
APPROXIMATE = (
    "approximate",
    "Typical acceptance keeps what the target finds plausible: above temperature 0 the output is not the target's own.",
)


def evaluation_view(setup: Mapping[str, Any] | None, rows: Sequence[Row]) -> dict[str, Any]:
    """{groups, conditions, notes, rule}: everything but the job itself. `setup` is None until the target is loaded."""
    described = dict(setup or {})
    groups = _groups(described, rows)
    shared = _taken_out([line for group in groups for line in group["rows"]])
    return {
        "groups": groups,
        "conditions": _conditions(described),
        "notes": [*_notes(described), *shared],
        "rule": list(APPROXIMATE if _typical(described) else EXACT) if described else None,
    }


def _groups(setup: Mapping[str, Any], rows: Sequence[Row]) -> list[dict[str, Any]]:
    """One a temperature and batch: means over sets first, then the sets in the order they were asked for."""
    found = []
    for temperature, batch in sorted({(row.temperature, row.batch) for row in rows}):
        own = [row for row in rows if (row.temperature, row.batch) == (temperature, batch)]
        label = f"T = {temperature:g} · {'one row' if batch == 1 else f'{batch} rows'} at once"
        found.append({"temperature": temperature, "batch": batch, "label": label, "rows": _lines(setup, own)})
    return found


def _lines(setup: Mapping[str, Any], rows: Sequence[Row]) -> list[dict[str, Any]]:
    places = {name: place for place, name in enumerate([MEAN, *setup.get("sets", {})])}
    contenders = {name: place for place, name in enumerate(setup.get("contenders", {}))}
    whole = [row for row in rows if row.category is None]
    whole.sort(key=lambda row: (places.get(row.set, 99), contenders.get(row.contender, 99), row.contender))
    return [
        line(setup, row)
        | {
            "domains": [
                line(setup, one)
                for one in rows
                if one.category is not None and (one.set, one.contender) == (row.set, row.contender)
            ]
        }
        for row in whole
    ]


def _taken_out(lines: Sequence[dict[str, Any]]) -> list[str]:
    """A doubt that every row has is said once above them all instead of on each."""
    common = set.intersection(*({mark["kind"] for mark in one["marks"]} for one in lines)) if lines else set()
    everywhere = common & ALL_OVER.keys()
    for one in lines:
        one["marks"] = [mark for mark in one["marks"] if mark["kind"] not in everywhere]
    busiest = max((one["others_busy"] or 0 for one in lines), default=0)
    return [ALL_OVER[kind].format(busy=100 * busiest, few=FEW) for kind in sorted(everywhere)]


def line(setup: Mapping[str, Any], row: Row) -> dict[str, Any]:
    """A row as plain values, with the contender's name for people and its marks."""
    return row.to_dict() | {"label": contender_name(setup, row.contender), "marks": marks(setup, row)}


def contender_name(setup: Mapping[str, Any], key: str) -> str:
    """ "plain decoding", or the drafter's own name and the tree where one was asked for."""
    if key == PLAIN:
        return "plain decoding"
    known = setup.get("contenders", {})
    if key not in known:
        return key
    name, tree = str(known[key]["name"]), known[key]["tree"]
    alike = [other for other, one in known.items() if one["name"] == name and one["spec"] != known[key]["spec"]]
    shown = f"{name} ({known[key]['spec']})" if alike else name
    return f"{shown} · {tree}" if tree else shown


def marks(setup: Mapping[str, Any], row: Row) -> list[dict[str, str]]:
    """What has to be said beside the numbers: [{kind, text, why}]."""
    found = []
    if _typical(setup) and row.temperature > 0 and row.contender != PLAIN:
        found.append({"kind": "approximate", "text": APPROXIMATE[0], "why": APPROXIMATE[1]})
    warnings = setup.get("contenders", {}).get(row.contender, {}).get("warnings", [])
    if warnings:
        found.append({"kind": "mismatch", "text": "other version", "why": " ".join(warnings)})
    if row.contended:
        why = "Measured while another program had the device: these times feed no recommendation."
        found.append({"kind": "contended", "text": "contended", "why": why})
    elif (row.others_busy or 0) > BUSY:
        why = f"Other programs used {100 * (row.others_busy or 0):.0f} % of the processors meanwhile."
        found.append({"kind": "busy", "text": "busy machine", "why": why})
    if row.num_same is not None and row.contender != PLAIN and row.num_same < row.num_paired:
        other = row.num_paired - row.num_same
        why = f"{other} of {row.num_paired} answers differ from plain decoding's: ties in rounding, or an error."
        found.append({"kind": "differs", "text": f"{other} differ", "why": why})
    if row.num_paired < FEW:
        why = f"With fewer than {FEW} prompts there is no interval and nothing is called best."
        found.append({"kind": "few", "text": "few prompts", "why": why})
    return found


def _conditions(setup: Mapping[str, Any]) -> list[str]:
    if not setup:
        return []
    config, version = setup["config"], setup["version"]
    packages = ", ".join(f"{name} {number}" for name, number in setup["packages"].items())
    trees = [
        f"{contender_name(setup, key)}: {one['num_nodes']} nodes, depth {one['max_depth']}"
        for key, one in setup["contenders"].items()
        if key != PLAIN
    ]
    return [
        f"{setup['target']}, version {str(version.get('weights_id', ''))[:12]}",
        f"{setup['device']}, {setup['dtype']}, {_many(setup['threads'], 'thread')}",
        *trees,
        f"rule {config['rule']}, at most {config['max_new_tokens']} new tokens, seed {config['seed']}",
        packages,
    ]


def _notes(setup: Mapping[str, Any]) -> list[str]:
    """What was left out, in sentences."""
    notes = [str(sentence) for sentence in setup.get("skipped", [])]
    for name, one in setup.get("sets", {}).items():
        if one["left_out"]:
            were = "was" if one["left_out"] == 1 else "were"
            notes.append(f"{_many(one['left_out'], 'prompt')} of {name} did not fit and {were} left out for everyone.")
        if one["broken"]:
            notes.append(f"{_many(one['broken'], 'row')} of {name} could not be read.")
    return notes


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _typical(setup: Mapping[str, Any]) -> bool:
    return bool(setup) and setup["config"]["rule"] == "typical"


#: kind of mark -> how it is said of a whole evaluation
ALL_OVER = {
    "busy": "Other programs used up to {busy:.0f} % of the processors meanwhile: repeat this on an idle machine.",
    "contended": "Measured while another program had the device: these times feed no recommendation.",
    "few": "With fewer than {few} prompts there is no interval and nothing is called best.",
}

COLUMNS = (
    "contender", "set", "category", "temperature", "batch", "num_prompts", "num_paired", "num_tokens", "num_steps",
    "num_drafted", "num_accepted", "num_cut", "num_same", "acceptance_length", "acceptance_low", "acceptance_high",
    "speedup", "speedup_low", "speedup_high", "verify", "draft", "overhead", "explained", "tokens_per_s",
    "end_to_end_tokens_per_s", "row_tokens_per_s", "mean_rows", "repeated", "contended", "others_busy",
    "accepted_per_depth", "drafted_per_depth",
    *(f"{count}_{name}" for count in ("tried", "accepted") for name in CLASSES),
)  # fmt: skip


def evaluation_csv(rows: Iterable[Row]) -> str:
    """A line a row; counts per depth are joined with blanks."""
    listed = []
    for row in rows:
        values: dict[str, Any] = row.to_dict()
        for name in ("acceptance", "speedup"):
            between = values[f"{name}_interval"] or {}
            values |= {f"{name}_low": between.get("low"), f"{name}_high": between.get("high")}
        for name in ("accepted_per_depth", "drafted_per_depth"):
            values[name] = " ".join(map(str, values[name]))
        for count in ("tried", "accepted"):
            counts = values[f"{count}_by_class"] or [None] * len(CLASSES)
            values |= {f"{count}_{name}": one for name, one in zip(CLASSES, counts, strict=True)}
        listed.append([values[name] for name in COLUMNS])
    return as_csv(COLUMNS, listed)


@dataclass(frozen=True)
class Pace:
    """How fast plain decoding was in an earlier evaluation of the same target."""

    tokens_per_s: Mapping[int, float]  #: by batch, prefill counted
    tokens: float  #: of an answer
    max_new_tokens: int


def estimate(prompts: int | None, config: Mapping[str, Any], configurations: int, pace: Pace | None) -> str:
    """One sentence: how many answers, and how long they may take. `prompts`: of all sets; None: not known yet.

    Every contender is counted as plain decoding, so drafters that help make it shorter.
    """
    if prompts is None:
        return "How long it takes is known once the prompt files can be read."
    answers = prompts * configurations
    counted = f"{prompts:,} prompts in {configurations} configurations make {answers:,} answers"
    batches = list(config["batches"])
    known = pace.tokens_per_s if pace is not None else {}
    if pace is None or not known:
        return f"{counted}. How long they take is unknown until the first prompts are measured."
    new = config["max_new_tokens"]
    tokens = min(pace.tokens, new) if new <= pace.max_new_tokens else pace.tokens * new / pace.max_new_tokens
    slowest = min(known.values())
    seconds = sum(answers / len(batches) * tokens / known.get(batch, slowest) for batch in batches)
    return f"{counted}: about {_duration(seconds)}, going by the last evaluation of this target."


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = seconds / 60
    return f"{round(minutes)} min" if minutes < 100 else f"{minutes / 60:.1f} h"
