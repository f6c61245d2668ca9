"""The certificate of an audit as one page that needs nothing else: no script, no style sheet, no network."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from typing import Any, Final

TITLES: Final[Mapping[str, str]] = {
    "exact": "No deviation found",
    "deviates": "The output deviates",
    "too few": "Too few samples to tell",
    "approximate": "Approximate by design",
}
STYLE: Final = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { max-width: 46rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem; margin: 0 }
.verdict { border-left: .4rem solid #888; padding: .6rem 1rem; margin: 1rem 0; background: #8881 }
.verdict.exact { border-color: #0072b2 } .verdict.deviates { border-color: #d55e00 }
table { border-collapse: collapse; width: 100%; margin: .5rem 0 1.5rem }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid #8884; vertical-align: top }
td.n { text-align: right; font-variant-numeric: tabular-nums }
code { font-size: .85em; overflow-wrap: anywhere }
"""


def as_page(certificate: Mapping[str, Any]) -> str:
    """HTML of {findings, conditions}."""
    findings, conditions = certificate["findings"], certificate["conditions"]
    verdict = str(findings["verdict"])
    parts = [
        f"<h1>Exactness audit: {_text(conditions['drafter']['name'])} with {_text(conditions['target'])}</h1>",
        f'<div class="verdict {verdict.replace(" ", "-")}"><strong>{TITLES[verdict]}.</strong> '
        f"{_text(findings['sentence'])}</div>",
    ]
    parts += _greedy(findings["greedy"]) + _passes(findings["passes"])
    parts += _sampling(findings["sampling"]) + _drift(findings["drift"]) + _conditions(conditions)
    body = "\n".join(parts)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Exactness audit</title><style>{STYLE}</style><body>{body}</body></html>\n"
    )


def _greedy(found: Mapping[str, Any] | None) -> list[str]:
    if found is None:
        return []
    rows = [
        ("answers", found["answers"]),
        ("tokens", found["tokens"]),
        ("the target's likeliest token", found["equal"]),
        ("tied with it by rounding", found["ties"]),
        ("wrong", found["errors"]),
        ("largest gap between two logits", f"{found['largest_gap']:.2g}"),
    ]
    return ["<h2>Temperature 0</h2>", _table((), rows)]


def _passes(found: Mapping[str, Any] | None) -> list[str]:
    if found is None:
        return []
    rows = [
        ("drafted tokens compared with a plain pass", found["compared"]),
        ("with another probability", found["off"]),
        ("largest difference", f"{found['largest_difference']:.2g}"),
    ]
    return ["<h2>The verification pass</h2>", _table((), rows)]


def _sampling(found: Mapping[str, Any] | None) -> list[str]:
    if found is None:
        return []
    rows = [
        (
            test["name"],
            f"{test['positions']:,}",
            "too few" if test["p_value"] is None else f"{test['p_value']:.3g}",
            "deviates" if test["found"] else "",
            f"{test['detectable']:.3f}" if test.get("detectable") else "",
        )
        for test in found["tests"]
    ]
    head = ("tokens", "number", "p-value", "", "total variation that would be found")
    note = (
        f"<p>A test counts as a deviation below p = {found['limit']:.2g}, so that an exact drafter fails "
        f"any of them with the stated probability. {found['steps']:,} steps accepted {found['accepted']:,} drafted "
        "tokens.</p>"
    )
    return ["<h2>Sampled tokens by their rank</h2>", _table(head, rows), note]


def _drift(found: Mapping[str, Any] | None) -> list[str]:
    if found is None:
        return []
    rows = [
        ("positions", found["positions"]),
        ("accepted by threshold", found["accepted"]),
        ("total variation from the target's law, mean", _number(found["total_variation"])),
        ("Kullback-Leibler divergence from it, mean, in nats", _number(found["kl"])),
    ]
    return ["<h2>Drift of the approximate rule</h2>", _table((), rows)]


def _conditions(conditions: Mapping[str, Any]) -> list[str]:
    rows: list[tuple[Any, ...]] = [
        ("target", f"{conditions['target']}, weights {conditions['version'].get('weights_id', '')[:12]}"),
        ("drafter", f"{conditions['drafter']['name']}, weights {(conditions['drafter']['weights'] or 'none')[:12]}"),
        ("device", f"{conditions['device']}, {conditions['dtype']}, {conditions['threads']} threads"),
        ("packages", ", ".join(f"{name} {version}" for name, version in conditions["packages"].items())),
        ("prompts", ", ".join(f"{name} ({content[:12]})" for name, content in conditions["prompts"].items())),
    ]
    rows += [(name.replace("_", " "), value) for name, value in conditions["settings"].items() if value is not None]
    rows += [("warning", warning) for warning in conditions["warnings"]]
    return ["<h2>Conditions</h2>", _table((), rows)]


def _table(head: Iterable[str], rows: Iterable[tuple[Any, ...]]) -> str:
    columns = "".join(f"<th>{_text(word)}</th>" for word in head)
    body = "".join("<tr>" + "".join(_cell(value) for value in row) + "</tr>" for row in rows)
    return f"<table>{f'<tr>{columns}</tr>' if columns else ''}{body}</table>"


def _cell(value: Any) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return f'<td class="n">{value:,}</td>' if number else f"<td>{_text(value)}</td>"


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4f}"


def _text(value: Any) -> str:
    return html.escape(str(value))
