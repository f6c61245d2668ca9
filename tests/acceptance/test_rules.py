"""Never, always and sometimes accept, for each rule; what each refuses; what T = 0 means to all."""

from __future__ import annotations

import pytest
import torch

from backend.acceptance import (
    DraftDistribution,
    Rule,
    SamplingSettings,
    Verdict,
    check,
    uniforms,
    verify,
)
from backend.acceptance.rejection import verify_sampled
from backend.acceptance.walk import TargetRows
from backend.errors import HeadwayError
from backend.trees import DraftTree, TreeShape, chain
from tests.acceptance.cases import random_case

V = 8
ROWS = 4000
HOT = SamplingSettings(temperature=1.0)
SIBLINGS = TreeShape(((0,), (1,), (0, 0)))


def tree_of(*tokens: int, shape: TreeShape = SIBLINGS, rows: int = ROWS) -> DraftTree:
    return DraftTree.from_shape(shape, torch.tensor(tokens).expand(rows, -1))


def target(rows: int = ROWS, **probs_after: list[float]) -> torch.Tensor:
    """Logits [rows, M, V] from probabilities by column name c0, c1, ..."""
    laws = torch.tensor([probs_after[f"c{i}"] for i in range(len(probs_after))])
    return laws.log().expand(rows, -1, -1)


def one_hot(token: int) -> list[float]:
    return [float(v == token) for v in range(V)]


FLAT = [1 / V] * V
HALF = [0.0, 0.5, 0.25, 0.25, 0.0, 0.0, 0.0, 0.0]


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


RULES = [(Rule("greedy"), SamplingSettings()), (Rule("rejection"), HOT), (Rule("typical"), HOT)]


@pytest.mark.parametrize(("rule", "settings"), RULES)
def test_always_accepts_what_the_target_is_sure_of(rule: Rule, settings: SamplingSettings):
    tree = tree_of(0, 1, 2, 3)
    logits = target(c0=one_hot(1), c1=one_hot(3), c2=one_hot(4), c3=one_hot(5))
    result = verify(rule, tree, logits, settings, generator=generator())
    assert (result.num_accepted == 2).all() and (result.last_node == 3).all() and (result.next_token == 5).all()
    assert result.path[0].tolist() == [1, 3]
    assert result.verdict[0].tolist() == [Verdict.ACCEPTED, Verdict.ACCEPTED, Verdict.REJECTED, Verdict.ACCEPTED]


@pytest.mark.parametrize(("rule", "settings"), RULES)
def test_never_accepts_what_the_target_rules_out(rule: Rule, settings: SamplingSettings):
    tree = tree_of(0, 1, 2, 3)
    logits = target(c0=one_hot(6), c1=one_hot(3), c2=one_hot(4), c3=one_hot(5))
    result = verify(rule, tree, logits, settings, generator=generator())
    assert (result.num_accepted == 0).all() and (result.next_token == 6).all()
    assert result.verdict[0].tolist() == [Verdict.ACCEPTED, Verdict.REJECTED, Verdict.REJECTED, Verdict.NOT_REACHED]


def test_greedy_sometimes_accepts_row_by_row():
    tree = tree_of(0, 1, 2, 3, rows=2)
    logits = torch.cat(
        [
            target(1, c0=one_hot(2), c1=FLAT, c2=one_hot(4), c3=FLAT),
            target(1, c0=one_hot(1), c1=one_hot(7), c2=FLAT, c3=FLAT),
        ]
    )
    result = verify(Rule("greedy"), tree, logits, SamplingSettings())
    assert result.last_node.tolist() == [2, 1] and result.next_token.tolist() == [4, 7]


def test_chosen_rejection_sometimes_accepts_as_often_as_the_target_says():
    tree = tree_of(0, 1, 2, 3)
    result = verify(Rule("rejection"), tree, target(c0=HALF, c1=FLAT, c2=FLAT, c3=FLAT), HOT, generator=generator())
    first, second = ((result.path[:, 0] == column).double().mean() for column in (1, 2))
    # 4,000 rows: one standard deviation is at most 0.008; 5 of them are passed once in 1.7 million.
    assert abs(first - 0.5) < 0.04 and abs(second - 0.25) < 0.04


