"""A job's target: opened where the config says, run the same in every attempt, and held as long as the job works on it.

Knows contexts and the device lease; no kind of job.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from backend.drafters.checkpoint import write_text_atomically
from backend.engine.lease import holder_of, try_lease
from backend.errors import HeadwayError
from backend.jobs.configs import TargetConfig
from backend.jobs.context import JobContext
from backend.targets.opening import open_target
from backend.targets.target import Target

WIDTH = "width.txt"


def open_for(config: TargetConfig, context: JobContext) -> Target:
    """The target, loaded; its narrowest pass, which is measured at load, is that of the job's first attempt.

    A pass of another width may round differently, and an attempt must go on exactly where the last one was.
    """
    target = open_target(
        config.target,
        context.settings,
        context.device or config.device,
        config.dtype,
        config.trust_remote_code,
        lambda fraction, sentence: context.progress(fraction, 1, "loading", sentence),
    )
    note = context.folder / WIDTH
    if note.is_file():
        try:
            target.min_width = int(note.read_text(encoding="ascii"))
        except ValueError:
            raise HeadwayError(f"{note} is damaged; start the job anew.") from None
    else:
        context.folder.mkdir(parents=True, exist_ok=True)
        write_text_atomically(note, f"{target.min_width}\n")
    return target


@contextmanager
def holding(context: JobContext, target: Target, who: str) -> Iterator[bool]:
    """Hold the target's device while open, as far as it can be had: yields whether nobody else has it."""
    home, device = context.settings.home, str(target.device)
    kind = "command" if context.job_id is None else "job"
    with try_lease(home, device, who, kind, context.job_id) as taken:
        holder = holder_of(home, device)
        # An engine that lends its device to this job has taken the lease in the job's name.
        lent = holder is not None and holder.job is not None and holder.job == context.job_id
        yield taken == "held" or lent
