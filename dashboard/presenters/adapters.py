"""The Adapters page's form as plain values, and what is told of a comparison of adapters. Pure functions.

What the fields are comes from the job's config; here stands only what a person sees first and how it is called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from backend.analysis.adapter_traffic import STRATEGIES, mix_sentence, strategies, times_from_dict, traffic_shares
from backend.analysis.bootstrap import Interval
from backend.analysis.many_adapters import DRAFTERS, OWN, PLAIN, Cost, megabytes_in_words, minutes_in_words
from backend.analysis.verdict import between, signed
from backend.jobs.adapters_config import AdaptersJobConfig
from dashboard.presenters.schema_form import FormField, form_fields, with_choices

GROUPS: Final = (("what", "Adapters"), ("drafters", "Drafters"), ("measured", "How it is measured"))
_LABELS: Final[Mapping[str, str]] = {
    "adapter": "Adapters, one a line", "prompts": "Prompts, one file a line", "traffic": "Traffic", "out": "Folder",
    "shared": "Shared drafter", "min_gain": "Worth it from", "draft_vocab": "Draft vocabulary",
    "batch_tokens": "Tokens a training step", "answer_temperatures": "Answered at", "max_new_tokens": "Longest answer",
    "batch": "Prompts at once", "held_out": "Held-out part", "measured": "Prompts measured", "dtype": "Numbers",
}  # fmt: skip
_DRAFTERS: Final = (
    "shared", "family", "preset", "epochs", "draft_vocab", "batch_tokens", "answer_temperatures", "batch",
)  # fmt: skip
_MEASURED: Final = ("temperature", "min_gain", "held_out", "measured", "max_new_tokens", "seed")
_MORE: Final = (
    "device", "dtype", "trust_remote_code", "epochs", "draft_vocab", "batch_tokens", "answer_temperatures", "batch",
    "held_out", "measured", "max_new_tokens", "seed", "name",
)  # fmt: skip
_SIGNS: Final[Mapping[str, str]] = {
    "earns": "earns its own heads", "does not": "the shared drafter will do", "too few": "too few prompts to say",
}  # fmt: skip


def adapters_fields(drafters: Sequence[tuple[str, str]], targets: Sequence[tuple[str, str]]) -> tuple[FormField, ...]:
    """The fields. `drafters`, `targets`: (label, what the config holds). What has no heads can't be shared."""
    drafters = [one for one in drafters if one[1] not in ("none", "ngram")]
    groups = dict.fromkeys(_DRAFTERS, "drafters") | dict.fromkeys(_MEASURED, "measured")
    fields = form_fields(AdaptersJobConfig, groups=groups, labels=_LABELS, more=_MORE)
    fields = tuple(field if field.group else replace(field, group="what") for field in fields)
    fields = with_choices(fields, "shared", drafters, other=True)
    return with_choices(fields, "target", targets, other=True)


def adapters_name(config: Mapping[str, Any]) -> str:
    """How a list calls it: as the person named it, else the adapters."""
    names = [str(pair).partition("=")[0] for pair in config["adapter"]]
    return str(config.get("name") or f"{Path(str(config['out'])).name}: {', '.join(names)}")[:80]


def adapters_view(job: Any, report: Mapping[str, Any] | None) -> dict[str, Any]:
    """{conditions, adapters, gains, mix}: what the page shows of one comparison; no adapters and no mix before the end.

    adapters: {name, prompts, verdict, word, sentence, rows, cost} each; gains: see `_gains`; mix: see `mix_view`.
    """
    config = job.config
    conditions = [
        str(config["target"]),
        f"{config['family']}, preset {config['preset']}",
        f"T {config['temperature']:g}",
    ]
    if report is None:
        return {"conditions": conditions, "adapters": [], "gains": None, "mix": None}
    setup = report["setup"]
    conditions += [str(setup["device"]), str(setup["dtype"]), f"{setup['threads']} threads"]
    return {
        "conditions": conditions,
        "adapters": [_adapter(one, report["costs"]["own"][one["name"]]) for one in report["adapters"]],
        "gains": _gains(report),
        "mix": mix_view(report, report["traffic"]),
    }


