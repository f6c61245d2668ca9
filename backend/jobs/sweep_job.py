"""A sweep: asks for settings, hands them to workers, keeps what they measured, gives up what has no chance.

Only this process writes: one item a trial, replaced as the trial goes on, under the job's attempt number. A trial that
was lost with its worker, or was running when the sweep was killed, is measured anew with a higher number of its own, so
no result counts twice; what a slow worker still says of an earlier attempt is not heard. Knows executors, proposers and
contexts; no model and no page.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from backend.data.prompts import read_prompts
from backend.drafters.checkpoint import read_meta, write_json_atomically
from backend.drafters.registry import folder_of
from backend.engine.lease import holder_of, try_lease
from backend.engine.workbench import lease_place
from backend.errors import Cancelled, HeadwayError
from backend.jobs.context import JobContext
from backend.jobs.sweep_config import SETUP, SweepJobConfig
from backend.jobs.sweep_executors import Executor, LocalExecutor, Task, order_of
from backend.sweeps.combine import Facts
from backend.sweeps.ledger import Ledger, table_rows
from backend.sweeps.propose import Proposer, proposer
from backend.sweeps.trial import PromptFigures, Trial, prompts_from, trial_from_dict
from storage import Store
from storage.records import VersionIdentity

LOOK_S = 0.25
MOST_LOST = 3  #: attempts of a trial that may be lost with their workers
TABLE, OPTUNA, WORKER_LOG = "table.json", "optuna.db", "workers.log"
#: What must be the same when a sweep goes on, in words.
FIXED = {"version": "the target", "device": "the device", "dtype": "the dtype", "threads": "the number of threads",
         "packages": "a package", "prompts": "a prompt set"}  # fmt: skip


def run(config: SweepJobConfig, context: JobContext) -> dict[str, Any]:
    """Try what is not tried yet. Returns {table, best, front, trials: by state, skipped}.

    Raises HeadwayError for what a person can mend, and when target, prompts or machine are not those of an earlier
    attempt; Cancelled when it was asked to stop.
    """
    files = [*config.prompts, *filter(None, (config.task_file, config.answers))]
    context.pin([Path(name).expanduser() for name in files])
    counted = sum(len(read_prompts(Path(name).expanduser(), config.limit).prompts) for name in config.prompts)
    ledger = Ledger(config.goals, _facts(config, counted * config.samples), config.max_drift)
    items = context.items()
    for key, data in items.items():
        if key != SETUP:
            ledger.put(_taken_up(trial_from_dict(data)))
    asking = proposer(config.sampler, config.dimensions, config.goals, config.seed, config.max_drift,
                      context.folder / OPTUNA, ledger.ordered())  # fmt: skip
    with closing(asking), _device(config, context) as alone, closing(_executor(config, context)) as executor:
        sweep = _Sweep(config, context, ledger, asking, executor, alone)
        sweep.setup = items.get(SETUP)
        sweep.go()
    return _finished(config, context, ledger)


class _Sweep:
    """The loop, and what is going on in it."""

    def __init__(
        self,
        config: SweepJobConfig,
        context: JobContext,
        ledger: Ledger,
        asking: Proposer,
        executor: Executor,
        alone: bool,
    ) -> None:
        self.config, self.context, self.ledger = config, context, ledger
        self.asking, self.executor, self.alone = asking, executor, alone
        self.setup: dict[str, Any] | None = None
        self.running: dict[int, float] = {}  # number -> part of its prompts that is answered
        self.given_up: dict[int, str] = {}  # number -> why it is being pruned
        self.checked = False
        rules = next((one.grid() for one in config.dimensions if one.knob.name == "rule"), [])
        self.quality = "typical" in rules or config.max_drift is not None or "drift" in config.objectives

    def go(self) -> None:
        """Until nothing is left to try. Raises Cancelled when the context says stop."""
        exhausted = False
        while True:
            if self.context.should_stop():
                raise Cancelled("The sweep was stopped; the trials that were measured are kept.")
            while not exhausted and self.executor.free() > 0:
                trial = self._next()
                if trial is None:
                    exhausted = True
                else:
                    self._begin(trial)
            if exhausted and not self.running:
                return
            for message in self.executor.messages(LOOK_S):
                self._hear(message)
                exhausted = False  # a trial that was lost may be waiting again
            self._show()

    def _next(self) -> Trial | None:
        """The next trial to measure; those that can't be are put down on the way."""
        while (waiting := self.ledger.waiting()) is None:
            number = self.ledger.next_number
            values = self.asking.ask(number) if number < self.config.num_trials else None
            if values is None:
                return None
            trial = self.ledger.proposed(number, values)
            if trial.state == "skipped":
                self._over(trial)
            elif self.quality and (reference := self.ledger.reference_for(trial)) is not None:
                self._keep(reference)
        return waiting

    def _begin(self, trial: Trial) -> None:
        trial = self.ledger.put(replace(trial, state="running", attempt=trial.attempt + 1))
        self._keep(trial)
        self.running[trial.number] = 0.0
        self.executor.submit(Task(trial.number, trial.attempt, dict(trial.settings), self.quality))

    # -- what workers say ----------------------------------------------------------------------------------------------

    def _hear(self, message: dict[str, Any]) -> None:
        said = message["say"]
        if said == "ready":
            self._ready(message["setup"])
        elif said == "loading" and self.setup is None:
            self.context.progress(message["part"], 1, "loading", message["note"])
        elif "number" in message:
            trial = self.ledger.trials.get(message["number"])
            if trial is None or trial.state != "running" or trial.attempt != message["attempt"]:
                return  # of an attempt that no longer counts
            {"part": self._part, "done": self._done, "failed": self._failed, "lost": self._lost}[said](trial, message)

    def _ready(self, setup: dict[str, Any]) -> None:
        plain = json.loads(json.dumps(setup | {"config": self.config.model_dump(mode="json")}))
        if self.setup is None:
            self.setup = plain
            self.context.item(SETUP, plain)
        elif self.config.executor == "local" and not self.checked:
            _check_same(self.setup, plain)
        self.checked = True
        if self.context.store is not None:
            self.context.link(version_id=_register(self.context.store, plain))

    def _part(self, trial: Trial, message: dict[str, Any]) -> None:
        prompts = prompts_from(message["prompts"])
        total = len((self.setup or {}).get("prompts", ())) or 1
        self.running[trial.number] = min(1.0, len(prompts) / total)
        if not self.config.prune_p or trial.reference or trial.number in self.given_up or len(prompts) >= total:
            return
        better = self.ledger.beaten_by(prompts, message["plain_speed"], self.config.prune_p)
        if better is not None:
            self.ledger.put(replace(trial, prompts=_small(prompts)))
            self.given_up[trial.number] = f"Trial {better.number} beat it on the first {len(prompts)} answers."
            self.executor.stop(trial.number, trial.attempt)

    def _done(self, trial: Trial, message: dict[str, Any]) -> None:
        found = message["measured"]
        for sentence in found["warnings"]:
            self.context.log(f"Trial {trial.number}: {sentence}")
        measured = replace(
            trial, state="finished", figures=found["figures"], prompts=prompts_from(found["prompts"]),
            plain_speed=found["plain_speed"], others_busy=found["others_busy"], drafter=found["drafter"],
            contended=bool(found.get("contended", not self.alone)), wall_s=message["wall_s"],
        )  # fmt: skip
        self._over(self.ledger.finished(measured))

    def _failed(self, trial: Trial, message: dict[str, Any]) -> None:
        kind, error = message["kind"], message["error"]
        if kind == "stopped" and trial.number in self.given_up:
            self._over(replace(trial, state="pruned", reason=self.given_up[trial.number]))
        elif kind == "impossible":
            self._over(replace(trial, state="skipped", reason=error))
        else:
            self._over(replace(trial, state="failed", reason=error))

    def _lost(self, trial: Trial, message: dict[str, Any]) -> None:
        self.running.pop(trial.number, None)
        self.given_up.pop(trial.number, None)
        if trial.attempt >= MOST_LOST:
            self._over(replace(trial, state="failed", reason=f"{message['error']} It was tried {MOST_LOST} times."))
            return
        self.context.log(f"Trial {trial.number}: {message['error']} It is measured anew.")
        self._keep(self.ledger.put(replace(trial, state="queued")))

    def _over(self, trial: Trial) -> None:
        """A trial has ended: keep it, and tell whoever proposes."""
        self.running.pop(trial.number, None)
        self.given_up.pop(trial.number, None)
        self.ledger.put(trial)
        self._keep(trial)
        if trial.reason is not None and trial.state in ("failed", "skipped"):
            self.context.log(f"Trial {trial.number} is {trial.state}: {trial.reason}")
        if trial.reference:
            return
        same = self.ledger.same_as(trial.settings) if trial.state == "skipped" else None
        # What came to the same as an earlier trial has its figures: whoever proposes learns that nothing is new there.
        self.asking.tell(trial if same is None else replace(same, number=trial.number, values=trial.values))

    def _keep(self, trial: Trial) -> None:
        self.context.item(trial.key, trial.to_dict())

    def _show(self) -> None:
        if self.setup is None:
            return
        over = sum(one.over and not one.reference for one in self.ledger.trials.values())
        done = round(over + sum(part for number, part in self.running.items() if number >= 0), 2)
        best, goal = self.ledger.best(), self.config.goals[0]
        note = f"best {goal.label.lower()} {best.figures[goal.name]:.4g}" if best is not None else ""
        self.context.progress(done, self.config.num_trials, "trials", note)


