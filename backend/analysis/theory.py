"""What speculative decoding can gain, from a few numbers: the formulas behind the Learn page, each with its source.

Pure functions of numbers. Knows no model, no record and no device but the ones described to it. A *step* is one draft,
one verification pass and one commit; times are in units of a plain decoding step unless they end in `_s`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


def chain_length(conditional: Sequence[float]) -> float:
    """Expected acceptance length of a chain: 1 + a1 + a1 a2 + ...

    conditional: chance that depth d is accepted when d - 1 was (Leviathan et al., arXiv 2211.17192, section 3.1, for
    one rate at every depth). Raises ValueError for a rate outside [0, 1].
    """
    _check_rates(conditional)
    total = reached = 1.0
    for rate in conditional:
        reached *= rate
        total += reached
    return total


def product_length(widths: Sequence[int], within: Sequence[float]) -> tuple[float, int]:
    """Expected acceptance length and number of candidate nodes of a full product tree.

    widths: candidates at each depth; within: chance that the right token is among the candidates of a depth, when the
    path before was right (Medusa, arXiv 2401.10774, section 2.1.2). Raises ValueError.
    """
    if len(widths) != len(within) or any(width < 1 for width in widths):
        raise ValueError(f"every depth needs a width of at least 1 and a rate; got {list(widths)} and {list(within)}")
    nodes, level = 0, 1
    for width in widths:
        level *= width
        nodes += level
    return chain_length(within), nodes


def speedup(acceptance_length: float, verify: float, draft: float = 0.0, overhead: float = 0.0) -> float:
    """acceptance_length / (v + sum of drafting costs + overhead); v = 1 when nothing is drafted.

    (Leviathan et al., arXiv 2211.17192, theorem 3.8, with measured terms in place of one cost ratio.)
    """
    if verify <= 0 or draft < 0 or overhead < 0:
        raise ValueError(f"times are above 0; got v = {verify}, drafting {draft}, overhead {overhead}")
    return acceptance_length / (verify + draft + overhead)


@dataclass(frozen=True)
class DepthPoint:
    """A chain of `depth` drafted tokens: what it is expected to accept and to gain."""

    depth: int
    acceptance_length: float
    speedup: float


def chain_speedups(
    conditional: Sequence[float], draft: float, per_row: float, overhead: float = 0.0
) -> list[DepthPoint]:
    """Chains of depth 0 to K, one rate a depth.

    draft: cost of drafting one level; per_row: what each further row adds to the pass, v(N) = 1 + per_row N, which is
    how passes behave once weights are no longer what limits them.
    """
    points = []
    for depth in range(len(conditional) + 1):
        length = chain_length(conditional[:depth])
        cost = (1 + per_row * depth, draft * depth, overhead if depth else 0.0)
        points.append(DepthPoint(depth, length, speedup(length, *cost)))
    return points


def best_depth(points: Sequence[DepthPoint]) -> DepthPoint:
    """The fastest; of equals the shallowest."""
    return max(points, key=lambda point: (point.speedup, -point.depth))


def typical_threshold(entropy: float, epsilon: float, delta: float) -> float:
    """The probability a token needs under typical acceptance: min(epsilon, delta exp(-entropy)), entropy in nats
    (Medusa, arXiv 2401.10774, section 2.3.1).
    """
    return min(epsilon, delta * math.exp(-entropy))


def typical_accepts(points: Sequence[tuple[float, float]], epsilon: float, delta: float) -> list[bool]:
    """For drafted tokens [(entropy in nats before the token, the target's probability of it)]: which lie above the
    threshold, so that typical acceptance takes them where it reaches them.
    """
    return [probability > typical_threshold(entropy, epsilon, delta) for entropy, probability in points]


# -- roofline ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Device:
    """What a device can do at best. bandwidth: bytes a second from its memory; operations: multiplications and
    additions a second in the number format that is used, dense.
    """

    name: str
    bandwidth: float
    operations: float

    @property
    def balance(self) -> float:
        """Operations for every byte that is read, at which computing takes as long as reading."""
        return self.operations / self.bandwidth


#: Dense 16-bit rates and memory bandwidths of the makers' data sheets.
DEVICES: tuple[Device, ...] = (
    Device("NVIDIA T4", 320e9, 65e12),
    Device("NVIDIA L4", 300e9, 121e12),
    Device("NVIDIA L40S", 864e9, 362e12),
    Device("NVIDIA RTX 4090", 1008e9, 165e12),
    Device("NVIDIA A100 80 GB", 2039e9, 312e12),
    Device("NVIDIA H100 SXM", 3350e9, 989e12),
    Device("NVIDIA H200", 4800e9, 989e12),
    Device("AMD MI300X", 5300e9, 1307e12),
)


@dataclass(frozen=True)
class ModelSize:
    """What of a model decides the time of a pass.

    parameters: those multiplied for every token. cache_values: numbers a token leaves in the KV cache, 2 x layers x KV
    heads x head width. attention_width: layers x query heads x head width, what scores are summed over.
    """

    parameters: float
    cache_values: float
    attention_width: float
    bytes_per_weight: float = 2.0
    bytes_per_cache_value: float = 2.0


@dataclass(frozen=True)
class TimedPass:
    """A pass that was timed: `rows` tokens for each of `batch` sequences behind `context` tokens, in seconds."""

    rows: int
    batch: int
    context: int
    seconds: float


def measured_device(model: ModelSize, passes: Sequence[TimedPass], name: str) -> Device:
    """What a device was seen to reach with a model: the most bytes and the most operations a second of any pass.

    The roofs of Williams et al. (CACM 52(4), 2009) from measurements in place of data sheets: the narrowest pass shows
    how fast weights are read, the widest how fast is multiplied. Neither is a limit of the hardware: better kernels
    would show more. Raises ValueError without a pass.
    """
    if not passes:
        raise ValueError("a device is told from at least one timed pass")
    unknown = Device("", 1.0, 1.0)
    costs = [(pass_cost(model, unknown, one.rows, one.batch, one.context), one.seconds) for one in passes]
    return Device(
        name,
        max(cost.bytes / seconds for cost, seconds in costs),
        max(cost.operations / seconds for cost, seconds in costs),
    )


@dataclass(frozen=True)
class PassCost:
    """Bytes moved and operations done by one pass, and the time of the slower of the two at best."""

    bytes: float
    operations: float
    reading_s: float
    computing_s: float

    @property
    def time_s(self) -> float:
        return max(self.reading_s, self.computing_s)

    @property
    def limited_by(self) -> str:
        return "memory" if self.reading_s >= self.computing_s else "computing"


def pass_cost(model: ModelSize, device: Device, rows: int, batch: int = 1, context: int = 0) -> PassCost:
    """A pass of `rows` tokens for each of `batch` sequences that have `context` tokens already.

    Weights are read once whatever the rows; every row multiplies each weight once, 2 operations; every sequence reads
    its cache once, and every row compares with all of it, 4 operations a value of its width (Pope et al., arXiv
    2211.05102, sections 2 and 3.3). The best case: no kernel is this good. Raises ValueError.
    """
    if rows < 1 or batch < 1 or context < 0:
        raise ValueError(f"a pass has at least a row and a sequence; got {rows} rows, batch {batch}, context {context}")
    moved = (
        model.parameters * model.bytes_per_weight + batch * context * model.cache_values * model.bytes_per_cache_value
    )
    done = rows * batch * (2 * model.parameters + 4 * context * model.attention_width)
    return PassCost(moved, done, moved / device.bandwidth, done / device.operations)


def free_nodes(model: ModelSize, device: Device, batch: int = 1, context: int = 0, most: int = 4096) -> int:
    """Drafted nodes that ride along without making the pass longer: it still takes as long as reading does."""
    one = pass_cost(model, device, 1, batch, context)
    if one.computing_s >= one.reading_s:
        return 0
    return min(most, math.floor(one.reading_s / one.computing_s) - 1)


def paying_batch(
    model: ModelSize,
    device: Device,
    acceptance_length: float,
    nodes: int,
    draft: float = 0.0,
    context: int = 0,
    most: int = 4096,
) -> int:
    """Largest batch at which drafting `nodes` tokens a sequence still makes decoding faster; 0 when none does.

    draft: the drafting time of a step in units of a plain step. The gain falls with the batch, so the batch is found by
    halving.
    """  # fmt: skip

    def gain(batch: int) -> float:
        plain = pass_cost(model, device, 1, batch, context).time_s
        return speedup(acceptance_length, pass_cost(model, device, nodes + 1, batch, context).time_s / plain, draft)

    if gain(1) <= 1:
        return 0
    low, high = 1, most
    if gain(high) > 1:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if gain(middle) > 1 else (low, middle)
    return low


def _check_rates(rates: Sequence[float]) -> None:
    if any(not 0 <= rate <= 1 for rate in rates):
        raise ValueError(f"rates lie between 0 and 1; got {list(rates)}")
