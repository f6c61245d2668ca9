"""Features of whole texts: the right states beside the right tokens, the same bytes after an interruption, an order of
batches that a seed decides, and layers that cannot be kept named.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from backend.errors import Cancelled, HeadwayError
from backend.targets.target import FINAL, Target
from backend.training.features import CaptureConfig, FeatureStore, capture
from backend.training.order import TextOrder
from backend.training.text_features import TextFeatureStore, capture_texts, text_feature_folder
from backend.training.text_positions import PositionsOfTexts
from tests.drafters.stand_ins import tiny_target
from tests.training.test_features import Pair, pairs

SMALL = CaptureConfig(shard_positions=40, batch_tokens=64)
READS = (1, FINAL)


@pytest.fixture(scope="module")
def target() -> Target:
    return tiny_target()


@pytest.mark.parametrize("reads", [(FINAL,), (1, 2), (2, FINAL, 0)])
def test_every_token_has_the_states_of_the_layers_that_are_read(
    target: Target, tmp_path: Path, reads: tuple[int, ...]
) -> None:
    answers = pairs()
    store = capture_texts(target, answers, reads, tmp_path, SMALL)
    assert len(list(tmp_path.glob("*.safetensors"))) > 2 and store.num_texts == len(answers)
    assert len(store) == sum(len(a.answer_ids) for a in answers)
    batch = store.batch(torch.tensor([7, 2]), 0)
    for row, answer in enumerate((answers[7], answers[2])):
        ids = torch.tensor([[*answer.prompt_ids, *answer.answer_ids]])
        length, everything = ids.shape[1], torch.ones_like(ids, dtype=torch.bool)
        assert batch.tokens[row, :length].tolist() == ids[0].tolist()
        expected = target.hidden_states(ids, everything, (*reads, FINAL))[0]
        found = torch.cat([batch.states[row, :length], batch.final[row, :length]], dim=-1)
        torch.testing.assert_close(found, expected, atol=5e-3, rtol=5e-3)
        learned = [len(answer.prompt_ids) <= place < length for place in range(batch.learn.shape[1])]
        assert batch.learn[row].tolist() == learned


def test_what_is_read_twice_is_kept_once(target: Target, tmp_path: Path) -> None:
    capture_texts(target, pairs(), (FINAL,), tmp_path / "last", SMALL)
    capture_texts(target, pairs(), (0, 1, 2), tmp_path / "three", SMALL)
    sizes = [sum(file.stat().st_size for file in (tmp_path / name).glob("*.safetensors")) for name in ("last", "three")]
    assert 3 < sizes[1] / sizes[0] < 4.2


def test_an_interrupted_capture_goes_on_and_gives_the_same_bytes(target: Target, tmp_path: Path) -> None:
    rng = random.Random(1)

    def stop() -> bool:
        return rng.random() < 0.2

    whole = capture_texts(target, pairs(), READS, tmp_path / "whole", SMALL)
    interruptions = 0
    while True:
        try:
            resumed = capture_texts(target, pairs(), READS, tmp_path / "cut", SMALL, should_stop=stop)
            break
        except Cancelled:
            interruptions += 1
            with pytest.raises(HeadwayError, match="not complete"):
                TextFeatureStore(tmp_path / "cut")
    assert interruptions > 0 and resumed.content == whole.content


def test_features_of_other_layers_or_of_positions_are_refused(target: Target, tmp_path: Path) -> None:
    capture_texts(target, pairs(), READS, tmp_path / "texts", SMALL)
    with pytest.raises(HeadwayError, match="differ in reads"):
        capture_texts(target, pairs(), (0, 1), tmp_path / "texts", SMALL)
    capture(target, pairs(), tmp_path / "positions", SMALL)
    with pytest.raises(HeadwayError, match="differ in kind, reads"):
        capture_texts(target, pairs(), READS, tmp_path / "positions", SMALL)
    places = {text_feature_folder(tmp_path, target, pairs(), reads) for reads in (READS, (0, 1))}
    assert len(places) == 2


def test_a_layer_that_is_not_there_or_too_large_is_named(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(HeadwayError, match="Layer 9 does not exist"):
        capture_texts(target, pairs(), (9,), tmp_path, SMALL)
    inner = target.hidden_states

    def huge(ids, mask, layers):  # type: ignore[no-untyped-def]
        states = inner(ids, mask, layers).clone()
        states[..., target.hidden_size : 2 * target.hidden_size] *= 1e6
        return states

    monkeypatch.setattr(target, "hidden_states", huge)
    with pytest.raises(HeadwayError, match="The states of layer 2 of tiny-llama-0 reach"):
        capture_texts(target, pairs(), (1, 2), tmp_path, SMALL)


def test_sizes_of_states_are_told_by_layer(target: Target, tmp_path: Path) -> None:
    sizes = capture_texts(target, pairs(), (0, 2), tmp_path, SMALL).state_sizes()
    assert list(sizes) == [0, 2] and all(0 < usual < largest for usual, largest in sizes.values())


def test_an_epoch_has_every_text_once_in_batches_of_similar_length() -> None:
    generator = torch.Generator().manual_seed(3)
    lengths = [*torch.randint(5, 120, (200,), generator=generator).tolist(), 700]
    order, batch_tokens = TextOrder(lengths), 256
    epochs = [order.epoch(batch_tokens, seed) for seed in (1, 2, 1)]
    for epoch in epochs:
        assert len(epoch) == order.per_epoch(batch_tokens)
        assert sorted(number for batch in epoch for number in batch.tolist()) == list(range(201))
        for batch in epoch:
            sizes = [lengths[number] for number in batch.tolist()]
            assert len(sizes) * max(sizes) <= batch_tokens or len(sizes) == 1
        padded = sum(len(batch) * max(lengths[number] for number in batch.tolist()) for batch in epoch)
        assert padded < 1.25 * sum(lengths), "little is padded"
        assert len(epoch) < 1.5 * sum(lengths) / batch_tokens, "and batches are full"
    same = [all(map(torch.equal, epochs[0], other)) for other in epochs[1:]]
    assert same == [False, True]
    neighbours = [set(map(frozenset, (batch.tolist() for batch in epoch))) for epoch in epochs[:2]]
    assert len(neighbours[0] & neighbours[1]) < len(epochs[0]) / 4, "who shares a batch changes too"
    straight = [number for batch in order.in_order(batch_tokens) for number in batch.tolist()]
    assert sorted(straight) == list(range(201))


def test_positions_can_hold_the_states_that_follow(target: Target, tmp_path: Path) -> None:
    answers = [Pair((1, 2, 3), (4, 5, 6, 7)), Pair((8, 9), (10, 11))]
    capture(target, answers, tmp_path, SMALL)
    batch = FeatureStore(tmp_path, ahead=True).batch(torch.tensor([1, 0]), 3)
    assert batch.ahead is not None and batch.ahead.shape == (2, 2, target.hidden_size)
    plain = FeatureStore(tmp_path).batch(torch.arange(4), 3)
    assert plain.ahead is None
    assert torch.equal(batch.ahead[0], plain.hidden[2:4]) and torch.equal(batch.ahead[1], plain.hidden[1:3])


def test_a_part_of_the_texts_is_what_a_capture_of_them_alone_would_be(target: Target, tmp_path: Path) -> None:
    answers = pairs()
    part = [answers[5], answers[1], answers[6], answers[1]]
    capture_texts(target, [*answers, answers[1]], READS, tmp_path / "all", SMALL)
    alone = capture_texts(target, part, READS, tmp_path / "alone", SMALL)
    found = TextFeatureStore(tmp_path / "all", READS, part)
    assert (found.num_texts, len(found), found.fingerprint) == (4, len(alone), alone.fingerprint)
    for ours, theirs in zip(found.in_order(64), alone.in_order(64), strict=True):
        assert ours.tolist() == theirs.tolist()
        batch, expected = found.batch(ours, 0), alone.batch(theirs, 0)
        assert batch.tokens.equal(expected.tokens) and batch.learn.equal(expected.learn)
        torch.testing.assert_close(batch.states, expected.states, atol=5e-3, rtol=5e-3)
    positions, expected = PositionsOfTexts(found), PositionsOfTexts(alone)
    assert positions.fingerprint == expected.fingerprint and len(positions) == len(expected)
    everything = torch.arange(len(expected))
    torch.testing.assert_close(positions.states(everything), expected.states(everything), atol=5e-3, rtol=5e-3)
    with pytest.raises(HeadwayError, match="do not hold all of these answers"):
        TextFeatureStore(tmp_path / "alone", READS, answers[:2])
    with pytest.raises(HeadwayError, match="do not hold all of these answers"):
        TextFeatureStore(tmp_path / "alone", READS, [answers[5], answers[5]])
