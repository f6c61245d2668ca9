"""What the front page says: how far each version is, and the next sensible action. Pure functions of records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: the way of a version
STAGES = ("data", "trained", "tuned", "checked", "exported")
#: stage that is missing -> (what to do, page, sentence)
NEXT: dict[str, tuple[str, str, str]] = {
    "data": ("Make training data", "/data", "Let {name} answer prompts: draft heads learn from its own words."),
    "trained": ("Train draft heads", "/train", "{name} has training data; heads that learn from it come next."),
    "tuned": ("Find the fastest tree", "/trees", "{name} has heads; find and keep the tree that is fastest here."),
    "checked": (
        "Evaluate the heads",
        "/evaluate",
        "{name} has heads; measure what they bring, and that their answers are those of plain decoding.",
    ),
    "exported": ("Export", "/export", "{name} is checked; hand its heads to the engine that serves it."),
}
WATCH = {
    "distill": "/data",
    "train": "/train",
    "joint": "/train",
    "finetune": "/train",
    "evaluate": "/evaluate",
    "audit": "/audit",
    "doctor": "/doctor",
    "calibrate": "/trees",
    "cost": "/trees",
    "sweep": "/sweep",
    "tune-tree": "/trees",
    "export": "/export",
    "vllm": "/serve",
    "load-test": "/serve",
    "compare-serving": "/serve",
    "release": "/versions",
    "adapters": "/adapters",
    "watch": "/versions",
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
    own = [job for job in known.finished_jobs if job.version_id == version_id]
    made = []
    for stage in STAGES:
        note = notes.get(stage) or _names(filter(None, (PROOFS[stage](job) for job in own)))
        made.append({"name": stage, "done": bool(note), "note": note})
    return made


def _made_data(job: Any) -> str:
    return str(job.name) if job.kind == "distill" else ""


def _trained(job: Any) -> str:
    return str(job.name) if job.kind in ("train", "joint") else ""


def _tuned(job: Any) -> str:
    """A tree that was searched and kept, or a sweep that tried trees; a calibration alone says what to search with."""
    if job.kind == "tune-tree":
        result = job.result or {}
        count, drafter = result.get("num_nodes", 0), Path(str(result.get("drafter") or job.name)).name
        return f"{count} node{'' if count == 1 else 's'} for {drafter}" if count else f"no tree pays for {drafter}"
    return str(job.name) if job.kind == "sweep" and "tree" in (job.config.get("space") or {}) else ""


def _checked(job: Any) -> str:
    """An audit that found trained heads exact, or an evaluation that held their answers against plain decoding's, which
    is at temperature 0.
    """
    if job.kind == "audit" and _is_trained(str(job.config.get("drafter", "none"))):
        return f"{job.name}: exact" if (job.result or {}).get("verdict") == "exact" else ""
    if job.kind != "evaluate" or 0 not in job.config.get("temperatures", ()):
        return ""
    if not any(_is_trained(spec) for spec in job.config.get("drafters", ())):
        return ""
    rows = [row for row in (job.result or {}).get("rows", ()) if row.get("num_same") is not None]
    rows = [row for row in rows if _is_trained(str(row["contender"]).partition(" · ")[0])]
    same, compared = (sum(row[name] for row in rows) for name in ("num_same", "num_paired"))
    return f"{job.name}: {same} of {compared} answers the same" if compared else str(job.name)


def _exported(job: Any) -> str:
    """A folder that was written; what its check found is said with it."""
    if job.kind != "export":
        return ""
    findings = len(((job.result or {}).get("check") or {}).get("findings", ()))
    return str(job.name) + (f" ({findings} finding{'' if findings == 1 else 's'})" if findings else "")


def _is_trained(spec: str) -> bool:
    return spec not in ("none", "ngram") and not spec.startswith("draft:")


#: stage -> what a finished job says for it; empty where it proves nothing of the kind
PROOFS: Mapping[str, Callable[[Any], str]] = {
    "data": _made_data,
    "trained": _trained,
    "tuned": _tuned,
    "checked": _checked,
    "exported": _exported,
}


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
