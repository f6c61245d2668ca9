"""Adaptive depth changes how much is drafted and never what is written."""

from __future__ import annotations

import json

import pytest

from backend.decoding.loop import DecodeSettings, decode
from backend.decoding.records import DecodeResult, StepTrace
from backend.drafters.adaptive import AdaptiveDrafter
from backend.drafters.base import Drafter
from backend.drafters.plain.drafter import PlainDrafter
from backend.drafters.registry import tree_of, with_tree
from backend.errors import HeadwayError
from backend.trees import AdaptiveShape, chain, parse_any_tree, product
from backend.trees.adaptive import NEVER
from tests.support.drafters import random_medusa
from tests.support.targets import random_text, target_of

TARGET = target_of("llama")
PROMPTS = [random_text(seed, 5 + seed) for seed in range(3)]


def heads() -> Drafter:
    return random_medusa(TARGET, chain(3))


def adapted(stops: tuple[float, ...] = (), depths: tuple[tuple[int, int], ...] = ()) -> AdaptiveDrafter:
    return AdaptiveDrafter(heads(), AdaptiveShape(chain(3), stops, depths))


def run(drafter: Drafter, batch: int = 1) -> tuple[list[list[int]], list[StepTrace]]:
    settings = DecodeSettings(16, ignore_eos=True)
    records = list(decode(TARGET, drafter, PROMPTS, settings, batch))
    results = sorted((one for one in records if isinstance(one, DecodeResult)), key=lambda one: one.row)
    return [one.tokens for one in results], [one for one in records if isinstance(one, StepTrace)]


def test_stops_shorten_chains_and_leave_the_text_alone() -> None:
    plain, _ = run(PlainDrafter())
    whole, all_steps = run(heads())
    text, steps = run(adapted((0.2, 0.1)))
    assert text == whole == plain
    assert sum(one.num_drafted for one in steps) / len(steps) < sum(one.num_drafted for one in all_steps) / len(
        all_steps
    )
    assert {one.num_drafted for one in steps} >= {1, 2}
    text, steps = run(adapted((NEVER, NEVER)), batch=3)
    assert text == plain and {one.num_drafted for one in steps} <= {0, 1}


def test_large_batches_draft_less_or_nothing() -> None:
    drafter = adapted(depths=((1, 3), (2, 1), (3, 0)))
    text, steps = run(drafter, batch=3)
    assert text == run(PlainDrafter())[0]
    _, pair = run(drafter, batch=2)
    _, alone = run(drafter, batch=1)
    assert max(one.num_drafted for one in alone) == 3
    assert steps[0].num_drafted == 0 and pair[0].num_drafted == 1


def test_what_would_not_be_exact_is_refused() -> None:
    with pytest.raises(HeadwayError, match="chosen children"):
        adapted((0.5,)).with_sampled(True)
    with pytest.raises(HeadwayError, match="along a chain"):
        AdaptiveShape(product([2, 1]), (0.5,))
    assert adapted(depths=((4, 1),)).with_sampled(True).sampled


ASKED = '{"adaptive": {"paths": [[0], [0, 0], [0, 0, 0]], "stops": [0.2, null], "depths": {"1": 3, "3": 0}}}'


def test_it_can_be_asked_for_as_a_tree_and_says_what_it_is() -> None:
    tree = parse_any_tree(ASKED)
    assert isinstance(tree, AdaptiveShape) and tree.stops == (0.2, NEVER) and tree.depths == ((1, 3), (3, 0))
    assert tree.to_json() == json.loads(ASKED)
    drafter = with_tree(heads(), tree)
    assert tree_of(drafter) == tree and tree_of(with_tree(drafter, chain(2))) == chain(2)
    text, steps = run(drafter)
    assert text == run(PlainDrafter())[0]
    assert {1, 2} <= {one.num_drafted for one in steps} <= {0, 1, 2}  # 0 where no more tokens are wanted
    assert run(drafter, batch=3)[1][0].num_drafted == 0
    assert tree.cut(2).stops == (0.2,) and tree.cut(0).to_json()["adaptive"]["paths"] == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"adaptive": {"stops": [0.5]}}', "is asked for as"),
        ('{"adaptive": {"paths": [[0]], "stops": "much"}}', "is asked for as"),
        ('{"adaptive": {"paths": [[0], [0, 0]], "stops": [3]}}', "probability from 0 to 1"),
        ('{"adaptive": {"paths": [[0], [0, 0]], "stops": [0.1, 0.1]}}', "level 1 needs none, so give at most 1"),
        ('{"adaptive": {"paths": [[0], [1]], "stops": [0.1]}}', "along a chain"),
        ('{"adaptive": {"paths": [[0]], "depths": {"0": 1}}}', "from 1 on"),
        ('{"adaptive": {"paths": [[0, 0]]}}', "parent"),
    ],
)
def test_what_cannot_be_asked_for_is_one_sentence(text: str, says: str) -> None:
    with pytest.raises(HeadwayError, match=says) as caught:
        parse_any_tree(text)
    assert "\n" not in str(caught.value)
