"""What the store is told of a data set: counts, hash, licence note, and where it comes from. Pure: no store, no clock.

`DatasetEntry.arguments()` are those of `Store.register_dataset`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backend.data.scanning import ANSWERS, PROMPTS, Scan

MAX_LICENCE = 500


@dataclass(frozen=True)
class DatasetEntry:
    """A data set as it is registered; the same hash and kind are the same data set.

    `details`: what `Scan` counted, as JSON. `lineage`: what it was made of: `prompts` [{name, hash}], `version`,
    `temperatures`, `job`; or `split_of` {name, hash} with `side` and `fraction`; empty for a file that was brought.
    """

    kind: str
    name: str
    path: str
    content_hash: str
    num_rows: int
    num_broken: int
    details: dict[str, Any]
    licence: str = ""
    version_id: str | None = None
    lineage: dict[str, Any] = field(default_factory=dict)

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments for `Store.register_dataset`."""
        names = ("kind", "name", "path", "content_hash", "num_rows", "num_broken", "details", "licence", "version_id")
        return {name: getattr(self, name) for name in names} | {"lineage": dict(self.lineage)}


def dataset_entry(
    scan: Scan,
    name: str = "",
    licence: str = "",
    version_id: str | None = None,
    lineage: Mapping[str, Any] | None = None,
) -> DatasetEntry:
    """The entry of a scanned file. `name`: the file's own name where none is given."""
    return DatasetEntry(
        kind=scan.kind,
        name=" ".join(name.split())[:200] or Path(scan.path).stem,
        path=scan.path,
        content_hash=scan.content_hash,
        num_rows=scan.num_rows,
        num_broken=scan.num_broken,
        details=details_of(scan),
        licence=licence.strip()[:MAX_LICENCE],
        version_id=version_id,
        lineage=dict(lineage or {}),
    )


def details_of(scan: Scan) -> dict[str, Any]:
    """The counts of a scan as plain JSON."""
    return {
        "num_bytes": scan.num_bytes, "categories": dict(scan.categories), "lengths": list(scan.lengths),
        "length_unit": scan.length_unit, "places": list(scan.places),
        "broken": [list(pair) for pair in scan.broken], **scan.more,
    }  # fmt: skip


def answers_lineage(
    prompts: Sequence[Scan | Mapping[str, Any]],
    version: Mapping[str, Any],
    settings: Mapping[str, Any],
    job_id: str | None = None,
) -> dict[str, Any]:
    """Where distilled answers come from: which prompts, who answered, and how.

    `prompts`: scans, or {name, hash}. `version`: at least `name`. `settings`: a DistillConfig as JSON.
    """
    sources = [
        {"name": Path(one.path).stem, "hash": one.content_hash} if isinstance(one, Scan) else dict(one)
        for one in prompts
    ]
    kept = ("temperatures", "max_new_tokens", "seed", "turns", "system")
    known = {name: settings[name] for name in kept if settings.get(name) is not None}
    return {"prompts": sources, "version": dict(version), **known} | ({"job": job_id} if job_id else {})


def split_lineage(source: DatasetEntry | Mapping[str, Any], side: str, fraction: float) -> dict[str, Any]:
    """Where one side of a split comes from; `side` is training or held-out."""
    given = {"name": source.name, "hash": source.content_hash} if isinstance(source, DatasetEntry) else dict(source)
    return {"split_of": given, "side": side, "fraction": fraction}


def lineage_beside(path: str | Path) -> dict[str, Any]:
    """The lineage of answers made on the command line, from the note that `distill` keeps beside its file; else {}."""
    note = Path(f"{path}.job.json")
    try:
        job = json.loads(note.read_text(encoding="utf-8"))
        version, answering = dict(job["version"]), dict(job["answering"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return answers_lineage((), {"name": f"version {str(version['weights_id'])[:12]}", **version}, answering)


def lineage_sentence(kind: str, lineage: Mapping[str, Any], name: str = "") -> str:
    """“prompts X → answers by version Z at T = 0, 1”, for lists and reports; how a brought file is told as well."""
    if "split_of" in lineage:
        share = f"{100 * float(lineage.get('fraction', 0)):g} %"
        return f"{lineage.get('side', 'part')} side of {lineage['split_of'].get('name', 'a file')} ({share} held out)"
    if kind == PROMPTS:
        return "brought as a file"
    sources = " + ".join(str(one.get("name", "?")) for one in lineage.get("prompts", ())) or "unknown prompts"
    who = str((lineage.get("version") or {}).get("name") or "an unknown version")
    heat = ", ".join(f"{float(value):g}" for value in lineage.get("temperatures", ())) or "unknown"
    made = f"{kind if kind != ANSWERS else 'answers'} {name}".strip()
    return f"prompts {sources} → {made} by {who} at T = {heat}"
