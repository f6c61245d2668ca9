"""What the Race page asks: start a race, look one up, how it stands, which there are, what can be chosen for a lane.

Joins engine and store. Knows no event of Gradio. Races started here are remembered in memory as well, so a page can
re-attach to one whose runs have not reached the store, and works without one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from backend.engine.protocol import LANES, DecodeRequest
from backend.engine.race_reading import read_standing
from backend.errors import HeadwayError
from dashboard.answers import answer, answer_sent
from dashboard.pages.live_form import DRAFTERS
from dashboard.presenters.command import race_as_command, race_as_yaml
from dashboard.presenters.drafters import drafter_choice
from dashboard.presenters.race import form_of, lanes_view, race_from, race_row
from dashboard.presenters.runs import request_from
from dashboard.presenters.targets import offered_targets
from dashboard.runs import MAX_REMEMBERED, PERSONS_ERRORS
from dashboard.services import Services

Lanes = Mapping[str, tuple[str, DecodeRequest]]  #: letter -> (run, request), without lanes that were deleted

TEXTS = {"command": race_as_command, "yaml": race_as_yaml}


class Races:
    """Thread safe. Every call raises HeadwayError or StoreError with one sentence for what a person can mend."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._started: OrderedDict[str, Lanes] = OrderedDict()

    def start(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Queue the race that a form asks for; see `view`."""
        request = race_from(values)
        race = self._services.engine.race(request)
        lanes = zip(race.runs, request.lanes, strict=True)
        self._started[race.id] = dict(zip(LANES, lanes, strict=False))
        while len(self._started) > MAX_REMEMBERED:
            self._started.popitem(last=False)
        return self.view(race.id)

    def view(self, race_id: str) -> dict[str, Any]:
        """{race, lanes: [{letter, run, name, request}], missing: [letter], form}."""
        lanes = self._lanes(race_id)
        requests = [request for _, request in lanes.values()]
        shown = lanes_view({letter: run for letter, (run, _) in lanes.items()}, requests)
        missing = [letter for letter in LANES[: LANES.index(max(lanes))] if letter not in lanes]
        return {"race": race_id, "lanes": shown, "missing": missing, "form": form_of(requests)}

    def standing(self, race_id: str) -> dict[str, Any] | None:
        """See analysis.standing; None while a lane goes on."""
        runs = {letter: run for letter, (run, _) in self._lanes(race_id).items()}
        return read_standing(self._services.engine, runs)

    def stop(self, race_id: str) -> dict[str, Any]:
        self._services.engine.cancel(race_id)
        return {}

    def text(self, form: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """{text}: what the form holds as a command, or as the YAML file that it takes."""
        if form not in TEXTS:
            raise HeadwayError(f"A race is told as {' or '.join(TEXTS)}, not as {form[:20]!r}.")
        return {"text": TEXTS[form](race_from(values), self._services.engine.status().started_with)}

    def recent(self) -> list[dict[str, Any]]:
        """The newest stored races."""
        store = self._services.store
        if store is None:
            return []
        return [race_row(race) for race in store.list_races(self._services.settings.recent_limit)]

    def choices(self, target: str) -> dict[str, Any]:
        """{targets, drafters}: what a lane can be made of, each [label, value]; `target` is the lane's own."""
        store = self._services.store
        sources = [version.source for version in store.list_versions()] if store is not None else []
        try:
            offered = self._services.engine.drafters(target)
        except PERSONS_ERRORS:  # a target that cannot be is told when the race is started
            offered = []
        drafters = [drafter_choice(one, target) for one in offered] or list(DRAFTERS)
        return {"targets": offered_targets([self._services.settings.default_target, *sources]), "drafters": drafters}

    def _lanes(self, race_id: str) -> Lanes:
        if race_id in self._started:
            return self._started[race_id]
        store = self._services.store
        if store is None:
            raise HeadwayError(f"There is no race {race_id}; nothing is kept past the process without a database.")
        lanes = {}
        for one in store.get_race(race_id).lanes:
            request = request_from(one.run.settings.get("request"))
            if request is None:
                raise HeadwayError(f"The race {race_id} was stored by another Headway and can't be shown.")
            lanes[LANES[one.lane]] = (one.run.id, request)
        return lanes


def race_routes(races: Races) -> list[Route]:
    async def recent(request: Request) -> Response:
        return await answer(races.recent)

    async def start(request: Request) -> Response:
        return await answer_sent(request, races.start)

    async def choices(request: Request) -> Response:
        return await answer(lambda: races.choices(request.query_params.get("target") or ""))

    async def shown(request: Request) -> Response:
        return await answer(lambda: races.view(request.path_params["race_id"]))

    async def text(request: Request) -> Response:
        return await answer_sent(request, lambda values: races.text(request.path_params["form"], values))

    async def stands(request: Request) -> Response:
        return await answer(lambda: races.standing(request.path_params["race_id"]))

    async def stop(request: Request) -> Response:
        return await answer(lambda: races.stop(request.path_params["race_id"]))

    base = "/headway/races"
    return [
        Route(base, recent, methods=["GET"]),
        Route(base, start, methods=["POST"]),
        Route(base + "/choices", choices),
        Route(base + "/as/{form}", text, methods=["POST"]),
        Route(base + "/{race_id}", shown),
        Route(base + "/{race_id}/standing", stands),
        Route(base + "/{race_id}/stop", stop, methods=["POST"]),
    ]
