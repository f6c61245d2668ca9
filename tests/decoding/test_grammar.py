"""Held to a schema: masks equal those of a matcher that walked each path anew, text is valid JSON of the schema, and
drafting changes nothing.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import torch
from scipy.stats import chi2_contingency

from backend.acceptance import Rule, SamplingSettings
from backend.decoding.grammar import BITS, Grammar, GrammarRow, forbid
from backend.decoding.held_draft import held_draft
from backend.decoding.loop import DecodeSettings, decode
from backend.decoding.records import DecodeResult
from backend.drafters.base import Draft
from backend.drafters.independent import fill_static
from backend.drafters.ngram.config import NgramConfig
from backend.drafters.ngram.drafter import NgramDrafter
from backend.drafters.plain.drafter import PlainDrafter
from backend.errors import HeadwayError
from backend.targets.target import Target
from backend.trees import DraftTree, TreeShape, chain, product
from tests.support.drafters import OracleDrafter, random_medusa
from tests.support.targets import target_of

SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {
            "name": {"enum": ["ann", "bob", "anna"]},
            "age": {"type": "integer", "minimum": 0, "maximum": 99},
        },
        "required": ["name", "age"],
        "additionalProperties": False,
        "x-guidance": {"whitespace_flexible": False},  # a random model would write blanks for ever
    }
)


@pytest.fixture(scope="module")
def target() -> Target:
    return target_of("llama")


@pytest.fixture(scope="module")
def grammar(target: Target) -> Grammar:
    return Grammar(SCHEMA, target.tokenizer, target.vocab_size, sorted(target.eos_token_ids))


def ids(target: Target, text: str) -> list[int]:
    return [int(token) for token in target.tokenizer.encode(text, add_special_tokens=False)]


def answers(
    target: Target, drafter: Any, settings: DecodeSettings, count: int = 4, batch: int = 2
) -> list[DecodeResult]:
    prompts = [ids(target, f"prompt {number}") for number in range(count)]
    found = [one for one in decode(target, drafter, prompts, settings, batch) if isinstance(one, DecodeResult)]
    return sorted(found, key=lambda one: one.row)


def held(grammar: Grammar, temperature: float = 0.0) -> DecodeSettings:
    return DecodeSettings(60, Rule(), SamplingSettings(temperature=temperature), seed=3, grammar=grammar)


def as_bools(masks: torch.Tensor, size: int) -> torch.Tensor:
    return torch.isfinite(forbid(torch.zeros(len(masks), size), masks))


def test_masks_of_a_tree_are_those_of_each_path_walked_alone(target: Target, grammar: Grammar) -> None:
    """The slow twin: a new matcher for every column, fed the column's path."""
    start = ids(target, '{"name"')
    tokens, parents = [start[-1]], [-1]
    for text in (":", " ", "x", ':"', "bob", '"'):  # some of these are allowed, some are not, some follow others
        for parent, token in [(0, t) for t in ids(target, text)] + [(len(tokens) - 1, t) for t in ids(target, text)]:
            tokens.append(token)
            parents.append(parent)
    row = grammar.start()
    row.write(start)
    masks = as_bools(row.allowed(tokens, parents), target.vocab_size)
    reached = 0
    for column in range(len(tokens)):
        path, at = [], column
        while at > 0:
            path.append(tokens[at])
            at = parents[at]
        alone = grammar.start()
        alone.write(start)
        if alone._matcher.try_consume_tokens(path[::-1]) < len(path):
            assert masks[column].all()
            continue
        reached += 1
        expected = as_bools(alone.allowed([0], [-1]), target.vocab_size)[0]
        assert torch.equal(masks[column], expected)
        assert not expected.all()
    assert 3 <= reached < len(tokens)
    again = as_bools(row.allowed(tokens, parents), target.vocab_size)  # the row stands where it stood
    assert torch.equal(again, masks)


def test_columns_of_padding_are_left_alone(target: Target, grammar: Grammar) -> None:
    token = ids(target, "{")[0]
    masks = grammar.start().allowed([token, token, token], [-1, -1, -1])
    assert (masks[1:] == -1).all() and not (masks[0] == -1).all()


