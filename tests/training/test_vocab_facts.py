"""The coverage that stands beside the form is what the command counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from backend.data.answers import unpack_answers
from backend.errors import HeadwayError
from backend.jobs.vocab_curve_command import count
from backend.training.vocab_facts import vocabulary_facts
from tests.jobs.test_vocab_curve import write_answers


def test_it_is_what_the_command_counts(tmp_path: Path) -> None:
    path = write_answers(tmp_path / "a.npz")
    found = vocabulary_facts(path, 0.3, 1000, 256, 4)
    counted = count(unpack_answers(path), 0.3, 0.99, (4,), 1000)
    assert found == (counted.points[0][0], counted.sizes_needed["all"])
    whole = vocabulary_facts(path, 0.3, 1000, 8192, 4)
    assert whole is not None and whole[0].coverage == 1.0


def test_another_targets_answers_and_too_few_have_none(tmp_path: Path) -> None:
    assert vocabulary_facts(write_answers(tmp_path / "a.npz"), 0.3, 100, 50, 4) is None
    assert vocabulary_facts(write_answers(tmp_path / "b.npz", prompts=1), 0.3, 1000, 50, 4) is None
    with pytest.raises(HeadwayError, match="no file"):
        vocabulary_facts(tmp_path / "c.npz", 0.3, 1000, 50, 4)
