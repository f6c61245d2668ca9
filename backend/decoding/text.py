"""Token ids to text, piece by piece: never a broken character, never the beginning of a stop string.

Knows a tokenizer's `decode` and nothing else. A token may hold part of a character (bytes of an emoji) or change how
its neighbour is written (a leading space), so text is made from a short window of tokens and only handed out when it
can no longer change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

BROKEN = "\N{REPLACEMENT CHARACTER}"
#: The beginning of a UTF-8 character is at most 3 bytes, and tokenizers show it as one or as so many broken ones.
MAX_LIVE = 3


class TextStream:
    """The text of one growing answer."""

    def __init__(self, tokenizer: Any, stop: Sequence[str] = ()) -> None:
        self._tokenizer = tokenizer
        self._stop = [text for text in stop if text]
        self._tokens: list[int] = []
        self._window = 0  # first token of the decoding window
        self._whole = 0  # tokens whose text ends in a whole character: where the next window may begin
        self._done = 0  # characters of the window's text that are final
        self._text = ""  # all final text
        self._given = 0  # characters already handed out
        self.stopped = False

    @property
    def text(self) -> str:
        """All text so far, cut before a stop string."""
        return self._text

    def push(self, token: int) -> bool:
        """Add a token; True when a stop string is complete with it (the caller throws away what follows)."""
        self._tokens.append(token)
        self._settle(force=False)
        return self.stopped

    def take(self) -> str:
        """Text that became certain since the last call. Text that may begin a stop string is held back."""
        end = len(self._text) if self.stopped else len(self._text) - self._held_back()
        piece, self._given = self._text[self._given : end], max(self._given, end)
        return piece

    def finish(self) -> str:
        """The answer is over: settle what is pending (a broken character shows as U+FFFD) and hand out the rest."""
        if not self.stopped:
            self._settle(force=True)
        piece, self._given = self._text[self._given :], len(self._text)
        return piece

    def _settle(self, force: bool) -> None:
        """Add what has become final: all of the window's text but the broken characters that may yet become whole."""
        window = self._decode(self._tokens[self._window :])
        broken = len(window) - len(window.rstrip(BROKEN))
        final = len(window) if force else len(window) - min(broken, MAX_LIVE)
        searched_from = max(0, len(self._text) - max((len(stop) for stop in self._stop), default=0))
        self._text += window[self._done : final]
        self._done = max(self._done, final)
        if not broken:  # keep the last whole piece in the window: a tokenizer may write a text's first token otherwise
            self._window, self._whole = self._whole, len(self._tokens)
            self._done = len(self._decode(self._tokens[self._window :]))
        found = [self._text.find(stop, searched_from) for stop in self._stop]
        if any(place >= 0 for place in found):
            self._text = self._text[: min(place for place in found if place >= 0)]
            self.stopped = True

    def _held_back(self) -> int:
        """Characters at the end that are the beginning of a stop string."""
        longest = 0
        for stop in self._stop:
            for length in range(min(len(stop) - 1, len(self._text)), longest, -1):
                if self._text.endswith(stop[:length]):
                    longest = length
                    break
        return longest

    def _decode(self, tokens: list[int]) -> str:
        if not tokens:
            return ""
        return str(self._tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False))
