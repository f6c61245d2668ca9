"""What the generators of fine-tuning data share: rows until there are enough different questions, and their two files.

The same seed writes the same bytes. Knows no content.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Made = tuple[str, str, str]  # category, question, answer
PATIENCE = 200  #: questions that may come again before the generator is said to have no more


def write_rows(description: str, name: str, make: Callable[[random.Random], Made], header: Mapping[str, Any]) -> None:
    """Reads the command line and writes the rows; `header` holds for all rows and stands first where it says anything.

    A question never comes twice, so what is held out was not trained on.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("out", type=Path, help="JSONL to write")
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--held-out", type=Path, metavar="FILE", help="rows with other questions, to measure on")
    parser.add_argument("--held-out-rows", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    counts = {args.out: args.rows} | ({args.held_out: args.held_out_rows} if args.held_out else {})
    made = different(rng, make, sum(counts.values()))
    start = 0
    for path, count in counts.items():
        lines = [json.dumps(dict(header), ensure_ascii=False)] if header else []
        for number, (category, question, answer) in enumerate(made[start : start + count]):
            messages = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
            row = {"question_id": f"{name}-{start + number:04}", "category": category, "messages": messages}
            lines.append(json.dumps(row, ensure_ascii=False))
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(f"{path}: {count} rows")
        start += count


def different(rng: random.Random, make: Callable[[random.Random], Made], count: int) -> list[Made]:
    """Rows with different questions. Raises SystemExit when there are not so many."""
    found: dict[str, Made] = {}
    misses = 0
    while len(found) < count:
        row = make(rng)
        misses = misses + 1 if row[1] in found else 0
        found.setdefault(row[1], row)
        if misses > PATIENCE:
            raise SystemExit(f"There are no {count} different questions, only about {len(found)}; ask for fewer rows.")
    return list(found.values())
