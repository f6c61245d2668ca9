"""The small interface between whoever shows decoding and whoever owns the device.

The dashboard and the command line speak only this; whether the engine lives in the same process or another one is not
visible here. No torch, no Gradio: requests are pydantic (they come from forms), events are plain dictionaries (they go
to browsers).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from backend.bounds import BOUNDS

RuleName = Literal["greedy", "rejection", "typical"]
LANES = "ABCD"  #: the names of a race's lanes, so that there are four at most
FEWEST_LANES = 2


class Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    role: Literal["system", "user", "assistant"]
    content: str


class DecodeRequest(BaseModel):
    """Everything that determines one decode run. `tree=None` means the tree stored with the drafter.

    A number out of its bound (backend/bounds.py) raises HeadwayError with the bound's own sentence.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    target: str = Field("smollm2-135m", description="built-in name, folder, GGUF file or hub id")
    drafter: str = Field("builtin-medusa", description="builtin-medusa, ngram, none, draft:MODEL or a folder of heads")
    messages: tuple[Message, ...] = ()
    raw_prompt: str | None = Field(None, description="continue this text as it stands, without the chat template")
    max_new_tokens: int = Field(128, description="longest answer, in tokens")
    temperature: float = Field(0.0, description="0 takes the best token, higher is more random")
    top_k: int = Field(0, description="draw among the k best tokens only; 0 is off")
    top_p: float = Field(1.0, description="draw among the best tokens that make up this share")
    min_p: float = Field(0.0, description="drop tokens below this share of the best one")
    repetition_penalty: float = Field(1.0, description="above 1 avoids tokens already seen")
    banned_tokens: tuple[int, ...] = ()
    rule: RuleName = "greedy"
    epsilon: float = Field(0.09, description="typical rule: probability that always passes")
    delta: float = Field(0.3, description="typical rule: lower bar where the target is unsure")
    tree: str | None = Field(None, description="chain-4, 3x2x1, medusa-63, eagle2, JSON; empty: the drafter's own")
    max_depth: int | None = Field(None, description="levels of the tree to keep; left out: all, 0: draft nothing")
    sampled: bool = Field(False, description="draw siblings without replacement instead of taking the top ones")
    seed: int = Field(0, description="same seed, same answer")
    stop: tuple[str, ...] = ()
    json_schema: str | None = Field(None, description="JSON schema that the answer has to follow")
    force: bool = Field(False, description="use heads of another version all the same")
    when_busy: Literal["wait", "share"] = Field(
        "wait", description="while something else has the device: wait for it, or decode at once on the CPU beside it"
    )

    @field_validator(*BOUNDS)
    @classmethod
    def _within_bounds(cls, value: Any, info: ValidationInfo) -> Any:
        bound = BOUNDS[str(info.field_name)]
        for number in value if isinstance(value, tuple) else (value,):
            if number is not None:
                bound.check(number)
        return value


class RaceRequest(BaseModel):
    """A request for each lane of a race: the same prompt, all else as one likes. What `race` refuses stands there."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    lanes: tuple[DecodeRequest, ...]


@dataclass(frozen=True)
class Race:
    """`runs`: the ids of the lanes' runs, in the order of the lanes."""

    id: str
    runs: tuple[str, ...]


@dataclass(frozen=True)
class Event:
    """One thing that happened to a run; `seq` counts from 1 and never skips, so a page can resume after any of them.

    kinds: queued {position, holder: who else has the device, or None}; loading {fraction, sentence}; started
    {conditions, tree, warnings}; prefill {PrefillTrace}; step {StepTrace}; result {DecodeResult, plain_tokens_per_s or
    None}; failed {error}; cancelled {}. result, failed and cancelled are last.
    """

    seq: int
    kind: str
    data: dict[str, Any]


@dataclass(frozen=True)
class EngineStatus:
    """What the device is doing now, for a person: `holder` is a short sentence, None when idle."""

    holder: str | None
    running: str | None
    queued: tuple[str, ...]
    loaded_target: str | None
    device: str
    #: what the engine was started with, as far as anything was: {"device": "cpu", "dtype": "bfloat16",
    #: "trust_remote_code": True}; a command line that repeats a run has to say the same
    started_with: dict[str, str | bool] = field(default_factory=dict)
    job: str | None = None  #: the id of the holder, when it is a job
    unstored: str | None = None  #: one sentence while runs wait in memory for a database that is away
    place: str | None = None  #: the device that is taken in turns, also while a run is decoded on the CPU beside it


class Engine(Protocol):
    """Owns a device; runs decode requests one after another in the order they came."""

    def submit(self, request: DecodeRequest) -> str:
        """Queue a run; returns its id at once. Raises HeadwayError when the request cannot be right."""
        ...

    def race(self, request: RaceRequest) -> Race:
        """Queue a race: each lane is a run with events and a record of its own, and their steps are taken in turns.

        The next step is that of the lane whose own steps took least time so far. `cancel` and `share` take the race's
        id as well. Raises HeadwayError for less than two or more than four lanes, two that would do the same, different
        prompts, and whatever is wrong with one of them.
        """
        ...

    def events(self, run_id: str, after: int = 0, timeout_s: float | None = None) -> Iterator[Event]:
        """All events with seq > after, the past ones at once, the coming ones as they happen; ends after the last one.

        With a timeout the iterator also ends when nothing happened for that long. Any number of readers may follow one
        run. Finished runs of earlier processes are replayed from the store. Raises HeadwayError for an unknown run.
        """
        ...

    def cancel(self, run_id: str) -> None:
        """Stop within one step; stopping a finished run does nothing."""
        ...

    def share(self, run_id: str) -> None:
        """A run that waits for whoever has the device waits no longer: as if asked with when_busy="share"."""
        ...

    def status(self) -> EngineStatus: ...

    def drafters(self, target: str) -> list[dict[str, Any]]:
        """What can draft, without loading weights: [{spec, name, family, target, tree, cost}].

        `cost` is the drafting time of a step in plain steps as last measured here with this target, or None. What was
        used here without being known before (draft:MODEL, heads in any folder) is listed too, family "used".
        """
        ...

    def machine(self) -> dict[str, Any]:
        """How the engine's machine is doing: see machine.Monitor.read."""
        ...

    def poke(self) -> None:
        """Say that there is a new job in the queue, so that it is looked at now and not a little later."""
        ...

    def close(self) -> None:
        """Cancel what runs, wait for the worker, release the device."""
        ...
