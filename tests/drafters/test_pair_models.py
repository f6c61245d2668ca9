"""EAGLE and EAGLE-3: what is trained is what is decoded, drafts are exact, and a head that overfits drafts its text."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from backend.acceptance import Rule, SamplingSettings
from backend.decoding.loop import DecodeSettings, decode
from backend.decoding.records import DecodeResult
from backend.drafters.base import Draft, DraftContext
from backend.drafters.eagle import train as eagle
from backend.drafters.eagle3 import train as eagle3
from backend.drafters.layer.config import PairTrainConfig
from backend.drafters.layer.drafting import PairDrafter
from backend.drafters.layer.learner import PairLearner
from backend.drafters.layer.pair_model import PairModel
from backend.drafters.layer.starting import state_scales, usual_sizes
from backend.drafters.layer.token_loss import Teacher
from backend.drafters.learning import SequenceBatch
from backend.drafters.plain.drafter import PlainDrafter
from backend.targets.target import FINAL, Target
from backend.trees import DynamicShape, TreeShape, chain
from backend.trees.shapes import parse_tree
from tests.drafters.stand_ins import tiny_target

FAMILIES = ("eagle", "eagle3")
PROMPTS = [[72, 101, 108, 108, 111], [87, 111], [104, 105, 33, 10, 65, 66, 67]]
WIDE = parse_tree("[[0],[1],[2],[0,0],[0,1],[1,0],[0,0,0],[0,0,1],[0,0,0,0]]")


def plain_answers(target: Target, count: int, temperature: float = 0.0, seed: int = 0) -> list[list[int]]:
    settings = DecodeSettings(
        count, Rule("rejection"), SamplingSettings(temperature=temperature), seed=seed, ignore_eos=True
    )
    found = [r for r in decode(target, PlainDrafter(), PROMPTS, settings) if isinstance(r, DecodeResult)]
    return [r.tokens for r in sorted(found, key=lambda r: r.row)]


def batch_for(target: Target, model: PairModel, count: int = 24) -> SequenceBatch:
    texts = [(p, a) for p, a in zip(PROMPTS, plain_answers(target, count), strict=True)]
    width = max(len(p) + len(a) for p, a in texts)
    tokens, learn = torch.zeros(len(texts), width, dtype=torch.int64), torch.zeros(len(texts), width, dtype=torch.bool)
    for row, (p, a) in enumerate(texts):
        tokens[row, : len(p) + len(a)] = torch.tensor(p + a)
        learn[row, len(p) : len(p) + len(a)] = True
    mask = torch.ones_like(learn)
    return SequenceBatch(
        tokens,
        target.hidden_states(tokens, mask, model.reads).clone(),
        target.hidden_states(tokens, mask, (FINAL,)).clone(),
        learn,
    )


def new_model(family: str, target: Target, seed: int = 1) -> PairModel:
    everything = torch.arange(0, 256)  # four special tokens can't be drafted
    if family == "eagle":
        return eagle.new_head(target, everything, seed)
    reads = eagle3.default_layers(target.num_layers)
    ids = torch.tensor([PROMPTS[2]])
    states = target.hidden_states(ids, torch.ones_like(ids, dtype=torch.bool), reads)[0]
    return eagle3.new_head(target, everything, reads, state_scales(usual_sizes(states, len(reads))), seed)


def learner_of(family: str, target: Target, model: PairModel, config: PairTrainConfig) -> PairLearner:
    return PairLearner(family, model, Teacher.of(target, model.token_map), config)


def overfitted(family: str, target: Target, steps: int = 100) -> tuple[PairModel, SequenceBatch]:
    torch.manual_seed(0)
    model = new_model(family, target)
    learner = learner_of(family, target, model, PairTrainConfig(steps=3, decay=1.0))
    batch = batch_for(target, model)
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(steps):
        optimiser.zero_grad()
        learner.loss(batch)[0].backward()
        optimiser.step()
    return model, batch


def drafter_of(family: str, model: PairModel, shape: TreeShape, sampled: bool = False) -> PairDrafter:
    return PairDrafter(family, family, model.for_drafting(), shape, sampled)


def answers(
    target: Target, drafter: PairDrafter, count: int, batch: int = 1, rule: str = "greedy"
) -> list[DecodeResult]:
    settings = DecodeSettings(count, Rule(rule), ignore_eos=True)
    found = [r for r in decode(target, drafter, PROMPTS, settings, batch) if isinstance(r, DecodeResult)]
    return sorted(found, key=lambda r: r.row)


@pytest.mark.parametrize("family", FAMILIES)
def test_overfitted_heads_draft_the_text_they_learned(family: str) -> None:
    target = tiny_target("llama", 2)
    model, _ = overfitted(family, target)
    results = answers(target, drafter_of(family, model, chain(3)), 22)
    assert [r.tokens for r in results] == plain_answers(target, 22)
    fewest = len(PROMPTS) * -(-21 // 4)  # the first token comes with the prompt; a step adds four at most
    assert sum(r.num_steps for r in results) <= fewest / 0.9


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_output_is_that_of_plain_decoding(family: str, batch: int) -> None:
    target = tiny_target("qwen3", 3)
    model, _ = overfitted(family, target, steps=25)
    drafter = drafter_of(family, model, WIDE)
    expected = plain_answers(target, 22)
    static = answers(target, drafter, 22, batch)
    assert [r.tokens for r in static] == expected
    assert sum(r.num_accepted for r in static) > 0
    dynamic = answers(target, drafter.with_dynamic(DynamicShape(4, 3, 10)), 22, batch)
    assert [r.tokens for r in dynamic] == expected
    assert sum(r.num_accepted for r in dynamic) > 0


def followed(drafter: PairDrafter, target: Target, text: list[int], prompt: int, depth: int) -> Tensor:
    """Scores at depths 1.. of a chain whose nodes are the text's own tokens, for every root from the prompt's end on:
    [roots, depth, Vd].
    """
    from backend.drafters.base import DraftContext
    from backend.drafters.layer.drafting import _Growth

    ids = torch.tensor([text])
    states = target.hidden_states(ids, torch.ones_like(ids, dtype=torch.bool), drafter.reads)[0].clone()
    drafter.start(1, len(text) + 8)
    drafter.read_prompt(0, ids[0, : prompt + 1], states[:prompt])
    rows, fresh = [], 1
    for length in range(prompt + 1, len(text) - depth):
        context = DraftContext(
            ids, torch.tensor([length]), states[:1], 0.0, torch.Generator(), depth, [length],
            states[None, length - 1 - fresh : length - 1], torch.tensor([fresh]),
        )  # fmt: skip
        growth = _Growth(drafter.model, *drafter._read_fresh(context))
        scores = [drafter.model.scores(growth.outputs)[0, 0]]
        for step in range(depth - 1):
            token = torch.tensor([[text[length + step]]])
            scores.append(growth.extend(token, torch.tensor([[step]]))[0, 0])
        rows.append(torch.stack(scores))
        fresh = 1
    return torch.stack(rows)


@pytest.mark.parametrize("family", FAMILIES)
def test_later_training_steps_see_what_a_chain_of_the_texts_tokens_sees(family: str) -> None:
    target = tiny_target("llama", 4)
    model = new_model(family, target)
    learner = learner_of(family, target, model, PairTrainConfig(steps=3))
    batch = batch_for(target, model)
    row, prompt = 0, len(PROMPTS[0])
    text = batch.tokens[row, : prompt + 24].tolist()
    with torch.no_grad():
        trained = [model.scores(output[row]) for output in learner.outputs(batch)]
    decoded = followed(drafter_of(family, model, chain(3)), target, text, prompt, 3)
    for place, scores in enumerate(decoded):
        column = prompt - 1 + place  # the pair before the root at prompt + place
        for depth in range(3):
            torch.testing.assert_close(scores[depth], trained[depth][column], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_one_step_is_an_ordinary_causal_layer(family: str) -> None:
    target = tiny_target("llama", 4)
    model = new_model(family, target)
    batch = batch_for(target, model)
    one = learner_of(family, target, model, PairTrainConfig(steps=1)).outputs(batch)[0]
    several = learner_of(family, target, model, PairTrainConfig(steps=4)).outputs(batch)[0]
    torch.testing.assert_close(one, several)
    shorter = SequenceBatch(batch.tokens[:, :9], batch.states[:, :9], batch.final[:, :9], batch.learn[:, :9])
    early = learner_of(family, target, model, PairTrainConfig(steps=1)).outputs(shorter)[0]
    torch.testing.assert_close(early[:, :8], one[:, :8])  # column 8 reads token 9, which the shorter text lacks


@pytest.mark.parametrize("family", FAMILIES)
def test_a_cache_that_grew_with_the_text_drafts_as_one_made_anew(family: str) -> None:
    """In every step of a decode that accepts several tokens at once, drafts are those of a drafter that reads all of
    the text at that point for the first time.
    """
    target = tiny_target("llama", 2)
    model, _ = overfitted(family, target, steps=60)
    drafter = drafter_of(family, model, WIDE)
    seen: list[tuple[DraftContext, Draft]] = []
    inner = drafter.draft

    def recorded(context: DraftContext) -> Draft:
        draft = inner(context)
        seen.append((replace(context, tokens=context.tokens.clone(), lengths=context.lengths.clone()), draft))
        return draft

    drafter.draft = recorded  # type: ignore[method-assign]
    results = [r for r in decode(target, drafter, PROMPTS[:1], DecodeSettings(22)) if isinstance(r, DecodeResult)]
    assert results[0].num_accepted > len(seen) > 3
    for context, draft in seen:
        length = int(context.lengths[0])
        ids = context.tokens[:1, : length - 1]
        states = target.hidden_states(ids, torch.ones_like(ids, dtype=torch.bool), model.reads)[0].clone()
        fresh = drafter_of(family, model, WIDE)
        fresh.start(1, length + 8)
        fresh.read_prompt(0, context.tokens[0, :length], states)
        anew = fresh.draft(replace(context, states=states[None, -1:], num_states=torch.tensor([1])))
        assert torch.equal(anew.tree.tokens, draft.tree.tokens)
        torch.testing.assert_close(anew.draft_prob, draft.draft_prob, atol=1e-4, rtol=1e-4, equal_nan=True)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_copy_for_drafting_has_weights_of_its_own_and_shares_the_targets(family: str) -> None:
    model = new_model(family, tiny_target("llama", 2))
    twin = model.for_drafting()
    assert twin.embedding is model.embedding
    with torch.no_grad():
        before = twin.layer.post_attention_layernorm.weight.clone()
        model.layer.post_attention_layernorm.weight.add_(1.0)
    assert torch.equal(twin.layer.post_attention_layernorm.weight, before)


def test_states_are_learned_where_their_token_cannot_be_drafted_and_tokens_are_not() -> None:
    """EAGLE's distance does not know the draft vocabulary; its loss on tokens leaves out what that lacks."""
    target = tiny_target("llama", 2)
    drafted = torch.arange(0, 256, 2)
    model = eagle.new_head(target, drafted, 1)
    batch = batch_for(target, model)
    output = learner_of("eagle", target, model, PairTrainConfig(steps=1)).outputs(batch)[0]
    labelled = torch.nn.functional.pad(batch.learn, (0, 2))[:, 2:]
    following = torch.nn.functional.pad(batch.tokens, (0, 2))[:, 2:]
    taught = torch.nn.functional.pad(batch.final, (0, 0, 0, 1))[:, 1:]
    states = learner_of("eagle", target, model, PairTrainConfig(steps=1, token_weight=0.0, feature_weight=1.0))
    expected = torch.nn.functional.smooth_l1_loss(output[labelled], taught[labelled])
    torch.testing.assert_close(states.loss(batch)[0], expected)
    learn = labelled & (following % 2 == 0) & (following < 256)
    assert 0 < int(learn.sum()) < int(labelled.sum())
    tokens = learner_of("eagle", target, model, PairTrainConfig(steps=1, loss="soft"))
    p = target.logits(taught[learn])[:, drafted].softmax(-1)
    expected = torch.nn.functional.cross_entropy(model.scores(output[learn]), p)
    torch.testing.assert_close(tokens.loss(batch)[0], expected, atol=1e-5, rtol=1e-5)


