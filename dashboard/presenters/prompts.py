"""Demo prompts from a file of the project's prompt format: one JSON object a line with `category` and `turns`."""

from __future__ import annotations

import json
from pathlib import Path

FALLBACK = (
    {"label": "Explain", "prompt": "Explain in a few sentences why the sky is blue."},
    {"label": "List", "prompt": "List the planets of the solar system from the Sun outwards, one a line."},
    {"label": "Code", "prompt": "Write a Python function that returns the n-th Fibonacci number, with a docstring."},
    {"label": "Rewrite", "prompt": "Rewrite politely: Send me the report today or the project stops."},
)
MAX_DEMOS = 6


def demo_prompts(path: Path | None) -> list[dict[str, str]]:
    """Label and first turn of up to six demos; lines that are damaged are passed over, no file gives four built-in
    ones.
    """
    demos: list[dict[str, str]] = []
    if path is not None and path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines():
            demo = _demo(line)
            if demo is not None:
                demos.append(demo)
    return demos[:MAX_DEMOS] or [dict(demo) for demo in FALLBACK]


def _demo(line: str) -> dict[str, str] | None:
    try:
        record = json.loads(line)
        prompt = str(record["turns"][0])
    except (ValueError, KeyError, IndexError, TypeError):
        return None
    label = str(record.get("label") or record.get("category") or "Demo").replace("_", " ")
    return {"label": label.capitalize(), "prompt": prompt} if prompt.strip() else None
