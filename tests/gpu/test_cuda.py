"""What only a CUDA device can show: the same tokens there, one wait for the device a step, times from its own clock.

Run it with `pytest -m gpu tests/gpu`; it takes seconds and needs no download.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache

import pytest
import torch

from backend.acceptance import Rule, SamplingSettings
from backend.decoding.loop import DecodeSettings, decode
from backend.decoding.records import DecodeResult, StepTrace
from backend.drafters.base import Drafter
from backend.drafters.draft_model.drafter import DraftModelDrafter
from backend.drafters.ngram.config import NgramConfig
from backend.drafters.ngram.drafter import NgramDrafter
from backend.drafters.plain.drafter import PlainDrafter
from backend.targets.self_test import examine
from backend.targets.target import Target
from backend.targets.tiny import tiny_model
from backend.trees import product
from backend.trees.shapes import parse_tree
from tests.support.drafters import random_medusa
from tests.support.targets import plain_logits, random_text, reference_of, wrap

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device and a torch built for it"),
]
PROMPTS = [random_text(40, 5), random_text(41, 20), random_text(42, 1)]
NEW, TIE = 24, 1e-3


@cache
def cuda_target(kind: str = "llama", dtype: torch.dtype = torch.float32) -> Target:
    return wrap(tiny_model(kind).to("cuda", dtype), f"cuda-{kind}")


Make = Callable[[Target], Drafter]
DRAFTERS: dict[str, Make] = {
    "plain": lambda target: PlainDrafter(),
    "ngram": lambda target: NgramDrafter(NgramConfig()),
    "medusa": lambda target: random_medusa(target, parse_tree("medusa-63")),
    "draft-model": lambda target: DraftModelDrafter(cuda_target("qwen3"), target.vocab_size, product([3, 2])),
    "draft-itself": lambda target: DraftModelDrafter(target, target.vocab_size, product([2, 1, 1])),
}


@pytest.mark.parametrize("kind", ["llama", "mistral", "gemma2"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_targets_pass_their_examination(kind: str, dtype: torch.dtype) -> None:
    examine(cuda_target(kind, dtype))


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("name", DRAFTERS)
def test_greedy_equals_generate(name: str, batch: int) -> None:
    target, model = cuda_target(), reference_of("llama")
    settings = DecodeSettings(max_new_tokens=NEW)
    for record in decode(target, DRAFTERS[name](target), PROMPTS, settings, batch):
        if not isinstance(record, DecodeResult):
            continue
        ids = torch.tensor([PROMPTS[record.row]])
        out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW, do_sample=False)
        expected = out[0, ids.shape[1] :].tolist()
        place = next((i for i, (a, b) in enumerate(zip(record.tokens, expected, strict=False)) if a != b), None)
        if place is None:
            assert record.tokens == expected
            continue
        logits = plain_logits(model, ids[0].tolist() + expected[:place])[-1]
        assert abs(float(logits[record.tokens[place]] - logits[expected[place]])) < TIE


@pytest.mark.parametrize("sampling", [SamplingSettings(), SamplingSettings(0.8, top_p=0.9, repetition_penalty=1.1)])
@pytest.mark.parametrize("name", DRAFTERS)
def test_the_host_waits_for_the_device_once_a_step(name: str, sampling: SamplingSettings) -> None:
    target = cuda_target()
    settings = DecodeSettings(60, Rule("rejection"), sampling, ignore_eos=True)
    records = decode(target, DRAFTERS[name](target), PROMPTS, settings, batch=3)
    for _ in range(6):  # three prompts, and a step in which a draft model reads them
        next(records)
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            steps = [next(records) for _ in range(3)]
    finally:
        torch.cuda.set_sync_debug_mode("default")
    waits = [str(warning.message) for warning in caught if "synchroniz" in str(warning.message)]
    assert len(waits) == 1, waits
    for step in steps:
        assert isinstance(step, StepTrace)
        assert step.verify_ms > 0 and step.draft_ms >= 0 and step.commit_ms > 0


def test_sampling_draws_the_same_on_the_device_as_on_the_host() -> None:
    settings = DecodeSettings(12, Rule("rejection"), SamplingSettings(1.0), seed=4)
    answers = []
    for target in (cuda_target(), wrap(tiny_model("llama"))):
        records = decode(target, PlainDrafter(), PROMPTS, settings, batch=3)
        answers.append({r.row: r.tokens for r in records if isinstance(r, DecodeResult)})
    assert answers[0] == answers[1]  # rows draw on the host, and logits differ by rounding only
