"""What the Compare page asks: which runs there are to compare, a comparison, one prompt of it, and which sides the rows
of the Runs page make.

A side is named in the address: `eval/JOB/CONTENDER` is a drafter of an evaluation, `runs/ID,ID` are decode runs of
the same settings, `tag/TAG` all finished decode runs with a tag. Joins the store's answers; knows no Gradio, no HTTP.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from backend.analysis.comparing import FEWEST_SIDES, MOST_SIDES, Answer, Comparison, Key, Side, Where, compare
from backend.analysis.counts import PromptCounts
from backend.analysis.evaluation import PLAIN, Part, part_from_dict
from backend.analysis.verdict import Verdict, verdict
from backend.data.prompts import read_prompts
from backend.errors import HeadwayError
from backend.jobs.evaluate_config import SETUP
from dashboard.jobs import Jobs
from dashboard.presenters.comparing import (
    Found,
    comparison_view,
    counts_of_run,
    drift_of_steps,
    evaluation_settings,
    evaluation_title,
    run_asked,
    run_settings,
    spans_of_steps,
)
from dashboard.presenters.evaluation import contender_name
from dashboard.services import Services
from storage import Store
from storage.records import RunFilter, RunRecord

KIND = "evaluate"
MOST_RUNS = 10_000  #: with one tag; the newest ones
MOST_EVALUATIONS = 60  #: that are offered
MAX_KEPT = 12
LETTERS = "ABCDEF"
Prompt = tuple[str, str]  # set, question id


@dataclass(frozen=True)
class Wanted:
    """What the page shows, as it stands in its address. `batch`: of evaluations; None: the smallest of each."""

    sides: tuple[str, ...]
    reference: int = 0
    domain: str | None = None
    temperature: float | None = None
    batch: int | None = None

    @classmethod
    def from_query(cls, query: Any) -> Wanted:
        """Raises HeadwayError for what is no number where one belongs, or for a wrong number of sides."""
        sides = tuple(dict.fromkeys(one[:60_000] for one in query.getlist("side") if one))
        if not FEWEST_SIDES <= len(sides) <= MOST_SIDES:
            raise HeadwayError(f"Two to {MOST_SIDES} runs can be compared, but the address names {len(sides)}.")
        reference = _number(query.get("ref"), int, "ref") or 0
        if not 0 <= reference < len(sides):
            raise HeadwayError(f"The reference has to be one of the {len(sides)} runs; remove “ref” from the address.")
        temperature, batch = _number(query.get("t"), float, "t"), _number(query.get("batch"), int, "batch")
        return cls(sides, reference, query.get("domain") or None, temperature, batch)


def _number(text: str | None, kind: type[int] | type[float], name: str) -> Any:
    if not text:
        return None
    try:
        return kind(text)
    except ValueError:
        raise HeadwayError(f"“{name}” in the address is no number; remove it.") from None


@dataclass
class _Evaluation:
    """What is known of one evaluation: its conditions and every contender's answers by batch."""

    seq: int = 0
    setup: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, dict[int, dict[tuple[Prompt, float], PromptCounts]]] = field(default_factory=dict)
    contended: set[str] = field(default_factory=set)

    def add(self, part: Part) -> None:
        into = self.parts.setdefault(part.contender, {}).setdefault(part.batch, {})
        into |= {((part.set, one.prompt), part.temperature): one for one in part.answers}
        if part.contended:
            self.contended.add(part.contender)

    def asked(self) -> dict[Prompt, str]:
        """What each prompt asks, by hash; empty for evaluations from before that was written down."""
        written = self.setup.get("asked", {})
        return {
            (name, question): hashed
            for name, hashes in written.items()
            for question, hashed in zip(self.setup["sets"][name]["ids"], hashes, strict=False)
        }