def _taken_up(trial: Trial) -> Trial:
    """A trial that was running when the sweep ended is measured anew."""
    return replace(trial, state="queued") if trial.state == "running" else trial


def _small(prompts: tuple[PromptFigures, ...]) -> tuple[PromptFigures, ...]:
    return prompts[:64]


def _facts(config: SweepJobConfig, num_prompts: int) -> Facts:
    """What the folders of the drafters say about them."""
    vocabulary, depth = {}, {}
    specs = next((one.grid() for one in config.dimensions if one.knob.name == "drafter"), ["builtin-medusa"])
    for spec in () if config.trains else map(str, specs):
        folder = folder_of(spec)
        try:
            known = read_meta(folder).config if folder is not None else {}
        except HeadwayError:
            continue  # its trials will say what is wrong with it
        if known.get("draft_vocab_size"):
            vocabulary[spec] = int(known["draft_vocab_size"])
        if known.get("num_heads"):
            depth[spec] = int(known["num_heads"])
    return replace(config.facts(num_prompts), draft_vocab=vocabulary, depth=depth)


def _executor(config: SweepJobConfig, context: JobContext) -> Executor:
    order = order_of(_placed(config, context), context.settings, context.folder, context.job_id)
    if config.executor == "ray":
        from backend.jobs.sweep_ray import RayExecutor

        return RayExecutor(order | {"lease": True}, config.workers, config.ray_address)
    return LocalExecutor(order, config.workers, context.folder / WORKER_LOG)


