"""A comparison of adapters for people, as Markdown. Knows the report's fields; measures nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backend.analysis.adapter_traffic import STRATEGIES
from backend.analysis.bootstrap import Interval
from backend.analysis.many_adapters import DRAFTERS, megabytes_in_words, minutes_in_words
from backend.analysis.verdict import between, signed


def report_text(found: Mapping[str, Any]) -> str:
    """A sentence for each adapter, what the mix gains, and the tables that both rest on."""
    lines = [f"# {found['name']}: which adapter earns its own heads?", ""]
    lines += [f"- {one['sentence']}" for one in found["adapters"]]
    lines += [f"- {found['sentence']}", ""]
    for one in found["adapters"]:
        lines += _adapter(one, found["costs"])
    lines += _traffic(found)
    setup, config = found["setup"], found["config"]
    lines += [
        f"- Target: {found['target']}; {setup['device']}, {setup['dtype']}, {setup['threads']} threads, temperature "
        f"{config['temperature']:g}, {config['max_new_tokens']} new tokens at most.",
        f"- Drafters: {config['family']} with preset {config['preset']}, seed {config['seed']}; own heads are worth it "
        f"from {100 * config['min_gain']:g} % more tokens/s on.",
        "- Learned from "
        + "; ".join(f"{one['answers']:,} answers of {name} ({one['tokens']:,} tokens)"
                    for name, one in found["answers"].items()) + ".",
    ]  # fmt: skip
    if found["no_mixture"]:
        lines.append(f"- {found['no_mixture']}")
    return "\n".join([*lines, ""])


def _adapter(one: Mapping[str, Any], costs: Mapping[str, Any]) -> list[str]:
    head = "| drafter | acceptance length | times plain decoding | tokens/s | over the shared one | by depth |"
    lines = [f"## {one['name']}: {one['prompts']} held-out prompts", "", head, "| --- | --- | --- | --- | --- | --- |"]
    for row in one["rows"]:
        best = " (fastest)" if row["drafter"] == one["best"] and one["best_sure"] else ""
        cells = [
            DRAFTERS[row["drafter"]] + best,
            _with(row["acceptance_length"], row["acceptance_interval"]),
            _with(row["speedup"], row["speedup_interval"]),
            _number(row["tokens_per_s"], 1),
            _change(row["over_shared"], row["over_shared_interval"]),
            " ".join(_number(value) for value in row["marginal"]),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    cost = costs["own"][one["name"]]
    trained = "" if cost["minutes"] is None else f"{minutes_in_words(cost['minutes'])} of training and "
    return [*lines, "", f"Its own heads take {trained}{megabytes_in_words(cost['megabytes'])} of memory.", ""]


def _traffic(found: Mapping[str, Any]) -> list[str]:
    shares = ", ".join(f"{name} {100 * share:.3g} %" for name, share in found["traffic"].items())
    lines = [f"## The mix: {shares} of the tokens", "", "| way | tokens/s | times plain decoding | over one shared | "
             "memory | training |", "| --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    for one in found["strategies"]:
        cells = [
            STRATEGIES[one["strategy"]],
            _with(one["tokens_per_s"], one["interval"], 1),
            _with(one["over_plain"], one["over_plain_interval"]),
            _change(one["over_shared"], one["over_shared_interval"]),
            megabytes_in_words(one["megabytes"]) if one["megabytes"] else "none",
            "" if one["minutes"] is None else minutes_in_words(one["minutes"]) if one["minutes"] else "none",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, ""]


def _number(value: float | None, digits: int = 2) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _with(value: float | None, interval: Mapping[str, float] | None, digits: int = 2) -> str:
    sure = f" ({interval['low']:.{digits}f} to {interval['high']:.{digits}f})" if interval else ""
    return _number(value, digits) + sure


def _change(value: float | None, interval: Mapping[str, float] | None) -> str:
    if value is None:
        return ""
    return signed(value) + (f" ({between(Interval(**interval))})" if interval else "")
