"""Exact rejection is exact: the joint law of three tokens is the target's own, and every broken variant is caught.

Error rates. 10 scenarios give 3 p-values each, and each must exceed 0.001: right rules fail this file for *some* choice
of seeds with probability at most 3 %. The seeds are 0, 1, 2, ... in the order of the scenarios and were not chosen. A
broken rule must reach p < 1e-6 in at least one of its 3 p-values; a right one does that with probability at most 3e-6.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from backend.acceptance import Acceptance, Rule, SamplingSettings, draw, rejection, verify
from backend.acceptance.slow import SlowTree, slow_chosen
from backend.acceptance.walk import TargetRows
from backend.analysis.chi_square import conditional_p_value
from backend.analysis.table_world import Drafted, Kind, draft, sample
from backend.trees import DraftTree, TreeShape, chain, product

SAMPLES = 200_000
FEWER = 40_000  # are enough to catch a broken rule
BRANCHES = 10_000
HOT, WARM, NUCLEUS = SamplingSettings(1.0), SamplingSettings(0.7), SamplingSettings(1.0, top_p=0.9)
CHAIN, WIDE = chain(2), product((3, 2))

SCENARIOS: list[tuple[TreeShape, Kind, SamplingSettings]] = [
    (shape, kind, settings)
    for shape, kind in ((CHAIN, "sampled"), (WIDE, "sampled"), (WIDE, "chosen"))
    for settings in (WARM, HOT, NUCLEUS)
] + [(WIDE, "heads", HOT)]


@pytest.mark.parametrize("seed", range(len(SCENARIOS)))
def test_three_tokens_have_the_targets_joint_law(seed: int):
    shape, kind, settings = SCENARIOS[seed]
    result = sample(shape, kind, settings, SAMPLES, seed)
    assert result.counts.sum() == SAMPLES
    assert min(result.p_values(settings)) > 0.001
    assert result.accepted > BRANCHES and result.residual > BRANCHES
    if shape is WIDE:
        assert result.later_sibling > BRANCHES


def rule(drafted: Drafted, settings: SamplingSettings, g: torch.Generator, **changes) -> Acceptance:
    parts = {"tree": drafted.tree, "logits": drafted.logits, "distribution": drafted.distribution} | changes
    return verify(
        Rule("rejection"), parts["tree"], parts["logits"], settings, generator=g, distribution=parts["distribution"]
    )


def judged_by_the_wrong_parent(drafted: Drafted, settings: SamplingSettings, g: torch.Generator) -> Acceptance:
    swapped = torch.arange(drafted.tree.width)
    swapped[1], swapped[2] = 2, 1  # the first two siblings change places
    return rule(drafted, settings, g, logits=drafted.logits[:, swapped])


def with_a_bonus_from_the_root(drafted: Drafted, settings: SamplingSettings, g: torch.Generator) -> Acceptance:
    right = rule(drafted, settings, g)
    root = TargetRows(drafted.tree, drafted.logits, settings, None).probs_at(torch.zeros_like(right.last_node))
    wrong = draw(root, torch.rand(root.shape[0], dtype=torch.float64, generator=g))
    right.next_token.copy_(torch.where(right.num_accepted > 0, wrong, right.next_token))
    return right


def trying_the_siblings_twice(drafted: Drafted, settings: SamplingSettings, g: torch.Generator) -> Acceptance:
    first, second = rule(drafted, settings, g), rule(drafted, settings, g)
    failed = first.num_accepted == 0
    for name, value in vars(first).items():
        again = getattr(second, name)
        value.copy_(torch.where(failed.view(-1, *[1] * (value.dim() - 1)), again, value))
    return first


def pruned_by_confidence(drafted: Drafted, settings: SamplingSettings, g: torch.Generator) -> Acceptance:
    """A chain ends before the first token that the drafter itself found unlikely."""
    tree, q = drafted.tree, drafted.distribution
    confident = q.probs[:, :2].gather(2, tree.tokens[:, 1:, None])[..., 0] > 0.2  # [B, 2]
    kept = confident.long().cumprod(1).sum(1)
    parents = torch.where(torch.arange(3) <= kept[:, None], tree.parents, -1)
    return rule(drafted, settings, g, tree=DraftTree(tree.tokens, parents, kept, 2))


@pytest.mark.parametrize(
    ("broken", "shape", "kind"),
    [
        (judged_by_the_wrong_parent, WIDE, "sampled"),
        (judged_by_the_wrong_parent, WIDE, "chosen"),
        (with_a_bonus_from_the_root, CHAIN, "sampled"),
        (with_a_bonus_from_the_root, WIDE, "chosen"),
        (trying_the_siblings_twice, WIDE, "chosen"),
        (pruned_by_confidence, CHAIN, "sampled"),
    ],
)
def test_a_broken_rule_is_caught(broken, shape: TreeShape, kind: Kind):
    result = sample(shape, kind, HOT, FEWER, seed=0, verify_with=broken)
    assert min(result.p_values(HOT)) < 1e-6


@pytest.mark.parametrize("shape", [CHAIN, WIDE], ids=["chain", "wide"])
def test_a_rule_without_the_residual_is_caught(shape: TreeShape, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rejection, "residual", lambda p, q: p)
    assert min(sample(shape, "sampled", HOT, FEWER, seed=0).p_values(HOT)) < 1e-6


def test_the_ratio_p_over_q_for_chosen_children_is_caught():
    def as_if_sampled(drafted: Drafted, settings: SamplingSettings, g: torch.Generator) -> Acceptance:
        pretended = draft(WIDE, "sampled", drafted.tree.tokens[:, 0], drafted.tree.tokens[:, 0], 1.0, g).distribution
        return rule(drafted, settings, g, distribution=pretended)

    assert min(sample(WIDE, "chosen", HOT, FEWER, seed=0, verify_with=as_if_sampled).p_values(HOT)) < 1e-6


def test_the_draw_from_p_has_the_law_of_trying_chosen_siblings_one_by_one():
    """The fast rule and its sequential twin both give every outcome of a step the law p(path) * p(next token)."""
    rng, n = np.random.default_rng(0), 20_000
    tree = SlowTree(tokens=[0, 1, 2, 3, 0], parents=[-1, 0, 0, 1, 1])
    p = rng.dirichlet(np.full(4, 2.0), size=5)
    batch = DraftTree(torch.tensor([tree.tokens]).repeat(n, 1), torch.tensor([tree.parents]), torch.full((n,), 4), 2)
    logits = torch.tensor(p).log().float().expand(n, -1, -1)
    fast = verify(Rule(), batch, logits, HOT, generator=torch.Generator().manual_seed(0))
    fast_counts, slow_counts, law = np.zeros((5, 4)), np.zeros((5, 4)), np.zeros((5, 4))
    np.add.at(fast_counts, (fast.last_node.numpy(), fast.next_token.numpy()), 1)
    chance = iter(rng.random(n * 6))
    for _ in range(n):
        outcome = slow_chosen(tree, p.tolist(), chance)
        slow_counts[(outcome.path or [0])[-1], outcome.next_token] += 1
    for node in range(5):
        reach = np.prod([p[tree.parents[c], tree.tokens[c]] for c in tree.path(node)])
        drafted = [tree.tokens[c] for c in tree.children(node)]
        law[node] = [0 if token in drafted else reach * p[node, token] for token in range(4)]
    assert law.sum() == pytest.approx(1)
    # Two fixed seeds; right rules fail with probability 0.002.
    assert conditional_p_value(fast_counts.reshape(-1), law.reshape(-1)) > 0.001
    assert conditional_p_value(slow_counts.reshape(-1), law.reshape(-1)) > 0.001
