"""A person's own runs on the Learn page: their drafted tokens as points over the region that typical acceptance takes.

Reads stored steps; the rule is backend.analysis.theory's. Knows no HTTP.
"""

from __future__ import annotations

import textwrap
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from backend.analysis.theory import typical_accepts
from backend.errors import HeadwayError
from dashboard.learn import Typical
from dashboard.services import Services
from storage.records import RunFilter

LOOKED_BACK = 60  #: stored runs that may be offered
STEPS_READ = 400
SHOWN = 600  #: points; a picture of more is a cloud
KEPT = 8
LABEL = 60
ACCEPTED, REACHED = 1, (1, 2)  # values of acceptance.Verdict


@dataclass(frozen=True)
class Points:
    """Drafted tokens that a run looked at: (entropy in nats before them, the target's probability of them), and which
    of them its own rule accepted.
    """

    places: list[tuple[float, float]]
    accepted: list[bool]


class Traces:
    def __init__(self, services: Services) -> None:
        self._store = services.store
        self._kept: OrderedDict[str, Points] = OrderedDict()

    def runs(self) -> list[dict[str, str]]:
        """[{id, label}] of sampled runs, the newest first: at T = 0 every rule takes the best token and no other."""
        if self._store is None:
            return []
        found = []
        for run in self._store.list_runs(RunFilter(status="finished"), limit=LOOKED_BACK):
            temperature = (run.settings.get("request") or {}).get("temperature") or 0.0
            if temperature > 0 and run.num_drafted and not run.traces_pruned:
                prompt = textwrap.shorten(run.prompt_start, LABEL, placeholder=" …")
                found.append({"id": run.id, "label": f"{run.drafter_name}, T = {temperature:g}: {prompt}"})
        return found

    def typical(self, run_id: str, asked: Typical) -> dict[str, Any]:
        """{points: [[entropy, probability, inside]], inside, accepted, of}: shares of all, at most SHOWN points.

        Raises HeadwayError for a run without them and StoreError for one that is not there.
        """
        found = self._points(run_id)
        inside = typical_accepts(found.places, asked.epsilon, asked.delta)
        every = max(1, -(-len(inside) // SHOWN))
        shown = [
            [round(entropy, 3), round(probability, 4), taken]
            for (entropy, probability), taken in zip(found.places, inside, strict=True)
        ][::every]
        count = len(inside)
        return {"points": shown, "inside": sum(inside) / count, "accepted": sum(found.accepted) / count, "of": count}

    def _points(self, run_id: str) -> Points:
        if self._store is None:
            raise HeadwayError("Nothing is stored here; start Headway with a database to see runs.")
        if run_id not in self._kept:
            found = _points(step["tree"] for step in self._store.steps(run_id, 0, STEPS_READ) if step.get("tree"))
            if not found.places:
                raise HeadwayError("That run keeps no trees with entropies; start it once more on the Live page.")
            self._kept[run_id] = found
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return self._kept[run_id]


def _points(trees: Iterable[dict[str, Any]]) -> Points:
    places: list[tuple[float, float]] = []
    accepted: list[bool] = []
    for tree in trees:
        entropies = tree.get("entropies")
        for column, parent in enumerate(tree["parents"] if entropies else ()):
            probability, verdict = tree["target_probs"][column], tree["verdicts"][column]
            if parent >= 0 and probability is not None and verdict in REACHED:
                places.append((float(entropies[parent]), float(probability)))
                accepted.append(verdict == ACCEPTED)
    return Points(places, accepted)
