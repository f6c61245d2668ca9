"""Hydra heads: trained on the tokens before, they draft what they learned, save whole, and never change the text."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from backend.acceptance import Rule, SamplingSettings
from backend.decoding.loop import DecodeSettings, decode
from backend.decoding.records import DecodeResult
from backend.drafters.checkpoint import DrafterMeta
from backend.drafters.hydra.config import HydraSettings
from backend.drafters.hydra.drafter import HydraDrafter
from backend.drafters.hydra.recipe import RECIPE
from backend.drafters.hydra.train import HydraLearner
from backend.drafters.plain.drafter import PlainDrafter
from backend.drafters.registry import load_drafter
from backend.errors import HeadwayError
from backend.targets.target import Target
from backend.training.config import TrainConfig
from backend.training.features import capture
from backend.training.loop import train
from backend.trees import chain, product
from tests.drafters.stand_ins import tiny_target
from tests.training.stand_ins import Recorder, never
from tests.training.test_features import Pair

DEPTH, NEW = 3, 22
PROMPTS = [[72, 101, 108, 108, 111], [87, 111], [104, 105, 33, 10, 65, 66, 67]]
SETTINGS = HydraSettings(num_heads=DEPTH, draft_vocab=256)
CONFIG = TrainConfig(
    steps=120, batch_tokens=60, learning_rate=5e-3, checkpoint_every=1000, evaluate_every=1000, decode_prompts=0
)


def decoded(target: Target, drafter: object, batch: int = 1) -> list[DecodeResult]:
    settings = DecodeSettings(NEW, ignore_eos=True)
    found = [r for r in decode(target, drafter, PROMPTS, settings, batch) if isinstance(r, DecodeResult)]  # type: ignore[arg-type]
    return sorted(found, key=lambda r: r.row)


@pytest.fixture(scope="module")
def target() -> Target:
    return tiny_target("llama", 2)


@pytest.fixture(scope="module")
def learner(target: Target, tmp_path_factory: pytest.TempPathFactory) -> HydraLearner:
    folder = tmp_path_factory.mktemp("hydra")
    answers = [Pair(tuple(p), tuple(r.tokens)) for p, r in zip(PROMPTS, decoded(target, PlainDrafter()), strict=True)]
    learner = RECIPE.new_learner(SETTINGS, target, torch.arange(256), None)
    features = capture(target, answers, folder / "features")
    result = train(CONFIG, learner, features, features, Recorder(), never, folder / "run")
    assert result.evaluation is not None
    assert min(rates[0] for rates in result.evaluation.hit_rates()) > 0.9
    return learner


def test_overfitted_heads_draft_the_text_they_learned(target: Target, learner: HydraLearner) -> None:
    plain = decoded(target, PlainDrafter())
    drafted = decoded(target, RECIPE.drafter(learner, target, "h", chain(DEPTH)))
    assert [r.tokens for r in drafted] == [r.tokens for r in plain]
    fewest = len(PROMPTS) * -(-(NEW - 1) // (DEPTH + 1))  # the first token comes with the prompt
    assert sum(r.num_steps for r in drafted) <= fewest / 0.9


@pytest.mark.parametrize("batch", [1, 3])
def test_trees_never_change_the_text(target: Target, learner: HydraLearner, batch: int) -> None:
    drafted = decoded(target, RECIPE.drafter(learner, target, "h", product([3, 2, 2])), batch)
    assert [r.tokens for r in drafted] == [r.tokens for r in decoded(target, PlainDrafter())]
    assert sum(r.num_accepted for r in drafted) > 0


def test_children_depend_on_the_path_before_them(target: Target, learner: HydraLearner) -> None:
    heads = learner.heads
    hidden = torch.randn(1, 64, generator=torch.Generator().manual_seed(3))
    one, other = (heads.state(1, hidden, torch.tensor([[5, token]])) for token in (7, 8))
    assert not torch.allclose(one, other)


def test_a_saved_drafter_drafts_as_before(target: Target, learner: HydraLearner, tmp_path: Path) -> None:
    meta = DrafterMeta(
        family="hydra", name="h", config={}, version=target.identity.to_dict(), tree=product([2, 2]).to_json()
    )
    RECIPE.save(tmp_path / "heads", learner, meta, torch.float32)
    loaded, warnings = load_drafter(str(tmp_path / "heads"), target)
    assert warnings == [] and isinstance(loaded, HydraDrafter) and loaded.shape == product([2, 2])
    before = decoded(target, RECIPE.drafter(learner, target, "h", product([2, 2])))
    assert [r.num_steps for r in decoded(target, loaded)] == [r.num_steps for r in before]
    with pytest.raises(HeadwayError, match="3 heads"):
        loaded.with_shape(chain(4))
    other = tiny_target("llama", 2, hidden_size=32)
    with pytest.raises(HeadwayError, match="hidden size"):
        load_drafter(str(tmp_path / "heads"), other, force=True)


def test_drawn_siblings_come_with_what_exact_rejection_needs(target: Target, learner: HydraLearner) -> None:
    drafter = RECIPE.drafter(learner, target, "h", product([2, 2])).with_sampled(True)
    sampling = SamplingSettings(temperature=1.0)
    settings = DecodeSettings(NEW, Rule("rejection"), sampling, seed=3, ignore_eos=True)
    results = [r for r in decode(target, drafter, PROMPTS, settings, 3) if isinstance(r, DecodeResult)]
    assert all(len(r.tokens) == NEW for r in results)
    assert sum(r.num_accepted for r in results) > 0
