"""Who proposes: the whole grid once, the same draws for the same seed, Optuna in a file of its own that may be lost."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from backend.sweeps.knobs import DECODE_KNOBS
from backend.sweeps.objectives import OBJECTIVES
from backend.sweeps.propose import GridProposer, RandomProposer, proposer
from backend.sweeps.space import dimensions
from backend.sweeps.trial import Trial

SPACE = dimensions({"tree": "chain-1, chain-2, 2x2", "epsilon": "0.01 to 0.5 log", "batch": "1 to 8"}, DECODE_KNOBS)
SPEED, DRIFT = OBJECTIVES["speed"], OBJECTIVES["drift"]


def test_a_grid_is_every_value_with_every_other() -> None:
    grid = GridProposer(dimensions({"tree": "2x2, chain-1", "temperature": "0, 1, 2"}, DECODE_KNOBS))
    rows = [grid.ask(number) for number in range(7)]
    assert rows[6] is None and len({str(row) for row in rows[:6]}) == 6 == grid.size
    assert rows[1] == {"tree": "2x2", "temperature": 1.0}


def test_chance_depends_on_seed_and_number_alone() -> None:
    one, other = RandomProposer(SPACE, 3), RandomProposer(SPACE, 3)
    assert [other.ask(n) for n in (5, 2, 9)] == [one.ask(n) for n in (5, 2, 9)]
    assert one.ask(5) != RandomProposer(SPACE, 4).ask(5)


def measured(number: int, values: dict[str, Any]) -> Trial:
    """Best at epsilon 0.1 and chain-2."""
    speed = 10 - abs(math.log(values["epsilon"] / 0.1)) + 3 * (values["tree"] == "chain-2")
    figures = {"speed": speed, "drift": values["epsilon"]}
    return Trial(number, values, values, state="finished", figures=figures)


def asked(sampler: Any, file: Path, trials: list[Trial], count: int, goals: Any = (SPEED,), limit: Any = None) -> list:
    asking = proposer(sampler, SPACE, goals, 1, limit, file, trials)
    for number in range(len(trials), len(trials) + count):
        values = asking.ask(number)
        assert values is not None and set(values) == {"tree", "epsilon", "batch"}
        assert 0.01 <= values["epsilon"] <= 0.5 and 1 <= values["batch"] <= 8
        trials.append(measured(number, values))
        asking.tell(trials[-1])
    asking.close()
    return trials


def test_tpe_finds_the_good_corner_and_goes_on_with_or_without_its_file(tmp_path: Path) -> None:
    whole = asked("tpe", tmp_path / "a" / "optuna.db", [], 24)
    assert max(one.figures["speed"] for one in whole[12:]) > 12
    parted = asked("tpe", tmp_path / "b.db", [], 10)
    assert [one.values for one in parted] == [one.values for one in whole[:10]]
    (tmp_path / "b.db").unlink()
    for rest in ("-wal", "-shm"):
        (tmp_path / f"b.db{rest}").unlink(missing_ok=True)
    asked("tpe", tmp_path / "b.db", parted, 6)
    assert [one.values for one in parted] == [one.values for one in whole[:16]]
    (tmp_path / "b.db").write_bytes(b"this is no database, it only looks like a file of one" * 100)
    assert len(asked("tpe", tmp_path / "b.db", parted, 2)) == 18


def test_several_objectives_and_a_constraint(tmp_path: Path) -> None:
    trials = asked("nsga2", tmp_path / "n.db", [], 24, (SPEED, DRIFT), 0.2)
    assert len({str(one.values) for one in trials}) > 10
    constrained = asked("tpe", tmp_path / "c.db", [], 24, (SPEED,), 0.05)
    assert sum(one.figures["drift"] <= 0.06 for one in constrained[12:]) >= 6


@pytest.mark.parametrize("state", ["pruned", "failed", "skipped"])
def test_trials_without_figures_teach_without_harm(tmp_path: Path, state: Any) -> None:
    asking = proposer("tpe", SPACE, (SPEED,), 0, None, tmp_path / "o.db", [])
    values = asking.ask(0)
    assert values is not None
    asking.tell(Trial(0, values, values, state=state))
    assert asking.ask(1) is not None
    asking.close()
