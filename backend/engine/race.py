"""A race: two to four lanes answer one prompt, their steps taken in turns on one device.

The next step is always that of the lane whose own clock shows least, so that what stands side by side at any moment is
what each lane has after about the same time of its own computing, and the lane that ends first is the one that took
least. Knows lanes on their way; no queue and no store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from backend.engine.conditions import check_prompt, check_request
from backend.engine.cost import warm_up
from backend.engine.protocol import FEWEST_LANES, LANES, DecodeRequest, RaceRequest
from backend.engine.running import Running
from backend.engine.workbench import Workbench
from backend.errors import HeadwayError, MismatchError


def check_race(request: RaceRequest) -> None:
    """Raise HeadwayError for what can be known to be wrong before anything is loaded."""
    lanes = request.lanes
    if not FEWEST_LANES <= len(lanes) <= len(LANES):
        missing = FEWEST_LANES - len(lanes)
        change = f"add {missing}" if missing > 0 else f"remove {len(lanes) - len(LANES)}"
        raise HeadwayError(f"A race has {FEWEST_LANES} to {len(LANES)} lanes, but this one has {len(lanes)}; {change}.")
    if any((one.messages, one.raw_prompt) != (lanes[0].messages, lanes[0].raw_prompt) for one in lanes):
        raise HeadwayError("All lanes of a race answer the same prompt; give them one.")
    check_prompt(lanes[0])
    known: dict[str, str] = {}
    for letter, lane in zip(LANES, lanes, strict=False):
        with naming(letter):
            check_request(lane)
        same = known.setdefault(_what_counts(lane), letter)
        if same != letter:
            raise HeadwayError(f"Lanes {same} and {letter} would do the same; change one of them or remove it.")


def _what_counts(request: DecodeRequest) -> str:
    """Equal for two lanes that would do the same, step by step."""
    left_out = {"when_busy"}
    if request.drafter.strip() == "none" or request.max_depth == 0:
        left_out |= {"drafter", "tree", "max_depth", "sampled", "force"}
    if request.temperature == 0:
        left_out |= {"rule", "epsilon", "delta", "top_k", "top_p", "min_p", "sampled", "seed"}
    elif request.rule != "typical":
        left_out |= {"epsilon", "delta"}
    counting = request.model_dump(exclude=left_out)
    return repr({name: one.strip() if isinstance(one, str) else one for name, one in counting.items()})


@contextmanager
def naming(letter: str) -> Iterator[None]:
    """A person's error inside says which lane it is about."""
    try:
        yield
    except MismatchError as error:
        raise MismatchError(f"Lane {letter}: {error}") from error
    except HeadwayError as error:
        raise HeadwayError(f"Lane {letter}: {error}") from error


class Benches:
    """A bench for every target of a race: the engine's own for one of them, made ones for the others.

    Args:
        own: the engine's; a target of the race that it has loaded stays there.
        make: an empty one on the same device.
        targets: of all lanes.
    """

    def __init__(self, own: Workbench, make: Callable[[], Workbench], targets: Sequence[str]) -> None:
        first = own.loaded if own.loaded is not None and own.loaded in targets else targets[0]
        self._of: dict[str, Workbench] = {first: own}
        self._made = {name: make() for name in dict.fromkeys(targets) if name != first}
        self._of |= self._made

    def of(self, target: str) -> Workbench:
        return self._of[target]

    def close(self) -> None:
        """Let go of all but what is on the engine's own."""
        for bench in self._made.values():
            bench.clear()


def get_ready(lanes: Sequence[Running]) -> None:
    """A few steps of every lane that nobody counts, so that none pays for what only the first steps cost."""
    for lane in lanes:
        if not lane.run.cancel.is_set():
            with suppress(HeadwayError):  # a target whose context is too short for the text it is warmed up on
                warm_up(lane.target, lane.drafter)


def take_turns(lanes: Sequence[Running], ended: Callable[[Running, Exception | None], None]) -> None:
    """All steps of all lanes. First every lane reads the prompt, then each step is the turn of the lane whose clock
    shows least.

    `ended` is called for each lane as soon as it is over, or with what made it fail; the others go on. Raises
    HeadwayError when a lane can't begin.
    """
    going: list[Running] = []
    for letter, lane in zip(LANES, lanes, strict=False):
        with naming(letter):
            going.append(lane) if lane.step() else ended(lane, None)
    while going:
        lane = min(going, key=lambda one: one.clock_ms)  # of equal ones the first
        try:
            over, error = not lane.step(), None
        except Exception as found:  # one lane's failure is not the others'
            over, error = True, found
        if over:
            going.remove(lane)
            ended(lane, error)
