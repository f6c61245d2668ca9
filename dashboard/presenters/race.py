"""The form of the Race page and its meaning: a request for each lane, or one sentence that says what is wrong.

Knows no Gradio and no HTTP. What only the engine can judge, such as two lanes that would do the same, is left to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from backend.engine.protocol import LANES, DecodeRequest, RaceRequest
from backend.engine.race_reading import lane_names
from backend.errors import HeadwayError
from dashboard.presenters.form import ALL_LEVELS, EXACT, FormValues, form_from_request, to_request
from dashboard.presenters.validation import first_problem
from storage import RaceRecord


class LaneForm(BaseModel):
    """A row of the form. A number that is no number is None."""

    model_config = ConfigDict(extra="forbid")

    target: str = "smollm2-135m"
    drafter: str = "none"
    tree: str = ""
    max_depth: str = ALL_LEVELS
    temperature: float | None = 0.0
    rule: Literal["exact", "typical"] = EXACT


class RaceForm(BaseModel):
    """What the form holds."""

    model_config = ConfigDict(extra="forbid")

    prompt: str = ""
    system: str = ""
    max_new_tokens: float | None = 128
    seed: float | None = 0
    lanes: list[LaneForm] = []


def race_from(values: Mapping[str, Any]) -> RaceRequest:
    """The race that a form asks for. Raises HeadwayError with one sentence for anything that can't be run."""
    try:
        form = RaceForm.model_validate(dict(values))
    except ValidationError as error:
        raise HeadwayError(first_problem(error)) from None
    shared = FormValues(prompt=form.prompt, system=form.system, max_new_tokens=form.max_new_tokens, seed=form.seed)
    if not form.lanes:
        raise HeadwayError("A race has 2 to 4 lanes, but this one has 0; add 2.")
    to_request(shared)  # what is wrong for all lanes is told of none
    return RaceRequest(lanes=tuple(_request(place, lane, shared) for place, lane in enumerate(form.lanes)))


def _request(place: int, lane: LaneForm, shared: FormValues) -> DecodeRequest:
    try:
        return to_request(FormValues(**(vars(shared) | lane.model_dump())))
    except HeadwayError as error:
        letter = LANES[place : place + 1] or str(place + 1)
        raise HeadwayError(f"Lane {letter}: {error}") from None


def form_of(requests: Sequence[DecodeRequest]) -> dict[str, Any]:
    """The form that would make these lanes; what it has no field for is left out."""
    forms = [form_from_request(request)[0] for request in requests]
    shared = {name: getattr(forms[0], name) for name in ("prompt", "system", "max_new_tokens", "seed")}
    return shared | {"lanes": [{name: getattr(form, name) for name in LaneForm.model_fields} for form in forms]}


def lanes_view(runs: Mapping[str, str], requests: Sequence[DecodeRequest]) -> list[dict[str, Any]]:
    """[{letter, run, name, request}] of lanes {letter: run}."""
    asked = [request.model_dump(mode="json") for request in requests]
    rows = zip(runs.items(), lane_names(asked), asked, strict=True)
    return [{"letter": letter, "run": run, "name": name, "request": one} for (letter, run), name, one in rows]


def race_row(race: RaceRecord) -> dict[str, Any]:
    """One line of the list of races."""
    runs = [one.run for one in race.lanes]
    names = lane_names([run.settings.get("request") or {"drafter": run.drafter_name} for run in runs])
    statuses = {run.status for run in runs}
    return {
        "id": race.id,
        "at": race.created_at.isoformat(),
        "prompt": " ".join(runs[0].prompt_start.split())[:160],
        "lanes": [f"{LANES[one.lane]} {name}" for one, name in zip(race.lanes, names, strict=True)],
        "status": statuses.pop() if len(statuses) == 1 else "finished in part",
    }
