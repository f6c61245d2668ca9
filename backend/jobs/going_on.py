"""How a measurement that was interrupted begins again: under the conditions it began with, or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from backend.errors import HeadwayError
from backend.jobs.context import JobContext
from backend.targets.target import Target

SETUP: Final = "setup"  #: key of the item that says under which conditions the others were made
SAME: Final = ("version", "drafter", "prompts", "dtype")  #: conditions without which two answers do not belong together


def begin(context: JobContext, setup: Mapping[str, Any], target: Target, what: str) -> None:
    """Keep `setup`, whose "conditions" are those of tune_conditions.measured_with and the prompts' hashes; or see that
    they are those of the attempt before, and make `target` go on as it did. `what`: "calibration", say.

    Raises HeadwayError when the target, the drafter or a prompt file is another one now.
    """
    before = context.items().get(SETUP)
    plain = json.loads(json.dumps(setup))
    if before is None:
        context.item(SETUP, plain)
        return
    if any(before["conditions"].get(key) != plain["conditions"].get(key) for key in SAME):
        raise HeadwayError(
            f"This {what} can't go on: the target, the drafter or a prompt file changed since it began; start anew."
        )
    target.min_width = int(before["conditions"]["min_width"])  # another width may round differently