def test_sampled_rejection_accepts_with_the_ratio_p_over_q():
    tree = DraftTree.from_shape(chain(1), torch.tensor([0, 1]).expand(ROWS, -1))
    q = torch.tensor(one_hot(1)) * 0.8 + torch.tensor(one_hot(2)) * 0.2
    distribution = DraftDistribution(q.expand(ROWS, 1, V), torch.zeros(2, dtype=torch.int64), max_children=(1,))
    result = verify(Rule(), tree, target(c0=HALF, c1=FLAT), HOT, generator=generator(), distribution=distribution)
    accepted = result.num_accepted == 1
    torch.testing.assert_close(result.score[:, 1], torch.full((ROWS,), 0.5 / 0.8))
    assert abs(accepted.double().mean() - 0.5 / 0.8) < 0.04
    # The residual max(p - q, 0) is 0.05 on token 2 and 0.25 on token 3: 1 and 5 parts of 6, and no other token.
    corrections = result.next_token[~accepted]
    assert set(corrections.tolist()) == {2, 3}
    assert abs((corrections == 3).double().mean() - 5 / 6) < 0.05


def test_typical_accepts_above_the_threshold_and_not_at_it():
    tree = tree_of(0, 1, 2, 3)
    logits = target(c0=HALF, c1=FLAT, c2=FLAT, c3=FLAT)
    lenient = verify(Rule("typical", epsilon=0.2, delta=1.0), tree, logits, HOT, generator=generator())
    strict = verify(Rule("typical", epsilon=0.3, delta=1.0), tree, logits, HOT, generator=generator())
    # After the root: p = 0.5 and 0.25, threshold min(epsilon, exp(-1.04) = 0.354). FLAT: p = 1/8 = exp(-H), not above.
    assert lenient.verdict[0].tolist() == [Verdict.ACCEPTED, Verdict.ACCEPTED, Verdict.REJECTED, Verdict.REJECTED]
    torch.testing.assert_close(lenient.score[0, 1:], torch.tensor([0.5, 0.25, 0.125]))
    torch.testing.assert_close(lenient.threshold[0, 1:], torch.tensor([0.2, 0.2, 0.125]))
    assert strict.last_node[0] == 1
    assert lenient.next_token.unique().numel() == V  # the bonus is drawn, not picked


def test_typical_prefers_the_longer_path_to_the_likelier_node():
    tree = tree_of(0, 2, 1, 3)  # the deeper path starts at the less likely token
    logits = target(c0=HALF, c1=one_hot(3), c2=FLAT, c3=FLAT)
    result = verify(Rule("typical"), tree, logits, HOT, generator=generator())
    assert result.path[0].tolist() == [1, 3] and result.verdict[0, 2] == Verdict.REJECTED


@pytest.mark.parametrize("name", ["rejection", "typical"])
def test_at_temperature_zero_every_rule_is_greedy(name: str):
    case = random_case(3, batch=16, nodes=12)
    greedy = verify(Rule("greedy"), case.tree, case.logits, SamplingSettings())
    other = verify(Rule(name), case.tree, case.logits, SamplingSettings(), distribution=case.distribution)
    assert torch.equal(greedy.last_node, other.last_node) and torch.equal(greedy.next_token, other.next_token)


@pytest.mark.parametrize("name", ["rejection", "typical"])
def test_without_a_draft_a_step_is_plain_sampling(name: str):
    logits = target(c0=HALF)
    tree = DraftTree.root_only(torch.zeros(ROWS, dtype=torch.int64))
    result = verify(Rule(name), tree, logits, HOT, generator=generator())
    assert result.path.shape == (ROWS, 0) and (result.num_accepted == 0).all()
    assert abs((result.next_token == 1).double().mean() - 0.5) < 0.04
    assert set(result.next_token.tolist()) == {1, 2, 3}


