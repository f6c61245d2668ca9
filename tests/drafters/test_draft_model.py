"""A separate draft model against the same model run plainly: tokens, probabilities, what its cache must not forget."""

import random
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from backend.drafters.draft_model.drafter import DraftModelDrafter, load_draft_model
from backend.errors import HeadwayError, MismatchError
from backend.targets.target import Target
from backend.trees import TreeShape, chain, product
from tests.drafters.stand_ins import context_of, tiny_target


@pytest.fixture(scope="module")
def model() -> Target:
    return tiny_target("llama", 5)


def next_probs(model: Target, text: list[int], temperature: float = 1.0) -> Tensor:
    ids = torch.tensor([text])
    hidden = model.hidden_states(ids, torch.ones_like(ids, dtype=torch.bool))
    return torch.softmax(model.logits(hidden[0, -1]) / temperature, 0)


def check_tree(model: Target, shape: TreeShape, texts: list[list[int]], draft_tokens: Tensor, probs: Tensor) -> None:
    """Every node is the candidate of its rank after root and ancestors, found by plain passes."""
    for row, text in enumerate(texts):
        assert draft_tokens[row, 0] == text[-1]
        words: dict[tuple[int, ...], list[int]] = {(): []}
        for column, path in enumerate(shape.paths, start=1):
            before = text + words[path[:-1]]
            plain = next_probs(model, before)
            token = int(plain.sort(descending=True, stable=True).indices[path[-1]])
            assert draft_tokens[row, column] == token
            assert probs[row, column].item() == pytest.approx(plain[token].item(), rel=1e-3)
            words[path] = [*words[path[:-1]], token]


@pytest.mark.parametrize("shape", [chain(4), product([3, 2, 1]), TreeShape(((0,), (2,), (2, 1), (2, 1, 0)))])
def test_drafts_what_plain_passes_say_while_the_text_grows(model: Target, shape: TreeShape) -> None:
    rng = random.Random(2)
    drafter = DraftModelDrafter(model, model.vocab_size, shape)
    drafter.start(3, 60)
    texts = [[rng.randrange(200) for _ in range(n)] for n in (1, 7, 12)]
    for _ in range(4):
        draft = drafter.draft(context_of(texts))
        check_tree(model, shape, texts, draft.tree.tokens, draft.draft_prob)
        for row, text in enumerate(texts):  # some drafted tokens accepted, then one of the target's own
            accepted = rng.randrange(shape.max_depth + 1)
            text += [*draft.tree.tokens[row, 1 : 1 + accepted].tolist(), rng.randrange(200)]


def test_rows_come_and_go(model: Target) -> None:
    drafter = DraftModelDrafter(model, model.vocab_size, chain(2))
    drafter.start(3, 40)
    drafter.draft(context_of([[1, 2, 3], [4, 5], [6]]))
    drafter.replace_rows([0])
    texts = [[9, 8, 7, 6, 5], [4, 5, 1]]  # a new text in row 0, and the third row is closed
    draft = drafter.draft(context_of(texts))
    check_tree(model, chain(2), texts, draft.tree.tokens, draft.draft_prob)


def test_sampled_siblings_carry_the_distribution_of_their_parent(model: Target) -> None:
    shape = TreeShape(((0,), (3,), (0, 0), (3, 1), (3, 2)))
    drafter = DraftModelDrafter(model, model.vocab_size, shape).with_sampled(True)
    drafter.start(2, 40)
    texts = [[1, 2, 3], [7, 7]]
    draft = drafter.draft(context_of(texts, temperature=0.8, seed=3))
    q = draft.distribution
    assert q is not None and q.vocabulary is None
    for row, text in enumerate(texts):
        for column in (0, 1, 2):  # the inner nodes
            before = text + ([] if column == 0 else [int(draft.tree.tokens[row, column])])
            expected = next_probs(model, before, 0.8)
            torch.testing.assert_close(q.probs[row, q.of_column[column]], expected, atol=1e-4, rtol=1e-3)
        tokens = draft.tree.tokens[row].tolist()
        assert tokens[1] != tokens[2] and tokens[4] != tokens[5]


def test_vocabularies_padded_differently_share_their_common_tokens(model: Target) -> None:
    wider = DraftModelDrafter(model, model.vocab_size + 8, chain(2), sampled=True)
    wider.start(1, 20)
    q = wider.draft(context_of([[1, 2]], temperature=1.0)).distribution
    assert q is not None and q.rows(torch.tensor([0]), model.vocab_size + 8).shape == (1, model.vocab_size + 8)
    narrower = DraftModelDrafter(model, 100, chain(3))
    narrower.start(1, 20)
    assert int(narrower.draft(context_of([[1, 2]])).tree.tokens.max()) < 100


def test_near_the_models_last_position_the_tree_gets_shallower() -> None:
    short = tiny_target("llama", 6, max_position_embeddings=10)
    drafter = DraftModelDrafter(short, short.vocab_size, chain(4))
    drafter.start(1, 10)
    assert drafter.draft(context_of([[3] * 8])).tree.max_depth == 2
    assert drafter.draft(context_of([[3] * 10])).tree.width == 1
    with pytest.raises(HeadwayError, match="10 tokens"):
        drafter.start(1, 11)


def test_another_tokenizer_is_refused_unless_forced(model: Target) -> None:
    other = tiny_target("llama", 7)
    drafter, warnings = load_draft_model("other", model, lambda name: other)
    assert drafter.model is other and warnings == [] and drafter.shape == chain(4)
    other.identity = replace(other.identity, tokenizer_id="different")
    with pytest.raises(MismatchError, match="tokenizers"):
        load_draft_model("other", model, lambda name: other)
    _, warnings = load_draft_model("other", model, lambda name: other, force=True)
    assert len(warnings) == 1