class Comparisons:
    """Thread safe. Every call raises HeadwayError or StoreError with one sentence for what a person can mend."""

    def __init__(self, services: Services, jobs: Jobs) -> None:
        self._services, self._jobs = services, jobs
        self._lock = threading.Lock()
        self._known: OrderedDict[str, _Evaluation] = OrderedDict()

    def choices(self) -> dict[str, Any]:
        """{evaluations: [{job, name, at, sides: [{key, name}]}], tags: [{key, name, runs}]}, the newest first."""
        evaluations = []
        for job in self._jobs.list(kinds=[KIND], limit=MOST_EVALUATIONS):
            known = self._evaluation(job.id)
            sides = [
                {"key": f"eval/{job.id}/{name}", "name": contender_name(known.setup, name)}
                for name in known.parts
                if name != PLAIN
            ]
            if sides:
                evaluations.append({"name": job.name, "at": job.created_at.isoformat(), "sides": sides})
        groups = self._store.group_runs(RunFilter(status="finished"), by="tag")
        tags = [{"key": f"tag/{one.key}", "name": one.key, "runs": one.num_runs} for one in groups if one.key]
        return {"evaluations": evaluations, "tags": tags}

    def view(self, wanted: Wanted) -> dict[str, Any]:
        """Everything the page draws; see presenters/comparing.py."""
        found, compared, said = self._compare(wanted)
        return comparison_view(found, compared, said, wanted.domain, wanted.temperature)

    def prompt(self, wanted: Wanted, asked: str) -> dict[str, Any]:
        """One prompt: {prompt, text or None, sides: [{name, counts, spans or None, run or None, live}]}; spans are
        [[text, accepted]].
        """
        found = self._found(wanted)
        answers = [self._answer(one.side, asked, wanted.temperature) for one in found]
        known = next((one for one in answers if one is not None), None)
        if known is None:
            raise HeadwayError("None of these runs has answered that prompt.")
        sides = []
        for one, answer in zip(found, answers, strict=True):
            spans = spans_of_steps(self._store.steps(answer.run)) if answer is not None and answer.run else None
            sides.append({
                "name": one.side.name,
                "counts": answer.counts.to_dict() if answer else None,
                "temperature": answer.temperature if answer else None,
                "run": answer.run if answer else None,
                "spans": spans or None,
                "live": one.live,
            })  # fmt: skip
        run = next((one["run"] for one in sides if one["run"]), None)
        text = self._store.get_run(run).prompt if run else self._question(found, known.counts.prompt, asked)
        return {"prompt": known.counts.prompt, "text": text, "sides": sides}

    def sides_of(self, run_ids: Sequence[str]) -> dict[str, Any]:
        """{sides}: decode runs by their settings, but for the prompt and the seed, in the order they were chosen."""
        groups: dict[str, list[str]] = {}
        for run in self._store.get_runs(list(dict.fromkeys(run_ids))):
            if run.num_steps is not None:
                groups.setdefault(repr(sorted(run_settings([run]).items(), key=repr)), []).append(run.id)
        if not FEWEST_SIDES <= len(groups) <= MOST_SIDES:
            many = {0: "no finished run", 1: "one setting of everything but the prompt and the seed"}
            said = many.get(len(groups), f"{len(groups)} different settings")
            raise HeadwayError(f"The chosen runs have {said}; choose runs of two to {MOST_SIDES} settings.")
        return {"sides": [f"runs/{','.join(ids)}" for ids in groups.values()]}

    def _compare(self, wanted: Wanted) -> tuple[list[Found], Comparison, Verdict]:
        found = self._found(wanted)
        where = Where(wanted.domain, wanted.temperature)
        compared = compare([one.side for one in found], wanted.reference, where)
        machines = {one.machine for one in found}
        return found, compared, verdict(compared, speeds_compare=len(machines) == 1)

    def _found(self, wanted: Wanted) -> list[Found]:
        read = [self._read(key, letter, wanted.batch) for key, letter in zip(wanted.sides, LETTERS, strict=False)]
        if not all(one.hashed for one in read):  # what was asked is not known of all, so nobody is paired by it
            read = [one if one.named is None else one.by_name() for one in read]
        return self._with_drift(read) if any(one.approximate for one in read) else read

    def _with_drift(self, read: Sequence[Found]) -> list[Found]:
        """Where a side is approximate: how far each answer is from the target's law, as far as that can be known."""
        found = []
        for one in read:
            answers = {key: self._drifted(answer, one.approximate) for key, answer in one.side.answers.items()}
            found.append(replace(one, side=replace(one.side, answers=answers)))
        return found

    def _drifted(self, answer: Answer, approximate: bool) -> Answer:
        positions = answer.counts.num_tokens - 1
        if not approximate or answer.temperature == 0:
            return replace(answer, drifted=0.0, drift_positions=positions)
        known = drift_of_steps(self._store.steps(answer.run)) if answer.run else None
        return answer if known is None else replace(answer, drifted=known[0], drift_positions=known[1])

    def _read(self, key: str, letter: str, batch: int | None) -> Found:
        kind, _, rest = key.partition("/")
        if kind == "eval" and "/" in rest:
            job_id, _, contender = rest.partition("/")
            return self._contender(key, letter, job_id, contender, batch)
        if kind == "runs" and rest:
            return self._runs(key, letter, self._store.get_runs(rest.split(",")), "")
        if kind == "tag" and rest:
            where = RunFilter(status="finished", tags=(rest,))
            ids = [run.id for run in self._store.list_runs(where, limit=MOST_RUNS)]
            if not ids:
                raise HeadwayError(f"No finished run has the tag “{rest[:40]}”.")
            return self._runs(key, letter, self._store.get_runs(ids), rest)
        raise HeadwayError(f"“{key[:60]}” names nothing that can be compared; choose from the list.")

    def _contender(self, key: str, letter: str, job_id: str, contender: str, batch: int | None) -> Found:
        job = self._jobs.get(job_id)
        if job.kind != KIND:
            raise HeadwayError("That job is no evaluation, so it has no drafters to compare.")
        known = self._evaluation(job_id)
        batches = known.parts.get(contender, {})
        if not batches:
            raise HeadwayError(f"The evaluation “{job.name}” has no answers of “{contender[:60]}” yet.")
        chosen = batch if batch in batches else min(batches)
        plain = known.parts.get(PLAIN, {}).get(chosen, {}) if contender != PLAIN else {}
        asked = known.asked()
        named: dict[Key, Answer] = {}
        hashed: dict[Key, Answer] = {}
        for (prompt, temperature), counts in batches[chosen].items():
            one = Answer(counts, temperature, plain.get((prompt, temperature)))
            named["/".join(prompt), temperature] = one
            if prompt in asked:
                hashed[asked[prompt], temperature] = one
        version = self._store.get_version(job.version_id).label if job.version_id else None
        return Found(
            side=Side(key, f"{letter} ({contender_name(known.setup, contender)})", hashed or named),
            letter=letter,
            title=evaluation_title(job, known.setup, contender),
            link=f"/evaluate?job={job_id}",
            settings=evaluation_settings(known.setup, contender, chosen, version),
            batches=tuple(sorted(batches)),
            contended=contender in known.contended,
            approximate=known.setup.get("config", {}).get("rule") == "typical",
            warnings=tuple(known.setup.get("contenders", {}).get(contender, {}).get("warnings", ())),
            named=named,
            hashed=bool(hashed),
            files=tuple(known.setup.get("config", {}).get("prompts", ())),
            live=_live(known.setup, contender),
        )

    def _runs(self, key: str, letter: str, runs: Sequence[RunRecord], tag: str) -> Found:
        answers: dict[Key, Answer] = {}
        used = [run for run in sorted(runs, key=lambda run: run.id) if run.num_steps is not None]
        if not used:
            raise HeadwayError("Those runs have not ended, so there is nothing to compare yet.")
        for run in used:  # the newest answer to a prompt counts
            temperature = float((run.settings.get("request") or {}).get("temperature") or 0.0)
            answers[run_asked(run), temperature] = Answer(counts_of_run(run), temperature, run=run.id)
        settings = run_settings(used)
        drafters = sorted({run.drafter_name for run in used})
        title = f"{'runs tagged ' + tag if tag else ', '.join(drafters)}"
        return Found(
            side=Side(key, f"{letter} ({title})", answers),
            letter=letter,
            title=title,
            link=f"/runs?tag={tag}" if tag else f"/live?run={used[-1].id}" if len(used) == 1 else "/runs",
            settings=settings,
            repeated=len(used) - len(answers),
            contended=any(run.contended for run in used),
            approximate=any((run.settings.get("request") or {}).get("rule") == "typical" for run in used),
            warnings=(),
            named=None,
        )

    def _evaluation(self, job_id: str) -> _Evaluation:
        """What was read of it before and what came since."""
        with self._lock:
            known = self._known.setdefault(job_id, _Evaluation())
            self._known.move_to_end(job_id)
            while len(self._known) > MAX_KEPT:
                self._known.popitem(last=False)
            for item in self._jobs.items(job_id, after_seq=known.seq):
                known.seq = item.seq
                if item.key == SETUP:
                    known.setup = item.data
                else:
                    known.add(part_from_dict(item.data))
            return known

    def _answer(self, side: Side, asked: str, temperature: float | None) -> Answer | None:
        found = [one for (name, t), one in sorted(side.answers.items()) if name == asked and temperature in (None, t)]
        return found[0] if found else None

    def _question(self, found: Sequence[Found], prompt: str, asked: str) -> str | None:
        """What was asked, from the evaluations' files as they are now, where one still holds the same."""
        for one in found:
            for path in one.files:
                place = Path(path).expanduser()
                if not place.is_file():
                    continue
                for candidate in read_prompts(place).prompts:
                    if candidate.question_id == prompt and (candidate.asked == asked or not one.hashed):
                        return candidate.turns[0]
        return None

    @property
    def _store(self) -> Store:
        if self._services.store is None:
            raise HeadwayError("This dashboard was started without a store, so there is nothing to compare.")
        return self._services.store


def _live(setup: dict[str, Any], contender: str) -> dict[str, Any]:
    """What the Live page is opened with to decode as this contender did."""
    config, one = setup.get("config", {}), setup.get("contenders", {}).get(contender, {})
    named = {
        "drafter": one.get("spec"), "tree": one.get("tree"), "sampled": "on" if config.get("sampled") else None,
        **{name: config.get(name) for name in ("target", "rule", "epsilon", "delta")},
    }  # fmt: skip
    return {name: value for name, value in named.items() if value is not None}