def test_the_mask_is_cut_at_the_vocabulary() -> None:
    masks = torch.tensor([[1 << 3, -1]], dtype=torch.int32)
    kept = torch.isfinite(forbid(torch.zeros(1, BITS + 2), masks))
    assert kept.nonzero()[:, 1].tolist() == [3, BITS, BITS + 1]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_every_answer_is_json_of_the_schema(target: Target, grammar: Grammar, temperature: float) -> None:
    """A random model says anything; held to the schema it says one of the few things allowed."""
    for one in answers(target, PlainDrafter(), held(grammar, temperature)):
        assert one.finish_reason == "eos"
        said = json.loads(one.text)
        assert set(said) == {"name", "age"} and said["name"] in ("ann", "bob", "anna") and 0 <= said["age"] <= 99


def test_drafting_changes_no_token(target: Target, grammar: Grammar) -> None:
    plain = [one.tokens for one in answers(target, PlainDrafter(), held(grammar))]
    tree = product((3, 2, 1))
    drafters = [random_medusa(target, tree), NgramDrafter(NgramConfig())]
    for drafter in drafters:
        for batch in (1, 3):
            assert [one.tokens for one in answers(target, drafter, held(grammar), batch=batch)] == plain


def test_what_is_right_is_accepted_and_the_rest_is_not(target: Target, grammar: Grammar) -> None:
    """A drafter that knows the answer has all of it accepted, wrong siblings beside it or not."""
    plain = answers(target, PlainDrafter(), held(grammar), count=1)[0].tokens
    prompt = ids(target, "prompt 0")
    oracle = OracleDrafter([prompt + plain], TreeShape(((0,), (1,), (0, 0), (0, 0, 0))), hit=1.0)
    one = answers(target, oracle, held(grammar), count=1)[0]
    assert one.tokens == plain and one.num_accepted >= len(plain) // 2


def test_sampling_follows_the_target_law_under_the_grammar(target: Target) -> None:
    """First tokens of 1,000 answers against the target's probabilities among those allowed; chi-square, p > 1e-4."""
    choice = Grammar('{"enum": [1, 2, 3]}', target.tokenizer, target.vocab_size, sorted(target.eos_token_ids))
    prompt, count = ids(target, "pick"), 1000
    settings = DecodeSettings(3, Rule(), SamplingSettings(temperature=1.0), seed=1, grammar=choice)
    drafter = random_medusa(target, product((3, 1)))
    found = [one for one in decode(target, drafter, [prompt] * count, settings, 16) if isinstance(one, DecodeResult)]
    allowed = ids(target, "123")
    counts = torch.tensor([sum(one.tokens[0] == token for one in found) for token in allowed]).double()
    assert counts.sum() == count
    cache = target.new_cache(1, 64)
    hidden, _ = target.prefill_with_states(cache, 0, prompt, ())
    expected = torch.softmax(target.logits(hidden)[0, allowed].double(), 0) * count
    assert float(((counts - expected) ** 2 / expected).sum()) < 18.4  # 2 degrees of freedom
    assert {one.text for one in found} <= {"1", "2", "3"}


@pytest.mark.parametrize(
    ("schema", "problem"),
    [("{", "is no JSON"), ('{"type": "colour"}', "can't be followed"), ('{"$ref": "http://x/y"}', "can't be followed")],
)
def test_a_schema_that_cannot_be_is_one_sentence(target: Target, schema: str, problem: str) -> None:
    with pytest.raises(HeadwayError) as caught:
        Grammar(schema, target.tokenizer, target.vocab_size, sorted(target.eos_token_ids))
    assert problem in str(caught.value) and "\n" not in str(caught.value)


def test_a_row_knows_where_it_stands(grammar: Grammar) -> None:
    assert isinstance(grammar.start(), GrammarRow) and grammar.start() is not grammar.start()


def test_a_held_draft_has_no_forbidden_node_where_something_else_is_known(target: Target, grammar: Grammar) -> None:
    """Heads of a random model draft nonsense; held to the schema, every node reached from the root is allowed."""
    row = grammar.start()
    row.write(ids(target, '{"na'))
    shape = product([3, 2])
    scores = torch.randn(2, 1, target.vocab_size, generator=torch.Generator().manual_seed(2))
    draft = fill_static(torch.tensor([ids(target, "a")[-1]]), scores, shape, None, 0.0, None)
    found, masks = held_draft(draft, [row])
    allowed, before = as_bools(masks[0], target.vocab_size), draft.tree.tokens[0].tolist()
    tokens, parents = found.tree.tokens[0].tolist(), found.tree.parents[0].tolist()
    assert tokens[0] == before[0] and tokens != before
    assert sum(bool(allowed[0, token]) for token in tokens[1:4]) == int(min(3, allowed[0].sum()))
    assert tokens[1] == ids(target, "m")[0]  # nothing else may stand behind {"na
    reached = [0]
    for column in range(1, len(tokens)):
        if parents[column] in reached and allowed[parents[column], tokens[column]]:
            reached.append(column)
            siblings = [other for other in range(1, len(tokens)) if parents[other] == parents[column]]
            assert len({tokens[other] for other in siblings}) == len(siblings)
    assert len(reached) > 1
    again, same = held_draft(draft, [row], hold=False)
    assert again is draft and torch.equal(same[0, 0], masks[0, 0])
    assert bool(torch.isnan(found.draft_prob[0, 1])) and not bool(torch.isnan(draft.draft_prob[0, 1]))


