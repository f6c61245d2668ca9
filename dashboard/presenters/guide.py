"""The Learn page's guide as plain values: what was measured of each family, and the defaults of knobs. Pure functions.

Nothing here is a number of its own: a family without a measurement says so, and which command measures it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, get_args

from pydantic import BaseModel

from backend.analysis.evaluation import MEAN, Row
from backend.drafters.families import AnySettings
from backend.glossary import Glossary
from backend.guide import Guide
from backend.jobs.kinds import JOB_KINDS

MOST: Final = 3  #: measurements shown of a family
BUILT_IN: Final = "builtin-"


@dataclass(frozen=True)
class Measured:
    """One family's figures. `conditions`: what they hold for; `link`: where they stand; "" for a file of ours."""

    family: str
    acceptance_length: float
    speedup: float | None
    conditions: str
    link: str


def from_evaluation(job_id: str, setup: Mapping[str, Any], rows: Iterable[Row]) -> list[Measured]:
    """One for each drafter of an evaluation: over all sets, at its lowest temperature and smallest batch."""
    whole = [row for row in rows if row.category is None and row.acceptance_length is not None]
    found = []
    for key, drafter in setup.get("contenders", {}).items():
        own = [row for row in whole if row.contender == key]
        if drafter.get("family") in (None, "none") or not own:
            continue
        row = min(own, key=lambda one: (one.temperature, one.batch, one.set != MEAN))
        assert row.acceptance_length is not None
        many = f"{row.num_prompts} prompt{'' if row.num_prompts == 1 else 's'}"
        words = f"{drafter['name']} on {setup['target']}, {many}, T {row.temperature:g}, batch {row.batch}"
        words = f"{words}, {setup['device']}" if setup.get("device") else words
        found.append(Measured(drafter["family"], row.acceptance_length, row.speedup, words, f"/evaluate?job={job_id}"))
    return found


def from_speed_file(name: str, data: Mapping[str, Any]) -> list[Measured]:
    """The project's own speed measurements: the mean over sets of the tree that was named first."""
    asked = data["conditions"]
    family = family_of(str(asked["drafter"]))
    rows = [row for row in data["rows"] if row["tree"] == data["rows"][0]["tree"] and row["set"] != MEAN]
    if family is None or not rows:
        return []
    length, speed = (sum(float(row[figure]) for row in rows) / len(rows) for figure in ("acceptance_length", "speedup"))
    machine = name.removeprefix("speed-").removesuffix(".json")
    prompts = f"{asked['limit']} prompts of each of {len(rows)} sets"
    words = f"{asked['drafter']} on {asked['target']}, {prompts}, T {asked['temperature']:g}, {machine}"
    return [Measured(family, length, speed, words, "")]


def from_equality_file(data: Mapping[str, Any]) -> list[Measured]:
    """Acceptance lengths of the project's comparison with `generate`; a target that drafts for itself is none."""
    asked, found = data["conditions"], []
    for row in data["rows"]:
        family = family_of(str(row["drafter"]))
        if family is None or row["tree"] is not None or not row["steps"]:
            continue
        count = row["equal"] + row["ties"] + row["mismatches"]
        words = f"{row['drafter']} on {asked['target']}, {count} prompts, T 0, batch {asked['batch']}"
        found.append(Measured(family, 1 + row["accepted"] / row["steps"], None, words, ""))
    return found


def from_families_file(data: Mapping[str, Any]) -> list[Measured]:
    """The project's own board of all families: each drafter's tree, over all sets, at the lowest temperature."""
    asked, found = data["conditions"], []
    whole = [row for row in data["rows"] if row["set"] == MEAN or len(asked["prompts"]) == 1]
    for contender in dict.fromkeys(row["contender"] for row in whole):
        spec, _, tree = contender.partition("|")
        family = family_of(spec)
        if family is None or tree == "chain":
            continue
        row = min((row for row in whole if row["contender"] == contender), key=lambda one: float(one["temperature"]))
        prompts = f"{asked['limit']} prompts of each of {len(asked['prompts'])} sets"
        words = f"{spec} on {asked['target']}, {asked['nodes']} nodes, {prompts}, T {row['temperature']:g}"
        found.append(Measured(family, row["acceptance_length"], row["speedup"], f"{words}, {asked['device']}", ""))
    return found


def family_of(spec: str) -> str | None:
    """The family of a drafter that comes with Headway; None for any other."""
    if spec.startswith(BUILT_IN):
        return spec.removeprefix(BUILT_IN)
    return spec if spec == "ngram" else None


def guide_view(guide: Guide, glossary: Glossary, measured: Sequence[Measured]) -> dict[str, Any]:
    """{families, knobs, questions, failures}, as the page shows them; the first measurements of a family are kept."""
    families = []
    for key, one in guide.families.items():
        own = [asdict(found) for found in measured if found.family == key][:MOST]
        families.append({"key": key, **one.model_dump(mode="json"), "measured": own})
    return {
        "families": families,
        "knobs": [{"key": key, **one} for key, one in explained(glossary)["knobs"].items()],
        "questions": [one.model_dump(mode="json") for one in guide.questions],
        "failures": [one.model_dump(mode="json") for one in guide.failures],
    }


def explained(glossary: Glossary) -> dict[str, Any]:
    """{metrics, knobs} by key, with the defaults that the settings have."""
    knobs = {
        key: one.model_dump(mode="json") | {"default": [default_of(at) for at in one.default]}
        for key, one in glossary.knobs.items()
    }
    return {"metrics": {key: one.model_dump(mode="json") for key, one in glossary.metrics.items()}, "knobs": knobs}


def default_of(at: str) -> dict[str, str]:
    """{where, value}: what the settings themselves say. `at`: `kind.field...` or `families.family.field`.

    Raises KeyError or AttributeError for a place that is not there.
    """
    kind, *path = at.split(".")
    if kind == "families":
        family, *path = path
        model: type[BaseModel] = _settings()[family]
        where = family
    else:
        model, where = JOB_KINDS[kind].config, kind
    value: Any = model.model_fields[path[0]].default
    for name in path[1:]:
        value = getattr(value, name)
    return {"where": where, "value": _words(value)}


def _settings() -> dict[str, type[BaseModel]]:
    models = get_args(get_args(AnySettings)[0])
    return {str(model.model_fields["family"].default): model for model in models}


def _words(value: Any) -> str:
    if value is None or value == ():
        return "not set"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ", ".join(map(_words, value))
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def own_results(folder: Path) -> list[tuple[str, Path]]:
    """(kind, file) of the project's measurements that tell something of a family; none where the folder is missing."""
    speeds = [("speed", path) for path in sorted(folder.glob("speed-*.json"), reverse=True)]
    files = [("families", folder / "families.json"), *speeds, ("equality", folder / "equality.json")]
    return [(kind, path) for kind, path in files if path.is_file()]
