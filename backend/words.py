"""Numbers as people say them. Knows no page and no unit of time. Torch-free."""

from __future__ import annotations


def bytes_in_words(count: float) -> str:
    """Bytes in powers of 1000, three digits: "538 MB"."""
    value = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if value < 999.5:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} TB"


def count_in_words(number: int) -> str:
    """ "134.5 million"; below a million the number itself."""
    if number >= 1e9:
        return f"{number / 1e9:.2f} billion"
    return f"{number / 1e6:.1f} million" if number >= 1e6 else f"{number:,}"