def _placed(config: SweepJobConfig, context: JobContext) -> SweepJobConfig:
    return config if context.device is None else config.model_copy(update={"device": context.device})


@contextmanager
def _device(config: SweepJobConfig, context: JobContext) -> Iterator[bool]:
    """Whether the device is ours alone while open; on a cluster each worker sees to its own."""
    if config.executor == "ray":
        yield True
        return
    home, place = context.settings.home, lease_place(context.device or config.device)
    kind = "command" if context.job_id is None else "job"
    with ExitStack() as stack:
        taken = stack.enter_context(try_lease(home, place, f"sweeping {config.target}", kind, context.job_id))
        holder = holder_of(home, place)
        lent = holder is not None and holder.job is not None and holder.job == context.job_id
        yield taken == "held" or lent


def _check_same(before: dict[str, Any], now: dict[str, Any]) -> None:
    changed = [words for key, words in FIXED.items() if before.get(key) != now.get(key)]
    if changed:
        raise HeadwayError(
            f"This sweep can't go on: {' and '.join(changed)} changed since it began, and its trials would not "
            "compare; start a new one."
        )


def _register(store: Store, setup: dict[str, Any]) -> str:
    known = setup["version"]
    identity = VersionIdentity(
        weights_id=known["weights_id"],
        tokenizer_id=known["tokenizer_id"],
        template_id=known["template_id"],
        adapter_id=None if known["adapter_id"] == "none" else known["adapter_id"],
        quantisation=None if known["quantisation"] == "none" else known["quantisation"],
    )
    return store.register_version(
        identity,
        label=setup["target"],
        source=setup["target"],
        model_type=setup["model_type"],
        num_parameters=setup["num_parameters"],
    ).id


def _finished(config: SweepJobConfig, context: JobContext, ledger: Ledger) -> dict[str, Any]:
    """Write the table into the job's folder; a few numbers for lists."""
    front, best = ledger.front(), ledger.best()
    place = context.folder / TABLE
    written = {
        "setup": context.items().get(SETUP), "objectives": list(config.objectives), "front": front,
        "best": None if best is None else best.number, "trials": table_rows(ledger.ordered(), front),
        "written_at": time.time(),
    }  # fmt: skip
    write_json_atomically(place, written)
    skipped = [f"Trial {one.number}: {one.reason}" for one in ledger.ordered() if one.state == "skipped"]
    brief = None
    if best is not None:
        figures = {name: best.figures.get(name) for name in config.objectives}
        brief = {"number": best.number, "settings": dict(best.settings), "figures": figures}
    return {"table": str(place), "best": brief, "front": front, "trials": ledger.counts(), "skipped": skipped[:50]}
