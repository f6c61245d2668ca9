"""Shared runs of words, against a slow twin."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.data.overlap import Overlap, find_overlap, leak_check, ngrams
from backend.data.prompts import Prompt, read_prompts
from backend.errors import HeadwayError

WORDS = st.lists(st.sampled_from("abc"), max_size=12)


def prompt(name: str, *turns: str) -> Prompt:
    return Prompt(name, "x", turns)


def test_case_and_punctuation_do_not_matter() -> None:
    assert ngrams("One, two: THREE-four_five", 3) == {
        ("one", "two", "three"), ("two", "three", "four"), ("three", "four", "five")}
    assert ngrams("Who am I?", 8) == {("who", "am", "i")} and ngrams("?!", 8) == set()
    with pytest.raises(ValueError, match="n must be at least 1, got 0"):
        ngrams("a", 0)


def test_hits_name_both_sides() -> None:
    mine = [prompt("p1", "nothing shared", "x one two three"), prompt("p2", "who am i")]
    first = [prompt("e1", "zero ONE two three four"), prompt("e2", "Who am I?")]
    others = {"e.jsonl": first, "f": [prompt("f1", "y z")]}
    assert find_overlap(mine, others, n=3) == [
        Overlap("p1", "e.jsonl", "e1", "one two three"), Overlap("p2", "e.jsonl", "e2", "who am i")]
    assert find_overlap(mine, others, n=8) == [Overlap("p2", "e.jsonl", "e2", "who am i")]


@given(WORDS, WORDS, st.integers(1, 5))
@settings(deadline=None)
def test_equals_the_slow_way(left: list[str], right: list[str], n: int) -> None:
    def runs(words: list[str]) -> list[list[str]]:
        return [words[i : i + n] for i in range(len(words) - n + 1)] or ([words] if words else [])

    expected = any(run == other for run in runs(left) for other in runs(right))
    hits = find_overlap([prompt("l", " ".join(left))], {"f": [prompt("r", " ".join(right))]}, n)
    assert bool(hits) == expected


def write_prompts(path: Path, texts: list[str]) -> Path:
    path.write_text("".join(json.dumps({"question_id": f"{path.stem}{n}", "turns": [t]}) + "\n"
                            for n, t in enumerate(texts)))  # fmt: skip
    return path


@given(st.lists(WORDS.map(" ".join).filter(bool), min_size=1, max_size=4),
       st.lists(WORDS.map(" ".join).filter(bool), min_size=1, max_size=4))  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_files_give_the_same_hits_whichever_is_larger(
    tmp_path_factory: pytest.TempPathFactory, left: list[str], right: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("leak")
    mine, other = write_prompts(folder / "mine.jsonl", left), write_prompts(folder / "other.jsonl", right)
    report = leak_check(mine, [other], n=3)
    expected = find_overlap(read_prompts(mine).prompts, {"other.jsonl": read_prompts(other).prompts}, n=3)
    assert list(report.hits) == sorted(expected) and report.num_hits == len(expected)
    back = leak_check(other, [mine], n=3)
    assert {(hit.question_id, hit.other_id) for hit in report.hits} == {
        (hit.other_id, hit.question_id) for hit in back.hits}
    assert (report.num_prompts, report.num_others) == (len(left), len(right))
    assert report.num_leaking == len({hit.question_id for hit in expected})


def test_leak_check_says_what_it_cannot_use(tmp_path: Path) -> None:
    mine = write_prompts(tmp_path / "mine.jsonl", ["a b c"])
    with pytest.raises(HeadwayError, match="is the file that is checked"):
        leak_check(mine, [tmp_path / "." / "mine.jsonl"])
    with pytest.raises(HeadwayError, match="Cannot read"):
        leak_check(mine, [tmp_path / "none"])
    (tmp_path / "x.jsonl").write_text("x")
    with pytest.raises(HeadwayError, match="No usable prompt in"):
        leak_check(mine, [tmp_path / "x.jsonl"])


def test_only_the_first_hits_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backend.data.overlap.MAX_HITS", 5)
    mine = write_prompts(tmp_path / "mine.jsonl", ["a b c"] * 4)
    (tmp_path / "more").mkdir()
    others = [write_prompts(tmp_path / name, ["A, b c!"] * 2) for name in ("e.jsonl", "more/e.jsonl")]
    report = leak_check(mine, others)
    assert (len(report.hits), report.num_hits, report.num_leaking) == (5, 16, 4)
    assert {hit.other_file for hit in report.hits} <= {str(path) for path in others}  # two files of one name
