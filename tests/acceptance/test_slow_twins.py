"""Each fast rule decides as its slow twin does, and a padded row decides as the same row alone."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.acceptance import Acceptance, SamplingSettings, Verdict
from backend.acceptance.greedy import verify_greedy
from backend.acceptance.rejection import verify_chosen, verify_sampled
from backend.acceptance.slow import SlowOutcome, slow_draw, slow_greedy, slow_sampled, slow_typical
from backend.acceptance.typical import verify_typical
from tests.acceptance.cases import Case, random_case

SETTINGS = SamplingSettings(temperature=0.8, top_p=0.95, repetition_penalty=1.3)
RULES = {
    "greedy": lambda case, s: verify_greedy(case.rows(s)),
    "chosen": lambda case, s: verify_chosen(case.rows(s), case.per_depth),
    "sampled": lambda case, s: verify_sampled(case.rows(s), case.distribution, case.trial, case.final),
    "typical": lambda case, s: verify_typical(case.rows(s), 0.3, 0.5, case.final),
}
random_cases = st.builds(random_case, st.integers(0, 2**31), st.integers(1, 4), st.integers(0, 12), st.floats(0.5, 5))
seeded = settings(max_examples=60, deadline=None, derandomize=True)


def probs(case: Case, b: int, at: SamplingSettings) -> list[list[float]]:
    """Processed p after every column of row b, each worked out alone."""
    rows = case.rows(at)
    here = [rows.probs_at(torch.full((case.tree.batch,), i))[b] for i in range(case.tree.width)]
    return [row.double().tolist() for row in here]


def outcome(acceptance: Acceptance, b: int) -> SlowOutcome:
    path = acceptance.path[b, : int(acceptance.num_accepted[b])].tolist()
    assert path == [column for column in acceptance.path[b].tolist() if column >= 0]
    assert int(acceptance.last_node[b]) == (path[-1] if path else 0)
    return SlowOutcome(path, int(acceptance.next_token[b]))


@seeded
@given(random_cases)
def test_greedy_is_its_twin(case: Case):
    fast = verify_greedy(case.rows(SamplingSettings()))
    for b in range(case.tree.batch):
        assert outcome(fast, b) == slow_greedy(case.slow_tree(b), case.logits[b].argmax(-1).tolist())


@seeded
@given(random_cases)
def test_sampled_rejection_is_its_twin(case: Case):
    fast = RULES["sampled"](case, SETTINGS)
    for b in range(case.tree.batch):
        q = case.distribution.probs[b].double().tolist()
        p, tree = probs(case, b, SETTINGS), case.slow_tree(b)
        assert outcome(fast, b) == slow_sampled(tree, p, q, case.trial[b].tolist(), float(case.final[b]))


@seeded
@given(random_cases)
def test_chosen_rejection_follows_the_tokens_that_the_target_draws(case: Case):
    fast = RULES["chosen"](case, SETTINGS)
    for b in range(case.tree.batch):
        p, tree, node, depth = probs(case, b, SETTINGS), case.slow_tree(b), 0, 0
        while True:
            token = slow_draw(p[node], float(case.per_depth[b, depth]))
            match = [child for child in tree.children(node) if tree.tokens[child] == token]
            if not match:
                break
            node, depth = match[0], depth + 1
        assert outcome(fast, b) == SlowOutcome(tree.path(node), token)


@seeded
@given(random_cases, st.floats(0, 1), st.floats(0, 1))
def test_typical_is_its_twin(case: Case, epsilon: float, delta: float):
    fast = verify_typical(case.rows(SETTINGS), epsilon, delta, case.final)
    for b in range(case.tree.batch):
        tree, p = case.slow_tree(b), probs(case, b, SETTINGS)
        assert outcome(fast, b) == slow_typical(tree, p, epsilon, delta, float(case.final[b]))


@pytest.mark.parametrize("rule", RULES)
@seeded
@given(random_cases)
def test_a_padded_row_equals_the_same_row_alone(rule: str, case: Case):
    at = SamplingSettings(repetition_penalty=1.3) if rule == "greedy" else SETTINGS
    together = RULES[rule](case, at)
    for b in range(case.tree.batch):
        alone = RULES[rule](case.alone(b), at)
        width = alone.verdict.shape[1]
        assert outcome(together, b) == outcome(alone, 0)
        assert torch.equal(together.verdict[b, :width], alone.verdict[0])
        assert (together.verdict[b, width:] == Verdict.NOT_REACHED).all()
        for name in ("score", "threshold"):
            padded, bare = getattr(together, name)[b], getattr(alone, name)[0]
            torch.testing.assert_close(padded[:width], bare, equal_nan=True)
            assert padded[width:].isnan().all()


@pytest.mark.parametrize("rule", RULES)
@seeded
@given(random_cases)
def test_verdicts_tell_what_was_looked_at(rule: str, case: Case):
    at = SamplingSettings() if rule == "greedy" else SETTINGS
    result = RULES[rule](case, at)
    for b in range(case.tree.batch):
        tree, path = case.slow_tree(b), [0, *outcome(result, b).path]
        for column in range(len(tree.tokens)):
            verdict, parent = int(result.verdict[b, column]), tree.parents[column]
            if column in path:
                expected = {Verdict.ACCEPTED}
            elif parent in path and rule != "sampled":
                expected = {Verdict.REJECTED}
            elif parent in path:  # siblings after the accepted one were never tried
                taken = [c for c in tree.children(parent) if c in path]
                expected = {Verdict.NOT_REACHED if taken and taken[0] < column else Verdict.REJECTED}
            else:
                expected = {Verdict.NOT_REACHED}
            assert verdict in expected
            if rule != "typical" and column > 0:  # typical weighs every node
                seen = parent in path and (rule != "sampled" or verdict != Verdict.NOT_REACHED)
                assert seen == (not result.score[b, column].isnan()) == (not result.threshold[b, column].isnan())