def test_a_position_of_a_sampled_answer_counts_as_often_as_it_can_be_drafted() -> None:
    """Whether a position is learned is told by its token. Where that was drawn from the target's law, a position is
    kept with the probability of all that can be drafted there.
    """
    target = tiny_target("llama", 2)
    drafted = torch.arange(0, 200)
    model = eagle.new_head(target, drafted, 1)
    learner = learner_of("eagle", target, model, PairTrainConfig(steps=1))
    batch = batch_for(target, model)
    row, place = 0, len(PROMPTS[0]) + 3
    law = target.logits(batch.final[row, place - 1]).softmax(-1)
    draws = 4000
    sampled = torch.multinomial(law, draws, replacement=True, generator=torch.Generator().manual_seed(0))
    many = batch.tokens[row].repeat(draws, 1)
    many[:, place] = sampled
    repeated = SequenceBatch(
        many, batch.states[row].expand(draws, -1, -1), batch.final[row].expand(draws, -1, -1),
        batch.learn[row].expand(draws, -1),
    )  # fmt: skip
    kept = (learner._taught(repeated, 0)[1][:, place - 2] != -100).float().mean()
    coverage = float(law[drafted].sum())
    assert 0.5 < coverage < 0.95
    assert abs(float(kept) - coverage) < 4 * (coverage * (1 - coverage) / draws) ** 0.5
