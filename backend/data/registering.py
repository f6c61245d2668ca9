"""What the store is told of a data set: counts, hash, licence note, and where it comes from. Pure: no store, no clock.

`DatasetEntry.arguments()` are those of `Store.register_dataset`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backend.data.scanning import PROMPTS, Scan

MAX_LICENCE = 500


@dataclass(frozen=True)
class DatasetEntry:
    """A data set as it is registered; the same hash and kind are the same data set.

    `details`: what `Scan` counted, as JSON. `lineage`: what it was made of: `prompts` {name: hash}, `settings`, `job`;
    or `split_of` {name, hash} with `side` and `fraction`; empty for a file that was brought.
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
    prompts: Mapping[str, str], settings: Mapping[str, Any], job_id: str | None = None, **more: Any
) -> dict[str, Any]:
    """Where distilled answers come from: `prompts` are content hashes by file name, `settings` a DistillConfig as JSON,
    `more` says how it was done (command, packages, commit)."""
    made = {**more, "prompts": dict(prompts), "settings": dict(settings)}
    return made | ({"job": job_id} if job_id else {})


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
        name = f"version {version['weights_id'][:12]}"
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return answers_lineage({}, answering, version={**version, "name": name})


def lineage_sentence(kind: str, lineage: Mapping[str, Any], version: str = "", temperatures: Sequence[Any] = ()) -> str:
    """“prompts X → answers by version Z at T = 0, 1”, for lists and reports.

    `version`: the label of who answered, `temperatures`: those found in the answers, where the lineage itself has none.
    """
    if "split_of" in lineage:
        share = f"{100 * float(lineage.get('fraction', 0)):g} %"
        return f"{lineage.get('side', 'part')} side of {lineage['split_of'].get('name', 'a file')} ({share} held out)"
    if kind == PROMPTS:
        return "brought as a file"
    names = " + ".join(lineage.get("prompts") or ())
    sources = f"prompts {names}" if names else "unknown prompts"
    who = version or str((lineage.get("version") or {}).get("name") or "an unknown version")
    found = (lineage.get("settings") or {}).get("temperatures") or temperatures
    heat = ", ".join(f"{float(value):g}" for value in found) or "unknown"
    return f"{sources} → answers by {who} at T = {heat}"
