"""What the Learn page shows: every figure computed by backend/analysis, from the numbers a person set. Knows no HTTP.

The toy world needs PyTorch, which the dashboard's process does not load, so it runs as the command `toy`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from backend.analysis.chooser import Adapters, Quality, Situation, Weights, choose
from backend.analysis.layout import layout, paths_from
from backend.analysis.theory import (
    DEVICES,
    Device,
    ModelSize,
    best_depth,
    chain_length,
    chain_speedups,
    free_nodes,
    pass_cost,
    paying_batch,
    product_length,
    speedup,
    typical_threshold,
)
from backend.errors import HeadwayError
from backend.guide import guide
from dashboard.presenters.validation import first_problem

ROOT = Path(__file__).resolve().parents[1]
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
TOY_TIMEOUT_S = 600
Rate = Annotated[float, Field(ge=0, le=1)]


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


_Kind = TypeVar("_Kind", bound=_Asked)


class Gain(_Asked):
    """A chain of drafted tokens: acceptance at each depth, and what drafting, checking and the rest cost."""

    rates: tuple[Rate, ...] = Field((0.75, 0.65, 0.6, 0.55, 0.5, 0.45), min_length=1, max_length=12)
    draft: float = Field(0.06, ge=0, le=2)
    per_row: float = Field(0.03, ge=0, le=2)
    overhead: float = Field(0.04, ge=0, le=2)


class Examples(_Asked):
    """The two worked examples."""

    chain: tuple[Rate, ...] = Field((0.6, 0.4, 0.3), min_length=1, max_length=12)
    widths: tuple[Annotated[int, Field(ge=1, le=64)], ...] = Field((3, 2, 1), min_length=1, max_length=6)
    within: tuple[Rate, ...] = Field((0.8, 0.55, 0.3), min_length=1, max_length=6)


class Tree(_Asked):
    """A tree as a person writes it."""

    text: str = Field("[[0], [1], [0, 0], [0, 1]]", max_length=4000)


class Roofline(_Asked):
    """A model on a device, and a drafter beside it.

    bandwidth, operations: what was measured, in place of the device's data sheet. parameters, cache_values,
    attention_width: of the measured model, in place of the sizes before them; see analysis.theory.ModelSize.
    """

    device: str = "NVIDIA H100 SXM"
    billions: float = Field(8.0, gt=0, le=2000)
    layers: int = Field(32, ge=1, le=512)
    heads: int = Field(32, ge=1, le=512)
    kv_heads: int = Field(8, ge=1, le=512)
    head_width: int = Field(128, ge=8, le=1024)
    bytes_per_weight: float = Field(2.0, gt=0, le=8)
    context: int = Field(2048, ge=0, le=10_000_000)
    nodes: int = Field(16, ge=1, le=512)
    length: float = Field(2.5, ge=1, le=64)
    draft: float = Field(0.15, ge=0, le=10)
    bandwidth: float = Field(0.0, ge=0)
    operations: float = Field(0.0, ge=0)
    parameters: float = Field(0.0, ge=0)
    cache_values: float = Field(0.0, ge=0)
    attention_width: float = Field(0.0, ge=0)


class Typical(_Asked):
    """The two thresholds of typical acceptance."""

    epsilon: Rate = 0.09
    delta: Rate = 0.3


class Choosing(_Asked):
    """The six questions of the chooser."""

    weights: Weights = "own"
    fine_tunes: int = Field(1, ge=0, le=1000)
    adapters: Adapters = "none"
    batch: int = Field(1, ge=1, le=4096)
    temperature: float = Field(0.0, ge=0, le=5)
    quality: Quality = "exact"


def gain(asked: Gain) -> dict[str, Any]:
    """{points: [{depth, acceptance_length, speedup}], best, parts of the best depth's step in plain steps}."""
    points = chain_speedups(asked.rates, asked.draft, asked.per_row, asked.overhead)
    best = best_depth(points)
    depth = best.depth
    return {
        "points": [
            {"depth": one.depth, "acceptance_length": one.acceptance_length, "speedup": one.speedup} for one in points
        ],
        "best": depth,
        "parts": {
            "verify": 1 + asked.per_row * depth,
            "draft": asked.draft * depth,
            "overhead": asked.overhead if depth else 0.0,
        },
    }


def examples(asked: Examples) -> dict[str, Any]:
    """{chain, product, nodes}. Raises HeadwayError when the tree has not one width a rate."""
    if len(asked.widths) != len(asked.within):
        raise HeadwayError("Give as many widths as rates: one of each for every depth of the tree.")
    length, nodes = product_length(asked.widths, asked.within)
    return {"chain": chain_length(asked.chain), "product": length, "nodes": nodes}


def tree(asked: Tree) -> dict[str, Any]:
    """The fields of Layout, and `choices`: the paths in Medusa's notation. Raises HeadwayError for what is no tree."""
    found = layout(paths_from(asked.text))
    return asdict(found) | {"choices": json.dumps([list(path) for path in found.paths])}


def roofline(asked: Roofline) -> dict[str, Any]:
    """{devices, plain_ms, limited_by, free, paying_batch, curve: [{batch, speedup, limited_by, free}], balance}."""
    seen = asked.bandwidth and asked.operations
    device = Device(asked.device, asked.bandwidth, asked.operations) if seen else _device(asked.device)
    model = ModelSize(
        parameters=asked.parameters or asked.billions * 1e9,
        cache_values=asked.cache_values or 2.0 * asked.layers * asked.kv_heads * asked.head_width,
        attention_width=asked.attention_width or 1.0 * asked.layers * asked.heads * asked.head_width,
        bytes_per_weight=asked.bytes_per_weight,
        bytes_per_cache_value=max(2.0, asked.bytes_per_weight) if seen else 2.0,
    )
    alone = pass_cost(model, device, 1, 1, asked.context)
    return {
        "devices": [one.name for one in DEVICES],
        "plain_ms": 1000 * alone.time_s,
        "reading_ms": 1000 * alone.reading_s,
        "computing_ms": 1000 * alone.computing_s,
        "limited_by": alone.limited_by,
        "free": free_nodes(model, device, 1, asked.context),
        "paying_batch": paying_batch(model, device, asked.length, asked.nodes, asked.draft, asked.context),
        "curve": [_at_batch(model, device, batch, asked) for batch in BATCHES],
        "balance": device.balance,
    }


def _at_batch(model: ModelSize, device: Device, batch: int, asked: Roofline) -> dict[str, Any]:
    plain = pass_cost(model, device, 1, batch, asked.context)
    verify = pass_cost(model, device, asked.nodes + 1, batch, asked.context)
    return {
        "batch": batch,
        "speedup": speedup(asked.length, verify.time_s / plain.time_s, asked.draft),
        "limited_by": verify.limited_by,
        "free": free_nodes(model, device, batch, asked.context),
    }


def _device(name: str) -> Device:
    for device in DEVICES:
        if device.name == name:
            return device
    raise HeadwayError(f"No device is called {name[:40]!r} here; choose one of the list.")


def typical(asked: Typical) -> dict[str, Any]:
    """{curve: [[entropy in nats, probability a token needs]]}."""
    entropies = [place / 20 for place in range(0, 161)]
    return {"curve": [[entropy, typical_threshold(entropy, asked.epsilon, asked.delta)] for entropy in entropies]}


def chosen(asked: Choosing) -> dict[str, Any]:
    """{families: [{family, name, points, reasons: [{text, link, speaks_for}]}], rule, notes}."""
    choice = choose(Situation(**asked.model_dump()))
    known = guide().families
    families = [{"name": known[one.family].name, **asdict(one)} for one in choice.families]
    return {"families": families, "rule": choice.rule, "notes": [asdict(one) for one in choice.notes]}


def toy(seed: int) -> dict[str, Any]:
    """The toy world's rows, from the command. Raises HeadwayError with the command's own sentence."""
    command = [sys.executable, str(ROOT / "app.py"), "toy", "--seed", str(seed), "--json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TOY_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise HeadwayError("The toy world took too long on this machine; try again when it is less busy.") from None
    if done.returncode:
        raise HeadwayError(
            done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "The toy world ended early."
        )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


#: name in the address -> (what may be asked, what answers)
FIGURES: Mapping[str, tuple[type[_Asked], Callable[[Any], dict[str, Any]]]] = {
    "gain": (Gain, gain),
    "examples": (Examples, examples),
    "tree": (Tree, tree),
    "roofline": (Roofline, roofline),
    "typical": (Typical, typical),
    "choose": (Choosing, chosen),
}


def figure(name: str, query: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """A figure for an address's query; lists are written with commas. Raises HeadwayError."""
    if name not in FIGURES:
        raise HeadwayError(f"The Learn page has no figure “{name[:40]}”.")
    kind, act = FIGURES[name]
    values: dict[str, Any] = dict(query)
    for field in ("rates", "chain", "widths", "within"):
        if field in values:
            values[field] = [part for part in values[field].split(",") if part.strip()]
    asked = asked_of(kind, values)
    return act(asked) | {"asked": asked.model_dump()}


def asked_of(kind: type[_Kind], values: Mapping[str, Any]) -> _Kind:
    """The settings of a figure. Raises HeadwayError with one sentence for what can't be."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise HeadwayError(first_problem(error)) from None