def test_the_likeliest_allowed_tokens_take_the_places(target: Target, grammar: Grammar) -> None:
    row = grammar.start()
    row.write(ids(target, '{"name":"bob","age":'))
    scores = torch.zeros(1, 1, target.vocab_size)
    scores[0, 0, ids(target, "x")[0]] = 9.0  # forbidden, and drafted first
    for score, digit in enumerate("75319"):
        scores[0, 0, ids(target, digit)[0]] = 5.0 - score
    draft = fill_static(torch.tensor([0]), scores, product([3]), None, 0.0, None)
    found, _ = held_draft(draft, [row])
    assert found.tree.tokens[0, 1:].tolist() == [ids(target, digit)[0] for digit in "375"]
    mapped = torch.arange(target.vocab_size).flip(0)  # a draft vocabulary in another order
    draft = fill_static(torch.tensor([0]), scores.flip(-1), product([3]), mapped, 0.0, None)
    found, _ = held_draft(draft, [row])
    assert sorted(found.tree.tokens[0, 1:].tolist()) == sorted(ids(target, digit)[0] for digit in "375")


def test_what_must_follow_is_drafted_by_drafters_without_scores(target: Target, grammar: Grammar) -> None:
    row = grammar.start()
    row.write(ids(target, '{"'))
    wrong = torch.tensor([[0, *ids(target, "zzzz")]])
    draft = Draft(DraftTree.from_shape(chain(4), wrong), torch.full((1, 5), float("nan")))
    found, _ = held_draft(draft, [row])
    assert found.tree.tokens[0, 1:].tolist() == ids(target, "name")


def test_drawn_siblings_stay_as_they_were_drawn(target: Target, grammar: Grammar) -> None:
    scores = torch.zeros(1, 1, target.vocab_size)
    drawn = fill_static(torch.tensor([0]), scores, product([3]), None, 1.0, torch.Generator().manual_seed(1))
    assert held_draft(drawn, [grammar.start()])[0] is drawn


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_held_drafts_write_the_same_and_accept_more(target: Target, grammar: Grammar, temperature: float) -> None:
    settings = held(grammar, temperature)
    free = replace(settings, hold_draft=False)
    drafter = random_medusa(target, product([3, 2]))
    accepted, freely = answers(target, drafter, settings), answers(target, drafter, free)
    if temperature == 0:
        plain = [one.tokens for one in answers(target, PlainDrafter(), settings)]
        assert [one.tokens for one in accepted] == [one.tokens for one in freely] == plain
    assert sum(one.num_accepted for one in accepted) > sum(one.num_accepted for one in freely)
    for one in (*accepted, *freely):
        assert set(json.loads(one.text)) == {"name", "age"}


def test_held_drafts_keep_the_law(target: Target) -> None:
    """One step from an empty answer: what is written first two follows the target's law under the grammar."""
    schema = json.dumps({"enum": ["ab", "ac", "ba", "cab"]})
    choice = Grammar(schema, target.tokenizer, target.vocab_size, sorted(target.eos_token_ids))
    settings = DecodeSettings(3, Rule(), SamplingSettings(temperature=1.0), seed=1, grammar=choice)
    prompts = [ids(target, "say")] * 600
    counts = {}
    for drafter in (PlainDrafter(), random_medusa(target, product([3, 2]))):
        found = [one for one in decode(target, drafter, prompts, settings, 50) if isinstance(one, DecodeResult)]
        counts[drafter.name] = Counter(tuple(one.tokens) for one in found)
    kinds = sorted(set().union(*counts.values()))
    table = [[one[kind] for kind in kinds] for one in counts.values()]
    assert len(kinds) >= 2 and chi2_contingency([[a + 1 for a in row] for row in table]).pvalue > 1e-4
