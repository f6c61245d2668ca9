"""A release's report for people, as Markdown. Knows the report's fields; measures nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def report_text(found: Mapping[str, Any]) -> str:
    """The verdict first, then what it rests on."""
    measured, kept = found["measured"], found["kept"]
    lines = [f"# {found['name']}: {'passed' if found['passed'] else 'not passed'}", ""]
    lines += [_check_line(one) for one in found["checks"]] or ["No limit was set, so nothing could fail."]
    lines += ["", "| on held-out prompts | acceptance length | times plain decoding |", "| --- | --- | --- |"]
    words = {"train": "the new drafter", "scratch": "the same, trained from scratch"}
    for name, length in measured["lengths"].items():
        lines.append(_row(words[name] + (" (kept)" if name == kept else ""), length, measured["speedups"][name]))
    if measured["old"] is not None:
        lines.append(_row("old heads on the new version", *_figures(measured["old"])))
    before = found["serving"]["measured"]
    if before is not None:
        lines.append(_row("what serves now, on its own version", before["length"], before["speedup"]))
    lines += ["", *_notes(found), ""]
    return "\n".join(lines)


def _notes(found: Mapping[str, Any]) -> list[str]:
    setup, answers, config = found["measured"]["setup"], found["answers"], found["config"]
    start = found["started_from"]
    notes = [
        f"- Target: {found['target']}; {setup['device']}, {setup['dtype']}, {setup['threads']} threads, temperature "
        f"{config['temperature']:g}, {config['max_new_tokens']} new tokens at most.",
        f"- Learned from {answers['answers']:,} answers of the target itself ({answers['tokens']:,} tokens, "
        f"{answers['truncated']:,} cut), {config['family']} with preset {config['preset']}, "
        + (f"starting from the weights of {Path(start).name}." if start else "from scratch."),
        f"- Tree, the fastest here: {found['tree'] or 'none pays; the chain it was trained with is kept'}.",
    ]
    if (against := found["against_serving"]) is not None:
        between = against["interval"]
        sure = f" (95 %: {100 * between['low']:+.1f} to {100 * between['high']:+.1f} %)" if between else ""
        notes.append(
            f"- Acceptance length against what serves now: {100 * against['change']:+.1f} %{sure}, paired over "
            f"{against['prompts']} prompts."
        )
    notes += [f"- The model's own evaluation, {name}: {score:g}." for name, score in found["scores"].items()]
    return notes


def _check_line(one: Mapping[str, Any]) -> str:
    word = "ok" if one["passed"] else "FAILED"
    return f"- {word}: {one['what']} {one['value']:.3f}, at least {one['limit']:.3f} was asked for"


def _row(what: str, length: float | None, speedup: float | None) -> str:
    return f"| {what} | {_number(length)} | {_number(speedup)} |"


def _figures(row: Mapping[str, Any]) -> tuple[float | None, float | None]:
    return row["acceptance_length"], row["speedup"]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
