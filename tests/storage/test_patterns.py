"""Texts that can't match are passed over, and no other ones."""

from __future__ import annotations

import random
import re

import pytest

from storage.patterns import matches

PATTERNS = (
    "rain", "rain.*haiku$", r"needle-\d", "^the", "rain$", "a$|the", "rai[nd]", "rain|raid", "(rain)?haiku", "rain*",
    "(?i)RAIN", "(?s)rain.*haiku$", "(?i:RAIN) haiku", "ra(?=in)in", "(?!rain)haiku", "haiku\nrain", "haiku$\nr",
    r"\Arain", r"haiku\Z", "(?x) rain  # not this\n haiku", "é$", "", "a{2,3}n", "[^r]ai$",
)  # fmt: skip
WORDS = ("rain", "raid", "haiku", "the", "RAIN", "needle-7", "needle-", "é", "aaan", "train", "ai")


@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_is_passed_over_does_not_match(pattern: str) -> None:
    rng, found = random.Random(pattern), 0
    for _ in range(400):
        words = rng.choices(WORDS, k=rng.randrange(6))
        text = "".join(word + rng.choice((" ", "\n", "")) for word in words)
        expected = re.search(pattern, text, re.MULTILINE) is not None
        assert matches(pattern, None, text.encode()) == expected, text
        found += expected
    assert found > 0
