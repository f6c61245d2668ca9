"""What an engine has on its bench: the loaded target, and drafters made for it.

One target at a time: loading another one lets go of the first. Knows how to get from a request to (target, drafter);
runs nothing.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import torch

from backend.drafters.base import Drafter
from backend.drafters.checkpoint import META, read_meta
from backend.drafters.plain.drafter import PlainDrafter
from backend.drafters.registry import builtin_specs, folder_of, load_drafter, tree_of, with_tree
from backend.engine.conditions import wanted_tree
from backend.engine.cost import drafting_costs
from backend.engine.lease import one_name
from backend.engine.protocol import DecodeRequest
from backend.errors import HeadwayError
from backend.settings import Settings
from backend.targets.opening import open_target
from backend.targets.target import Target

Progress = Callable[[float, str], None]


class Workbench:
    """Not thread safe: used by the engine's one worker."""

    def __init__(
        self,
        settings: Settings,
        device: str | None,
        dtype: str | None,
        trust_remote_code: bool,
        measures_costs: bool = False,
    ) -> None:
        self._measures = measures_costs
        self._settings, self._device, self._dtype, self._trust = settings, device, dtype, trust_remote_code
        self._target: Target | None = None
        self.device = lease_place(device)  #: in words, for people; known for certain once a target is loaded
        #: (target, drafter) -> drafting time in plain steps, as measured here
        self.costs: dict[tuple[str, str], float] = {}
        self._drafters: dict[tuple[str, bool, str], tuple[Drafter, list[str]]] = {}

    @property
    def loaded(self) -> str | None:
        return self._target.name if self._target else None

    def target(self, name: str, progress: Progress, context: int | None = None) -> Target:
        """The target called `name`, loaded if it isn't; `context` tokens are what memory is told and checked for."""
        if self._target is None or self._target.name != name:
            self.clear()
            self._target = self._open(name, lambda fraction, sentence: progress(0.95 * fraction, sentence), context)
            self.device = str(self._target.device)
            if self._measures:
                progress(0.97, "Measuring what drafting costs.")
                self._measure_costs(self._target)
            progress(1.0, f"{name} is ready.")
        return self._target

    def clear(self) -> None:
        """Let go of target and drafters, and give their memory back to the system."""
        self._target, self._drafters = None, {}
        give_back_memory()

    def drafter(self, request: DecodeRequest, target: Target) -> tuple[Drafter, list[str]]:
        """The request's drafter with the request's tree, and warnings to show."""
        key = (request.drafter.strip(), request.force, _weights_of(request.drafter))
        if key not in self._drafters:
            self._drafters[key] = load_drafter(
                request.drafter,
                target,
                force=request.force,
                open_target=lambda name: self._open(name, lambda fraction, sentence: None),
            )
        drafter, warnings = self._drafters[key]
        tree = wanted_tree(request)
        if request.max_depth is not None:
            tree = (tree or tree_of(drafter)).cut(request.max_depth)
        if tree is not None and not tree.num_nodes and drafter.family != "none":
            return PlainDrafter(), [*warnings, "With a depth of 0 nothing is drafted: this is plain decoding."]
        if tree is not None and (drafter.family != "none" or request.tree):
            drafter = with_tree(drafter, tree)
        return drafter.with_sampled(request.sampled), warnings

    def _measure_costs(self, target: Target) -> None:
        """Of the drafters that need nothing loaded but heads; others are measured by the first run that uses them."""
        found: dict[str, Drafter] = {}
        for spec in ("ngram", *builtin_specs()):
            with suppress(HeadwayError):  # the built-in heads belong to one target only
                found[spec] = load_drafter(spec, target)[0]
        with suppress(HeadwayError):  # a target whose context is too short for the text it is measured on
            for spec, cost in zip(found, drafting_costs(target, list(found.values())), strict=True):
                self.costs[target.name, spec] = cost

    def _open(self, name: str, progress: Progress, context: int | None = None) -> Target:
        return open_target(name, self._settings, self._device, self._dtype, self._trust, progress, context)


def give_back_memory() -> None:
    """What nothing refers to any more goes back to the system, where allocators would keep it for later."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    if sys.platform.startswith("linux"):
        with suppress(OSError, AttributeError):  # another C library than glibc
            ctypes.CDLL(None).malloc_trim(0)


def lease_place(device: str | None) -> str:
    """The device whose lease work on `device` needs, without touching it; None is the best there is."""
    if device is not None and device != "auto":
        return one_name(device)
    if torch.cuda.is_available():
        return one_name("cuda")
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _weights_of(spec: str) -> str:
    """The hash of the heads that `spec` names now, so that heads trained anew into the same folder are loaded anew."""
    folder = folder_of(spec)
    try:
        return read_meta(folder).weights_sha256 if folder is not None else ""
    except HeadwayError:
        return ""  # loading says what is wrong


def known_drafters(settings: Settings) -> list[dict[str, Any]]:
    """What can draft, without loading weights: the built-in heads, the home folder's, and those that need no
    training.
    """
    found = []
    for spec, folder in [*((spec, folder_of(spec)) for spec in builtin_specs()), *_home_folders(settings)]:
        if folder is None or not (folder / META).is_file():
            continue
        try:
            meta = read_meta(folder)
        except HeadwayError:
            continue
        target = str(meta.lineage.get("target", ""))
        found.append({"spec": spec, "name": meta.name, "family": meta.family, "target": target, "tree": meta.tree})
    for spec, name in (("ngram", "n-gram lookup in the text so far"), ("none", "none: plain decoding")):
        found.append({"spec": spec, "name": name, "family": spec, "target": "", "tree": []})
    return found


def offered_drafters(settings: Settings, target: str, costs: Mapping[tuple[str, str], float]) -> list[dict[str, Any]]:
    """The known drafters and those that were used with `target` here, each with its measured cost or None."""
    known = known_drafters(settings)
    specs = {one["spec"] for one in known}
    for used_with, spec in costs:
        if used_with == target and spec not in specs:
            known.append({"spec": spec, "name": spec, "family": "used", "target": "", "tree": []})
    return [one | {"cost": costs.get((target, one["spec"]))} for one in known]


def _home_folders(settings: Settings) -> list[tuple[str, Any]]:
    folder = settings.drafters
    return [(str(path), path) for path in sorted(folder.iterdir())] if folder.is_dir() else []
