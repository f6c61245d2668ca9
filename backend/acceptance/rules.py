"""The acceptance rules by name, and the one door to them: `verify`.

A rule decides which drafted tokens are committed, from the target's logits for the whole tree. Nothing here reads a
value back from the device, so a decode loop may queue a whole step before it looks at any result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from backend.acceptance.greedy import verify_greedy
from backend.acceptance.processors import SamplingSettings
from backend.acceptance.rejection import siblings_per_depth, verify_chosen, verify_sampled
from backend.acceptance.result import Acceptance, DraftDistribution
from backend.acceptance.sampling import Chance, uniforms
from backend.acceptance.typical import verify_typical
from backend.acceptance.walk import TargetRows
from backend.bounds import check_bounds
from backend.errors import HeadwayError
from backend.trees import DraftTree

RuleName = Literal["greedy", "rejection", "typical"]
RULE_NAMES: tuple[RuleName, ...] = ("greedy", "rejection", "typical")


@dataclass(frozen=True)
class Rule:
    """An acceptance rule and its thresholds.

    Args:
        name: greedy (exact, T = 0 only), rejection (exact; greedy at T = 0) or typical (approximate; greedy at T = 0).
        epsilon, delta: of typical acceptance, 0 to 1 each; Medusa's `posterior_threshold` and `posterior_alpha`.

    Raises HeadwayError for an unknown name or a threshold out of range.
    """

    name: RuleName = "rejection"
    epsilon: float = 0.09
    delta: float = 0.3

    def __post_init__(self) -> None:
        if self.name not in RULE_NAMES:
            raise HeadwayError(f"Unknown acceptance rule {self.name!r}: use {', '.join(RULE_NAMES)}.")
        check_bounds(epsilon=self.epsilon, delta=self.delta)

    @property
    def exact(self) -> bool:
        """True when the output keeps the target's own distribution at every temperature the rule allows."""
        return self.name != "typical"

    def compared(self, settings: SamplingSettings, sampled: bool) -> tuple[str, str]:
        """What `Acceptance.score` and `Acceptance.threshold` are, in words. `sampled`: the draft came with a
        distribution."""
        if settings.greedy:
            return "target's logit of this token", "target's highest logit"
        if self.name == "typical":
            return "target's probability of this token", "min(epsilon, delta * exp(-entropy))"
        if sampled:
            return "acceptance ratio min(1, p/q)", "random number u"
        return "target's probability of this token", "probability of the token that the target drew"


def check(rule: Rule, settings: SamplingSettings) -> None:
    """Raise HeadwayError when the rule can't be used with the settings."""
    if rule.name == "greedy" and not settings.greedy:
        raise HeadwayError(
            f"The greedy rule is exact at temperature 0 only, but the temperature is {settings.temperature}: "
            "use the rejection rule or set the temperature to 0."
        )


def verify(
    rule: Rule,
    tree: DraftTree,
    logits: Tensor,
    settings: SamplingSettings,
    *,
    generator: Chance = None,
    distribution: DraftDistribution | None = None,
    seen: Tensor | None = None,
) -> Acceptance:
    """Decide what is committed of B draft trees.

    Args:
        rule: which rule, with its thresholds.
        tree: the draft, M columns.
        logits: float [B, M, V], the target's raw logits; row i predicts the token after column i.
        settings: temperature and the other changes to the logits; applied per node.
        generator: the source of randomness, one for all rows or one a row, on any device; nothing is drawn at T = 0.
        distribution: what the children were sampled from; None when they were chosen. Only rejection reads it.
        seen: bool [B, V], tokens of the committed context, the root included; for a repetition penalty only.

    Raises HeadwayError as `check` does.
    """
    check(rule, settings)
    rows = TargetRows(tree, logits, settings, seen)
    if settings.greedy:  # p is one-hot: every rule accepts the best token and nothing else
        return verify_greedy(rows)
    batch, depth, device = tree.batch, tree.max_depth, logits.device
    if rule.name == "typical":
        return verify_typical(rows, rule.epsilon, rule.delta, uniforms((batch,), generator, device))
    if distribution is None:
        return verify_chosen(rows, uniforms((batch, depth + 1), generator, device))
    siblings = max(siblings_per_depth(rows, distribution), default=0)
    numbers = uniforms((batch, depth * siblings + 1), generator, device)
    return verify_sampled(rows, distribution, numbers[:, 1:].view(batch, depth, siblings), numbers[:, 0])