def mix_view(report: Mapping[str, Any], asked: Mapping[str, float]) -> dict[str, Any]:
    """{shares, sentence, rows}: what each way of drafting gives for this traffic, from what was measured.

    Raises HeadwayError for traffic that names another adapter or adds up to nothing.
    """
    names = [one["name"] for one in report["adapters"]]
    shares = traffic_shares(asked, names)
    costs = {kind: {name: Cost(**cost) for name, cost in own.items()} for kind, own in report["costs"].items()}
    earned = [one["name"] for one in report["adapters"] if one["verdict"] == "earns"]
    times = {name: times_from_dict(one) for name, one in report["times"].items()}
    found = strategies(times, shares, earned, costs["own"], costs["joint"])
    best = max((one.tokens_per_s for one in found), default=0.0)
    rows = [
        {
            "strategy": one.strategy,
            "label": STRATEGIES[one.strategy],
            "fastest": one.tokens_per_s == best,
            "share": one.tokens_per_s / best if best else 0.0,
            "speed": _with(one.tokens_per_s, one.interval, 1),
            "over_plain": _with(one.over_plain, one.over_plain_interval),
            "over_shared": _change(one.over_shared, one.over_shared_interval),
            "memory": megabytes_in_words(one.megabytes) if one.megabytes else "none",
            "training": "" if one.minutes is None else minutes_in_words(one.minutes) if one.minutes else "none",
            "own": list(one.own),
        }
        for one in found
    ]
    return {"shares": shares, "sentence": mix_sentence(found), "rows": rows}


def _adapter(one: Mapping[str, Any], cost: Mapping[str, Any]) -> dict[str, Any]:
    trained = "" if cost["minutes"] is None else f"{minutes_in_words(cost['minutes'])} of training, "
    return {
        "name": one["name"],
        "prompts": one["prompts"],
        "verdict": one["verdict"],
        "word": _SIGNS[one["verdict"]],
        "sentence": one["sentence"],
        "cost": f"{trained}{megabytes_in_words(cost['megabytes'])} of memory",
        "rows": [_row(row, row["drafter"] == one["best"], one["best_sure"]) for row in one["rows"]],
    }


def _row(row: Mapping[str, Any], best: bool, sure: bool) -> dict[str, Any]:
    intervals = row["marginal_intervals"]
    return {
        "drafter": row["drafter"],
        "label": DRAFTERS[row["drafter"]],
        "plain": row["drafter"] == PLAIN,
        "fastest": best and sure,
        "length": _with(row["acceptance_length"], _interval(row["acceptance_interval"])),
        "speedup": _with(row["speedup"], _interval(row["speedup_interval"])),
        "speed": "" if row["tokens_per_s"] is None else f"{row['tokens_per_s']:.1f}",
        "over_shared": _change(row["over_shared"], _interval(row["over_shared_interval"])),
        "depths": [
            {"value": value, "interval": interval and [interval["low"], interval["high"]], "conditional": conditional}
            for value, interval, conditional in zip(row["marginal"], intervals, row["conditional"], strict=True)
        ],
    }


def _gains(report: Mapping[str, Any]) -> dict[str, Any]:
    """What own heads gain over the shared drafter, on one scale for all adapters: {low, high, border, rows: [{name,
    verdict, text, middle, low, high}]}; middle, low and high are None where nothing is known.
    """
    rows = []
    for one in report["adapters"]:
        own = next(row for row in one["rows"] if row["drafter"] == OWN)
        known = own["over_shared_interval"] or {"low": None, "high": None}
        text = "not known" if own["over_shared"] is None else signed(own["over_shared"])
        told = {"name": one["name"], "verdict": one["verdict"], "text": text}
        rows.append(told | {"middle": own["over_shared"], **known})
    border = float(report["config"]["min_gain"])
    numbers = [value for row in rows for value in (row["low"], row["middle"], row["high"]) if value is not None]
    low, high = min([0.0, *numbers]), max([border, *numbers])
    room = 0.06 * (high - low) or 0.01  # so that no end of an interval stands on the rim
    return {"low": low - room, "high": high + room, "border": border, "rows": rows}


def _interval(data: Mapping[str, float] | None) -> Interval | None:
    return Interval(**data) if data else None


def _with(value: float | None, interval: Interval | None, digits: int = 2) -> dict[str, str]:
    sure = f"{interval.low:.{digits}f} to {interval.high:.{digits}f}" if interval else ""
    return {"text": "" if value is None else f"{value:.{digits}f}", "sure": sure}


def _change(value: float | None, interval: Interval | None) -> dict[str, Any]:
    """`way`: up or down where that is beyond chance."""
    way = "" if interval is None or not interval.beyond_zero else "up" if interval.low > 0 else "down"
    return {"text": "" if value is None else signed(value), "sure": between(interval) if interval else "", "way": way}
