"""MTP in its three forms: what is trained is what is drafted, caches are exact, the text stays the target's."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from backend.drafters.base import Drafter
from backend.drafters.growing import DynamicShape
from backend.drafters.layer.fresh import fresh_of
from backend.drafters.layer.token_loss import Teacher
from backend.drafters.mtp.config import MtpConfig, MtpSettings
from backend.drafters.mtp.drafter import MtpDrafter, _Growth, drafter_of
from backend.drafters.mtp.recipe import RECIPE
from backend.drafters.mtp.train import MtpLearner, new_model
from backend.drafters.sizes import LayerWeights, sizes_of
from backend.errors import HeadwayError
from backend.targets.target import Target
from backend.trees import TreeShape, chain
from backend.trees.shapes import parse_tree
from tests.support.lossless import LAWS, check_greedy, sampling_p_value, small_target
from tests.support.overfitting import (
    batch_of,
    check_incremental,
    context_of,
    overfit,
    prompts_of,
    self_distilled,
    share_of_possible,
)
from tests.support.targets import target_of

FORMS = ("shared", "modules", "parallel")
DEPTH = 3
WIDE = parse_tree("[[0],[1],[2],[0,0],[0,1],[1,0],[0,0,0],[0,0,1],[1,0,0]]")
GROWN = DynamicShape(DEPTH, 3, 9)


def settings_of(form: str, **changes: object) -> MtpSettings:
    return MtpSettings.model_validate(
        {"form": form, "draft_depth": DEPTH, "test_time_steps": DEPTH, "decay": 1.0, "loss": "soft", **changes}
    )


def learner_of(form: str, target: Target, tokens: int = 256, **changes: object) -> MtpLearner:
    """With random matrices of the size that a trained module's have, so that depths and paths matter."""
    settings = settings_of(form, **changes)
    model = new_model(target, torch.arange(min(tokens, target.vocab_size)), settings, seed=2)
    return MtpLearner("mtp", model, Teacher.of(target, model.token_map), settings.loss_settings())


@cache
def overfitted(form: str) -> MtpLearner:
    target = target_of("llama", 2)
    learner = learner_of(form, target, loss="hard")  # a random target's probabilities are too flat to tell tokens apart
    overfit(learner, batch_of(target, learner.reads, self_distilled(target, 13)), steps=200)
    return learner


def drafter_from(learner: MtpLearner, shape: TreeShape) -> Drafter:
    return drafter_of("mtp", learner.model.for_drafting(), shape)


@pytest.mark.parametrize("form", ["shared", "parallel"])  # the form modules is shown in test_every_family.py
def test_overfitted_modules_draft_the_text_they_learned(form: str) -> None:
    target = target_of("llama", 2)
    drafter = drafter_from(overfitted(form), chain(DEPTH))
    assert share_of_possible(target, drafter, self_distilled(target, 13)) >= 0.9


@pytest.mark.parametrize("form", ["shared", "parallel"])
def test_the_text_is_the_targets_with_static_and_grown_trees(form: str) -> None:
    drafter, target = drafter_from(overfitted(form), WIDE), target_of("llama", 2)
    prompts = prompts_of(self_distilled(target, 13))
    assert check_greedy(target, drafter, prompts=prompts) > 0
    assert check_greedy(target, drafter.with_dynamic(GROWN), prompts=prompts) > 0  # type: ignore[attr-defined]


@pytest.mark.slow_stat
@pytest.mark.parametrize("form", ["shared", "parallel"])  # the form modules is shown in test_every_family.py
def test_samples_follow_the_targets_law(form: str) -> None:
    """12 p-values, each above 0.0002: right rules fail one of them with probability 0.24 %."""
    learner = learner_of(form, small_target())
    overfit(learner, batch_of(small_target(), learner.reads, self_distilled(small_target(), 13)), steps=60)
    drafter = drafter_from(learner, WIDE)
    for law in LAWS.values():
        assert sampling_p_value(drafter.with_sampled(True), law) > 0.0002
        assert sampling_p_value(drafter.with_dynamic(GROWN), law) > 0.0002  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", ["llama", "qwen3"])
@pytest.mark.parametrize("form", FORMS)
def test_caches_hold_what_reading_anew_gives(form: str, kind: str) -> None:
    target = target_of(kind)
    drafter = drafter_from(learner_of(form, target), WIDE)
    check_incremental(target, drafter)
    check_incremental(target, drafter.with_dynamic(GROWN), prompt=1)  # type: ignore[attr-defined]


