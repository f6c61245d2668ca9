"""What a race was and how it ended, read from the events of its lanes' runs.

Knows the engine's interface and records, no model: pages and the command line read races with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from backend.analysis.standing import lane_of, standing
from backend.engine.protocol import Engine, Event

LAST_KINDS = frozenset({"result", "failed", "cancelled"})
NAMES = {"none": "plain decoding", "ngram": "n-gram lookup", "builtin-medusa": "built-in Medusa heads"}


def read_standing(engine: Engine, lanes: Mapping[str, str]) -> dict[str, Any] | None:
    """How the race stands, see analysis.standing; None while a lane goes on. `lanes`: letter -> run.

    Raises HeadwayError for a run that is not there any more.
    """
    found = []
    for letter, run_id in lanes.items():
        conditions, last = _ends(engine.events(run_id, timeout_s=0.1))
        if last is None:
            return None
        found.append(lane_of(letter, conditions, last.data if last.kind == "result" else None))
    return standing(found)


def _ends(events: Iterable[Event]) -> tuple[dict[str, Any], Event | None]:
    """The conditions a run started under, and its last event when it is over."""
    conditions: dict[str, Any] = {}
    last = None
    for event in events:
        if event.kind == "started":
            conditions = event.data["conditions"]
        last = event
    return conditions, last if last is not None and last.kind in LAST_KINDS else None


def lane_names(requests: Sequence[Mapping[str, Any]]) -> list[str]:
    """Each lane in a few words, such as "built-in Medusa heads · chain-4": its drafter and whatever tells it from the
    others.
    """
    several = {
        name for name in ("target", "temperature", "rule", "seed") if len({one.get(name) for one in requests}) > 1
    }
    return [_name(one, several) for one in requests]


def _name(request: Mapping[str, Any], several: set[str]) -> str:
    drafter = str(request.get("drafter", ""))
    words = [NAMES.get(drafter) or (Path(drafter).name if "/" in drafter else drafter)]
    if request.get("tree") and drafter != "none":
        tree = str(request["tree"])
        words.append(tree if len(tree) <= 18 else f"{tree[:17]}…")
    if request.get("max_depth") is not None:
        words.append(f"depth {request['max_depth']}")
    if "temperature" in several or request.get("temperature"):
        words.append(f"T {request.get('temperature', 0.0):g}")
    if request.get("rule") == "typical" and request.get("temperature"):
        words.append("typical")
    if "seed" in several:
        words.append(f"seed {request.get('seed')}")
    if "target" in several:
        target = str(request.get("target", ""))
        words.append(Path(target).name or target)
    return " · ".join(words)
