"""An engine without a model: it replays made-up traces at a chosen pace, through the same interface and with the same
events.

Runs go one after another, queue, stop within one step, and follow the arithmetic of real ones: committed tokens,
verdicts and counts agree with each other. Knows no torch.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from backend.decoding.records import DecodeResult, PrefillTrace, StepTrace, TreeTrace
from backend.engine.protocol import DecodeRequest, EngineStatus, Event
from backend.errors import HeadwayError

LAST_KINDS = ("result", "failed", "cancelled")
MEDUSA_63 = (
    "0 00 1 01 2 000 10 02 3 03 4 04 20 05 001 5 06 6 07 010 11 7 08 002 30 09 8 9 100 020 12 003 40 21 004 "
    "005 0000 011 "
    "006 030 50 13 007 008 009 60 040 14 70 012 200 31 22 80 050 15 101 021 90 060 0001 16 070"
)
ANSWER = (
    "The sky looks blue because of how sunlight meets the air. Sunlight is a mix of all colours, and each "
    "colour is a wave "
    "with its own length. When the light reaches the atmosphere, the tiny molecules of the air scatter short "
    "waves much more "
    "strongly than long ones.\n\nBlue light has short waves, so it is scattered in every direction and "
    "reaches our eyes from "
    "all over the sky. Red and orange light pass almost straight through. In the evening the light takes a "
    "longer way through "
    "the air, most of the blue is lost on the way, and what is left makes the sunset red.\n"
)
WRONG = (
    " the",
    " a",
    " of",
    " and",
    ",",
    ".",
    " is",
    " to",
    " in",
    " light",
    " it",
    " that",
    "\n",
    " with",
    " on",
    " as",
    " are",
)


def pieces_of(text: str) -> list[str]:
    """Text cut as a tokenizer would: a word with the space before it, punctuation and line breaks alone."""
    pieces: list[str] = []
    for character in text:
        alone = not (character.isalnum() or character == " ")
        if pieces and not alone and character != " " and pieces[-1][-1:].isalnum() | (pieces[-1] == " "):
            pieces[-1] += character
        else:
            pieces.append(character)
    return pieces


def parents_of(tree: str | None, drafter: str) -> list[int]:
    """Parent columns, the root's first: chain-k, AxBxC, or Medusa's 63 nodes."""
    if drafter == "none":
        return [-1]
    name = tree or "medusa-63"
    if name.startswith("chain-"):
        return list(range(-1, int(name.removeprefix("chain-"))))
    if "x" in name and all(word.isdigit() for word in name.split("x")):
        widths = [int(word) for word in name.split("x")]
        paths = [""]
        for path in paths:
            if len(path) < len(widths):
                paths.extend(path + str(rank) for rank in range(widths[len(path)]))
    elif name == "medusa-63":
        paths = ["", *sorted(MEDUSA_63.split(), key=len)]
    else:
        raise HeadwayError(
            f"“{name[:40]}” is no tree: name one such as chain-4, 3x2x1 or medusa-63, or give JSON paths."
        )
    column = {path: at for at, path in enumerate(paths)}
    return [-1 if not path else column[path[:-1]] for path in paths]


@dataclass
class Script:
    """Makes the steps of one run: the true continuation is `pieces`, and a drafter that is often right guesses it."""

    pieces: Sequence[str]
    parents: list[int]
    request: DecodeRequest
    rng: random.Random
    at: int = 1  # index of the next token to commit; the first came from prefill
    step: int = 0

    def token(self, piece: str) -> int:
        return sum(map(ord, piece)) * 7 % 49152

    def next_step(self) -> StepTrace:
        self.step += 1
        depths = self._depths()
        room = len(self.pieces) - self.at
        true_path, column = [], 0
        while len(true_path) < room - 1:
            children = [child for child, parent in enumerate(self.parents) if parent == column and child > 0]
            hit = self.rng.choices([True, False], [0.72 - 0.12 * len(true_path), 0.28 + 0.12 * len(true_path)])[0]
            if not children or not hit:
                break
            column = children[min(int(self.rng.expovariate(1.4)), len(children) - 1)]
            true_path.append(column)
        tree = self._tree(depths, true_path)
        count = len(true_path)
        committed = list(self.pieces[self.at : self.at + count + 1])
        self.at += len(committed)
        tried = count + any(parent == column for parent in self.parents[1:])
        jitter = self.rng.uniform(0.9, 1.2)
        draft, verify, commit = 4.1 * jitter * (len(depths) > 1), (34 + 0.3 * len(depths)) * jitter, 1.2 * jitter
        return StepTrace(
            row=0,
            step=self.step,
            num_drafted=len(depths) - 1,
            num_accepted=count,
            num_tried=tried,
            num_cut=count + 1 - len(committed),
            tokens=[self.token(piece) for piece in committed],
            text="".join(committed),
            draft_ms=draft,
            verify_ms=verify,
            commit_ms=commit,
            step_ms=draft + verify + commit + 0.8,
            path=true_path,
            tree=tree,
        )

    def _depths(self) -> list[int]:
        depths: list[int] = []
        for parent in self.parents:
            depths.append(0 if parent < 0 else depths[parent] + 1)
        return depths

    def _tree(self, depths: list[int], path: list[int]) -> TreeTrace:
        columns = range(len(self.parents))
        on_path = [0, *path]
        pieces, verdicts = [], []
        for column in columns:
            if column in on_path:
                pieces.append(self.pieces[self.at - 1 + depths[column]])
            else:
                truth = self.pieces[min(self.at - 1 + depths[column], len(self.pieces) - 1)]
                pieces.append(self.rng.choice([piece for piece in WRONG if piece != truth]))
            looked = column > 0 and self.parents[column] in on_path
            verdicts.append(1 if column in on_path else 2 if looked else 0)
        best = [
            self.pieces[min(self.at + depths[c], len(self.pieces) - 1)] if c in on_path else self.rng.choice(WRONG)
            for c in columns
        ]
        p = [round(self.rng.uniform(0.35, 0.97) if c in on_path else self.rng.uniform(0.001, 0.2), 4) for c in columns]
        best_p = [round(self.rng.uniform(0.35, 0.97), 4) for _ in columns]
        scores, thresholds = self._numbers(verdicts, p)
        drafted = [None, *(round(max(0.004, self.rng.uniform(0.2, 0.9) / (1 + c) ** 0.7), 4) for c in columns[1:])]
        return TreeTrace(
            tokens=[self.token(piece) for piece in pieces],
            parents=self.parents,
            pieces=pieces,
            verdicts=verdicts,
            draft_probs=drafted,
            target_probs=[None, *p[1:]],
            scores=scores,
            thresholds=thresholds,
            best_tokens=[self.token(piece) for piece in best],
            best_pieces=best,
            best_probs=best_p,
        )

    def _numbers(self, verdicts: list[int], p: list[float]) -> tuple[list[float | None], list[float | None]]:
        """Scores and thresholds as the rule would compare them; None for what was not looked at."""
        scores: list[float | None] = [None]
        thresholds: list[float | None] = [None]
        for verdict, value in zip(verdicts[1:], p[1:], strict=True):
            if self.request.rule == "typical":
                score, threshold = value, value * (0.4 if verdict == 1 else 1.9)
            elif self.request.rule == "rejection":
                score, threshold = (value, value) if verdict == 1 else (value, 0.55)
            else:
                score, threshold = (18.25, 18.25) if verdict == 1 else (14.5, 18.25)
            scores.append(score if verdict else None)
            thresholds.append(threshold if verdict else None)
        return scores, thresholds


@dataclass
class _Run:
    request: DecodeRequest
    events: list[Event] = field(default_factory=list)
    cancelled: bool = False

    @property
    def over(self) -> bool:
        return bool(self.events) and self.events[-1].kind in LAST_KINDS


class ReplayEngine:
    """Args:
    steps_per_s: pace of the steps; None is as fast as it goes.
    loading_s: how long the target seems to load in the first run.
    answer: what every run answers; `echo` makes it the prompt, to see a prompt's characters in the answer.
    """

    def __init__(
        self, steps_per_s: float | None = 30.0, loading_s: float = 0.0, answer: str = ANSWER, echo: bool = False
    ) -> None:
        self.pause_s = 1 / steps_per_s if steps_per_s else 0.0
        self._loading_s = loading_s
        self._answer = answer
        self._echo = echo
        self._runs: dict[str, _Run] = {}
        self._queue: list[str] = []
        self._loaded: str | None = None
        self._changed = threading.Condition()
        self._closed = False
        self._worker = threading.Thread(target=self._work, name="replay-engine", daemon=True)
        self._worker.start()

    def submit(self, request: DecodeRequest) -> str:
        if "no-such" in request.target:
            raise HeadwayError(f"The target “{request.target}” is neither a folder, a GGUF file nor a known name.")
        parents_of(request.tree, request.drafter)
        with self._changed:
            run_id = f"run-{len(self._runs) + 1:04d}"
            self._runs[run_id] = _Run(request)
            self._queue.append(run_id)
            self._say(run_id, "queued", {"position": len(self._queue) - 1, "request": request.model_dump(mode="json")})
        return run_id

    def events(self, run_id: str, after: int = 0, timeout_s: float | None = None) -> Iterator[Event]:
        run = self._runs.get(run_id)
        if run is None:
            raise HeadwayError(f"There is no run “{run_id}”; choose one from the list of recent runs.")
        while True:
            with self._changed:
                seen = after
                moved = self._changed.wait_for(
                    lambda seen=seen: len(run.events) > seen or run.over or self._closed, timeout_s
                )
                fresh = run.events[after:]
            yield from fresh
            after += len(fresh)
            if not moved or (run.over and after >= len(run.events)) or self._closed:
                return

    def cancel(self, run_id: str) -> None:
        with self._changed:
            run = self._runs[run_id]
            run.cancelled = True
            if run_id in self._queue[1:]:
                self._queue.remove(run_id)
                self._say(run_id, "cancelled", {})
                self._tell_positions()

    def status(self) -> EngineStatus:
        with self._changed:
            running = self._queue[0] if self._queue else None
            return EngineStatus("decoding" if running else None, running, tuple(self._queue[1:]), self._loaded, "cpu")

    def drafters(self, target: str) -> list[dict[str, Any]]:
        rows = (
            ("builtin-medusa", "Medusa heads", "medusa"),
            ("ngram", "n-gram lookup", "ngram"),
            ("none", "none", "none"),
        )
        return [{"spec": spec, "name": name, "family": family, "target": "", "tree": []} for spec, name, family in rows]

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._worker.join(5)

    def _say(self, run_id: str, kind: str, data: dict[str, Any]) -> None:
        """Under the lock."""
        run = self._runs[run_id]
        run.events.append(Event(len(run.events) + 1, kind, data))
        self._changed.notify_all()

    def _tell_positions(self) -> None:
        for position, run_id in enumerate(self._queue[1:], 1):
            self._say(run_id, "queued", {"position": position})

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._closed)
                if self._closed:
                    return
                run_id = self._queue[0]
            for kind, data in self._play(self._runs[run_id]):
                with self._changed:
                    if self._closed:
                        return
                    self._say(run_id, kind, data)
            with self._changed:
                self._queue.pop(0)
                self._tell_positions()

    def _play(self, run: _Run) -> Iterator[tuple[str, dict[str, Any]]]:
        request = run.request
        if self._loaded != request.target and self._loading_s:
            for tenth in range(10):
                yield "loading", {"fraction": tenth / 10, "sentence": f"Loading {request.target}"}
                time.sleep(self._loading_s / 10)
        self._loaded = request.target
        if run.cancelled:
            yield "cancelled", {}
            return
        prompt = request.messages[-1].content if request.messages else request.raw_prompt or ""
        pieces = (pieces_of(prompt if self._echo else self._answer) * 40)[: request.max_new_tokens]
        script = Script(pieces, parents_of(request.tree, request.drafter), request, random.Random(request.seed))
        conditions = {"device": "cpu", "dtype": "float32", "request": request.model_dump(mode="json")}
        yield "started", {"conditions": conditions, "tree": request.tree or "medusa-63", "warnings": []}
        yield "prefill", PrefillTrace(0, len(pieces_of(prompt)), script.token(pieces[0]), pieces[0], 61.0).to_dict()
        steps: list[StepTrace] = []
        due = time.monotonic()
        while script.at < len(pieces) and not run.cancelled:
            due += self.pause_s
            time.sleep(max(0.0, due - time.monotonic()))
            steps.append(script.next_step())
            yield "step", steps[-1].to_dict()
        result = _result(pieces[: script.at], prompt, steps, "cancelled" if run.cancelled else "length", script)
        yield "result", result.to_dict() | {"plain_tokens_per_s": 26.4}


def _result(pieces: list[str], prompt: str, steps: list[StepTrace], reason: str, script: Script) -> DecodeResult:
    depths = range(1, max((step.num_tried for step in steps), default=0) + 1)
    total = {
        name: sum(getattr(step, name) for step in steps)
        for name in ("num_drafted", "num_accepted", "num_cut", "draft_ms", "verify_ms", "commit_ms")
    }
    return DecodeResult(
        row=0,
        prompt_tokens=len(pieces_of(prompt)),
        tokens=[script.token(piece) for piece in pieces],
        text="".join(pieces),
        num_steps=len(steps),
        accepted_per_depth=[sum(step.num_accepted >= depth for step in steps) for depth in depths],
        drafted_per_depth=[sum(step.num_tried >= depth for step in steps) for depth in depths],
        prefill_ms=61.0,
        overhead_ms=0.8 * len(steps),
        finish_reason=reason,
        **total,
    )
