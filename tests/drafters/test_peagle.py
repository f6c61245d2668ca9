"""P-EAGLE: one pass drafts a block, what is trained is what is drafted, and places are dropped from the deep end.

That it learns answers by heart, changes no text and no law is shown with all families, in test_every_family.py.
"""

from __future__ import annotations

import pytest
import torch

from backend.drafters.growing import DynamicShape
from backend.drafters.layer.token_loss import Teacher
from backend.drafters.learning import IGNORE
from backend.drafters.peagle.config import PeagleSettings
from backend.drafters.peagle.drafter import PeagleDrafter
from backend.drafters.peagle.recipe import RECIPE
from backend.drafters.peagle.train import PeagleLearner, new_head
from backend.drafters.sizes import LayerWeights, sizes_of
from backend.errors import HeadwayError
from backend.targets.target import Target
from backend.trees import TreeShape, chain
from backend.trees.shapes import parse_tree
from tests.support.overfitting import (
    batch_of,
    check_incremental,
    context_of,
    self_distilled,
)
from tests.support.targets import target_of

DEPTH = 3
WIDE = parse_tree("[[0],[1],[2],[0,0],[0,1],[1,0],[0,0,0],[0,0,1],[1,0,0]]")
GROWN = DynamicShape(DEPTH, 3, 9)


def settings_of(**changes: object) -> PeagleSettings:
    return PeagleSettings.model_validate(
        {"draft_depth": DEPTH, "num_layers": 2, "decay": 1.0, "kept_places": 1.0, **changes}
    )


def learner_of(target: Target, tokens: int = 256, **changes: object) -> PeagleLearner:
    settings = settings_of(**changes)
    drafted = torch.arange(min(tokens, target.vocab_size))
    head = new_head(target, drafted, settings, [0.5, 1.0], seed=2)  # three layers: two of them are read
    return PeagleLearner("peagle", head, Teacher.of(target, head.token_map), settings.loss_settings())


def drafter_from(learner: PeagleLearner, shape: TreeShape) -> PeagleDrafter:
    return PeagleDrafter("peagle", learner.model.for_drafting(), shape)


@pytest.mark.parametrize("layers", [1, 3])
def test_caches_hold_what_reading_anew_gives(layers: int) -> None:
    target = target_of("qwen3")
    drafter = drafter_from(learner_of(target, num_layers=layers), WIDE)
    check_incremental(target, drafter)
    check_incremental(target, drafter.with_dynamic(GROWN), prompt=1)


def test_places_draft_what_they_are_trained_on() -> None:
    target = target_of("llama")
    learner = learner_of(target)
    learner.model.eval()
    texts = self_distilled(target, 12, count=2)
    batch = batch_of(target, learner.reads, texts)
    with torch.no_grad():
        trained = [learner.model.scores(output[1]) for output in learner.outputs(batch)]
    prompt, text = len(texts[1][0]), texts[1][0] + texts[1][1]
    states = batch.states[1, : len(text)]
    drafter = drafter_from(learner, chain(DEPTH))
    drafter.start(1, 40)
    drafter.read_prompt(0, torch.tensor(text[: prompt + 1]), states[:prompt])
    for length in range(prompt + 1, len(text)):
        with torch.no_grad():
            outputs = drafter._block(context_of([text], [states], [length], [1]), DEPTH)
            scores = drafter.model.scores(outputs)[0]
        for depth in range(DEPTH):
            torch.testing.assert_close(scores[depth], trained[depth][length - 2], atol=1e-4, rtol=1e-4)


def test_dropped_places_are_not_learned_and_the_kept_ones_are_unchanged() -> None:
    target = target_of("llama")
    learner = learner_of(target, kept_places=0.5, kept_least=0.3)
    batch = batch_of(target, learner.reads, self_distilled(target, 20, count=2))
    learner.model.eval()
    with torch.no_grad():
        whole = learner.outputs(batch)
        learner.model.train()
        torch.manual_seed(3)
        dropped = learner.outputs(batch)
    width = batch.tokens.shape[1]
    kept = [mask.clone() for mask in learner._kept]
    assert [int(mask.sum()) for mask in kept] == [width, round(0.5 * width), round(0.3 * width)]
    assert bool((kept[2] <= kept[1]).all()), "a place needs the places before it"
    for depth in range(DEPTH):
        torch.testing.assert_close(dropped[depth][:, kept[depth]], whole[depth][:, kept[depth]], atol=1e-5, rtol=1e-4)
        labels = learner._taught(batch, depth)[1]
        assert bool((labels[:, ~kept[depth]] == IGNORE).all())
    assert bool((learner._taught(batch, 1)[1] != IGNORE).any())


def test_trees_that_do_not_fit_are_refused() -> None:
    target = target_of("llama")
    drafter = drafter_from(learner_of(target), chain(DEPTH))
    with pytest.raises(HeadwayError, match=r"4 deep.*3 tokens at once"):
        drafter.with_shape(chain(4))
    with pytest.raises(HeadwayError, match="wider"):
        drafter_from(learner_of(target, tokens=2), WIDE)


def test_it_goes_on_from_given_weights_and_measures_states_when_fresh() -> None:
    target, settings = target_of("llama"), settings_of(draft_vocab=64)
    tokens = torch.arange(64) * 2
    first = RECIPE.new_learner(settings, target, tokens, None, [[1, 2, 3, 4, 5]])
    assert not torch.equal(first.model.state_scale, torch.ones(2))
    again = RECIPE.new_learner(settings, target, tokens, first.model.state_dict())
    batch = batch_of(target, first.reads, self_distilled(target, 9, count=3))
    torch.testing.assert_close(first.loss(batch)[0], again.loss(batch)[0])
    with pytest.raises(HeadwayError, match="Layer 9"):
        RECIPE.new_learner(settings_of(reads=(1, 9)), target, tokens, None)


def test_its_size_is_known_before_it_is_made() -> None:
    target = target_of("llama")
    learner, settings = learner_of(target), settings_of(draft_vocab=256, reads=(1, 2))
    layer = learner.model.stack[1]
    qkv = sum(one.weight.numel() for one in (layer.q_proj, layer.k_proj, layer.v_proj))
    weights = LayerWeights(sum(p.numel() for p in layer.parameters() if p.dim() > 1), qkv)
    made = sum(p.numel() for p in learner.model.parameters())
    assert sizes_of(settings, target.hidden_size, target.vocab_size, weights).parameters == pytest.approx(
        made, rel=0.02
    )
