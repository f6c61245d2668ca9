"""Hydra++: the prefix layer's cache is exact, heads learn what they will read, and the settings lead where they say.

That it learns answers by heart and changes no text is shown with all families, in test_every_family.py.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from backend.decoding.loop import DecodeSettings, decode
from backend.decoding.records import DecodeResult
from backend.drafters.base import Draft, DraftContext
from backend.drafters.growing import DynamicShape
from backend.drafters.hydra.config import PRESETS, HydraSettings
from backend.drafters.hydra.drafter import HydraDrafter
from backend.drafters.hydra.recipe import RECIPE
from backend.drafters.hydra.train import HydraLearner
from backend.drafters.learning import IGNORE, FeatureBatch
from backend.drafters.sizes import LayerWeights, sizes_of
from backend.errors import HeadwayError
from backend.targets.target import FINAL, Target
from backend.trees import TreeShape
from backend.trees.shapes import parse_tree
from tests.support.overfitting import batch_of, check_incremental, overfit, prompts_of, self_distilled
from tests.support.targets import target_of

DEPTH = 3
WIDE = parse_tree("[[0],[1],[2],[0,0],[0,1],[1,0],[0,0,0],[0,0,1],[1,0,0]]")
GROWN = DynamicShape(DEPTH, 3, 9)


def settings_of(**changes: object) -> HydraSettings:
    return HydraSettings.model_validate(
        {"head_arch": "prefix-mlp", "num_heads": DEPTH, "draft_vocab": 0, "decay": 1.0, "loss": "soft", **changes}
    )


def learner_of(target: Target, scattered: bool = True, **changes: object) -> HydraLearner:
    """With a prefix layer whose attention matters, as a trained one's does, where `scattered`."""
    texts = [[*prompt, *answer] for prompt, answer in self_distilled(target, 9, count=3)]
    learner = RECIPE.new_learner(settings_of(**changes), target, None, None, texts)
    if scattered:
        generator = torch.Generator().manual_seed(4)
        with torch.no_grad():
            for weight in learner.heads.prefix.parameters():  # type: ignore[union-attr]
                if weight.dim() > 1:
                    weight.copy_(torch.randn(weight.shape, generator=generator) * weight.shape[-1] ** -0.5)
    learner.heads.eval()
    return learner


def drafter_of(learner: HydraLearner, target: Target, shape: TreeShape = WIDE) -> HydraDrafter:
    return RECIPE.drafter(learner, target, "hydra++", shape)


@pytest.mark.parametrize("kind", ["llama", "qwen3"])
def test_caches_hold_what_reading_anew_gives(kind: str) -> None:
    target = target_of(kind)
    drafter = drafter_of(learner_of(target), target)
    check_incremental(target, drafter)
    check_incremental(target, drafter.with_dynamic(GROWN), prompt=1)


def test_four_rows_that_accept_unequally_draft_as_rows_read_anew() -> None:
    """In every step of a real decode: after rejections, with rows that end and are replaced."""
    target = target_of("llama", 2)
    texts = self_distilled(target, 17, count=7)
    learner = learner_of(target, scattered=False, loss="hard")
    overfit(learner, batch_of(target, learner.reads, texts[:3]), steps=20)  # it knows the others little
    drafter = drafter_of(learner, target)
    seen: list[tuple[DraftContext, Draft]] = []
    inner = drafter.draft

    def recorded(context: DraftContext) -> Draft:
        draft = inner(context)
        seen.append((replace(context, tokens=context.tokens.clone(), lengths=context.lengths.clone()), draft))
        return draft

    drafter.draft = recorded  # type: ignore[method-assign]
    records = decode(target, drafter, prompts_of(texts, 7), DecodeSettings(17, ignore_eos=True), 4)
    results = [record for record in records if isinstance(record, DecodeResult)]
    assert sorted(tuple(one.tokens) for one in results) == sorted(tuple(answer) for _, answer in texts)
    assert 0 < sum(one.num_accepted for one in results) < DEPTH * sum(one.num_steps for one in results)
    strides = [context.num_states.tolist() for context, _ in seen if context.num_states is not None]
    assert any(len(set(one)) > 1 for one in strides) and max(map(len, strides)) == 4
    anew = drafter_of(learner, target)
    for context, draft in seen:
        for row, length in enumerate(context.lengths.tolist()):
            ids = context.tokens[row : row + 1, : length - 1]
            states = target.hidden_states(ids, torch.ones_like(ids, dtype=torch.bool), (FINAL,))[0].clone()
            anew.start(1, length + 8)
            anew.read_prompt(0, context.tokens[row, :length], states)
            alone = anew.draft(
                replace(
                    context, tokens=context.tokens[row : row + 1], lengths=context.lengths[row : row + 1],
                    host_lengths=[length], states=states[None, -1:], num_states=torch.tensor([1]),
                )
            )  # fmt: skip
            nodes = int(alone.tree.num_nodes[0]) + 1
            assert torch.equal(alone.tree.tokens[0, :nodes], draft.tree.tokens[row, :nodes])
            found = draft.draft_prob[row, 1:nodes]
            torch.testing.assert_close(found, alone.draft_prob[0, 1:nodes], atol=1e-4, rtol=1e-4)


