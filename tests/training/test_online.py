"""Features made while training: the batches of a cached run up to half precision, the same curve, and a killed run that
ends with the same bits.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from backend.drafters.eagle3.config import Eagle3Settings
from backend.drafters.family import FamilySettings
from backend.drafters.hydra.config import HydraSettings
from backend.drafters.learning import Learner
from backend.errors import HeadwayError
from backend.targets.target import FINAL, Target
from backend.training import online
from backend.training.features import FeatureStore, capture
from backend.training.loop import Features, TrainResult, train
from backend.training.online import OnlinePositions, OnlineTexts
from backend.training.planner import plan
from backend.training.text_features import capture_texts
from tests.drafters.stand_ins import tiny_target
from tests.training.stand_ins import Recorder, never
from tests.training.test_captures import SMALL
from tests.training.test_features import Pair, pairs
from tests.training.test_pair_training import CONFIG, Killed, dies_after, learner_of
from tests.training.test_planner import ANSWERS, SPEED, TARGET, config, probed

TEXTS = Eagle3Settings(draft_vocab=200, test_time_steps=2, draft_depth=2)
POSITIONS = HydraSettings(num_heads=2, draft_vocab=200, loss="soft")


@pytest.fixture(scope="module")
def target() -> Target:
    return tiny_target()


@pytest.mark.parametrize("reads", [(FINAL,), (2, 0), (1, FINAL)])
def test_texts_are_read_as_a_capture_reads_them(
    target: Target, tmp_path: Path, reads: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(online, "READ_TOKENS", 30)  # several passes a batch
    cached = capture_texts(target, pairs(), reads, tmp_path / "shards", SMALL)
    made = OnlineTexts(target, pairs(), reads)
    assert len(made) == len(cached) and made.per_epoch(40) == cached.per_epoch(40)
    for numbers, others in zip(made.epoch(40, 7), cached.epoch(40, 7), strict=True):
        assert torch.equal(numbers, others)
        mine, theirs = made.batch(numbers, 0), cached.batch(numbers, 0)
        assert torch.equal(mine.tokens, theirs.tokens) and torch.equal(mine.learn, theirs.learn)
        torch.testing.assert_close(mine.states, theirs.states, atol=2e-3, rtol=2e-3)
        torch.testing.assert_close(mine.final, theirs.final, atol=2e-3, rtol=2e-3)
    sizes = capture_texts(target, pairs(), reads, tmp_path / "one shard").state_sizes()
    for layer, (usual, largest) in made.state_sizes().items():
        assert (usual, largest) == pytest.approx(sizes[layer], rel=1e-2)
    with pytest.raises(HeadwayError, match="Layer 9 does not exist"):
        OnlineTexts(target, pairs(), (9,))


@pytest.mark.parametrize("ahead", [False, True])
def test_positions_are_read_as_a_capture_reads_them(target: Target, tmp_path: Path, ahead: bool) -> None:
    capture(target, pairs(), tmp_path, SMALL)
    cached, made = FeatureStore(tmp_path, ahead), OnlinePositions(target, pairs(), ahead)
    assert len(made) == len(cached) and made.fingerprint != cached.fingerprint
    for numbers in (torch.randperm(len(made), generator=torch.Generator().manual_seed(2)), torch.tensor([3])):
        mine, theirs = made.batch(numbers, 3), cached.batch(numbers, 3)
        assert torch.equal(mine.following, theirs.following)
        torch.testing.assert_close(mine.hidden, theirs.hidden, atol=2e-3, rtol=2e-3)
        assert (mine.ahead is not None) == ahead
        if mine.ahead is not None and theirs.ahead is not None:
            torch.testing.assert_close(mine.ahead, theirs.ahead, atol=2e-3, rtol=2e-3)


def test_an_online_epoch_goes_through_texts_and_not_through_all_positions(target: Target) -> None:
    answers = pairs(30)
    made = OnlinePositions(target, answers)
    number = torch.cat([torch.full((len(a.answer_ids),), text) for text, a in enumerate(answers)])
    epochs = [made.epoch(16, seed) for seed in (1, 2, 1)]
    for epoch in epochs:
        assert len(epoch) == made.per_epoch(16) == len(made) // 16 and all(len(batch) == 16 for batch in epoch)
        order = torch.cat(list(epoch))
        assert len(order.unique()) == len(order), "nothing twice"
        texts = number[order]
        assert int((texts[1:] != texts[:-1]).sum()) + 1 == len(texts.unique()), "a text's positions stand together"
    assert [all(map(torch.equal, epochs[0], other)) for other in epochs[1:]] == [False, True]


def features_of(settings: FamilySettings, target: Target, answers: list[Pair], folder: Path | None) -> Features:
    """Cached ones where there is a folder."""
    learner = learner_of(settings, target, answers)
    if folder is None:
        if learner.reads:
            return OnlineTexts(target, answers, learner.reads)
        return OnlinePositions(target, answers, learner.wants_ahead)
    if learner.reads:
        return capture_texts(target, answers, learner.reads, folder)
    return capture(target, answers, folder, ahead=learner.wants_ahead)


def run(
    settings: FamilySettings, target: Target, folder: Path, cache: Path | None, kill: bool = False
) -> tuple[Learner, TrainResult, list[float]]:
    answers, recorder, left = pairs(24), Recorder(), 3
    while True:
        learner = learner_of(settings, target, answers)
        features = features_of(settings, target, answers, None if cache is None else cache / "features")
        held_out = features_of(settings, target, answers[:3], None if cache is None else cache / "held-out")
        if kill and left:
            dies_after(learner, 6)
        try:
            result = train(CONFIG, learner, features, held_out, recorder, never, folder)
        except Killed:
            left -= 1
            continue
        return learner, result, [metrics["loss"] for _, metrics in recorder.rows if "loss" in metrics]


def test_the_curve_of_texts_is_that_of_a_cached_run(target: Target, tmp_path: Path) -> None:
    _, cached, expected = run(TEXTS, target, tmp_path / "cached", tmp_path)
    _, made, losses = run(TEXTS, target, tmp_path / "online", None)
    assert len(losses) == len(expected) == made.steps == cached.steps > 12
    assert losses == pytest.approx(expected, rel=2e-3) and losses != expected


@pytest.mark.parametrize("settings", [TEXTS, POSITIONS], ids=lambda one: one.family)
def test_killed_it_ends_with_the_same_bits(settings: FamilySettings, target: Target, tmp_path: Path) -> None:
    whole, undisturbed, _ = run(settings, target, tmp_path / "whole", None)
    pieces, resumed, _ = run(settings, target, tmp_path / "pieces", None, kill=True)
    assert resumed.steps == undisturbed.steps > 8
    found = pieces.model.state_dict()
    assert all(torch.equal(value, found[name]) for name, value in whole.model.state_dict().items())
    assert list(tmp_path.glob("**/*.safetensors")) == [], "nothing was cached"


def test_a_cached_run_does_not_go_on_online(target: Target, tmp_path: Path) -> None:
    run(TEXTS, target, tmp_path / "run", tmp_path)
    with pytest.raises(HeadwayError, match="differs in features"):
        run(TEXTS, target, tmp_path / "run", None)


def test_it_is_planned_without_a_byte_of_features_and_with_time_in_every_epoch() -> None:
    made = config(training={"epochs": 3.0})
    target_reads = plan(made, TARGET, ANSWERS, probed(made), SPEED)
    reads = plan(made.model_copy(update={"features": "online"}), TARGET, ANSWERS, probed(made), SPEED)
    assert reads.bytes_features == 0 < target_reads.bytes_features
    seconds = [{phase.name: phase.seconds for phase in one.phases} for one in (target_reads, reads)]
    once, often = (one["read the answers"] for one in seconds)
    evaluations = 1 + -(-reads.steps // made.training.evaluate_every)
    exact = 3 * ANSWERS.tokens / 1000 + evaluations * ANSWERS.held_out_tokens / 1000
    assert once < often == pytest.approx(exact, rel=0.03)
    assert seconds[0]["learn"] == seconds[1]["learn"]


def test_what_was_captured_before_takes_neither_bytes_nor_time() -> None:
    made = config()
    fresh = plan(made, TARGET, ANSWERS, probed(made), SPEED)
    half = plan(made, TARGET, replace(ANSWERS, captured=True), probed(made), SPEED)
    none = plan(made, TARGET, replace(ANSWERS, captured=True, held_out_captured=True), probed(made), SPEED)
    assert fresh.bytes_features > half.bytes_features > none.bytes_features == 0
    seconds = [{phase.name: phase.seconds for phase in one.phases} for one in (fresh, half, none)]
    assert [one.get("read the answers") for one in seconds] == [94.0, 4.0, None]
    assert none.notes == ("The features were captured before and are used again.",)
    assert none.peak_memory_bytes <= fresh.peak_memory_bytes
