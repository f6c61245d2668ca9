"""Answer files: cut lines, resume, damage, and the packed form."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.data.answers import (
    FINISH_REASONS,
    Answer,
    AnswerWriter,
    finished_keys,
    pack_answers,
    read_answers,
    unpack_answers,
)
from backend.errors import HeadwayError
from tests.data.conftest import answer

IDS = st.lists(st.integers(0, 2**32 - 1), max_size=8).map(tuple)
NAMES = st.text(st.characters(codec="utf-8"), max_size=6)
ANSWERS = st.lists(
    st.builds(
        Answer, NAMES, NAMES, IDS, IDS, st.floats(0, 2), st.integers(-(2**63), 2**63 - 1),
        st.sampled_from(FINISH_REASONS), st.booleans(), st.integers(0, 9),
    ),
    max_size=5,
)


def write(path: Path, *answers: Answer) -> None:
    with AnswerWriter(path) as writer:
        for item in answers:
            writer.write(item)


@given(ANSWERS)
@settings(max_examples=40, deadline=None)
def test_both_files_give_back_what_was_written(tmp_path_factory: pytest.TempPathFactory, answers: list[Answer]) -> None:
    folder = tmp_path_factory.mktemp("answers")
    write(folder / "a.jsonl", *answers)
    assert list(read_answers(folder / "a.jsonl").answers) == answers
    pack_answers(answers, folder / "a.npz")
    assert unpack_answers(folder / "a.npz") == answers
    assert sorted(path.name for path in folder.iterdir()) == ["a.jsonl", "a.npz"]


def test_a_writer_killed_at_any_byte_loses_at_most_the_last_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write(path, answer(1), answer(2))
    data = path.read_bytes()
    first = data.index(b"\n") + 1
    for cut in range(len(data) + 1):
        path.write_bytes(data[:cut])
        file = read_answers(path)
        whole = (cut >= first) + (cut == len(data))
        assert file.answers == (answer(1), answer(2))[:whole]
        assert file.num_cut_lines == int(cut not in (0, first, len(data)))
        write(path, answer(3))  # resuming drops the cut line and goes on
        assert read_answers(path).answers == (*(answer(1), answer(2))[:whole], answer(3))


def test_finished_keys_tell_what_is_left(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.jsonl"
    assert finished_keys(path) == set()
    write(path, answer(1), answer(1, turn=1), answer(2, temperature=0.0))
    path.write_bytes(path.read_bytes()[:-1])
    assert finished_keys(path) == {("q1", 0, 0.7, 5), ("q1", 1, 0.7, 5)}


@pytest.mark.parametrize(
    "line", ["", "{}", "[]", "nonsense", '{"question_id": 3}', "\udcff", "null", '{"extra": 1}',
             '{"question_id": "q", "category": "c", "prompt_ids": ["1"], "answer_ids": [], "temperature": 0, '
             '"seed": 1, "finish_reason": "eos", "truncated": false}',
             '{"question_id": "q", "category": "c", "prompt_ids": [-1], "answer_ids": [], "temperature": 0, '
             '"seed": 1, "finish_reason": "eos", "truncated": false}']
)
def test_damage_inside_the_file_names_the_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "a.jsonl"
    write(path, answer(1))
    good = path.read_bytes()
    path.write_bytes(good + line.encode(errors="surrogateescape") + b"\n" + good)
    with pytest.raises(HeadwayError, match=r"Line 2 of .* is no answer"):
        read_answers(path)


def test_a_full_disk_leaves_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.jsonl"

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with AnswerWriter(path) as writer:
        writer.write(answer(1))
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(HeadwayError, match=r"Cannot write the answers .* No space left"):
                writer.write(answer(2))
            with pytest.raises(HeadwayError, match="No space left"):
                pack_answers([answer(1)], tmp_path / "a.npz")
        writer.write(answer(3))
    assert read_answers(path).answers == (answer(1), answer(3))
    assert [file.name for file in tmp_path.iterdir()] == ["a.jsonl"]


def test_unusable_paths_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match=r"Cannot write .*Is a directory"):
        AnswerWriter(tmp_path)
    with pytest.raises(HeadwayError, match=r"Cannot read .*No such file"):
        read_answers(tmp_path / "none")
    with pytest.raises(HeadwayError, match=r"Cannot read .*No such file"):
        unpack_answers(tmp_path / "none")


def test_a_damaged_pack_is_refused_wherever_it_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    pack_answers([answer(1), answer(2)], path)
    data = path.read_bytes()
    for cut in range(0, len(data), 7):
        path.write_bytes(data[:cut])
        with pytest.raises(HeadwayError, match="no packed answer file or is damaged"):
            unpack_answers(path)
    np.save(tmp_path / "b.npy", np.zeros(3))
    with pytest.raises(HeadwayError, match="no packed answer file"):
        unpack_answers(tmp_path / "b.npy")


def test_inconsistent_packs_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    pack_answers([answer(1), answer(2)], path)
    arrays = dict(np.load(path))
    for name, value, sentence in [
        ("ids", arrays["ids"][:-1], "damaged"), ("seed", arrays["seed"][:1], "damaged"),
        ("finish_reason", np.array([9, 9]), "damaged"), ("version", np.array(2), "another version"),
    ]:
        np.savez(path, allow_pickle=False, **{**arrays, name: value})
        with pytest.raises(HeadwayError, match=sentence):
            unpack_answers(path)


def test_packs_are_small_and_equal_for_equal_answers(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    ranks = np.minimum(rng.zipf(1.2, size=(2000, 200)), 49151)  # 400,000 tokens, spread like words
    answers = [answer(i, answer_ids=tuple(row), prompt_ids=tuple(row[:60])) for i, row in enumerate(ranks.tolist())]
    pack_answers(answers, tmp_path / "a.npz")
    pack_answers(answers, tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    assert (tmp_path / "a.npz").stat().st_size < 3e6
    assert np.load(tmp_path / "a.npz")["ids"].dtype == np.uint16
    pack_answers([answer(1, answer_ids=(2**16,))], tmp_path / "c.npz")
    assert np.load(tmp_path / "c.npz")["ids"].dtype == np.uint32


def test_records_check_themselves() -> None:
    with pytest.raises(ValueError, match="finish_reason must be one of eos, length, stop, got 'end'"):
        answer(1, finish_reason="end")
    with pytest.raises(ValueError, match=r"answer_ids must lie in \[0, 2\*\*32\), got -1 to 3"):
        answer(1, answer_ids=(3, -1))
    assert answer(1, prompt_ids=np.array([4, 5])) == answer(1, prompt_ids=(4, 5))
