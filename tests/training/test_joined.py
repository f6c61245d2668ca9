"""Captures of several versions read as one: the same batches as each alone, and a training that learns from both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from backend.data.answers import Answer, AnswerWriter
from backend.drafters.checkpoint import read_meta
from backend.errors import HeadwayError, MismatchError
from backend.jobs.as_text import validated
from backend.jobs.configs import TrainJobConfig
from backend.jobs.context import ConsoleContext
from backend.jobs.kinds import JOB_KINDS
from backend.jobs.train_job import run
from backend.jobs.train_several import refuse_several_processes
from backend.settings import Settings
from backend.targets.opening import open_target
from backend.training.features import capture
from backend.training.joined import JoinedPositions, JoinedTexts
from backend.training.text_features import capture_texts
from tests.support.adapters import tiny_adapter
from tests.support.targets import random_text, target_of


def answers(seed: int, count: int = 12) -> list[Answer]:
    found = []
    for number in range(count):
        text = random_text(1000 * seed + number, 14 + number % 5)
        found.append(Answer(f"q{number}", "any", tuple(text[:6]), tuple(text[6:]), 0.0, 0, "length", False))
    return found


def test_positions_of_several_captures_stand_one_behind_the_other(tmp_path: Path) -> None:
    parts = [capture(target_of("llama", seed), answers(seed), tmp_path / str(seed), ahead=True) for seed in (0, 1)]
    joined = JoinedPositions(parts)
    assert len(joined) == sum(map(len, parts)) and joined.fingerprint not in {one.fingerprint for one in parts}
    assert JoinedPositions(parts[::-1]).fingerprint != joined.fingerprint
    first = len(parts[0])
    numbers = torch.tensor([first + 3, 0, first - 1, first, 5, len(joined) - 1])
    found = joined.batch(numbers, 3)
    for row, number in enumerate(numbers.tolist()):
        part, own = (parts[0], number) if number < first else (parts[1], number - first)
        alone = part.batch(torch.tensor([own]), 3)
        assert torch.equal(found.hidden[row], alone.hidden[0]) and torch.equal(found.following[row], alone.following[0])
        assert found.ahead is not None and alone.ahead is not None and torch.equal(found.ahead[row], alone.ahead[0])
    seen = torch.cat(list(joined.epoch(8, 3)))
    assert len(seen.unique()) == len(seen) and any(len((b >= first).unique()) == 2 for b in joined.epoch(8, 3))
    with pytest.raises(ValueError, match="at least one part"):
        JoinedPositions([])


def test_texts_of_several_captures_are_padded_to_one_width(tmp_path: Path) -> None:
    parts = [capture_texts(target_of("llama", seed), answers(seed), (1, 2), tmp_path / str(seed)) for seed in (0, 1)]
    joined = JoinedTexts(parts)
    assert len(joined) == sum(map(len, parts)) and len(joined.lengths) == 24
    numbers = torch.tensor([12, 4, 0, 16])  # 14, 18, 14 and 18 tokens, of both parts
    found = joined.batch(numbers, 1)
    assert found.tokens.shape == (4, 18)
    for row, number in enumerate(numbers.tolist()):
        alone = parts[number // 12].batch(torch.tensor([number % 12]), 1)
        length = alone.tokens.shape[1]
        for name in ("tokens", "states", "final", "learn"):
            got, expected = getattr(found, name)[row], getattr(alone, name)[0]
            assert torch.equal(got[:length], expected) and not got[length:].any()
    every = torch.cat(list(joined.in_order(64)))
    assert every.sort().values.tolist() == list(range(24))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", cache=tmp_path / "cache")


def written(place: Path, seed: int) -> str:
    with AnswerWriter(place) as writer:
        for one in answers(seed):
            writer.write(one)
    return str(place)


def trained(settings: Settings, tmp_path: Path, family: str, also: list[str], **more: Any) -> Path:
    out = tmp_path / f"out-{family}"
    base = {
        "target": "tiny-llama", "answers": written(tmp_path / "base.jsonl", 7), "out": str(out), "also": also,
        "tree": "chain", "held_out": 0.2, "drafter": {"family": family},
        "training": {"epochs": 1.0, "batch_tokens": 32, "decode_prompts": 1},
    }  # fmt: skip
    folder = tmp_path / "job"
    folder.mkdir(exist_ok=True)
    config = validated("train", base | more)
    assert isinstance(config, TrainJobConfig)
    return Path(run(config, ConsoleContext(settings, folder, quiet=True))["out"])


@pytest.mark.parametrize("family", ["medusa", "eagle3"])
def test_a_training_reads_every_version_by_itself(settings: Settings, tmp_path: Path, family: str) -> None:
    adapter = tiny_adapter(tmp_path / "tone")
    other = f"tiny-llama+lora:{adapter}"
    out = trained(settings, tmp_path, family, [f"{other}={written(tmp_path / 'tone.jsonl', 8)}"])
    meta = read_meta(out)
    assert meta.also == [open_target(other, settings, "cpu").identity.to_dict()]
    assert [(one["target"], one["answers"]) for one in meta.lineage["also"]] == [(other, "tone.jsonl")]
    positions = [sum(len(one.answer_ids) for one in answers(seed)) for seed in (7, 8)]
    numbers = meta.numbers
    assert numbers["training_positions"] + numbers["held_out_positions"] == sum(positions)
    made_by = [
        json.loads(place.read_text())["made_by"].get("adapter") for place in settings.features.glob("*/features.json")
    ]
    assert len(made_by) == 4 and sum(one is not None for one in made_by) == 2  # two sides of each version


def test_versions_that_share_no_vocabulary_are_refused(settings: Settings, tmp_path: Path) -> None:
    adapter = tiny_adapter(tmp_path / "tone", modules=["q_proj", "lm_head"])
    pair = f"tiny-llama+lora:{adapter}={written(tmp_path / 'tone.jsonl', 8)}"
    with pytest.raises(MismatchError, match="another embedding or output head"):
        trained(settings, tmp_path, "medusa", [pair])
    assert not (tmp_path / "out-medusa").exists()


@pytest.mark.parametrize(
    ("also", "more", "sentence"),
    [
        (["tiny-llama:1"], {}, "is written TARGET=ANSWERS"),
        (["tiny-llama=a.jsonl"], {}, "is named twice"),
        (["tiny-llama:1=nowhere.jsonl"], {}, "There is no file nowhere.jsonl"),
        (["tiny-llama:1=a.jsonl"], {"features": "online"}, "cached features"),
    ],
)
def test_mistakes_are_one_sentence(
    settings: Settings, tmp_path: Path, also: list[str], more: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(HeadwayError, match=sentence):
        trained(settings, tmp_path, "medusa", also, **more)


def test_pairs_are_settled_and_several_processes_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = TrainJobConfig(answers="a.jsonl", also=("smollm2-135m+int8=b.jsonl",))
    settled = JOB_KINDS["train"].settled(config)
    assert isinstance(settled, TrainJobConfig)
    assert settled.also == (f"smollm2-135m+int8={tmp_path / 'b.jsonl'}",)
    refuse_several_processes(config, 1)
    with pytest.raises(HeadwayError, match="without torchrun"):
        refuse_several_processes(config, 2)
