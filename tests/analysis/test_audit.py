"""The audit calls right drafters exact and finds each of seven planted bugs; what it cannot know it does not say.

Error rates. Three right configurations are audited at level 0.001 with fixed seeds, which were not chosen. A bug counts
as found when the verdict is `deviates`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from backend.acceptance import Acceptance, DraftDistribution, Rule, SamplingSettings, draw, rejection, verify
from backend.acceptance.walk import TargetRows
from backend.analysis import table_world
from backend.analysis.audit import (
    Level,
    Tolerance,
    greedy_answers,
    judge,
    sampled_answers,
    world,
)
from backend.decoding import loop
from backend.decoding.loop import DecodeSettings
from backend.drafters.base import Around, Draft, DraftContext, Drafter
from backend.drafters.draft_model.drafter import DraftModelDrafter
from backend.targets import tree_pass
from backend.targets.target import Target
from backend.targets.tiny import tiny_model
from backend.trees import DraftTree, TreeShape, chain, product
from tests.support.targets import wrap

V, NEW, PROMPTS = 24, 44, 24
LEVEL = Level(total_variation=0.1)  # a quarter of the tokens that the default takes
WARM = SamplingSettings(1.5)  # where pruning by confidence moves a tenth of the probability between the ranks
WIDE, CHAIN = product((3, 2)), chain(3)


@pytest.fixture(scope="module")
def target() -> Target:
    return wrap(tiny_model("llama", vocab_size=V), "tiny")


@pytest.fixture(scope="module")
def other() -> Target:
    """Much like the target, so that a good part of its guesses is accepted, and not the same."""
    model = tiny_model("llama", vocab_size=V)
    generator = torch.Generator().manual_seed(3)
    for parameter in model.parameters():
        scale = 0.1 * parameter.detach().std() if parameter.dim() > 1 else 0.0
        parameter.data.add_(scale * torch.randn(parameter.shape, generator=generator))
    return wrap(model, "other")


def drafter_of(other: Target, shape: TreeShape, sampled: bool) -> Drafter:
    return DraftModelDrafter(other, V, shape, sampled=sampled)


def audit(target: Target, drafter: Drafter, rule: Rule | None = None, prompts: int = PROMPTS) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(0)
    asked = {n: torch.randint(0, V, (3 + n % 4,), generator=generator).tolist() for n in range(prompts)}
    rule = rule or Rule("rejection")
    greedy = [found for _, found in greedy_answers(target, drafter, dict(list(asked.items())[:6]), NEW, 6)]
    settings = DecodeSettings(NEW, rule, WARM, ignore_eos=True)
    sampled = [found for _, found in sampled_answers(target, drafter, asked, settings, prompts)]
    tables = world(drafter.shape, drafter.sampled, False, SamplingSettings(1.0), samples=8_000) if rule.exact else None
    return judge(rule, greedy, sampled, tables, LEVEL)


@pytest.mark.slow_stat
@pytest.mark.parametrize(("shape", "sampled"), [(WIDE, False), (WIDE, True), (CHAIN, True)])
def test_a_right_drafter_is_called_exact(target: Target, other: Target, shape: TreeShape, sampled: bool) -> None:
    found = audit(target, drafter_of(other, shape, sampled))
    assert found["verdict"] == "exact", found["sentence"]
    assert found["greedy"]["errors"] == 0 and found["greedy"]["equal"] > 200
    assert found["passes"]["largest_difference"] < 1e-4 and found["passes"]["compared"] > 500
    assert found["sampling"]["positions"] > found["sampling"]["needed"]
    assert found["sampling"]["accepted"] > found["sampling"]["steps"] / 4


# -- the bugs ----------------------------------------------------------------------------------------------------------

Verify = Callable[..., Acceptance]


def _verify_with(patch: pytest.MonkeyPatch, broken: Verify) -> None:
    """In the decode loop and in the world of tables, which both call the one rule."""
    patch.setattr(loop, "verify", broken)
    patch.setattr(table_world, "verify", broken)


def _no_residual(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rejection, "residual", lambda p, q: p)


def _siblings_twice(patch: pytest.MonkeyPatch) -> None:
    def twice(*args: Any, **more: Any) -> Acceptance:
        first, second = verify(*args, **more), verify(*args, **more)
        failed = first.num_accepted == 0
        for name, value in vars(first).items():
            value.copy_(torch.where(failed.view(-1, *[1] * (value.dim() - 1)), getattr(second, name), value))
        return first

    _verify_with(patch, twice)


def _ratio_for_chosen(patch: pytest.MonkeyPatch) -> None:
    def pretended(rule: Rule, tree: DraftTree, logits: torch.Tensor, settings: SamplingSettings, **more: Any) -> Any:
        if tree.width > 1:
            flat = torch.full((tree.batch, tree.width, logits.shape[-1]), 1 / logits.shape[-1])
            more["distribution"] = DraftDistribution(flat, torch.arange(tree.width), max_children=WIDE.max_children)
        return verify(rule, tree, logits, settings, **more)

    _verify_with(patch, pretended)


def _wrong_parent(patch: pytest.MonkeyPatch) -> None:
    def swapped(rule: Rule, tree: DraftTree, logits: torch.Tensor, settings: SamplingSettings, **more: Any) -> Any:
        order = list(range(tree.width))
        if tree.width > 2:
            order[1], order[2] = 2, 1
        return verify(rule, tree, logits[:, order], settings, **more)

    _verify_with(patch, swapped)


def _sees_a_sibling(patch: pytest.MonkeyPatch) -> None:
    right = tree_pass.visible

    def visible(inputs: tree_pass.MaskInputs, window: int | None) -> torch.Tensor:
        ancestors = inputs.ancestors.clone()
        if ancestors.shape[-1] > 2 and bool((inputs.depths[:, 1] == inputs.depths[:, 2]).all()):
            ancestors[:, 2, 1] = True
        return right(replace(inputs, ancestors=ancestors), window)

    patch.setattr(tree_pass, "visible", visible)


def _bonus_from_the_root(patch: pytest.MonkeyPatch) -> None:
    def wrong(rule: Rule, tree: DraftTree, logits: torch.Tensor, settings: SamplingSettings, **more: Any) -> Any:
        found = verify(rule, tree, logits, settings, **more)
        root = TargetRows(tree, logits, settings, None).probs_at(torch.zeros_like(found.last_node))
        generator = torch.Generator().manual_seed(int(logits.sum().abs() * 1e4))
        again = draw(root, torch.rand(root.shape[0], dtype=torch.float64, generator=generator))
        found.next_token.copy_(torch.where(found.num_accepted > 0, again, found.next_token))
        return found

    _verify_with(patch, wrong)


class Pruned(Around):
    """A drafter that leaves out sampled children which it finds unlikely itself."""

    def draft(self, context: DraftContext) -> Draft:
        draft = self._inner.draft(context)
        tree = draft.tree
        if tree.width == 1:
            return draft
        confident = draft.draft_prob[:, 1:].nan_to_num(1.0) > 0.1
        kept = confident.long().cumprod(1).sum(1)
        parents = torch.where(torch.arange(tree.width) <= kept[:, None], tree.parents, -1)
        return replace(draft, tree=DraftTree(tree.tokens, parents, kept, tree.max_depth))


BUGS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None] | None, TreeShape, bool]] = {
    "no residual": (_no_residual, CHAIN, True),
    "duplicate siblings tried twice": (_siblings_twice, WIDE, False),
    "p/q for chosen drafts": (_ratio_for_chosen, WIDE, False),
    "wrong parent's logits": (_wrong_parent, WIDE, False),
    "a mask that sees a sibling": (_sees_a_sibling, WIDE, False),
    "bonus from the wrong node": (_bonus_from_the_root, WIDE, False),
    "sampled children pruned by confidence": (None, CHAIN, True),
}


@pytest.mark.slow_stat
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str, target: Target, other: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, shape, sampled = BUGS[name]
    drafter = drafter_of(other, shape, sampled)
    if plant is None:
        drafter = Pruned(drafter)
    else:
        plant(monkeypatch)
    found = audit(target, drafter)
    assert found["verdict"] == "deviates", (found["sentence"], found["sampling"])


# -- what it says otherwise --------------------------------------------------------------------------------------------


def test_too_few_samples_give_a_number_and_no_verdict(target: Target, other: Target) -> None:
    found = audit(target, drafter_of(other, WIDE, False), prompts=6)
    assert found["verdict"] == "too few"
    missing = found["sampling"]["missing"]
    assert missing == found["sampling"]["needed"] - found["sampling"]["positions"] > 0
    assert f"{missing:,} more are needed" in found["sentence"]


def test_an_approximate_rule_gets_its_drift_measured(target: Target, other: Target) -> None:
    found = audit(target, drafter_of(other, WIDE, False), Rule("typical", epsilon=0.05, delta=0.3), prompts=6)
    assert found["verdict"] == "approximate" and found["sampling"] is None
    assert 0 < found["drift"]["total_variation"] < 1 and found["drift"]["accepted"] > 20


def test_a_wrong_greedy_token_is_named_with_its_gap(target: Target, other: Target) -> None:
    drafter = drafter_of(other, WIDE, False)
    right = next(found for _, found in greedy_answers(target, drafter, {0: [1, 2, 3]}, 8, 1))
    assert right["errors"] == 0 and right["first_error"] is None
    shifted = right | {"errors": 1, "first_error": {"place": 2, "token": 7, "best": 9, "gap": 0.5}}
    found = judge(Rule("rejection"), [right, shifted], [], None, Level())
    assert found["verdict"] == "deviates" and "7 instead of 9, whose logit is 0.5 higher" in found["sentence"]
    assert Tolerance.of(torch.bfloat16).gap > Tolerance.of(torch.float32).gap


@pytest.mark.slow_stat
def test_the_world_of_tables_takes_every_branch_and_refuses_what_does_not_fit() -> None:
    found = world(WIDE, sampled=True, parallel=False, sampling=SamplingSettings(1.0), samples=8_000)
    assert found is not None and min(found.p_values) > 0.001
    assert min(found.accepted, found.later_siblings, found.residuals) > 500
    assert world(chain(0), False, False, SamplingSettings(1.0)) is None
    assert world(product((20,)), False, False, SamplingSettings(1.0)) is None
