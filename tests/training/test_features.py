"""Cached features: the right state beside the right tokens, the same bytes after an interruption, and damage
noticed.
"""

import random
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from backend.drafters.learning import IGNORE
from backend.errors import Cancelled, HeadwayError
from backend.targets.target import Target
from backend.training.features import MANIFEST, CaptureConfig, FeatureStore, capture
from tests.drafters.stand_ins import tiny_target

SMALL = CaptureConfig(shard_positions=20, batch_tokens=64)


@dataclass(frozen=True)
class Pair:
    prompt_ids: tuple[int, ...]
    answer_ids: tuple[int, ...]


def pairs(count: int = 9, seed: int = 0) -> list[Pair]:
    rng = random.Random(seed)
    some = [rng.randrange(256) for _ in range(400)]
    return [
        Pair(tuple(some[i : i + rng.randint(1, 9)]), tuple(some[i + 50 : i + 50 + rng.randint(1, 14)]))
        for i in range(count)
    ]


@pytest.fixture(scope="module")
def target() -> Target:
    return tiny_target()


def test_each_position_has_the_state_that_predicts_its_next_token(target: Target, tmp_path: Path) -> None:
    answers = pairs()
    store = capture(target, answers, tmp_path, SMALL)
    assert len(store) == sum(len(a.answer_ids) for a in answers) and len(list(tmp_path.glob("*.safetensors"))) > 2
    position = 0
    for a in answers:
        ids = torch.tensor([[*a.prompt_ids, *a.answer_ids]])
        hidden = target.hidden_states(ids, torch.ones_like(ids, dtype=torch.bool))[0]
        for i in range(len(a.answer_ids)):
            batch = store.batch(torch.tensor([position]), 4)
            torch.testing.assert_close(batch.hidden[0], hidden[len(a.prompt_ids) - 1 + i], atol=5e-3, rtol=5e-3)
            left = list(a.answer_ids[i : i + 4])
            assert batch.following[0].tolist() == left + [IGNORE] * (4 - len(left))
            position += 1


def test_positions_come_in_any_order_from_any_shard(target: Target, tmp_path: Path) -> None:
    store = capture(target, pairs(), tmp_path, SMALL)
    order = torch.randperm(len(store), generator=torch.Generator().manual_seed(2))
    shuffled, straight = store.batch(order, 3), store.batch(torch.arange(len(store)), 3)
    assert torch.equal(shuffled.hidden, straight.hidden[order])
    assert torch.equal(shuffled.following, straight.following[order])


def test_an_interrupted_capture_goes_on_and_gives_the_same_bytes(target: Target, tmp_path: Path) -> None:
    answers, calls = pairs(), 0

    def stop() -> bool:
        nonlocal calls
        calls += 1
        return calls % 3 == 0

    whole = capture(target, answers, tmp_path / "whole", SMALL)
    progress: list[tuple[int, int]] = []
    interruptions = 0
    while True:
        try:
            resumed = capture(target, answers, tmp_path / "cut", SMALL, lambda *done: progress.append(done), stop)
            break
        except Cancelled:
            interruptions += 1
            with pytest.raises(HeadwayError, match="not complete"):
                FeatureStore(tmp_path / "cut")
    assert interruptions > 0 and resumed.content == whole.content
    assert progress[-1] == (len(whole), len(whole))


def test_a_damaged_shard_is_noticed_and_made_again(target: Target, tmp_path: Path) -> None:
    before = capture(target, pairs(), tmp_path, SMALL).content
    shard = sorted(tmp_path.glob("*.safetensors"))[1]
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.unlink()
    shard.write_bytes(data)
    with pytest.raises(HeadwayError, match="damaged"):
        FeatureStore(tmp_path)
    assert capture(target, pairs(), tmp_path, SMALL).content == before


def test_features_of_something_else_are_refused(target: Target, tmp_path: Path) -> None:
    capture(target, pairs(), tmp_path, SMALL)
    with pytest.raises(HeadwayError, match="answers"):
        capture(target, pairs(8), tmp_path, SMALL)
    with pytest.raises(HeadwayError, match="weights_id"):
        capture(tiny_target(seed=1), pairs(), tmp_path, SMALL)
    (tmp_path / MANIFEST).write_text("{")
    with pytest.raises(HeadwayError, match="damaged"):
        FeatureStore(tmp_path)


def test_answers_that_can_not_be_used_are_left_out(target: Target, tmp_path: Path) -> None:
    long = Pair((1, 2), (3,) * target.max_context)
    store = capture(target, [Pair((1,), ()), long, Pair((1, 2), (3, 4))], tmp_path, SMALL)
    assert len(store) == 2
    with pytest.raises(HeadwayError, match="None of the answers"):
        capture(target, [long], tmp_path / "none", SMALL)


def test_a_full_disk_is_told_before_any_work(target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000})())
    with pytest.raises(HeadwayError, match="make room"):
        capture(target, pairs(), tmp_path, SMALL)
