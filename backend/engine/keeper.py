"""Writes what decode runs yield into the store, one write after another in a thread of its own.

A database that is away (a server that restarts, a disk that is unplugged, a long writer) holds no decoding up: what is
to be stored waits in memory, up to a bound, and is stored when the database is back. Rows then carry the times of their
writing. Knows the store's errors and no engine.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from backend.words import bytes_in_words
from storage.errors import StoreError, UnavailableError

ROOM_BYTES = 64 << 20  #: of what waits, as JSON; Python's objects take a few times as much
SLOW_S = 2.0  #: a write that takes longer is no longer waited for
GRACE_S = 1.0  #: that closing waits longer, for a try which began in time
PAUSE_S = (0.1, 2.0)  #: between tries, at first and at most
log = logging.getLogger(__name__)

Call = Callable[[bool], None]  #: a write; told whether it was tried before, and may then have been stored already


@dataclass
class Kept:
    """What of one run is to be stored. `error`: why nothing more of it can be; `missing`: how many of its steps were
    not kept because the room was full.
    """

    run_id: str
    error: StoreError | None = None
    missing: int = 0
    waiting: int = 0


@dataclass(frozen=True)
class _Write:
    kept: Kept
    call: Call
    size: int


@dataclass
class _Try:
    """The write that is being tried: since when, how often, and what the store said last."""

    since: float = 0.0
    count: int = 0
    said: str = ""


class Keeper:
    """Thread safe. Writes of all runs are made in the order they were put, so that the order of the store's states is
    that of the runs.

    Args:
        clock: monotonic seconds.
    """

    def __init__(
        self,
        *,
        room_bytes: int = ROOM_BYTES,
        slow_s: float = SLOW_S,
        pause_s: tuple[float, float] = PAUSE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._room_bytes, self._slow_s, self._pause_s, self._clock = room_bytes, slow_s, pause_s, clock
        self._writes: deque[_Write] = deque()
        self._bytes = 0
        self._try = _Try()
        self._closed = False
        self._give_up_at: float | None = None
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="headway-keeper", daemon=True)
        self._thread.start()

    def put(self, kept: Kept, call: Call, size: int = 0) -> None:
        """Make this write after those before it; `size` counts against the room while it waits."""
        with self._changed:
            kept.waiting += 1
            self._bytes += size
            self._writes.append(_Write(kept, call, size))
            self._changed.notify_all()

    def has_room(self) -> bool:
        """Whether more may be put that can be done without."""
        with self._changed:
            return self._bytes < self._room_bytes

    def settle(self, kept: Kept) -> None:
        """Return when all of this run is stored or can't be, or when the database is found to be away or slow.

        Raises StoreError when the store refused a write of this run.
        """
        give_up = self._clock() + self._slow_s
        with self._changed:
            while kept.waiting and kept.error is None and not self._try.said and (left := give_up - self._clock()) > 0:
                self._changed.wait(left)
            if kept.error is not None:
                raise kept.error

    def trouble(self) -> str | None:
        """One sentence while something waits for a database that is away or slow; None when all is well."""
        with self._changed:
            slow = bool(self._writes) and self._try.count > 0 and self._clock() - self._try.since > self._slow_s
            if not self._try.said and not slow:
                return None
            runs = {write.kept.run_id: write.kept for write in self._writes}
            why = self._try.said or "the database takes long to answer."
            told = f"{len(runs)} run{'s are' if len(runs) != 1 else ' is'} kept in memory until the database is back"
            if any(kept.missing for kept in runs.values()):
                told += f", without the steps for which {bytes_in_words(self._room_bytes)} had no room"
            return f"Decoding goes on, and {told}: {why[:1].lower()}{why[1:]}"

    def close(self, timeout_s: float) -> None:
        """Write what waits, for so long; what is left then is lost and said in the log."""
        with self._changed:
            self._closed, self._give_up_at = True, self._clock() + timeout_s
            self._changed.notify_all()
        self._thread.join(timeout_s + GRACE_S)
        lost = sorted({write.kept.run_id for write in list(self._writes)})
        if lost:
            log.warning("%s could not be stored: %s", ", ".join(lost), self._try.said or "the database is slow")

    # -- the thread
    # -----------------------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while (write := self._next()) is not None:
            if not self._written(write):
                return
            with self._changed:
                self._writes.popleft()
                self._bytes -= write.size
                write.kept.waiting -= 1
                self._try.said, self._try.count = "", 0
                self._changed.notify_all()

    def _next(self) -> _Write | None:
        with self._changed:
            while not self._writes:
                if self._closed:
                    return None
                self._changed.wait()
            return self._writes[0]

    def _written(self, write: _Write) -> bool:
        """Try until it is stored or refused; False when closing came first."""
        pause, longest = self._pause_s
        while write.kept.error is None:
            with self._changed:
                if self._given_up():
                    return False
                self._try.since = self._clock()
                self._try.count += 1
                again = self._try.count > 1
            try:
                write.call(again)
                return True
            except UnavailableError as error:
                self._wait_a_little(str(error), pause)
                pause = min(2 * pause, longest)
            except StoreError as error:
                write.kept.error = error
            except Exception as error:  # a fault of ours: this run is not stored, the others are
                log.exception("a write of run %s failed", write.kept.run_id)
                write.kept.error = StoreError(
                    f"The run could not be stored because of a fault inside Headway ({type(error).__name__}); please "
                    "report it."
                )
        return True

    def _given_up(self) -> bool:
        """Whether what waits is lost: it has been said so, and must not be stored after all."""
        return self._give_up_at is not None and self._clock() >= self._give_up_at

    def _wait_a_little(self, said: str, pause_s: float) -> None:
        """Until the next try. `said`: what the store said of the last one."""
        with self._changed:
            self._try.said = said
            self._changed.notify_all()
            if self._give_up_at is None:
                self._changed.wait_for(lambda: self._closed, pause_s)
                return
            left = self._give_up_at - self._clock()
        time.sleep(max(0.0, min(pause_s, left)))
