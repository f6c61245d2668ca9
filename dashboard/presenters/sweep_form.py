"""The form of the Sweep page as a value: what is typed, the job's config it stands for, and back. Pure; no Gradio.

`typed` is plain JSON from the browser: {field: text or list, "rows": [[knob, values as typed], ...]}.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from backend.errors import HeadwayError
from backend.jobs.sweep_config import SweepJobConfig, knobs
from backend.sweeps.objectives import OBJECTIVES
from backend.sweeps.space import Dimension, as_text, parse_values

Typed = dict[str, Any]
SAMPLERS = (
    ("tpe", "Optuna TPE: goes where it was good"),
    ("nsga2", "Optuna NSGA-II: for several objectives"),
    ("grid", "Grid: every value with every other"),
    ("random", "Random draws"),
)
CHECKS = (("exact", "the answer itself"), ("regex", "a regular expression"))
#: name -> (label, help, kind, group); kinds: text, lines, whole, number, choice
FIELDS: Mapping[str, tuple[str, str, str, str]] = {
    "target": ("Target", "The model that is served: built-in name, folder, GGUF or hub id.", "text", "on"),
    "prompts": ("Prompt files", "JSONL with turns, ShareGPT or Alpaca, one path a line.", "lines", "on"),
    "limit": ("First prompts", "Of each file; empty: all.", "whole", "on"),
    "max_new_tokens": ("Longest answer", "In tokens.", "whole", "on"),
    "sampler": ("Who proposes", "", "choice", "how"),
    "trials": ("Trials", "Empty: the whole grid, else 40.", "whole", "how"),
    "max_drift": ("Most drift", "Mean total variation, 0 to 1; empty: any.", "number", "how"),
    "prune_p": ("Give up below p", "Paired Wilcoxon test; 0: never.", "number", "more"),
    "plain_prompts": ("Plain prompts", "Answered by plain decoding too, in every trial.", "whole", "more"),
    "samples": ("Answers a prompt", "From as many seeds; 2 or more show diversity.", "whole", "more"),
    "seed": ("Seed", "Same seed, same trials and answers.", "whole", "more"),
    "answers": ("Answers to learn from", "Trials train a drafter first; for knobs of training.", "text", "more"),
    "task_file": ("Task file", "JSONL of prompts with an answer: scores each trial.", "text", "more"),
    "task_check": ("An answer is right by", "", "choice", "more"),
    "name": ("Name", "Of the sweep; empty: made of prompts and target.", "text", "more"),
    "device": ("Device", "cuda, mps or cpu; empty: the best there is.", "text", "more"),
}
GROUPS = (("on", "On what"), ("how", "How"), ("more", "More"))
EXAMPLE = (("tree", "chain-1, chain-2, 2x1, 2x2, 3x2x1"), ("max_depth", "1, 2, 3"))
DIAL = (("rule", "typical"), ("temperature", "0.7"), ("epsilon", "0.01 to 0.5 log"), ("delta", "0.05 to 0.9"))


def first_typed(target: str, prompts: Sequence[str]) -> Typed:
    """The form of a new page: a ready example that ends within minutes."""
    plain = SweepJobConfig(target=target, prompts=("x",), space={"tree": "2x2"})
    typed = _typed(plain) | {"target": target, "prompts": "\n".join(prompts), "trials": "12", "sampler": "grid"}
    return typed | {"rows": [list(row) for row in EXAMPLE], "objectives": ["speed"], "limit": "4"}


def dial_typed(typed: Mapping[str, Any]) -> Typed:
    """The same with the typical-acceptance dial: speed against drift."""
    return dict(typed) | {
        "rows": [list(row) for row in DIAL],
        "objectives": ["speed", "drift"],
        "sampler": "nsga2",
        "trials": "24",
        "samples": "2",
    }


def typed_from(config: Mapping[str, Any]) -> Typed:
    """The form of a stored config."""
    return _typed(SweepJobConfig.model_validate(dict(config)))


def _typed(config: SweepJobConfig) -> Typed:
    data = config.model_dump(mode="json")
    typed: Typed = {name: "" if data[name] is None else str(data[name]) for name in FIELDS if name != "prompts"}
    typed["prompts"] = "\n".join(config.prompts)
    typed["objectives"] = list(config.objectives)
    typed["rows"] = [[one.knob.name, as_text(one.tried)] for one in config.dimensions]
    return typed


def config_from(typed: Mapping[str, Any], kept: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The job's config. `kept`: settings of an earlier sweep that the form has no field for.

    Raises HeadwayError with one sentence for what is no number, missing or unknown.
    """
    data: dict[str, Any] = {name: value for name, value in (kept or {}).items() if name in ("train", "dtype")}
    for name, (label, _, kind, _) in FIELDS.items():
        data[name] = _value(str(typed.get(name) or "").strip(), kind, label)
    for name in ("max_new_tokens", "plain_prompts", "prune_p", "samples", "seed", "target", "task_check", "sampler"):
        if data[name] is None:
            del data[name]  # its default
    if not data["prompts"]:
        raise HeadwayError("Name at least one prompt file.")
    data["space"] = {one.knob.name: as_text(one.tried) for one in dimensions_of(typed.get("rows") or [])}
    data["objectives"] = list(typed.get("objectives") or [])
    if not data["objectives"]:
        raise HeadwayError("Say what is wanted: choose at least one objective.")
    return data


