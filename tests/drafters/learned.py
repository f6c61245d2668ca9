"""Drafters of every family that have learned a tiny target's own answers by heart, by the way a training takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from backend.acceptance import Rule
from backend.decoding.loop import DecodeSettings, decode
from backend.decoding.records import DecodeResult
from backend.drafters.eagle.config import EagleSettings
from backend.drafters.eagle3.config import Eagle3Settings
from backend.drafters.family import FamilySettings
from backend.drafters.hydra.config import HydraSettings
from backend.drafters.learning import Learner
from backend.drafters.medusa.config import MedusaSettings
from backend.drafters.mtp.config import MtpSettings
from backend.drafters.peagle.config import PeagleSettings
from backend.drafters.plain.drafter import PlainDrafter
from backend.drafters.recipe import recipe_of
from backend.targets.target import Target
from backend.training.config import TrainConfig
from backend.training.features import FeatureStore, capture
from backend.training.loop import train
from backend.training.text_features import TextFeatureStore, capture_texts
from backend.training.token_map import choose_tokens
from tests.training.stand_ins import Recorder, never
from tests.training.test_features import Pair

DEPTH, NEW = 3, 22
#: Each family's own way to learn, sharpened where a random target's flat distribution would take long to know by heart.
SETTINGS: dict[str, FamilySettings] = {
    "medusa": MedusaSettings(num_heads=DEPTH, draft_vocab=0, decay=1.0),
    "hydra": HydraSettings(num_heads=DEPTH, draft_vocab=0, decay=1.0),
    "hydra++": HydraSettings(head_arch="prefix-mlp", num_heads=DEPTH, draft_vocab=0, decay=1.0),
    "eagle": EagleSettings(
        test_time_steps=DEPTH, draft_depth=DEPTH, draft_vocab=0, token_weight=1.0, feature_weight=0.1, decay=1.0,
        noise=0.02,
    ),
    "eagle3": Eagle3Settings(
        test_time_steps=DEPTH, draft_depth=DEPTH, draft_vocab=250, decay=1.0, loss="hard"
    ),
    "mtp": MtpSettings(
        form="modules", test_time_steps=DEPTH, draft_depth=DEPTH, draft_vocab=0, decay=1.0, loss="hard"
    ),
    "peagle": PeagleSettings(draft_depth=DEPTH, draft_vocab=250, decay=1.0, loss="hard", kept_places=0.9),
}  # fmt: skip


@dataclass(frozen=True)
class Learned:
    """`learner` after training on `answers`, which `target` gave greedily."""

    target: Target
    learner: Learner
    answers: list[Pair]


def prompts(count: int, seed: int = 0, vocabulary: int = 250) -> list[list[int]]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(0, vocabulary, (3 + number % 5,), generator=generator).tolist() for number in range(count)]


def own_answers(target: Target, asked: Sequence[Sequence[int]], count: int = NEW) -> list[Pair]:
    """The target's own greedy answers."""
    settings = DecodeSettings(count, Rule("greedy"), ignore_eos=True)
    found = [r for r in decode(target, PlainDrafter(), asked, settings, len(asked)) if isinstance(r, DecodeResult)]
    return [Pair(tuple(asked[r.row]), tuple(r.tokens)) for r in sorted(found, key=lambda r: r.row)]


def features_for(
    learner: Learner, target: Target, answers: Sequence[Pair], folder: Path
) -> FeatureStore | TextFeatureStore:
    """As the job makes them."""
    if learner.reads:
        return capture_texts(target, answers, learner.reads, folder)
    return capture(target, answers, folder, ahead=learner.wants_ahead)


def learn(
    settings: FamilySettings, target: Target, folder: Path, steps: int, count: int = 16, rate: float = 5e-3
) -> Learned:
    """Train on `count` answers of the target."""
    answers = own_answers(target, prompts(count, vocabulary=min(250, target.vocab_size)))
    recipe = recipe_of(settings.family)
    tokens = None
    if settings.draft_vocab:
        tokens, _ = choose_tokens(answers, target.vocab_size, settings.draft_vocab)
    texts = [(*a.prompt_ids, *a.answer_ids) for a in answers]
    learner = recipe.new_learner(settings, target, tokens, None, texts)
    features = features_for(learner, target, answers, folder / "features")
    config = TrainConfig(
        steps=steps, batch_tokens=128, learning_rate=rate, checkpoint_every=10_000, evaluate_every=10_000,
        decode_prompts=0,
    )  # fmt: skip
    result = train(config, learner, features, features, Recorder(), never, folder / "run")
    assert result.finish_reason == "done"
    return Learned(target, learner, answers)
