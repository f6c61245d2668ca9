"""What pydantic found wrong, as one sentence a person can act on. Knows no form."""

from __future__ import annotations

from pydantic import ValidationError


def first_problem(error: ValidationError) -> str:
    """The first problem: the field by its name, what it has to be, and what it was where that is short."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"]) or "The settings"
    if first["type"] == "extra_forbidden":
        return f"There is no setting named “{where}”; remove it or correct its name."
    if first["type"] == "missing":
        return f"{_name(where)} is missing; give it."
    problem = str(first["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    if problem.startswith("Input should be "):
        got = repr(first["input"])
        note = f", not {got}" if len(got) <= 40 else ""
        return f"{_name(where)} has to be {problem.removeprefix('Input should be ')}{note}."
    return problem if problem.endswith(".") else f"{_name(where)}: {problem}."


def _name(where: str) -> str:
    return where.replace("_", " ")[:1].upper() + where.replace("_", " ")[1:]
