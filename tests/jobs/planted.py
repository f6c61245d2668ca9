"""Small drafters that have learned a tiny target's answers, and copies of them with one fault planted."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from backend.data.templates import encode_chat, encode_raw
from backend.drafters.checkpoint import DrafterMeta, read_folder, write_folder
from backend.drafters.family import FamilySettings
from backend.drafters.recipe import recipe_of
from backend.settings import Settings
from backend.targets.opening import open_target
from backend.targets.target import FINAL, Target
from backend.training.config import TrainConfig
from backend.training.loop import train
from backend.training.token_map import choose_tokens
from backend.trees import TreeShape, chain
from backend.tuning.forcing import state_facts
from tests.drafters.learned import features_for, own_answers
from tests.training.stand_ins import Recorder, never
from tests.training.test_features import Pair

TARGET, DEPTH, NEW = "tiny-llama", 3, 24
WORDS = ("apple", "brick", "cloud", "daisy", "eagle", "flute", "grape", "honey", "ivory", "jelly", "koala", "lemon",
         "mango", "north")  # fmt: skip
Spoil = Callable[[dict[str, Tensor]], None]


def questions(category: str, count: int = len(WORDS), longer: str = "") -> list[dict[str, Any]]:
    return [
        {"question_id": f"{category}{i}", "category": category, "turns": [f"{category} {word}{longer}"]}
        for i, word in enumerate(WORDS[:count])
    ]


def prompt_file(place: Path, *rows: dict[str, Any]) -> str:
    place.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(place)


def opened(folder: Path) -> Target:
    return open_target(TARGET, Settings(home=folder / "home", cache=folder / "cache"), None, None, False)


def asked(target: Target, rows: Sequence[dict[str, Any]], raw: bool = False) -> list[list[int]]:
    texts = [row["turns"][0] for row in rows]
    if raw:
        return [encode_raw(target.tokenizer, text) for text in texts]
    return [encode_chat(target.tokenizer, [{"role": "user", "content": text}]) for text in texts]


def answers_of(target: Target, rows: Sequence[dict[str, Any]], raw: bool = False) -> list[Pair]:
    return own_answers(target, asked(target, rows, raw), NEW)


def answer_file(place: Path, answers: Sequence[Pair]) -> str:
    rows = [
        {
            "question_id": f"a{i}", "category": "x", "prompt_ids": a.prompt_ids, "answer_ids": a.answer_ids,
            "temperature": 0.0, "seed": 0, "finish_reason": "length", "truncated": True, "turn": 0,
        }
        for i, a in enumerate(answers)
    ]  # fmt: skip
    place.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(place)


def trained(
    settings: FamilySettings,
    target: Target,
    answers: Sequence[Pair],
    place: Path,
    steps: int,
    tree: TreeShape | None = None,
    spoil: Callable[[Any], Any] = lambda features: features,
) -> Path:
    """A drafter that knows these answers by heart, with what a training job stores beside it."""
    recipe = recipe_of(settings.family)
    tokens = None
    if settings.draft_vocab:
        tokens, _ = choose_tokens(answers, target.vocab_size, settings.draft_vocab)
    texts = [(*a.prompt_ids, *a.answer_ids) for a in answers]
    learner = recipe.new_learner(settings, target, tokens, None, texts)
    features = spoil(features_for(learner, target, answers, place.parent / f"{place.name}-features"))
    config = TrainConfig(
        steps=steps, batch_tokens=128, learning_rate=5e-3, checkpoint_every=10_000, evaluate_every=10_000,
        decode_prompts=0,
    )  # fmt: skip
    train(config, learner, features, features, Recorder(), never, place.parent / f"{place.name}-run")
    meta = DrafterMeta(
        family=settings.family,
        name=place.name,
        config={},
        version=target.identity.to_dict(),
        tree=(tree or chain(DEPTH)).to_json(),
        numbers={
            "decoded_acceptance_length": 3.4,
            "expected_acceptance_length": 3.4,
            "states": state_facts(target, texts, learner.reads or (FINAL,)),
            "longest_text": max(map(len, texts)),
        },
        lineage={
            "temperatures": [0.0], "dtype": "float32", "drafter": settings.model_dump(),
            "answer_tokens": sum(len(a.answer_ids) for a in answers),
        },
    )  # fmt: skip
    recipe.save(place, learner, meta, torch.float32)
    return place


def copied(
    healthy: Path, place: Path, spoil: Spoil = lambda tensors: None, numbers: dict[str, Any] | None = None,
    lineage: dict[str, Any] | None = None, **changes: Any,
) -> str:  # fmt: skip
    """A copy with other tensors, numbers, lineage or anything else of its headway.json."""
    meta, tensors = read_folder(healthy)
    spoil(tensors)
    more = {"numbers": {**meta.numbers, **(numbers or {})}, "lineage": {**meta.lineage, **(lineage or {})}}
    write_folder(place, meta.model_copy(update=more | changes), tensors)
    return str(place)
