"""Measuring one trial after another with the model loaded once: what a sweep's worker process does.

A trial decodes the same prompts with the same seeds as every other, so that trials are paired; a few of the prompts are
answered by plain decoding too, in turns, as a measure of the machine's minute. Knows a config and settings; no store,
no queue, and not who asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from backend.acceptance import Rule, SamplingSettings
from backend.analysis.counts import PromptCounts, prompt_counts, totals_of
from backend.analysis.drift import Drift, accepted_flags, distinct, diversity, drift_of, perplexity
from backend.data.prompts import read_prompts
from backend.decoding.loop import DecodeSettings, decode
from backend.decoding.records import DecodeResult, StepTrace
from backend.drafters.base import Drafter
from backend.drafters.plain.drafter import PlainDrafter
from backend.engine.conditions import device_name, packages
from backend.engine.protocol import DecodeRequest
from backend.engine.workbench import Workbench
from backend.errors import Cancelled, HeadwayError
from backend.jobs.asking import first_question
from backend.jobs.bystanders import Bystanders
from backend.jobs.sweep_config import SweepJobConfig
from backend.jobs.sweep_task import TaskScore
from backend.jobs.sweep_training import train_drafter
from backend.settings import Settings
from backend.sweeps.knobs import Scalar
from backend.sweeps.scoring import log_probs
from backend.sweeps.trial import PromptFigures, sums
from backend.targets.target import Target

WARM_UP_TOKENS = 4
PROMPTS_PER_ROW = 4  #: of a block, in batches
DEEPEST = 64  #: levels that prompts leave room for, whatever tree comes
Report = Callable[[Sequence[PromptFigures], float | None], None]


@dataclass(frozen=True)
class Measured:
    """What a trial found; see trial.Trial."""

    figures: dict[str, float | None]
    prompts: tuple[PromptFigures, ...]
    plain_speed: float | None
    others_busy: float | None
    drafter: str | None
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Question:
    """One prompt and the number that its random numbers are drawn by."""

    key: str
    ids: list[int]
    row: int


class TrialBench:
    """Not thread safe: trials are measured one after another.

    folder: where trials that train keep what they make. Raises HeadwayError for anything that no trial can mend.
    """

    def __init__(self, config: SweepJobConfig, settings: Settings, folder: Path, job_id: str | None = None) -> None:
        self._config, self._settings, self._folder, self._job_id = config, settings, folder, job_id
        self._bench = Workbench(settings, config.device, config.dtype, config.trust_remote_code)
        self._target: Target | None = None
        self._questions: list[Question] = []
        self._left_out = 0
        self._task: TaskScore | None = None
        self._warm: set[tuple[str, int, int]] = set()

    def open(self, progress: Callable[[float, str], None] = lambda part, note: None) -> dict[str, Any]:
        """Load the target and read the prompts; the conditions of all trials, as plain JSON."""
        config = self._config
        target = self._target = self._bench.target(config.target, progress)
        self._questions = list(self._read(target))
        if not self._questions:
            raise HeadwayError(
                f"None of the prompts leaves room for {config.max_new_tokens} more tokens in the context of "
                f"{target.name}; ask for fewer new tokens or take other prompts."
            )
        if config.task_file is not None:
            self._task = TaskScore(config, target)
        return {
            "target": target.name, "version": target.identity.to_dict(), "model_type": target.config.model_type,
            "num_parameters": target.num_parameters, "device": device_name(target.device),
            "dtype": str(target.dtype).removeprefix("torch."), "threads": torch.get_num_threads(),
            "packages": packages(), "attention": target.attention,
            "prompts": [one.key for one in self._questions], "left_out": self._left_out,
        }  # fmt: skip

    def measure(
        self,
        number: int,
        settings: Mapping[str, Scalar],
        quality: bool,
        report: Report = lambda prompts, speed: None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> Measured:
        """One trial. `quality`: answers are looked at too (drift, diversity, perplexity).

        Raises HeadwayError for settings that can't be, Cancelled when `stopped` says so.
        """
        target = self._loaded()
        figures: dict[str, float | None] = {}
        spec = str(settings.get("drafter", "none"))
        if self._config.trains:
            trained = train_drafter(self._config, self._settings, self._folder, number, settings, stopped, self._job_id)
            spec, figures = trained.folder, dict(trained.figures)
        drafter, warnings = self._drafter(spec, settings)
        others = Bystanders()
        run = _Run(self._config, target, drafter, settings, quality, stopped)
        self._warm_up(run, spec)
        for questions, with_plain in self._blocks(run.batch):
            run.answer(questions, with_plain)
            report(run.prompts, run.plain_speed)
        figures |= run.figures()
        if self._task is not None:
            figures["task_score"] = self._task.score(drafter, run.decoding, run.batch, stopped)
        return Measured(figures, tuple(run.prompts), run.plain_speed, others.share(),
                        spec if self._config.trains else None, warnings)  # fmt: skip

    def _loaded(self) -> Target:
        if self._target is None:
            raise HeadwayError("The trials' target is not loaded.")
        return self._bench.target(self._config.target, lambda part, note: None)

    def _read(self, target: Target) -> Iterator[Question]:
        config = self._config
        row = 0
        for name in config.prompts:
            path = Path(name).expanduser()
            for prompt in read_prompts(path, config.limit).prompts:
                row += config.samples
                ids = first_question(target, prompt, config.max_new_tokens + DEEPEST)
                if ids is None:
                    self._left_out += 1
                    continue
                for sample in range(config.samples):
                    key = f"{path.stem}|{prompt.question_id}|{sample}"
                    yield Question(key, ids, row - config.samples + sample)

    def _drafter(self, spec: str, settings: Mapping[str, Scalar]) -> tuple[Drafter, list[str]]:
        depth = settings.get("max_depth")
        request = DecodeRequest(
            target=self._config.target,
            drafter=spec,
            tree=None if settings.get("tree") is None else str(settings["tree"]),
            max_depth=None if depth is None else int(depth),
            sampled=bool(settings.get("sampled", False)),
            force=self._config.force,
        )
        return self._bench.drafter(request, self._loaded())

    def _blocks(self, batch: int) -> Iterator[tuple[list[Question], bool]]:
        """Questions that are answered together, and whether plain decoding answers them too.

        A batch gets several prompts a row, so that its thin end weighs little.
        """
        wide = 1 if batch == 1 else PROMPTS_PER_ROW * batch
        for start in range(0, len(self._questions), wide):
            block = self._questions[start : start + wide]
            yield block, start < self._config.plain_prompts

    def _warm_up(self, run: _Run, spec: str) -> None:
        """The first passes of a process are slow, for every shape anew; they are not measured."""
        for drafter in (run.drafter, PlainDrafter()) if self._config.plain_prompts else (run.drafter,):
            shape = (spec if drafter is run.drafter else "none", drafter.shape.num_nodes, run.batch)
            if shape not in self._warm:
                self._warm.add(shape)
                run.warm(drafter, self._questions[: run.batch])


class _Run:
    """One trial while it decodes."""

    def __init__(
        self,
        config: SweepJobConfig,
        target: Target,
        drafter: Drafter,
        settings: Mapping[str, Scalar],
        quality: bool,
        stopped: Callable[[], bool],
    ) -> None:
        self.config, self.target, self.drafter = config, target, drafter
        self.quality, self.stopped = quality, stopped
        self.batch = int(settings.get("batch", 1))
        self.sampling = SamplingSettings(temperature=float(settings.get("temperature", 0)))
        name: Any = settings.get("rule", "rejection")
        self.rule = Rule(name, float(settings.get("epsilon", 0.09)), float(settings.get("delta", 0.3)))
        self.decoding = DecodeSettings(config.max_new_tokens, self.rule, self.sampling, seed=config.seed)
        self.exact = self.rule.exact or self.sampling.greedy
        self.prompts: list[PromptFigures] = []
        self._counts: list[PromptCounts] = []
        self._plain: tuple[list[PromptCounts], list[PromptCounts]] = ([], [])  # the drafter's and plain's
        self._answers: dict[str, list[list[int]]] = {}
        self._drift, self._surprise = Drift(), 0.0

    @property
    def plain_speed(self) -> float | None:
        own = totals_of(self._plain[1])
        return own.tokens_per_s if own.decode_ms else None

    def answer(self, questions: Sequence[Question], with_plain: bool) -> None:
        """Decode, and plain decoding too where it is its turn; which of the two begins changes from block to block."""
        order = [True, False] if len(self._counts) % 2 else [False, True]
        for plain in order if with_plain else [False]:
            counts = self._decode(PlainDrafter() if plain else self.drafter, questions, measured=not plain)
            if plain:
                self._plain[1].extend(counts)
            else:
                self._counts += counts
                if with_plain:
                    self._plain[0].extend(counts)

    def warm(self, drafter: Drafter, questions: Sequence[Question]) -> None:
        settings = DecodeSettings(WARM_UP_TOKENS, self.rule, self.sampling, seed=self.config.seed)
        list(decode(self.target, drafter, [one.ids for one in questions], settings, len(questions)))

    def _decode(self, drafter: Drafter, questions: Sequence[Question], measured: bool) -> list[PromptCounts]:
        rows = [one.row for one in questions]
        ids = [one.ids for one in questions]
        records = list(decode(self.target, drafter, ids, self.decoding, self.batch, self.stopped, rows))
        named = {one.row: (one.key, "") for one in questions}
        counts = prompt_counts(records, named)
        if len(counts) < len(questions):
            raise Cancelled("The trial was stopped.")
        if measured:
            self._take(records, counts, {one.row: one for one in questions})
        return counts

    def _take(self, records: Sequence[Any], counts: Sequence[PromptCounts], asked: Mapping[int, Question]) -> None:
        flags = accepted_flags(one for one in records if isinstance(one, StepTrace))
        tokens = {one.row: one.tokens for one in records if isinstance(one, DecodeResult)}
        rows = {question.key: row for row, question in asked.items()}
        for one in sorted(counts, key=lambda count: rows[count.prompt]):
            row = rows[one.prompt]
            found = self._look(asked[row], tokens[row], flags.get(row, [])) if self.quality else None
            known = Drift(1) if self.exact else found  # an exact rule has none, whether one looks or not
            drift, kl = (None, None) if known is None else (known.mean_total_variation, known.mean_kl)
            self.prompts.append(
                PromptFigures(one.prompt, one.num_tokens - 1, one.num_steps, one.num_accepted, one.decode_ms, drift, kl)
            )

    def _look(self, question: Question, tokens: list[int], flags: list[bool]) -> Drift:
        """The answer under the target: drift, perplexity, and the tokens for what compares answers."""
        self._answers.setdefault(question.key.rpartition("|")[0], []).append(tokens)
        if len(tokens) < 2:
            return Drift()
        at_t, at_1 = log_probs(self.target, question.ids, tokens, self.sampling)
        found = drift_of(at_t[1:], flags, self.exact)
        self._drift = self._drift + found
        self._surprise -= sum(at_1[1:])
        return found

    def figures(self) -> dict[str, float | None]:
        """By name; what was not measured is None."""
        found = sums(self.prompts)
        mine, plain = totals_of(self._plain[0]), totals_of(self._plain[1])
        found["speedup"] = mine.tokens_per_s / plain.tokens_per_s if mine.decode_ms and plain.decode_ms else None
        whole = totals_of(self._counts)
        if whole.steps:
            found |= {"draft_ms": whole.draft_ms / whole.steps, "verify_ms": whole.verify_ms / whole.steps,
                      "drafted": whole.drafted / whole.steps}  # fmt: skip
        found["spent_s"] = (whole.decode_ms + plain.decode_ms + _prefill_ms(self._counts, self._plain[1])) / 1000
        if self.quality:
            listed = [answer for answers in self._answers.values() for answer in answers]
            found |= {f"distinct_{n}": distinct(listed, n) for n in (1, 2, 3)}
            found["diversity"] = diversity(self._answers.values())
            found["perplexity"] = perplexity(self._surprise, self._drift.positions)
        return found


def _prefill_ms(*counts: Sequence[PromptCounts]) -> float:
    return sum(one.prefill_ms for part in counts for one in part)
