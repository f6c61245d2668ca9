"""The ledger: what is new, what is compared, what is given up; pruning keeps the good and drops the bad."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from backend.sweeps.combine import Facts
from backend.sweeps.ledger import Ledger, table_rows
from backend.sweeps.objectives import OBJECTIVES
from backend.sweeps.trial import PromptFigures, Trial, sums, trial_from_dict

SPEED, DRIFT = OBJECTIVES["speed"], OBJECTIVES["drift"]


def answers(speed: float, seed: int, count: int = 20, drift: float = 0.0) -> tuple[PromptFigures, ...]:
    """Prompts differ much from each other, the same way in every trial; seed: the noise."""
    hard, noise = np.random.default_rng(0).uniform(0.5, 2, count), np.random.default_rng(seed)
    return tuple(
        PromptFigures(
            f"set|{n}|0", 60, 40, 20, float(60_000 / (speed * hard[n] * noise.uniform(0.97, 1.03))), drift, 0.0
        )
        for n in range(count)
    )


def finished(number: int, speed: float, **changes: Any) -> Trial:
    prompts = answers(speed, number, drift=changes.pop("drift", 0.0))
    values = {"tree": f"chain-{number + 1}"}
    return Trial(number, values, values, "finished", figures=sums(prompts), prompts=prompts, **changes)


def ledger(*goals: Any, **rest: Any) -> Ledger:
    return Ledger(goals or (SPEED,), Facts(), **rest)


def test_a_loser_is_given_up_early_and_a_winner_never() -> None:
    made = ledger()
    for number, speed in enumerate((40, 50, 45)):
        made.put(finished(number, speed))
    slow, fast = answers(40, 77), answers(52, 78)
    lost_at = next(n for n in range(1, 21) if made.beaten_by(slow[:n], None, 0.01) is not None)
    assert 7 <= lost_at <= 10
    assert made.beaten_by(slow, None, 0.01) is made.trials[1]
    assert all(made.beaten_by(fast[:n], None, 0.01) is None for n in range(1, 21))


def test_speeds_are_compared_in_units_of_plain_decoding() -> None:
    made = ledger()
    made.put(finished(0, 50, plain_speed=25.0))
    slow_minute = answers(30, 5)  # everything is slower now, plain decoding too
    assert made.beaten_by(slow_minute, 14.0, 0.01) is None
    assert made.beaten_by(slow_minute, 25.0, 0.01) is not None


def test_with_two_objectives_one_trial_must_win_both() -> None:
    made = ledger(SPEED, DRIFT)
    made.put(finished(0, 60, drift=0.3))
    made.put(finished(1, 50, drift=0.0))
    middle, worst = answers(45, 9, drift=0.1), answers(30, 9, drift=0.4)
    assert made.beaten_by(middle, None, 0.01) is made.trials[1]
    assert made.beaten_by(answers(55, 9, drift=0.1), None, 0.01) is None
    assert made.beaten_by(worst, None, 0.01) is not None


def test_what_training_costs_is_never_compared_prompt_by_prompt() -> None:
    made = ledger(SPEED, OBJECTIVES["train_s"])
    made.put(finished(0, 60))
    assert made.beaten_by(answers(10, 1), None, 0.01) is None


def test_the_same_settings_and_impossible_ones_are_skipped_with_a_reason() -> None:
    made = ledger()
    assert made.proposed(0, {"rule": "rejection", "temperature": 1.0, "epsilon": 0.1}).state == "queued"
    again = made.proposed(1, {"rule": "rejection", "temperature": 1.0, "epsilon": 0.2})
    assert again.state == "skipped" and again.reason == "It comes to the same as trial 0."
    wrong = made.proposed(2, {"rule": "typical", "temperature": 0.0})
    assert wrong.state == "skipped" and "greedy rule" in str(wrong.reason)
    assert made.counts() == {"queued": 1, "skipped": 2} and made.next_number == 3


def test_a_tree_is_what_is_left_of_it_at_the_depth() -> None:
    made = ledger()
    for number, (tree, depth, state) in enumerate(
        [("chain-3", 2, "queued"), ("chain-2", None, "skipped"), ("2x2", 1, "queued"), ("2x1", 1, "skipped"),
         ("2x2", 2, "queued"), ("2x2", 5, "skipped"), ("chain-3", 3, "queued")]
    ):  # fmt: skip
        values = {"tree": tree} if depth is None else {"tree": tree, "max_depth": depth}
        assert made.proposed(number, values).state == state, (tree, depth)


def test_an_approximate_rule_gets_one_exact_reference_a_temperature() -> None:
    made = ledger()
    first = made.proposed(0, {"rule": "typical", "temperature": 0.7, "epsilon": 0.1})
    reference = made.reference_for(first)
    assert reference is not None and reference.number == -1 and reference.settings["rule"] == "rejection"
    assert made.waiting() is reference
    assert made.reference_for(made.proposed(1, {"rule": "typical", "temperature": 0.7, "epsilon": 0.2})) is None
    assert made.reference_for(made.proposed(2, {"rule": "typical", "temperature": 1.0})) is not None
    assert made.next_number == 3 and made.front() == []


def test_too_much_drift_is_measured_but_never_recommended() -> None:
    made = ledger(max_drift=0.1)
    made.finished(finished(0, 90, drift=0.3))
    made.finished(finished(1, 50, drift=0.05))
    assert made.best() is made.trials[1] and not made.trials[0].feasible
    made.finished(replace(finished(2, 99), reference=True))
    assert made.front() == [1]


def test_a_trial_survives_the_store() -> None:
    one = finished(3, 40, drift=0.2, plain_speed=20.0, attempt=2, wall_s=1.5)
    assert trial_from_dict(one.to_dict() | {"of a newer version": 1}) == one
    (row,) = table_rows([one], [3])
    assert row["front"] and "prompts" not in row
