"""What the front page says: how far each version is, and the next sensible action. Pure functions of records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: the way of a version, and which finished jobs prove a stage
STAGES = ("data", "trained", "tuned", "checked", "exported")
PROOFS: dict[str, tuple[str, ...]] = {
    "data": ("distill",),
    "trained": ("train", "joint"),
    "tuned": ("calibrate", "sweep", "tune"),
    "checked": ("evaluate",),
    "exported": ("export",),
}
#: stage that is missing -> (what to do, page, sentence)
NEXT: dict[str, tuple[str, str, str]] = {
    "data": ("Make training data", "/data", "Let {name} answer prompts: draft heads learn from its own words."),
    "trained": ("Train draft heads", "/train", "{name} has training data; heads that learn from it come next."),
    "tuned": ("Find the fastest tree", "/trees", "{name} has heads; measure which draft tree is fastest here."),
    "checked": ("Evaluate the heads", "/evaluate", "{name} has heads; measure what they bring on prompts like yours."),
    "exported": ("Export", "/export", "{name} is checked; hand its heads to the engine that serves it."),
}
WATCH = {
    "distill": "/data",
    "train": "/train",
    "joint": "/train",
    "evaluate": "/evaluate",
    "calibrate": "/trees",
    "cost": "/trees",
    "sweep": "/sweep",
    "vllm": "/serve",
    "load-test": "/serve",
    "compare-serving": "/serve",
}


@dataclass(frozen=True)
class Known:
    """What the store holds, as the front page needs it."""

    versions: Sequence[Any] = ()
    drafters: Sequence[Any] = ()
    datasets: Sequence[Any] = ()
    finished_jobs: Sequence[Any] = ()
    running_job: Any = None
    num_runs: int = 0


def version_rows(known: Known) -> list[dict[str, Any]]:
    """One row a version: [{id, label, source, parameters, stages: [{name, done, count, note}]}]."""
    return [
        {
            "id": version.id,
            "label": version.label,
            "source": version.source,
            "parameters": version.num_parameters,
            "stages": _stages(version.id, known),
        }
        for version in known.versions
    ]


def _stages(version_id: str, known: Known) -> list[dict[str, Any]]:
    drafters = [one for one in known.drafters if one.version_id == version_id]
    datasets = [one for one in known.datasets if one.version_id == version_id]
    from_answers = [one for one in drafters if (one.lineage or {}).get("answers")]
    notes = {
        "data": _names([*(one.name for one in datasets), *(str(one.lineage["answers"]) for one in from_answers)]),
        "trained": _names([one.name for one in drafters]),
    }
    jobs: Mapping[str, list[str]] = {
        stage: [job.name for job in known.finished_jobs if job.version_id == version_id and job.kind in PROOFS[stage]]
        for stage in STAGES
    }
    made = []
    for stage in STAGES:
        note = notes.get(stage) or _names(jobs[stage])
        made.append({"name": stage, "done": bool(note), "note": note})
    return made


def _names(names: Iterable[str]) -> str:
    """Up to three of them in words; empty for none."""
    different = list(dict.fromkeys(names))
    more = f" and {len(different) - 3} more" if len(different) > 3 else ""
    return ", ".join(different[:3]) + more


def next_action(known: Known, pages: Sequence[str]) -> dict[str, Any]:
    """{sentence, label, href}: what a person would do now; only pages that exist are offered."""
    job = known.running_job
    if job is not None and WATCH.get(job.kind) in pages:
        return {
            "sentence": f"{job.name} is running.",
            "label": "Watch it",
            "href": f"{WATCH[job.kind]}?job={job.id}",
        }
    for version in version_rows(known):
        for stage in version["stages"]:
            label, page, sentence = NEXT[stage["name"]]
            if not stage["done"] and page in pages:
                return {
                    "sentence": sentence.format(name=version["label"]),
                    "label": label,
                    "href": f"{page}?version={version['id']}",
                }
    return {"sentence": "Watch a draft tree grow at every step.", "label": "Decode live", "href": "/live"}


def is_first_visit(known: Known) -> bool:
    """Nothing was ever run, trained or queued here."""
    return not (known.num_runs or known.finished_jobs or known.running_job or known.datasets)