def test_heads_draft_what_they_are_trained_on() -> None:
    target = target_of("llama")
    learner = learner_of(target)
    texts = self_distilled(target, 14, count=2)
    batch = batch_of(target, learner.reads, texts)
    with torch.no_grad():
        states = learner.positions(batch).hidden
    at = 0
    drafter = drafter_of(learner, target)
    for row, (prompt, answer) in enumerate(texts):
        text, first = torch.tensor(prompt + answer), len(prompt) - 1
        drafter.start(1, 40)
        drafter.read_prompt(0, text[: first + 2], batch.states[row, : first + 1])
        for place in range(first, first + len(answer)):
            length = place + 2  # the root stands behind the state
            tokens = torch.nn.functional.pad(text, (0, 4))[None]
            fresh = batch.states[row, None, place : place + 1]
            context = DraftContext(
                tokens, torch.tensor([length]), fresh[:, 0], 0.0, torch.Generator(), 8, [length], fresh,
                torch.tensor([1]),
            )  # fmt: skip
            torch.testing.assert_close(drafter._hidden(context)[0], states[at], atol=1e-4, rtol=1e-4)
            at += 1
    assert at == len(states)


def test_whole_texts_give_the_positions_that_features_of_answers_have() -> None:
    """An untrained prefix layer hands states on, brought to one size, so the loss is that of heads without one."""
    target = target_of("llama")
    learner = learner_of(target, scattered=False)
    texts = self_distilled(target, 12, count=4)
    batch = batch_of(target, learner.reads, texts)
    found = learner.positions(batch)
    horizon, states, following, ahead = learner.horizon, [], [], []
    for row, (prompt, answer) in enumerate(texts):
        for place, _ in enumerate(answer):
            rest = answer[place : place + horizon]
            following.append(rest + [IGNORE] * (horizon - len(rest)))
            states.append(batch.states[row, len(prompt) - 1 + place])
            ahead.append([batch.final[row, len(prompt) + place + k] for k in range(len(rest) - 1)])
    assert found.following.tolist() == following and found.ahead is not None
    for later, expected in zip(found.ahead, ahead, strict=True):
        for k, state in enumerate(expected):
            assert torch.equal(later[k], state)
    usual = learner.heads.prefix.norm.weight[0]  # type: ignore[union-attr]
    brought = torch.stack(states)
    brought = usual * brought / brought.square().mean(-1, keepdim=True).sqrt()
    torch.testing.assert_close(found.hidden, brought, atol=1e-4, rtol=1e-4)
    plain = RECIPE.new_learner(settings_of(head_arch="mlp"), target, None, None)
    plain.heads.load_state_dict(
        {name: one for name, one in learner.heads.state_dict().items() if not name.startswith("prefix.")}
    )
    assert found.ahead is not None
    alike = plain.loss(FeatureBatch(found.hidden, found.following, found.ahead))[0]
    torch.testing.assert_close(learner.loss(batch)[0], alike)


def test_padding_and_later_tokens_change_nothing_before_them() -> None:
    target = target_of("llama")
    learner = learner_of(target)
    texts = self_distilled(target, 12, count=3)
    whole = learner.positions(batch_of(target, learner.reads, texts))
    alone = [learner.positions(batch_of(target, learner.reads, [text])) for text in texts]
    torch.testing.assert_close(whole.hidden, torch.cat([one.hidden for one in alone]), atol=1e-5, rtol=1e-5)
    assert torch.equal(whole.following, torch.cat([one.following for one in alone]))


def test_dropout_is_for_training_alone() -> None:
    target = target_of("llama")
    learner = learner_of(target, dropout=0.5)
    batch = batch_of(target, learner.reads, self_distilled(target, 9, count=2))
    calm = [learner.loss(batch)[0] for _ in range(2)]
    assert torch.equal(*calm)
    learner.heads.train()
    torch.manual_seed(1)
    first, second = learner.loss(batch)[0], learner.loss(batch)[0]
    assert not torch.equal(first, second)
    assert not drafter_of(learner, target).heads.training
    assert learner.settings["dropout"] == 0.5 and "dropout" not in learner_of(target).settings


def test_it_goes_on_from_given_weights_of_the_same_architecture() -> None:
    target = target_of("llama")
    first = learner_of(target)
    again = RECIPE.new_learner(settings_of(), target, None, first.model.state_dict())
    batch = batch_of(target, first.reads, self_distilled(target, 9, count=3))
    torch.testing.assert_close(first.loss(batch)[0], again.loss(batch)[0])
    with pytest.raises(HeadwayError, match=r"don't fit.*prefix"):
        RECIPE.new_learner(settings_of(head_arch="mlp"), target, None, first.model.state_dict())


def test_its_size_is_known_before_it_is_made() -> None:
    target = target_of("llama")
    learner, settings = learner_of(target), settings_of()
    layer = [p.numel() for p in learner.heads.prefix.layer.parameters() if p.dim() > 1]  # type: ignore[union-attr]
    made = sum(p.numel() for p in learner.model.parameters())
    counted = sizes_of(settings, target.hidden_size, target.vocab_size, LayerWeights(sum(layer), 0))
    assert counted.parameters == made
    plain = sizes_of(settings_of(head_arch="mlp"), target.hidden_size, target.vocab_size, LayerWeights(sum(layer), 0))
    assert counted.position_bytes > plain.position_bytes and counted.step_flops > plain.step_flops


def test_both_presets_are_hydra_plus_plus() -> None:
    for preset in PRESETS.values():
        settings = HydraSettings.model_validate(preset["drafter"])
        assert settings.head_arch == "prefix-mlp" and settings.loss == "soft" and settings.states_a_token == 1
    assert HydraSettings().states_a_token == 0
