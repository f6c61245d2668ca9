"""What every match holds, which a database looks for before a text is read letter by letter."""

from __future__ import annotations

import random
import re

import pytest

from storage.patterns import needed

PATTERNS = (
    "rain", "rain.*haiku$", r"needle-\d", "^the", "rain$", "a$|the", "rai[nd]", "rain|raid", "(rain)?haiku", "rain*",
    "(?i)RAIN", "(?s)rain.*haiku$", "(?i:RAIN) haiku", "ra(?=in)in", "(?!rain)haiku", "haiku\nrain", "haiku$\nr",
    r"\Arain", r"haiku\Z", "(?x) rain  # not this\n haiku", "é$", "", "a{2,3}n", "[^r]ai$",
)  # fmt: skip
WORDS = ("rain", "raid", "haiku", "the", "RAIN", "needle-7", "needle-", "é", "aaan", "train", "ai")


@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_is_needed_stands_in_every_match(pattern: str) -> None:
    rng, found = random.Random(pattern), 0
    text_needed, at_end = needed(pattern) or ("", False)
    for _ in range(400):
        words = rng.choices(WORDS, k=rng.randrange(6))
        text = "".join(word + rng.choice((" ", "\n", "")) for word in words)
        if re.search(pattern, text, re.MULTILINE) is not None:
            found += 1
            assert (text_needed + "\n" in text + "\n") if at_end else (text_needed in text), text
    assert found > 0


def test_the_rarest_is_looked_for() -> None:
    assert needed("rain.*haiku$") == ("haiku", True) and needed(r"a.needle-\d") == ("needle-", False)
    assert needed("(?i)rain") is None and needed("a|b") is None and needed("[ab]+") is None
