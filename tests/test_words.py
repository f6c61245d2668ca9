"""Numbers as people say them."""

from backend.words import bytes_in_words, count_in_words


def test_bytes_have_three_digits_and_the_unit_that_fits() -> None:
    assert [bytes_in_words(number) for number in (12, 5_380, 538_000_000, 1_234_000_000)] == [
        "12 bytes", "5.38 kB", "538 MB", "1.23 GB",
    ]  # fmt: skip


def test_counts_below_a_million_are_told_in_full() -> None:
    assert [count_in_words(number) for number in (999_999, 134_515_008, 8_030_000_000)] == [
        "999,999", "134.5 million", "8.03 billion",
    ]  # fmt: skip
