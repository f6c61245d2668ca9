"""Text encoding, blobs of steps, ids."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage import traces
from storage.columns import decode_text, encode_text
from storage.identifiers import identity_hash, new_id, time_of
from tests.storage.samples import NASTY

# Half of the characters are those the encoding itself uses.
TEXT = st.text(st.one_of(st.characters(exclude_categories=()), st.sampled_from("\x10\x000d8f\ud800\udfff")))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=10,
)


@given(TEXT)
def test_encoded_text_is_safe_and_comes_back(text: str) -> None:
    stored = encode_text(text)
    assert "\x00" not in stored
    stored.encode("utf-8")
    assert decode_text(stored) == text


@given(TEXT, TEXT)
def test_encoding_keeps_substrings(text: str, more: str) -> None:
    # A search encodes what it looks for and must find it in what was encoded.
    assert encode_text(text) in encode_text(more + text + more)


def test_a_cut_off_escape_is_no_error() -> None:
    assert [decode_text(encode_text("a\ud83d")[:length]) for length in (2, 4)] == ["a\x10", "a\x10d8"]
    assert encode_text("plain é") == "plain é" and encode_text(NASTY) != NASTY


@settings(max_examples=50, deadline=None)
@given(st.lists(st.dictionaries(TEXT, JSON, max_size=3), min_size=1, max_size=5))
def test_steps_come_back(steps: list[dict[str, object]]) -> None:
    assert traces.unpack(traces.pack(steps)) == steps


def test_similar_steps_take_little_room() -> None:
    step = {"parents": list(range(-1, 63)), "tokens": list(range(64)), "verdicts": ["rejected"] * 64}
    assert len(traces.pack([step] * 64)) < 2_000


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-4], lambda b: b"\x02" + b[1:], lambda b: b"", lambda b: b[:9] + b"\xff" + b[10:]]
)
def test_damaged_blobs_are_noticed(damage) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(traces.DamagedChunk):
        traces.unpack(damage(traces.pack([{"a": "some text that is long enough"}])))


def test_run_ids_sort_by_time_even_when_the_clock_goes_back() -> None:
    far = 2_000_000_000_000
    ids = [new_id(far), new_id(far), new_id(far - 5_000), new_id(far + 1_000)]
    assert ids == sorted(ids) and len({id[:9] for id in ids}) == 4
    assert all(len(id) == 13 for id in ids) and time_of(ids[0]) == far


def test_run_ids_of_threads_differ() -> None:
    ids: list[str] = []
    threads = [threading.Thread(target=lambda: ids.extend(new_id() for _ in range(500))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id[:9] for id in ids}) == 2_000


def test_identities_do_not_run_together() -> None:
    parts = [("ab", "c"), ("a", "bc"), ("abc",), ("abc", None), ("abc", ""), (None, "abc")]
    assert len({identity_hash(*each) for each in parts}) == len(parts)
    assert identity_hash("w", None, "é") == identity_hash("w", None, "é")
