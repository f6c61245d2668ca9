"""MTP and P-EAGLE through the one trainer, by its command, and drafted with after."""

from __future__ import annotations

from pathlib import Path

import pytest

from backend.drafters.checkpoint import read_meta
from tests.jobs.test_train_families import GROWN, SHORT, decoded, home, run
from tests.jobs.test_train_job import made_up_answers

__all__ = ["home"]  # the fixture


@pytest.mark.parametrize(
    "words",
    [
        ("--family", "mtp", "--form", "parallel", "--draft-depth", "2"),
        ("--family", "peagle", "--draft-depth", "2", "--kept-places", "0.5"),
    ],
)
def test_it_is_trained_and_drafts_with_static_and_grown_trees(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    answers = made_up_answers(home / "answers.npz")
    code, done, err = run(capsys, *SHORT, *words, "--answers", str(answers), "--tree", GROWN)
    assert (code, err) == (0, "")
    meta = read_meta(Path(done["out"]))
    assert meta.family == words[1] and meta.dynamic is not None and len(meta.numbers["hit_rates"]) == 2
    plain = decoded(capsys, "none")["tokens"]
    for tree in ((), ("--tree", "2x2"), ("--tree", GROWN)):
        assert decoded(capsys, done["out"], *tree)["tokens"] == plain, tree
