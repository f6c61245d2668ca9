"""Parts of a batch in several processes: each takes its share, and the gradient of all is that of the whole batch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from backend.drafters.learning import IGNORE, FeatureBatch, SequenceBatch
from backend.errors import HeadwayError
from backend.training.processes import ALONE, Processes, failing_together, here, joined, parts_of

ROOT = Path(__file__).resolve().parents[2]


def torchrun(*words: str, home: Path | None = None, processes: int = 2, **environ: str) -> subprocess.Popen[str]:
    """`words` in some processes of this machine, their output joined in one text."""
    given = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HEADWAY_OPENMP": "set", **environ}
    if home is not None:
        given |= {"HEADWAY_HOME": str(home / "home"), "HEADWAY_CACHE": str(home / "cache")}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    return subprocess.Popen(
        [*command, *words], cwd=ROOT, env=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip


def test_every_number_is_in_one_part() -> None:
    numbers = torch.arange(7)
    parts = [Processes(rank, 3).part(numbers) for rank in range(3)]
    assert [len(part) for part in parts] == [3, 2, 2] and torch.equal(torch.cat(parts), numbers)
    assert [len(Processes(rank, 3).part(numbers[:1])) for rank in range(3)] == [1, 0, 0]


def test_where_nothing_is_left_nothing_is_learned() -> None:
    def texts(numbers: torch.Tensor) -> SequenceBatch:
        rows = len(numbers)
        return SequenceBatch(torch.ones(rows, 4, dtype=torch.int64), torch.ones(rows, 4, 2), torch.ones(rows, 4, 2),
                             torch.ones(rows, 4, dtype=torch.bool))  # fmt: skip

    def positions(numbers: torch.Tensor) -> FeatureBatch:
        return FeatureBatch(torch.ones(len(numbers), 2), torch.ones(len(numbers), 3, dtype=torch.int64))

    one = torch.tensor([5])
    empty = parts_of(Processes(1, 2), texts, one)
    assert isinstance(empty, SequenceBatch) and not empty.learn.any() and empty.total is not None
    nothing = parts_of(Processes(1, 2), positions, one)
    assert isinstance(nothing, FeatureBatch) and (nothing.following == IGNORE).all()
    whole = parts_of(ALONE, positions, one)
    assert isinstance(whole, FeatureBatch) and whole.total is None and (whole.following == 1).all()


def test_a_process_that_was_started_alone_is_the_first_of_one() -> None:
    with joined("cpu") as processes:
        assert processes == ALONE == here() and processes.first
        assert processes.from_first("x") == "x" and processes.mean(torch.tensor([2.0])).item() == 2
    with pytest.raises(HeadwayError, match="as it was"), failing_together(ALONE):
        raise HeadwayError("as it was")


def test_the_gradient_of_parts_is_that_of_the_whole_batch() -> None:
    process = torchrun("tests/training/together.py")
    said, _ = process.communicate(timeout=600)
    assert process.returncode == 0, said
    found = json.loads(said.strip().splitlines()[-1])
    assert len(found) >= 3 * 6
    for name, apart in found.items():
        assert max(apart.values()) < 2e-5, (name, apart)


def test_a_target_that_is_spread_over_processes_reads_and_decodes_like_a_whole_one() -> None:
    process = torchrun("tests/training/spread_out.py")
    said, _ = process.communicate(timeout=600)
    assert process.returncode == 0, said
    told = json.loads(said.strip().splitlines()[-1])
    assert max(told["apart in turn 0"], told["apart in turn 1"]) < 1e-5 and told["same weights"]
    assert told["tokens"] == told["right"] and len(told["tokens"]) == 12
    assert told["held"] == pytest.approx(0.5, abs=0.02), "half of the layers' numbers"