def test_later_modules_draft_what_they_are_trained_on() -> None:
    target = target_of("llama")
    learner = learner_of("modules", target, draft_depth=4, test_time_steps=4)
    texts = self_distilled(target, 14, count=2)
    batch = batch_of(target, learner.reads, texts)
    with torch.no_grad():
        trained = [learner.model.scores(output[1]) for output in learner.outputs(batch)]
    prompt, text = len(texts[1][0]), texts[1][0] + texts[1][1]
    states = batch.states[1, : len(text)]
    drafter = MtpDrafter("mtp", learner.model.for_drafting(), chain(4))
    drafter.start(1, 40)
    drafter.replace_rows([0])
    drafter.read_prompt(0, torch.tensor(text[: prompt + 1]), states[:prompt])
    for length in range(prompt + 1, len(text) - 4):
        context = context_of([text], [states], [length], [1])
        with torch.no_grad():
            fresh = fresh_of(context)
            growth = _Growth(drafter.model, drafter._caches, fresh, drafter._read(slice(0, 1), fresh)[0])
            found = [drafter.model.scores(drafter.model.parts[0].norm(growth.outputs))[0, 0]]
            for step in range(3):
                found.append(growth.extend(torch.tensor([[text[length + step]]]), torch.tensor([[step]]))[0, 0])
        for depth, scores in enumerate(found):
            torch.testing.assert_close(scores, trained[depth][length - 2], atol=1e-4, rtol=1e-4)


def test_the_first_module_alone_is_the_shared_forms_first_step() -> None:
    """Equal weights, one step: the forms differ in what comes after."""
    target = target_of("llama")
    shared, modules = learner_of("shared", target), learner_of("modules", target)
    state = {k: v for k, v in modules.model.state_dict().items() if k.startswith("layers.0.") or k == "token_map"}
    shared.model.load_state_dict(state)
    batch = batch_of(target, shared.reads, self_distilled(target, 9, count=3))
    one = shared.model.scores(shared.outputs(batch)[0])
    torch.testing.assert_close(one, modules.model.scores(modules.outputs(batch)[0]))


def test_trees_that_do_not_fit_are_refused() -> None:
    target = target_of("llama")
    drafter = drafter_from(learner_of("parallel", target), chain(DEPTH))
    with pytest.raises(HeadwayError, match=r"4 deep.*3 modules"):
        drafter.with_shape(chain(4))
    with pytest.raises(HeadwayError, match="wider"):
        drafter_from(learner_of("modules", target, tokens=2), WIDE)
    with pytest.raises(ValueError, match="one module"):
        MtpConfig(layer=learner_of("shared", target).model.config.layer, vocab_size=9, num_modules=2)


def test_it_goes_on_from_given_weights() -> None:
    target, settings = target_of("llama"), settings_of("modules", draft_vocab=64)
    tokens = torch.arange(64) * 2
    first = RECIPE.new_learner(settings, target, tokens, None)
    again = RECIPE.new_learner(settings, target, tokens, first.model.state_dict())
    batch = batch_of(target, first.reads, self_distilled(target, 9, count=3))
    torch.testing.assert_close(first.loss(batch)[0], again.loss(batch)[0])
    with pytest.raises(HeadwayError, match="don't fit"):
        RECIPE.new_learner(settings_of("parallel", draft_vocab=64), target, tokens, first.model.state_dict())


@pytest.mark.parametrize("form", FORMS)
def test_its_size_is_known_before_it_is_made(form: str) -> None:
    target = target_of("llama")
    learner = learner_of(form, target)
    layer = [p.numel() for p in learner.model.layer.parameters() if p.dim() > 1]
    made = sum(p.numel() for p in learner.model.parameters())
    counted = sizes_of(settings_of(form), target.hidden_size, target.vocab_size, LayerWeights(sum(layer), 0))
    assert counted.parameters == pytest.approx(made, rel=0.01)


@pytest.mark.parametrize("form", FORMS)
def test_the_loss_is_the_mean_of_the_depths_weighted_by_a_power(form: str) -> None:
    target = target_of("llama")
    learner = learner_of(form, target, loss="hard", decay=0.6)
    loss, each = learner.loss(batch_of(target, learner.reads, self_distilled(target, 9, count=3)))
    weights = torch.tensor([1.0, 0.6, 0.36])
    torch.testing.assert_close(loss, (weights / weights.sum() * each).sum())
