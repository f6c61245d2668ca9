"""The targets that every form offers. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

#: (as it is called, as it is asked for) of what comes with Headway
TARGETS: Final = (("SmolLM2-135M-Instruct (built in)", "smollm2-135m"),)


def offered_targets(named: Iterable[str]) -> list[tuple[str, str]]:
    """Those, and each other one that is named, once."""
    known = {value for _, value in TARGETS}
    return [*TARGETS, *((name, name) for name in dict.fromkeys(named) if name and name not in known)]
