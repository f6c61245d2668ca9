"""Under what a calibration or a cost curve was measured, and whether two of them belong together and belong here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import torch

from backend.drafters.base import Drafter
from backend.drafters.checkpoint import read_meta
from backend.drafters.registry import folder_of
from backend.engine.conditions import device_name, drafted_with, measured_on
from backend.errors import HeadwayError
from backend.targets.target import Target


def measured_with(target: Target, spec: str, drafter: Drafter) -> dict[str, Any]:
    """As plain JSON."""
    folder = folder_of(spec)
    more = {
        "config": read_meta(folder).config if folder is not None else None,  # decides what drafting costs
        "tree_paths": drafter.shape.to_json(),
        "grows": hasattr(drafter, "with_dynamic"),
    }
    found = {"target": target.name, **measured_on(target), "drafter": drafted_with(spec, drafter) | more}
    plain: dict[str, Any] = json.loads(json.dumps(found))
    return plain


def check_here(cost: Mapping[str, Any]) -> None:
    """Raises HeadwayError for a cost curve of another device or number of threads, and for one that is contended."""
    if "device" not in cost:
        return  # written by hand: whoever wrote it knows where it holds
    if cost.get("contended"):
        raise HeadwayError(
            "The cost curve was measured while another program had the device, so it chooses no tree; measure again."
        )
    here = device_name(_device(str(cost["device"])))
    threads = torch.get_num_threads()
    if cost["device"] != here or (here.startswith("cpu") and cost.get("threads") != threads):
        raise HeadwayError(
            f"The cost curve was measured on {cost['device']} with {cost.get('threads')} threads, and this is {here} "
            f"with {threads}; measure one here with `cost`."
        )


def check_together(calibration: Mapping[str, Any], cost: Mapping[str, Any]) -> None:
    """Raises HeadwayError when a calibration and a cost curve are not of the same target, dtype and drafter."""
    if "device" not in cost:
        return
    for key, words in (("version", "target version"), ("dtype", "dtype")):
        if calibration.get(key) != cost.get(key):
            raise HeadwayError(
                f"The cost curve was measured with another {words} than the calibration; measure both with the same."
            )
    ours, theirs = calibration.get("drafter", {}), cost.get("drafter", {})
    shapes = [drafter.get("config") for drafter in (ours, theirs)]
    if ours.get("family") != theirs.get("family") or (all(shapes) and shapes[0] != shapes[1]):
        raise HeadwayError(
            f"The cost curve is of {theirs.get('name')} and the calibration of {ours.get('name')}, which differ "
            "in what drafting costs; measure the cost with the drafter that was calibrated."
        )


def _device(words: str) -> torch.device:
    kind = words.partition(" ")[0]
    if kind.startswith("cuda") and torch.cuda.is_available():
        return torch.device(kind if kind != "cuda" else "cuda:0")
    return torch.device("cpu")
