"""Does this drafter, with this tree and rule, leave the target's output as it is? Evidence from real answers.

What was decoded is held against the model's own plain forward pass over the finished text: no cache, no tree, no mask
of ours. Three comparisons come out of it:

    greedy    at temperature 0 every token has to be the likeliest one after its prefix. Where it is not, the gap
              between the two logits tells a rounding tie from an error.
    passes    what the verification pass said of every drafted token under the accepted path, against the plain pass. A
              mask that sees too much or a cache entry in the wrong place shows here at once.
    sampling  above temperature 0 the tokens' ranks have to follow the plain pass's laws (see ranks.py), all together
              and by their depth in a step.

For a rule that is approximate by design the third is no question, and its drift is measured instead (drift.py). What
is kept of an answer is a plain dictionary, so that a job can go on where it was killed. `worlds` beside it samples the
same tree in a world of tables, where the exact law is known to the last digit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import torch
from torch import Tensor

from backend.acceptance import Rule, SamplingSettings, process_logits
from backend.analysis import table_world
from backend.analysis.drift import Drift, drift_of
from backend.analysis.ranks import Tally, detectable, p_value, positions_needed, quadratic, tally
from backend.decoding.loop import DecodeSettings, decode
from backend.decoding.records import DecodeResult, Detail, PrefillTrace, StepTrace
from backend.drafters.base import Drafter
from backend.targets.target import Target
from backend.trees import TreeShape

DEPTHS: Final = 4  #: tokens 1, 2, 3 of a step are looked at apart, and those further down together
WORLD_SAMPLES: Final = 40_000
WORLD_RANKS: Final = 16  #: a world of 32 tokens has no room for trees that are wider
WORLD_NODES: Final = 63


@dataclass(frozen=True)
class Tolerance:
    """What rounding may do. gap: between two logits that count as a tie; probability: between two passes."""

    gap: float
    probability: float

    @classmethod
    def of(cls, dtype: torch.dtype) -> Tolerance:
        return cls(1e-3, 1e-3) if dtype in (torch.float32, torch.float64) else cls(0.25, 0.05)


def greedy_answers(
    target: Target,
    drafter: Drafter,
    prompts: Mapping[int, Sequence[int]],
    new_tokens: int,
    batch: int,
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[int, dict[str, Any]]]:
    """(number of the prompt, what was found in its answer at temperature 0), as answers get ready.

    Each: tokens, equal, ties (another token within the tolerance), errors, largest_gap; first_error {place, token,
    best, gap} or None.
    """
    settings = DecodeSettings(new_tokens, Rule("greedy"))
    tolerance = Tolerance.of(target.dtype)
    for record in decode(target, drafter, list(prompts.values()), settings, batch, cancelled, list(prompts)):
        if isinstance(record, DecodeResult) and record.finish_reason != "cancelled":
            logits = target.plain_logits(prompts[record.row], record.tokens)
            yield record.row, _greedy(logits, record.tokens, tolerance)


def _greedy(logits: Tensor, tokens: Sequence[int], tolerance: Tolerance) -> dict[str, Any]:
    best = logits.argmax(-1)
    written = torch.tensor(tokens, device=logits.device)
    gaps = (logits.gather(1, best[:, None]) - logits.gather(1, written[:, None]))[:, 0].double()
    other = written != best
    wrong = other & (gaps > tolerance.gap)
    first = None
    if bool(wrong.any()):
        place = int(wrong.int().argmax())
        first = {"place": place, "token": tokens[place], "best": int(best[place]), "gap": float(gaps[place])}
    return {
        "tokens": len(tokens),
        "equal": int((~other).sum()),
        "ties": int((other & ~wrong).sum()),
        "errors": int(wrong.sum()),
        "largest_gap": float(gaps.max()) if len(tokens) else 0.0,
        "first_error": first,
    }


def sampled_answers(
    target: Target,
    drafter: Drafter,
    prompts: Mapping[int, Sequence[int]],
    settings: DecodeSettings,
    batch: int,
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[int, dict[str, Any]]]:
    """(number of the prompt, what was found in its answer at the settings' temperature), as answers get ready.

    Each: depths (a Tally as a dictionary, by depth in a step, DEPTHS of them), compared and off (drafted tokens whose
    probability the verification pass gave, and those of them where the plain pass gives another), largest_difference,
    drift (log-probabilities of accepted tokens, summed as drift.Drift), steps, accepted.
    """
    full = replace(settings, detail=Detail.FULL)
    tolerance = Tolerance.of(target.dtype)
    steps: dict[int, list[StepTrace]] = {number: [] for number in prompts}
    for record in decode(target, drafter, list(prompts.values()), full, batch, cancelled, list(prompts)):
        if isinstance(record, StepTrace):
            steps[record.row].append(record)
        elif isinstance(record, DecodeResult) and record.finish_reason != "cancelled":
            laws = laws_after(target, prompts[record.row], record.tokens, settings.sampling)
            yield record.row, _sampled(laws, record, steps.pop(record.row), settings.rule.exact, tolerance)
        else:
            assert isinstance(record, PrefillTrace | DecodeResult)


def laws_after(target: Target, prompt: Sequence[int], tokens: Sequence[int], sampling: SamplingSettings) -> Tensor:
    """float64 [n, V] on the CPU: the target's law of each of `tokens`, after its prefix, as the settings make it."""
    logits = target.plain_logits(prompt, tokens)
    seen = None
    if sampling.needs_seen:
        seen = torch.zeros(logits.shape, dtype=torch.bool, device=logits.device)
        for place in range(len(tokens)):
            seen[place, torch.tensor([*prompt, *tokens[:place]], device=logits.device)] = True
    return process_logits(logits, sampling, seen).double().softmax(-1).cpu()


def _sampled(
    laws: Tensor, result: DecodeResult, steps: Sequence[StepTrace], exact: bool, tolerance: Tolerance
) -> dict[str, Any]:
    depth_of, accepted = [0], [False]  # the first token came out of the prompt's pass, before any step
    largest, compared, off = 0.0, 0, 0
    for step in steps:
        start = len(depth_of)  # place of the step's first token in the answer
        drafted = min(step.num_accepted, len(step.tokens))
        depth_of += range(1, len(step.tokens) + 1)
        accepted += [True] * drafted + [False] * (len(step.tokens) - drafted)
        for difference in _differences(laws, step, start):
            compared, largest = compared + 1, max(largest, difference)
            off += difference > tolerance.probability
    written, depths = torch.tensor(result.tokens), torch.tensor(depth_of)
    tallies = []
    for depth in range(1, DEPTHS + 1):
        here = (depths == depth) if depth < DEPTHS else (depths >= depth)
        tallies.append(tally(laws[here], written[here]).to_dict())
    log_p = laws.gather(1, written[:, None])[:, 0].clamp(min=1e-300).log().tolist()
    drift = drift_of(log_p[1:], accepted[1:], exact)
    return {
        "depths": tallies,
        "compared": compared,
        "off": off,
        "largest_difference": largest,
        "drift": [drift.positions, drift.accepted, drift.total_variation, drift.kl, drift.negative_log_p],
        "steps": result.num_steps,
        "accepted": result.num_accepted,
    }


def _differences(laws: Tensor, step: StepTrace, start: int) -> Iterator[float]:
    """|verification pass - plain pass| of every drafted token whose parent is the root or was accepted."""
    assert step.tree is not None and step.path is not None, "traces in full detail have both"
    place_of = {0: start} | {column: start + depth for depth, column in enumerate(step.path[: step.num_accepted], 1)}
    nodes = zip(step.tree.tokens, step.tree.parents, step.tree.target_probs, strict=True)
    for token, parent, probability in nodes:
        place = place_of.get(parent)
        if probability is not None and place is not None and place < len(laws):
            yield abs(probability - float(laws[place, token]))


@dataclass(frozen=True)
class World:
    """What sampling in the world of tables found: three p-values, and how often each branch of the rule was taken."""

    p_values: tuple[float, float, float]
    samples: int
    accepted: int
    later_siblings: int
    residuals: int


def world(
    shape: TreeShape,
    sampled: bool,
    parallel: bool,
    sampling: SamplingSettings,
    seed: int = 0,
    samples: int = WORLD_SAMPLES,
) -> World | None:
    """The rejection rule with this tree in the world of tables; None for a tree that does not fit into it.

    `sampled`: siblings are drawn; `parallel`: from distributions that do not depend on the path, as heads give them.
    """
    if not shape.num_nodes or shape.num_nodes > WORLD_NODES or max(map(max, shape.paths)) >= WORLD_RANKS:
        return None
    kind: table_world.Kind = "chosen" if not sampled else "heads" if parallel else "sampled"
    plain = SamplingSettings(sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p)
    found = table_world.sample(shape, kind, plain, samples, seed)
    return World(found.p_values(plain), samples, found.accepted, found.later_sibling, found.residual)


# -- what it all says --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Level:
    """How sure one wants to be. alpha: chance that an exact drafter is called inexact, over all tests together; power:
    chance to find a shift of `total_variation` among the ranks.
    """

    alpha: float = 0.001
    power: float = 0.9
    total_variation: float = 0.05

    def needed(self, tests: int) -> int:
        """Tokens that the test over all depths needs, among so many tests."""
        return positions_needed(self.total_variation, self.alpha / tests, self.power)


_GREEDY: Final = "every greedy token is the target's own, and "
NUM_TESTS: Final = 1 + DEPTHS + 3  #: ranks of all tokens, of those at each depth, and three in the world of tables


def judge(
    rule: Rule, greedy: Sequence[Mapping[str, Any]], sampled: Sequence[Mapping[str, Any]], tables: World | None,
    level: Level,
) -> dict[str, Any]:  # fmt: skip
    """The findings as plain JSON: verdict (exact, deviates, too few, approximate), sentence, and the evidence.

    `greedy`, `sampled`: what the functions above found for each answer.
    """
    parts = {"greedy": _greedy_part(greedy), "passes": _passes_part(sampled), "sampling": None, "drift": None}
    if rule.exact:
        parts["sampling"] = _sampling_part(sampled, tables, level)
    else:
        parts["drift"] = _drift_part(sampled)
    verdict, sentence = _verdict(parts, level)
    return {"verdict": verdict, "sentence": sentence} | parts


def _greedy_part(found: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    if not found:
        return None
    sums = {name: sum(int(one[name]) for one in found) for name in ("tokens", "equal", "ties", "errors")}
    first = next((one["first_error"] for one in found if one["first_error"]), None)
    largest = max(float(one["largest_gap"]) for one in found)
    return {"answers": len(found), **sums, "largest_gap": largest, "first_error": first, "passed": not sums["errors"]}


def _passes_part(found: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    compared = sum(int(one["compared"]) for one in found)
    if not compared:
        return None
    off, largest = sum(int(one["off"]) for one in found), max(float(one["largest_difference"]) for one in found)
    return {"compared": compared, "off": off, "largest_difference": largest, "passed": off == 0}


def _sampling_part(found: Sequence[Mapping[str, Any]], tables: World | None, level: Level) -> dict[str, Any]:
    limit = level.alpha / NUM_TESTS
    depths = [sum((Tally.from_dict(one["depths"][d]) for one in found), Tally()) for d in range(DEPTHS)]
    every = sum(depths, Tally())
    tests = [
        _test(name, one, limit, level.power)
        for name, one in (
            ("all tokens", every),
            *((f"token {d} of a step" if d < DEPTHS else f"token {d} and later", depths[d - 1])
              for d in range(1, DEPTHS + 1)),
        )
    ]  # fmt: skip
    if tables is not None:
        names = ("first token", "second, given the first", "third, given both")
        tests += [
            {"name": f"tables: {name}", "positions": tables.samples, "p_value": value, "found": value < limit}
            for name, value in zip(names, tables.p_values, strict=True)
        ]
    needed = level.needed(NUM_TESTS)
    return {
        "positions": every.positions,
        "needed": needed,
        "missing": max(0, needed - every.positions),
        "limit": limit,
        "tests": tests,
        "branches": None if tables is None else {
            "accepted": tables.accepted, "later_siblings": tables.later_siblings, "residuals": tables.residuals
        },
        "steps": sum(int(one["steps"]) for one in found),
        "accepted": sum(int(one["accepted"]) for one in found),
        "passed": not any(test["found"] for test in tests),
    }  # fmt: skip


def _test(name: str, found: Tally, limit: float, power: float) -> dict[str, Any]:
    value, degrees = p_value(found), quadratic(found)[1]
    return {
        "name": name,
        "positions": found.positions,
        "p_value": value,
        "found": value is not None and value < limit,
        "total_variation": found.total_variation,
        "detectable": detectable(found.positions, limit, power, max(1, degrees)),
    }


def _drift_part(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    summed = sum((Drift(*one["drift"]) for one in found), Drift())
    return {
        "positions": summed.positions,
        "accepted": summed.accepted,
        "total_variation": summed.mean_total_variation,
        "kl": summed.mean_kl,
    }


def _verdict(parts: Mapping[str, Any], level: Level) -> tuple[str, str]:
    greedy, passes, sampling, drift = (parts[name] for name in ("greedy", "passes", "sampling", "drift"))
    if greedy and not greedy["passed"]:
        first = greedy["first_error"]
        return "deviates", (
            f"At temperature 0 {greedy['errors']} of {greedy['tokens']} tokens are not the target's own: the first is "
            f"token {first['place'] + 1} of an answer, {first['token']} instead of {first['best']}, whose logit is "
            f"{first['gap']:.3g} higher."
        )
    if passes and not passes["passed"]:
        return "deviates", (
            f"The verification pass gives {passes['off']} of {passes['compared']} drafted tokens another probability "
            f"than a plain pass does, by up to {passes['largest_difference']:.2g}: the tree reaches the model wrongly."
        )
    if drift is not None:
        return "approximate", (
            f"The rule is approximate: {drift['accepted']} of {drift['positions']} tokens were accepted by threshold, "
            f"and the output is {_shown(drift['total_variation'])} in total variation from the target's at a position."
        )
    if not sampling["passed"]:
        worst = min((t for t in sampling["tests"] if t["p_value"] is not None), key=lambda test: test["p_value"])
        return "deviates", (
            f"Sampled tokens do not follow the target's law ({worst['name']}: p = {worst['p_value']:.1g}); an exact "
            f"rule is called so in {100 * level.alpha:g} % of audits."
        )
    if sampling["missing"]:
        return "too few", (
            f"No deviation was found in {sampling['positions']:,} sampled tokens, but {sampling['missing']:,} more are "
            f"needed to find one of {level.total_variation:g} with a probability of {100 * level.power:g} %."
        )
    return "exact", (
        f"No deviation was found: {_GREEDY if greedy else ''}in "
        f"{sampling['positions']:,} sampled tokens a total variation of {level.total_variation:g} among the ranks "
        f"would have been found with a probability of {100 * level.power:g} %."
    )


def _shown(value: float | None) -> str:
    return "an unknown distance" if value is None or math.isnan(value) else f"{value:.3f}"
