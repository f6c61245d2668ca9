"""Drafters as pickers offer them. Pure."""

from __future__ import annotations

from typing import Any


def drafter_choice(drafter: dict[str, Any], target: str) -> tuple[str, str]:
    """Label and value for the picker; heads made for another target say so, and so does what drafting was measured
    to cost.
    """
    made_for = str(drafter.get("target") or target)
    note = "" if made_for == target else f" (for {made_for})"
    cost = drafter.get("cost")
    if cost is not None:
        note += f" · cost {cost:.2f}"
    return str(drafter["name"]) + note, str(drafter["spec"])