def test_greedy_with_temperature_is_refused_with_a_remedy():
    tree = tree_of(0, 1, 2, 3, rows=1)
    with pytest.raises(HeadwayError, match=r"temperature is 0\.7: use the rejection rule or set the temperature to 0"):
        verify(Rule("greedy"), tree, torch.zeros(1, 4, V), SamplingSettings(temperature=0.7))
    check(Rule("greedy"), SamplingSettings())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "magic"}, "'magic'"),
        ({"epsilon": 1.5}, r"\(epsilon\) must be 0 to 1, but it is 1\.5"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"delta": -0.1}, r"\(delta\) must be 0 to 1, but it is -0\.1"),
    ],
)
def test_a_rule_out_of_range_is_refused(arguments: dict, message: str):
    with pytest.raises(HeadwayError, match=message):
        Rule(**arguments)


def test_only_typical_is_approximate():
    assert [Rule(name).exact for name in ("greedy", "rejection", "typical")] == [True, True, False]


def test_every_comparison_has_words():
    words = {
        Rule(name).compared(SamplingSettings(temperature=t), sampled)
        for name, t, sampled in [
            ("greedy", 0, False),
            ("rejection", 1, False),
            ("rejection", 1, True),
            ("typical", 1, False),
        ]
    }
    assert len(words) == 4
    assert Rule("typical").compared(SamplingSettings(), False) == Rule("greedy").compared(SamplingSettings(), False)


def sampled(p: list[float], q: list[float], *children: int, trial: float = 0.5):
    """One row, one node with these children, every trial decided with the same number."""
    shape = TreeShape(tuple((rank,) for rank in range(len(children))))
    tree = DraftTree.from_shape(shape, torch.tensor([[0, *children]]))
    logits = torch.tensor(p).log().expand(1, tree.width, -1)
    distribution = DraftDistribution(torch.tensor(q).expand(1, 1, -1), torch.zeros(tree.width, dtype=torch.int64))
    trials = torch.full((1, 1, len(children)), trial, dtype=torch.float64)
    return verify_sampled(TargetRows(tree, logits, HOT, None), distribution, trials, torch.tensor([0.5]).double())


def test_a_duplicate_sibling_is_tried_once():
    result = sampled(HALF, one_hot(2), 2, 2, trial=0.3)
    assert result.score[0, 1:].tolist() == [0.25, 0.0]
    assert result.num_accepted[0] == 0 and result.next_token[0] != 2


def test_a_child_that_the_draft_could_not_have_drawn_counts_as_chosen():
    result = sampled(HALF, one_hot(7), 1, trial=0.4)
    assert result.score[0, 1] == 0.5 and result.num_accepted[0] == 1
    assert sampled(HALF, one_hot(7), 1, trial=0.6).next_token[0] in (2, 3)


def test_an_empty_residual_falls_back_to_the_target():
    # p = q on every token: the ratio is 1 and every child passes, unless rounding says otherwise; force the other case.
    result = sampled(HALF, HALF, 1, trial=1.0)
    assert result.num_accepted[0] == 0 and result.next_token[0] in (1, 2, 3)


def test_draft_vocabulary_is_mapped_to_the_targets():
    q = torch.tensor([[[0.5, 0.25, 0.25]]])
    mapped = DraftDistribution(q, torch.zeros(2, dtype=torch.int64), vocabulary=torch.tensor([3, 1, 6]))
    full = mapped.rows(torch.tensor([1]), V)
    assert full.tolist() == [[0, 0.25, 0, 0.5, 0, 0, 0.25, 0]]


def test_the_same_seed_decides_the_same():
    case = random_case(5, batch=32, nodes=10)
    runs = [
        verify(Rule(), case.tree, case.logits, HOT, generator=generator(), distribution=case.distribution)
        for _ in range(2)
    ]
    assert torch.equal(runs[0].verdict, runs[1].verdict) and torch.equal(runs[0].next_token, runs[1].next_token)
    assert uniforms((3,), generator(), torch.device("cpu")).dtype == torch.float64
