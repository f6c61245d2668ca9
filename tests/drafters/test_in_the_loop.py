"""Drafters inside the decode loop: the text never changes, and a model that drafts for itself is always right."""

import random

import pytest

from backend.acceptance import Rule, SamplingSettings
from backend.decoding.loop import DecodeSettings, decode
from backend.decoding.records import DecodeResult
from backend.drafters.base import Drafter
from backend.drafters.registry import load_drafter
from backend.targets.target import Target
from backend.trees import TreeShape, chain, product
from tests.drafters.stand_ins import tiny_target

RNG = random.Random(0)
PROMPTS = [[RNG.randrange(256) for _ in range(RNG.randint(1, 20))] for _ in range(5)]
NEW = 13  # 1 from prefill, then whole steps of 4 tokens or of 3


@pytest.fixture(scope="module")
def target() -> Target:
    return tiny_target()


def results(target: Target, drafter: Drafter, batch: int, settings: DecodeSettings) -> list[DecodeResult]:
    records = decode(target, drafter, PROMPTS, settings, batch)
    return sorted((record for record in records if isinstance(record, DecodeResult)), key=lambda result: result.row)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize(
    ("spec", "tree"), [("ngram", chain(3)), ("draft:other", product([3, 2])), ("draft:itself", chain(3))]
)
def test_greedy_text_is_that_of_plain_decoding(target: Target, spec: str, tree: TreeShape, batch: int) -> None:
    settings = DecodeSettings(max_new_tokens=NEW, ignore_eos=True)
    plain = results(target, load_drafter("none", target)[0], 1, settings)
    other = tiny_target(seed=0 if spec.endswith("itself") else 8)
    drafter, _ = load_drafter(spec, target, tree, open_target=lambda name: other)
    drafted = results(target, drafter, batch, settings)
    assert [result.tokens for result in drafted] == [result.tokens for result in plain]
    if spec.endswith("itself"):
        assert all(result.num_accepted == 3 * result.num_steps for result in drafted)


def test_samples_drawn_from_the_targets_own_distribution_are_always_accepted(target: Target) -> None:
    settings = DecodeSettings(
        max_new_tokens=NEW, ignore_eos=True, rule=Rule("rejection"), sampling=SamplingSettings(1.0)
    )
    drafter, _ = load_drafter(
        "draft:itself", target, product([2, 2]), sampled=True, open_target=lambda name: tiny_target()
    )
    for result in results(target, drafter, 2, settings):
        assert result.num_accepted == 2 * result.num_steps
