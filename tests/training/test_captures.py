"""One capture for all: which ones serve whom, that they give the very same batches, and that a run goes on with any."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from backend.drafters.learning import IGNORE
from backend.drafters.medusa.config import MedusaConfig
from backend.drafters.medusa.model import MedusaHeads
from backend.drafters.medusa.train import MedusaLearner
from backend.errors import HeadwayError
from backend.targets.target import FINAL, Target
from backend.training import captures, shards
from backend.training.captures import MANIFEST, Wanted, answers_digest, serving
from backend.training.config import TrainConfig
from backend.training.features import CaptureConfig, FeatureStore, capture, feature_folder
from backend.training.known_targets import KnownTarget, known_target, remember_target
from backend.training.loop import Features, TrainResult, train
from backend.training.state import load_state, save_state
from backend.training.text_features import TextFeatureStore, capture_texts, text_feature_folder
from backend.training.text_positions import PositionsOfTexts
from tests.drafters.stand_ins import tiny_target
from tests.training.stand_ins import MadeUpFeatures, Recorder, never
from tests.training.test_features import pairs

SMALL = CaptureConfig(shard_positions=40, batch_tokens=64)


@pytest.fixture(scope="module")
def target() -> Target:
    return tiny_target()


def wanted(target: Target, layers: tuple[int, ...] = (), texts: bool = True, count: int = 9, **made: str) -> Wanted:
    digest = answers_digest(pairs(count))
    return Wanted(target.identity.weights_id, digest, frozenset(layers), texts, made or shards.makes(target))


@pytest.mark.parametrize("reads", [(FINAL,), (2, 1), (0, FINAL, 2)])
def test_more_layers_hold_the_same_bits_as_fewer(target: Target, tmp_path: Path, reads: tuple[int, ...]) -> None:
    capture_texts(target, pairs(), (0, 1, 2), tmp_path / "all", SMALL)
    own = capture_texts(target, pairs(), reads, tmp_path / "own", SMALL)
    subset = TextFeatureStore(tmp_path / "all", reads)
    assert subset.fingerprint == own.fingerprint and subset.content != own.content
    texts = torch.randperm(own.num_texts, generator=torch.Generator().manual_seed(0))
    mine, theirs = own.batch(texts, 0), subset.batch(texts, 0)
    for name in ("tokens", "states", "final", "learn"):
        assert torch.equal(getattr(mine, name), getattr(theirs, name)), name
    other = TextFeatureStore(tmp_path / "all", reads[::-1])
    assert len(reads) == 1 or other.fingerprint != own.fingerprint


def test_layers_that_a_capture_lacks_are_named(target: Target, tmp_path: Path) -> None:
    capture_texts(target, pairs(), (0,), tmp_path, SMALL)
    with pytest.raises(HeadwayError, match="no states of layer 2"):
        TextFeatureStore(tmp_path, (0, 2))


@pytest.mark.parametrize("ahead", [False, True])
def test_texts_hold_the_positions_of_their_answers(target: Target, tmp_path: Path, ahead: bool) -> None:
    capture_texts(target, pairs(), (1,), tmp_path / "texts", SMALL)
    capture(target, pairs(), tmp_path / "positions", SMALL)
    own = FeatureStore(tmp_path / "positions", ahead)
    view = PositionsOfTexts(TextFeatureStore(tmp_path / "texts"), ahead)
    assert len(view) == len(own) and view.fingerprint == own.fingerprint
    assert all(map(torch.equal, view.epoch(8, 5), own.epoch(8, 5)))
    order = torch.randperm(len(own), generator=torch.Generator().manual_seed(1))
    mine, theirs = own.batch(order, 4), view.batch(order, 4)
    assert torch.equal(mine.following, theirs.following) and (mine.following == IGNORE).any()
    # Passes of another width round differently in their last bit, which half a precision hides, but for a tie.
    torch.testing.assert_close(theirs.hidden, mine.hidden, atol=2e-3, rtol=2e-3)
    assert float((theirs.hidden == mine.hidden).float().mean()) > 0.98
    if ahead:
        assert mine.ahead is not None and theirs.ahead is not None
        torch.testing.assert_close(theirs.ahead, mine.ahead, atol=2e-3, rtol=2e-3)


def test_a_capture_serves_whoever_reads_what_it_holds(target: Target, tmp_path: Path) -> None:
    last = text_feature_folder(tmp_path, target, pairs(), (FINAL,), SMALL)
    capture_texts(target, pairs(), (FINAL,), last, SMALL)
    three = text_feature_folder(tmp_path, target, pairs(), (0, 1, 2), SMALL)
    capture_texts(target, pairs(), (0, 1, 2), three, SMALL)
    positions = feature_folder(tmp_path, target, pairs(), SMALL)
    capture(target, pairs(), positions, SMALL)
    assert serving(tmp_path, wanted(target)) == [last, three]
    assert serving(tmp_path, wanted(target, (2, 0))) == [three]
    assert serving(tmp_path, wanted(target, texts=False)) == [positions, last, three]
    for other in (wanted(target, count=8), wanted(target, (3,)), wanted(tiny_target(seed=1))):
        assert serving(tmp_path, other) == []
    for made in ({"dtype": "torch.bfloat16"}, {"device": "cuda"}, {"adapter": "abc"}):
        assert serving(tmp_path, wanted(target, **{**shards.makes(target), **made})) == []
    shutil.copytree(three, tmp_path / "damaged")
    (tmp_path / "damaged" / MANIFEST).write_text("{")
    next(last.glob("*.safetensors")).unlink()
    assert serving(tmp_path, wanted(target)) == [three]


def test_what_made_an_old_capture_stands_in_its_name(target: Target, tmp_path: Path) -> None:
    folder = text_feature_folder(tmp_path, target, pairs(), (1,), SMALL)
    capture_texts(target, pairs(), (1,), folder, SMALL)
    manifest = json.loads((folder / MANIFEST).read_text())
    assert manifest.pop("made_by") == shards.makes(target)
    (folder / MANIFEST).write_text(json.dumps(manifest))
    assert captures.made_in(folder, manifest) == shards.makes(target)
    assert serving(tmp_path, wanted(target)) == [folder]
    folder.rename(tmp_path / "renamed")
    assert serving(tmp_path, wanted(target)) == [], "nobody knows what made it"
    assert len(capture_texts(target, pairs(), (1,), tmp_path / "renamed", SMALL)), "but who names it may use it"


def test_features_of_another_dtype_are_refused(target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    capture_texts(target, pairs(), (1,), tmp_path, SMALL)
    monkeypatch.setattr(target, "dtype", torch.bfloat16)
    with pytest.raises(HeadwayError, match="differ in dtype"):
        capture_texts(target, pairs(), (1,), tmp_path, SMALL)


def trained(target: Target, features: Features, folder: Path, steps: int | None = None) -> TrainResult:
    heads = MedusaHeads(
        MedusaConfig(hidden_size=target.hidden_size, vocab_size=target.vocab_size, num_heads=2, draft_vocab_size=None)
    )
    config = TrainConfig(steps=6, batch_tokens=8, checkpoint_every=1)
    recorder = Recorder()
    stop = never if steps is None else (lambda: recorder.rows != [] and recorder.rows[-1][0] >= steps)
    return train(config.model_copy(update={"report_every": 1}), MedusaLearner(heads), features,
                 MadeUpFeatures(0), recorder, stop, folder)  # fmt: skip


def test_a_run_begun_with_one_capture_goes_on_with_another(target: Target, tmp_path: Path) -> None:
    own = capture(target, pairs(), tmp_path / "positions", SMALL)
    view = PositionsOfTexts(capture_texts(target, pairs(), (1,), tmp_path / "texts", SMALL))
    assert trained(target, own, tmp_path / "run", 3).finish_reason == "stopped"
    assert trained(target, view, tmp_path / "run").steps == 6
    other = capture(target, pairs(8), tmp_path / "other", SMALL)
    with pytest.raises(HeadwayError, match="differs in features"):
        trained(target, other, tmp_path / "run")


def test_a_run_of_an_earlier_version_goes_on(target: Target, tmp_path: Path) -> None:
    own = capture(target, pairs(), tmp_path / "positions", SMALL)
    trained(target, own, tmp_path / "run", 3)
    state = load_state(tmp_path / "run")
    assert state is not None
    save_state(tmp_path / "run", state | {"run": state["run"] | {"features": own.content}})
    assert trained(target, own, tmp_path / "run").steps == 6
    again = load_state(tmp_path / "run")
    assert again is not None and again["run"]["features"] == own.fingerprint


def test_a_target_is_known_until_its_files_change(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    weights = tmp_path / "model" / "model.safetensors"
    weights.write_bytes(b"1")
    (tmp_path / "model" / "config.json").write_text("{}")
    known, name = KnownTarget("abc", {"dtype": "torch.float32"}), str(tmp_path / "model")
    remember_target(tmp_path, name, None, None, known)
    assert known_target(tmp_path, name, None, None) == known
    for other in ((name, "cpu", None), (name, None, "bfloat16"), ("tiny-llama", None, None)):
        assert known_target(tmp_path, *other) is None
    weights.write_bytes(b"12")
    assert known_target(tmp_path, name, None, None) is None
    remember_target(tmp_path, "somebody/something", None, None, known)
    assert known_target(tmp_path, "somebody/something", None, None) is None, "a hub's name may come to mean another"
