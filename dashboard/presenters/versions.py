"""The registry of versions as the page shows it: versions with parents, drafters with their lineage. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from storage.records import DrafterRecord, VersionRecord

#: lineage of a drafter -> how it is said
LINEAGE = {
    "target": "made for",
    "answers": "learned from",
    "dataset_sha256": "answers' hash",
    "command": "command",
    "commit": "code",
    "seed": "seed",
    "started_from": "started from",
}


def version_list(
    versions: Sequence[VersionRecord], drafters: Sequence[DrafterRecord], evaluations: Sequence[Any] = ()
) -> list[dict[str, Any]]:
    """One entry a version, in the order given: identity, parent, labels, notes, drafters, its newest evaluations."""
    names = {one.id: one.label for one in versions}
    return [
        {
            "id": one.id,
            "label": one.label,
            "labels": list(one.tags),
            "parent": {"id": one.parent_id, "label": names.get(one.parent_id)} if one.parent_id else None,
            "source": one.source,
            "model_type": one.model_type,
            "parameters": one.num_parameters,
            "at": one.created_at.isoformat(),
            "notes": one.notes,
            "identity": {
                "weights": one.identity.weights_id[:12],
                "adapter": one.identity.adapter_id,
                "quantisation": one.identity.quantisation,
                "tokenizer": one.identity.tokenizer_id[:12],
                "template": None if one.identity.template_id == "none" else one.identity.template_id[:12],
            },
            "drafters": [drafter_row(each) for each in drafters if each.version_id == one.id],
            "evaluations": [
                {"id": job.id, "name": job.name, "status": job.status}
                for job in evaluations
                if job.version_id == one.id
            ][:5],
        }
        for one in versions
    ]


def drafter_row(one: DrafterRecord) -> dict[str, Any]:
    """A drafter and what it was made of; only what its lineage says."""
    lineage = [
        {"name": words, "value": str(one.lineage[key])} for key, words in LINEAGE.items() if one.lineage.get(key)
    ]
    packages = one.lineage.get("packages")
    if isinstance(packages, Mapping) and packages:
        lineage.append({"name": "packages", "value": ", ".join(f"{name} {value}" for name, value in packages.items())})
    return {
        "id": one.id,
        "name": one.name,
        "family": one.family,
        "path": one.path,
        "weights": one.weights_hash[:12],
        "at": one.created_at.isoformat(),
        "lineage": lineage,
    }