def dimensions_of(rows: Sequence[Sequence[str]]) -> list[Dimension]:
    """The rows of the space editor; rows without values are passed over. Raises HeadwayError."""
    found: dict[str, Dimension] = {}
    for name, text in rows:
        if not str(text).strip():
            continue
        if name not in knobs():
            raise HeadwayError(f"There is no knob named {name!r}.")
        if name in found:
            raise HeadwayError(f"{knobs()[name].label} stands there twice; keep one row of it.")
        found[name] = Dimension(knobs()[name], parse_values(str(text), knobs()[name]))
    return list(found.values())


def row_notes(rows: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """What each row of the space editor means, or what is wrong with it: [{text, problem}]."""
    notes = []
    for name, text in rows:
        try:
            found = dimensions_of([(name, text)])
        except HeadwayError as error:
            notes.append({"text": str(error), "problem": True})
            continue
        notes.append({"text": _meaning(found[0]) if found else "", "problem": False})
    return notes


def _meaning(one: Dimension) -> str:
    if one.fixed:
        return "always this value"
    values = one.grid()
    if hasattr(one.tried, "low"):
        middle = "as many below the geometric middle as above" if one.tried.log else "evenly"
        return f"anything between, {middle}; {len(values)} points in a grid"
    return f"{len(values)} values"


def estimate(config: SweepJobConfig, prompts: int | None, tokens_per_s: float | None) -> str:
    """How much there is to do, and how long it may take, in one sentence."""
    trials, proposer = config.num_trials, config.sampler
    what = f"{trials:,} trial{'' if trials == 1 else 's'}"
    if prompts is None:
        return f"{what}, proposed by {proposer}; the prompts could not be counted."
    answers = prompts * config.samples
    plain = min(config.plain_prompts, answers)
    sentence = f"{what} of {answers} answer{'' if answers == 1 else 's'}" + (f" and {plain} plain" if plain else "")
    if tokens_per_s is None or config.trains:
        return f"{sentence}; how long that takes is known after the first."
    seconds = trials * (answers + plain) * config.max_new_tokens / tokens_per_s
    return f"{sentence}: at most about {_duration(seconds)} at {tokens_per_s:.0f} tokens/s."


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def form_value(typed: Mapping[str, Any], note: str, problem: bool, fill: int = 0) -> dict[str, Any]:
    """What the form component is given; a new `fill` writes `typed` into its fields."""
    return {
        "fields": [{"name": name, "label": label, "help": text, "kind": kind, "group": group,
                    "choices": _choices(name)} for name, (label, text, kind, group) in FIELDS.items()],
        "groups": [list(group) for group in GROUPS],
        "knobs": [{"name": one.name, "label": one.label, "help": one.help, "stage": one.stage, "bounds": one.bounds,
                   "example": one.example or ", ".join(one.choices)} for one in knobs().values()],
        "objectives": [{"name": one.name, "label": one.label, "help": one.help} for one in OBJECTIVES.values()],
        "typed": dict(typed), "notes": row_notes(typed.get("rows") or []),
        "note": note, "problem": problem, "fill": fill,
    }  # fmt: skip


def _choices(name: str) -> list[list[str]]:
    return [list(pair) for pair in {"sampler": SAMPLERS, "task_check": CHECKS}.get(name, ())]


def _value(text: str, kind: str, label: str) -> Any:
    if kind == "lines":
        return [line.strip() for line in text.splitlines() if line.strip()]
    if not text:
        return None
    if kind in ("text", "choice"):
        return text
    try:
        return int(text) if kind == "whole" else float(text)
    except ValueError:
        article = "a whole number" if kind == "whole" else "a number"
        raise HeadwayError(f"{label} is {article}; “{text[:40]}” is not.") from None
