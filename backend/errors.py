"""Errors that a person can cause and can mend.

Knows nothing of pages or command lines: whoever shows the error prints its one sentence and nothing else. Faults of the
program itself stay ordinary exceptions, so that they are not mistaken for bad input.
"""


class HeadwayError(Exception):
    """One sentence that says what is wrong and what to do about it."""


class MismatchError(HeadwayError):
    """A drafter meets a target version it was not trained for."""


class Cancelled(HeadwayError):
    """The person asked a running piece of work to stop."""
