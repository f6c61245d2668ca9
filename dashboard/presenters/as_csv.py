"""Tables to take along, as CSV. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import Any


def as_csv(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """A head and its rows; None is empty, and no cell is taken for a formula."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(["" if cell is None else _harmless(cell) for cell in row] for row in rows)
    return text.getvalue()


def _harmless(value: Any) -> Any:
    """Text that a spreadsheet would take for a formula gets an apostrophe before it."""
    return "'" + value if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value
