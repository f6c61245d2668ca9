"""What is recorded along plain decoding is what real decodes with the drafter accept, for every tree inside it."""

from __future__ import annotations

import pytest

from backend.analysis.calibration import LEAF, MISS, UNKNOWN, accepted_with, whole
from backend.decoding.loop import DecodeSettings, decode
from backend.decoding.records import StepTrace
from backend.drafters.base import Drafter
from backend.drafters.draft_model.drafter import DraftModelDrafter
from backend.drafters.ngram.config import NgramConfig
from backend.drafters.ngram.drafter import NgramDrafter
from backend.drafters.plain.drafter import PlainDrafter
from backend.errors import HeadwayError
from backend.trees import TreeShape, chain
from backend.trees.shapes import parse_tree
from backend.tuning.calibrating import WideTree, calibrate, wide_tree
from tests.drafters.test_pair_models import drafter_of, new_model
from tests.support.drafters import random_medusa
from tests.support.targets import random_text, target_of

TARGET = target_of("llama")
PROMPTS = [random_text(seed, 6 + seed) for seed in range(4)]
NEW = 24


def draft_model() -> Drafter:
    # The target itself with less context guesses right; another seed guesses wrong; together both kinds are there.
    return DraftModelDrafter(TARGET, TARGET.vocab_size, chain(1))


DRAFTERS = {
    "medusa": (lambda: random_medusa(TARGET, chain(1)), "[[0],[1],[0,0],[0,1],[1,0],[0,0,1]]"),
    "draft_model": (draft_model, "[[0],[1],[0,0],[0,1],[1,0],[0,0,0]]"),
    "eagle": (lambda: drafter_of("eagle", new_model("eagle", TARGET), chain(1)), "[[0],[1],[0,0],[0,1],[1,0],[0,0,0]]"),
    "ngram": (lambda: NgramDrafter(NgramConfig()), "chain-3"),
}


def calibrated(wide: WideTree, batch: int = 2) -> dict[int, object]:
    names = [(f"q{n}", "c") for n in range(len(PROMPTS))]
    return dict(calibrate(TARGET, wide, PROMPTS, names, 0.0, NEW, batch, 0, range(len(PROMPTS))))


@pytest.mark.parametrize("family", DRAFTERS)
def test_a_replay_accepts_what_a_decode_accepts(family: str) -> None:
    make, text = DRAFTERS[family]
    wide, shape = wide_tree(make(), 40, 4, 3), parse_tree(text)
    walks = calibrated(wide)
    assert set(walks) == set(range(len(PROMPTS)))
    steps = compared = 0
    for number, prompt in enumerate(PROMPTS):
        walk = walks[number]
        expected = accepted_with(shape, whole(walk))
        at = 0
        settings = DecodeSettings(NEW)
        for record in decode(TARGET, make().with_shape(shape), [prompt], settings):
            if isinstance(record, StepTrace):
                steps += 1
                if at < len(expected):
                    assert record.num_accepted == expected[at], (number, at)
                    compared += 1
                at += record.num_accepted + 1
    assert compared > 0.6 * steps


def test_it_does_not_matter_how_many_are_answered_at_once() -> None:
    wide = wide_tree(random_medusa(TARGET, chain(1)), 40, 4, 3)
    alone, together = calibrated(wide, 1), calibrated(wide, 3)
    for number in alone:
        assert (whole(alone[number]) == whole(together[number])).all()


def test_the_end_of_an_answer_is_unknown_and_a_path_that_leaves_the_tree_is_a_leaf() -> None:
    wide = wide_tree(draft_model(), 40, 4, 3)
    walk = calibrated(wide)[0]
    assert walk.ranks.shape == (NEW - 1, 3) and walk.num_whole == NEW - 4  # the loop drafts no deeper than it can use
    assert (walk.ranks[-1] == UNKNOWN).all()
    found = set(walk.ranks[: walk.num_whole].ravel().tolist())
    assert found <= {*range(4), MISS, LEAF}


def test_the_widest_tree_a_drafter_can_fill() -> None:
    heads = wide_tree(random_medusa(TARGET, chain(1)), 40, 5)
    assert heads.parallel and heads.ranks == 5 and heads.shape.num_nodes == 5 * heads.shape.max_depth
    assert wide_tree(NgramDrafter(NgramConfig()), 40, 5).shape == chain(8)
    bush = wide_tree(draft_model(), 30, 4, 5)
    assert not bush.parallel and bush.shape.max_depth == 5 and bush.shape.num_nodes <= 30
    assert isinstance(bush.shape, TreeShape)
    with pytest.raises(HeadwayError, match="drafts nothing that could be calibrated"):
        wide_tree(PlainDrafter(), 30, 4)
