"""N-gram lookup against a slow, obvious twin, and the padding of rows without a match."""

import random

import pytest
import torch

from backend.drafters.base import DraftContext
from backend.drafters.ngram.config import NgramConfig
from backend.drafters.ngram.drafter import NgramDrafter, chain_after, latest_match
from backend.errors import HeadwayError
from backend.trees import chain, product
from tests.acceptance.test_no_sync import NoSync


def context(texts: list[list[int]], max_depth: int = 8, garbage: int = 7) -> DraftContext:
    width = max(len(text) for text in texts) + 2
    tokens = torch.full((len(texts), width), garbage)
    for row, text in enumerate(texts):
        tokens[row, : len(text)] = torch.tensor(text)
    lengths = torch.tensor([len(text) for text in texts])
    return DraftContext(tokens, lengths, torch.zeros(len(texts), 4), 0.0, torch.Generator(), max_depth)


def slow_match(text: list[int], max_n: int, min_n: int) -> int:
    for n in range(max_n, min_n - 1, -1):
        for end in range(len(text) - 2, n - 2, -1):
            if n < len(text) and text[end - n + 1 : end + 1] == text[-n:]:
                return end
    return -1


@pytest.mark.parametrize("limits", [(3, 1), (3, 2), (2, 2), (4, 1), (1, 1)])
def test_matches_like_the_slow_twin(limits: tuple[int, int]) -> None:
    rng = random.Random(1)
    for _ in range(100):
        texts = [[rng.randrange(4) for _ in range(rng.randint(1, 14))] for _ in range(5)]
        made = context(texts, garbage=rng.randrange(4))
        found = latest_match(made.tokens, made.lengths, *limits).tolist()
        assert found == [slow_match(text, *limits) for text in texts]


def test_proposes_what_followed_and_pads_rows_without_a_match() -> None:
    drafter = NgramDrafter(NgramConfig(num_tokens=3))
    draft = drafter.draft(context([[1, 2, 3, 4, 5, 9, 1, 2, 3], [1, 2, 3]]))
    assert draft.tree.tokens[0].tolist() == [3, 4, 5, 9]
    assert draft.tree.num_nodes.tolist() == [3, 0]
    assert draft.tree.parents.tolist() == [[-1, 0, 1, 2], [-1, -1, -1, -1]]
    assert draft.tree.tokens[1, 0] == 3
    assert draft.distribution is None and draft.draft_prob.isnan().all()


def test_latest_occurrence_wins_over_an_earlier_one() -> None:
    draft = NgramDrafter(NgramConfig(num_tokens=1)).draft(context([[1, 2, 5, 1, 2, 6, 1, 2]]))
    assert draft.tree.tokens[0].tolist() == [2, 6]


def test_a_repeating_text_goes_on_past_its_end() -> None:
    draft = NgramDrafter(NgramConfig(num_tokens=5)).draft(context([[8, 1, 2, 1, 2]]))
    assert draft.tree.tokens[0].tolist() == [2, 1, 2, 1, 2, 1]


def test_a_row_beside_others_drafts_what_it_drafts_alone() -> None:
    drafter = NgramDrafter(NgramConfig(num_tokens=4))
    texts = [[1, 2, 3, 1, 2], [4, 4], [5], [1, 2, 3, 4, 5, 6, 2, 3]]
    together = drafter.draft(context(texts)).tree
    for row, text in enumerate(texts):
        alone = drafter.draft(context([text])).tree
        count = int(alone.num_nodes[0])
        assert int(together.num_nodes[row]) == count
        assert together.tokens[row, : count + 1].tolist() == alone.tokens[0, : count + 1].tolist()


def test_no_match_anywhere_is_plain_decoding() -> None:
    assert NgramDrafter(NgramConfig()).draft(context([[1, 2, 3], [4, 5]])).tree.width == 1


def test_depth_is_limited_by_the_context() -> None:
    drafter = NgramDrafter(NgramConfig(num_tokens=4))
    assert drafter.draft(context([[1, 2, 1, 2]], max_depth=2)).tree.max_depth == 2
    assert drafter.draft(context([[1, 2, 1, 2]], max_depth=0)).tree.width == 1


def test_takes_chains_only() -> None:
    assert NgramDrafter(NgramConfig()).with_shape(chain(9)).shape == chain(9)
    with pytest.raises(HeadwayError, match="chain"):
        NgramDrafter(NgramConfig()).with_shape(product([2, 1]))
    with pytest.raises(HeadwayError, match="longer than"):
        NgramDrafter(NgramConfig(max_n=1, min_n=2))


def test_looking_up_never_asks_the_device() -> None:
    given = context([[1, 2, 3, 1, 2], [4]])
    with NoSync():
        end = latest_match(given.tokens, given.lengths, 3, 1)
        chain_after(given, end, 4)
