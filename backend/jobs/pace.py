"""How long a job will take yet, from how fast it has been. Pure arithmetic over a clock that is handed in."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

WINDOW = 40  #: reports looked back on
SETTLE_S = 2.0  #: seconds before a guess is worth showing


@dataclass
class Pace:
    """One stage (a unit and a total) at a time; a new stage starts anew."""

    stage: tuple[str, float] | None = None
    seen: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=WINDOW))
    first: tuple[float, float] | None = None

    def left_s(self, done: float, total: float, unit: str, now: float) -> float | None:
        """Seconds until `total`; None while there is too little to go by. `now`: a monotonic clock's seconds."""
        if self.stage != (unit, total) or self.first is None or done < self.seen[-1][1]:
            self.stage, self.first = (unit, total), (now, done)
            self.seen.clear()
        self.seen.append((now, done))
        (began, start), (recent, place) = self.first, self.seen[0]
        if now - began < SETTLE_S or done <= start:
            return None
        # Mostly the recent speed, but over a window that is too short the whole stage's says more.
        since, from_done = (recent, place) if now - recent >= SETTLE_S and done > place else (began, start)
        return (total - done) * (now - since) / (done - from_done)
