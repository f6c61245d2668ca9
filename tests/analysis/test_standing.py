"""Who won a race, by how much, and what is said of the lanes' texts."""

from __future__ import annotations

from typing import Any

import pytest

from backend.analysis.standing import Lane, lane_of, marks_of, standing, stretches

OTHER = {"version": "w", "law": "w"}


def lane(letter: str, text: str = "one two three", **values: Any) -> Lane:
    """A greedy lane of version v; its tokens are its characters."""
    tokens = tuple(map(ord, text))
    speed = 1000 * (len(tokens) - 1) / values.get("clock_ms", 1000.0) if tokens[1:] else None
    given = {"ended": "finished", "clock_ms": 1000.0, "version": "v", "tokenizer": "t", "law": "v greedy"}
    return Lane(letter, **(given | {"tokens": tokens, "text": text, "tokens_per_s": speed} | values))


def test_the_first_to_end_on_its_own_clock_wins_and_is_told_over_plain_decoding() -> None:
    found = standing([lane("A", plain=True), lane("B", clock_ms=500.0), lane("C", clock_ms=1250.0)])
    assert [row["place"] for row in found["lanes"]] == [2, 1, 3]
    assert [row["ratio"] for row in found["lanes"]] == pytest.approx([1.0, 2.0, 0.8]) and found["against"] == "A"
    assert (
        found["speed"] == "B finished first, after 500 ms of its own time: 2.00 times the speed of plain decoding (A)."
    )
    assert found["texts"] == ["A, B and C wrote the same text, token for token, as greedy lanes must."]
    assert found["same"] is True and found["marks"] == {}


@pytest.mark.parametrize(
    ("lanes", "said"),
    [
        ([lane("A", plain=True), lane("B", clock_ms=2500.0)],
         "A, plain decoding, finished first, after 1.00 s of its own time: B has 0.40 times its speed."),
        ([lane("A"), lane("B", clock_ms=1500.0)],
         "A finished first, after 1.00 s of its own time: 1.50 times the speed of B, the next."),
        ([lane("A"), lane("B", ended="stopped")],
         "A finished first, after 1.00 s of its own time; no other lane came to its end."),
        ([lane("A", ended="stopped"), lane("B", ended="failed")],
         "The race was stopped before any lane came to its end."),
        ([lane("A", ended="failed"), lane("B", ended="failed")], "No lane came to its end."),
        ([lane("A", plain=True), lane("B", "x", law="other", clock_ms=1.0)],
         "B finished first, after 1 ms of its own time. "
         "The texts differ in length, so compare the speeds and not the times."),
    ],
)  # fmt: skip
def test_every_end_is_a_sentence(lanes: list[Lane], said: str) -> None:
    assert standing(lanes)["speed"] == said


def test_shared_devices_are_told() -> None:
    assert "shared with other work" in standing([lane("A", contended=True), lane("B")])["speed"]


def test_greedy_lanes_of_one_version_that_differ_are_called_out() -> None:
    found = standing([lane("A"), lane("B"), lane("C", "one too three")])
    assert found["same"] is False and len(found["texts"]) == 2
    assert found["texts"][0].startswith("A and B wrote the same text")
    assert found["texts"][1].startswith("C's text leaves A's at token 6, although both are greedy and of one version")


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (lane("B", "one two four", **OTHER), "B's text leaves A's at token 9: they are different versions."),
        (lane("B", **OTHER), "B and A wrote the same text, though they are different versions."),
        (lane("B", "1 two", tokenizer="u", **OTHER),
         "B's text leaves A's at character 1: they are different versions."),
        (lane("B", "one two", law="x"), "B's text leaves A's at token 8: the lanes decode under different settings."),
        (lane("B", "one", temperature=1.0, approximate=True), "B's text leaves A's at token 4: "
         "at a temperature above 0 each lane draws its own tokens (the typical rule is approximate)."),
    ],
)  # fmt: skip
def test_texts_that_need_not_be_equal_are_told_with_the_reason(other: Lane, said: str) -> None:
    found = standing([lane("A"), other])
    assert found["texts"] == [said] and found["same"] is None


def test_a_lane_that_was_stopped_is_held_to_what_it_wrote() -> None:
    found = standing([lane("A"), lane("B", "one tw", ended="stopped")])
    assert found["same"] is True and "as far as each got" in found["texts"][0] and found["marks"] == {}
    assert standing([lane("A"), lane("B", "one tx", ended="stopped")])["same"] is False
    assert standing([lane("A"), lane("B", ended="failed")])["texts"] == []


def test_differing_stretches_are_whole_words_on_both_sides() -> None:
    first, second = "The sky is blue, since light scatters.", "The sky is red, since light scatters a lot."
    assert [(first[a:b], second[c:d]) for (a, b), (c, d) in stretches(first, second)] == [
        ("blue", "red"),
        ("", " a lot"),
    ]
    marks = marks_of([lane("A", first), lane("B", second), lane("C", "The sky was blue, since light scatters.")])
    assert marks["B"] == {"against": "A", "at": 11, "stretches": [[11, 14], [36, 42]]}
    assert marks["C"]["at"] == 8 and marks["C"]["stretches"] == [[8, 11]]
    assert marks["A"] == {"against": None, "at": None, "stretches": [[8, 10], [11, 15]]}


def test_a_lane_is_read_from_the_events_of_its_run() -> None:
    request = {"temperature": 0.7, "rule": "typical", "max_new_tokens": 9}
    version = {"weights_id": "w", "tokenizer_id": "t", "template_id": "c"}
    counts = {"num_steps": 1, "tokens": [5, 6], "text": "ab", "tokens_per_s": 100.0, "acceptance_length": 1.0}
    times = {"draft_ms": 1.0, "verify_ms": 6.0, "commit_ms": 2.0, "overhead_ms": 1.0, "prefill_ms": 50.0}
    conditions = {"request": request, "version": version, "family": "none"}
    found = lane_of("A", conditions, counts | times | {"finish_reason": "length", "contended": True})
    assert (found.ended, found.plain, found.clock_ms, found.approximate, found.contended) == (
        "finished", True, 10.0, True, True,
    )  # fmt: skip
    other = lane_of("B", conditions | {"version": version | {"template_id": "d"}}, counts | times)
    assert other.version == found.version and other.law != found.law
    assert lane_of("C", {}, None).ended == "failed"
    assert lane_of("D", conditions, counts | times | {"finish_reason": "cancelled"}).ended == "stopped"
