"""What every command shares: how it speaks to the terminal.

Results go to stdout, everything else to stderr, so that `--json` output can be piped. Knows no command.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from tqdm import tqdm

Progress = Callable[[float, str], None]  #: told how far loading is: a fraction and a sentence


def loading_bar(quiet: bool) -> Progress:
    """A progress callback (fraction, sentence) that draws a bar on stderr, or nothing when quiet."""
    if quiet:
        return lambda fraction, sentence: None
    layout = "{l_bar}{bar}| {elapsed}<{remaining} {postfix}"
    bar = tqdm(total=100, unit="%", bar_format=layout, file=sys.stderr, leave=False, delay=2)

    def report(fraction: float, sentence: str) -> None:
        bar.set_postfix_str(sentence, refresh=False)
        bar.update(round(100 * fraction) - bar.n)
        if fraction >= 1:
            bar.close()

    return report


def counting_bar(total: int, unit: str, quiet: bool) -> tuple[Callable[[int, str], None], Callable[[], None]]:
    """(report(done, note), close): a bar with time left over `total` units, silent when quiet."""
    bar = tqdm(total=total, unit=unit, file=sys.stderr, disable=quiet, delay=2)

    def report(done: int, note: str) -> None:
        bar.set_postfix_str(note, refresh=False)
        bar.update(done - bar.n)

    return report, bar.close


def say(sentence: str) -> None:
    """A sentence for the person, not for a script."""
    print(sentence, file=sys.stderr, flush=True)
