"""A comparison as the page and its report show it: settings that differ, notes, figures, the sentence; as CSV too. And
what stored runs and evaluations are when they are compared. Pure functions of records.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from backend.analysis.comparing import BY_CLASS, RIGHT, Answer, Comparison, Key, Line, Shown, Side
from backend.analysis.counts import PromptCounts
from backend.analysis.verdict import Verdict
from backend.data.messages import asked_hash
from dashboard.presenters.as_csv import as_csv
from dashboard.presenters.evaluation import contender_name
from dashboard.presenters.run_table import differences, flattened, settings_of

TIMES = "\N{MULTIPLICATION SIGN}"
#: figure -> (heading, what it says, digits after the point, unit)
FIGURES: dict[str, tuple[str, str, int, str]] = {
    "acceptance_length": ("Acceptance length", "Tokens a step, the target's own one counted", 3, ""),
    "speedup": ("Speedup", "Tokens a second over plain decoding of the same prompts, measured in turns", 3, TIMES),
    "tokens_per_s": ("Tokens/s", "Tokens that came out of steps, a second of steps; prompts left out", 1, ""),
    "drift": ("Drift", "Mean distance of the emitted law from the target's own: total variation, 0 to 1", 4, ""),
    BY_CLASS: ("Acceptance by kind of token", "Share of tokens of this kind that were drafted right", 3, ""),
    RIGHT: ("Wanted answer", "Share of answers that are, word for word, the one that the prompt file gives", 3, ""),
}
#: figure -> its entry in the glossary, where that is called otherwise
METRICS = {"drift": "total_variation", RIGHT: "task_score"}
#: Where runs differ without being different: what was asked of them, and what chance was dealt.
NOT_SETTINGS = ("prompt", "seed", "earlier turns", "raw prompt", "contended")
MACHINE = ("device", "dtype", "threads", "batch")
MIXED_WORDS = "The runs share no temperature: each prompt is compared across temperatures."


@dataclass(frozen=True)
class Found:
    """A side as it was found in the store.

    Args:
        settings: flat, with the same names for evaluations and runs.
        batches: that were measured; empty for decode runs.
        repeated: runs left out because a newer one answered the same prompt.
        named: the answers by set and question, for evaluations; None for decode runs. hashed: whether `side` has them
            by what was asked instead.
        files: prompt files, to look up what was asked.
        live: what the Live page is opened with to decode a prompt as this side did; None where that is not known.
    """

    side: Side
    letter: str
    title: str
    link: str
    settings: Mapping[str, Any]
    contended: bool
    approximate: bool
    warnings: tuple[str, ...]
    batches: tuple[int, ...] = ()
    repeated: int = 0
    named: Mapping[Key, Answer] | None = None
    hashed: bool = True
    files: tuple[str, ...] = ()
    live: Mapping[str, Any] | None = None

    def by_name(self) -> Found:
        """The same, paired by the names of sets and questions."""
        return replace(self, side=replace(self.side, answers=self.named or {}), hashed=False)

    @property
    def machine(self) -> tuple[Any, ...]:
        """What makes speeds comparable when it is the same."""
        return tuple(self.settings.get(name) for name in MACHINE)


def run_asked(run: Any) -> str:
    """The hash of what a decode run was asked: the same as that of an evaluation's prompt."""
    if run.messages:
        return asked_hash([{"role": one["role"], "content": one["content"]} for one in run.messages])
    return hashlib.sha256(run.prompt.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def run_settings(runs: Sequence[Any]) -> dict[str, Any]:
    """The settings that all of these runs have, without what is asked; where they differ, “several”."""
    flat = [settings_of(run) for run in runs]
    found = {
        name: one if all(other.get(name) == one for other in flat[1:]) else "several" for name, one in flat[0].items()
    }
    return {name: value for name, value in found.items() if name not in NOT_SETTINGS and value is not None}


def counts_of_run(run: Any) -> PromptCounts:
    """A RunRecord that has ended, counted as an evaluation counts an answer."""
    other_ms = run.commit_ms + run.overhead_ms
    return PromptCounts(
        prompt=" ".join(run.prompt_start.split())[:80] or run.id,
        category="none",
        prompt_tokens=run.prompt_tokens or 0,
        num_tokens=run.num_tokens,
        num_steps=run.num_steps,
        num_drafted=run.num_drafted,
        num_accepted=run.num_accepted,
        num_cut=run.num_cut,
        accepted_per_depth=tuple(run.accepted_per_depth or ()),
        drafted_per_depth=tuple(run.drafted_per_depth or ()),
        num_repeated=0,
        digest=hashlib.sha256(json.dumps(list(run.tokens or ())).encode()).hexdigest()[:16],
        finish_reason=run.finish_reason or "",
        prefill_ms=run.prefill_ms,
        draft_ms=run.draft_ms,
        verify_ms=run.verify_ms,
        other_ms=other_ms,
        row_ms=run.draft_ms + run.verify_ms + other_ms,
    )


def evaluation_settings(setup: Mapping[str, Any], contender: str, batch: int, version: str | None) -> dict[str, Any]:
    """A contender's settings, flat, under the names that decode runs use."""
    one = dict(setup.get("contenders", {}).get(contender, {}))
    config = setup.get("config", {})
    asked = {name: config.get(name) for name in ("rule", "epsilon", "delta", "max_new_tokens", "sampled", "force")}
    machine = {name: setup.get(name) for name in ("attention", "device", "dtype", "threads", "min_width", "packages")}
    temperatures = [f"{value:g}" for value in config.get("temperatures", [])]
    flat = flattened({
        "version": version or setup.get("version", {}).get("weights_id", "")[:12],
        "target": setup.get("target"),
        "drafter": one.get("spec"),
        "temperature": ", ".join(temperatures),
        **{name: one.get(name) for name in ("tree", "family", "weights", "num_nodes", "max_depth", "tree_paths")},
        **asked,
        "batch": batch,
        **machine,
    })  # fmt: skip
    return {name.replace("_", " "): value for name, value in flat.items() if value is not None}


def evaluation_title(job: Any, setup: Mapping[str, Any], contender: str) -> str:
    """ "builtin heads · 3x2x1 in evaluation “name”"."""
    return f"{contender_name(setup, contender)} in “{job.name}”"


def spans_of_steps(records: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
    """A stored run's text as [[text, accepted drafted tokens]], one a step; the prefill's token first, with 0."""
    return [
        [str(one.get("text", "")), int(one.get("num_accepted", 0))]
        for one in records
        if one.get("kind", "step") in ("prefill", "step")
    ]


def drift_of_steps(records: Sequence[Mapping[str, Any]]) -> tuple[float, int] | None:
    """(summed total variation, positions) of an approximate run whose trees were kept; see analysis/drift.py."""
    total, positions = 0.0, 0
    for one in records:
        if one.get("kind", "step") != "step":
            continue
        tree, path = one.get("tree"), one.get("path")
        if tree is None or path is None:
            return None
        kept = path[: min(one["num_accepted"], len(one["tokens"]))]
        total += sum(1 - (tree["target_probs"][column] or 0.0) for column in kept)
        positions += len(one["tokens"])
    return (total, positions) if positions else None


def comparison_view(
    found: Sequence[Found], compared: Comparison, said: Verdict, domain: str | None, temperature: float | None
) -> dict[str, Any]:
    """What is drawn, as plain values: {sides, sentence, notes, differing, equal, figures, depths, conditional,
    histograms, splits, points, same_text, …}.
    """
    differing, equal = differences([one.settings for one in found])
    asked = [answers for one in found for answers in one.side.answers.items()]
    batches = (
        sorted(set.intersection(*(set(one.batches) for one in found if one.batches)))
        if any(one.batches for one in found)
        else []
    )
    return {
        "sides": [
            {"key": one.side.key, "letter": one.letter, "title": one.title, "link": one.link, "prompts": count}
            for one, count in zip(found, compared.asked, strict=True)
        ],
        "reference": compared.reference,
        "common": compared.common,
        "answers": compared.num_answers,
        "sentence": said.sentence,
        "better": said.better,
        "notes": notes(found, compared),
        "differing": differing,
        "equal": equal,
        "domain": domain,
        "temperature": temperature,
        "domains": sorted({one.counts.category for _, one in asked}),
        "temperatures": sorted({key[1] for key, _ in asked}),
        "batches": batches,
        "figures": [_line(line) for line in compared.lines],
        "depths": [_line(line) for line in compared.depths],
        "conditional": [list(one) for one in compared.conditional],
        "histograms": [[round(share, 5) for share in one] for one in compared.histograms],
        "same_text": list(compared.same_text),
        "splits": [
            {"by": one.by, "value": one.value, "prompts": one.prompts, "figures": [_line(line) for line in one.lines]}
            for one in compared.splits
        ],
        "points": [
            [one.asked, one.prompt, one.category, list(one.lengths), list(one.speeds), [bool(run) for run in one.runs]]
            for one in compared.points
        ],
    }


def _line(line: Line) -> dict[str, Any]:
    label, why, digits, unit = FIGURES.get(line.name, (line.name, "", 3, ""))
    tests = line.mcnemar or [None] * len(line.sides)
    return {
        "name": line.name,
        "label": label,
        "metric": METRICS.get(line.name, line.name),
        "why": why,
        "digits": digits,
        "unit": unit,
        "sides": [
            _shown(one) | {"mcnemar": vars(test) if test is not None else None}
            for one, test in zip(line.sides, tests, strict=True)
        ],
    }


def _shown(one: Shown) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "value": one.value,
        "interval": [one.interval.low, one.interval.high] if one.interval else None,
        "against": None,
    }
    if one.against is not None:
        between = one.against.change_interval
        apart = one.against.interval
        shown["against"] = {
            "difference": one.against.value,
            "difference_interval": [apart.low, apart.high] if apart else None,
            "change": one.against.change,
            "change_interval": [between.low, between.high] if between else None,
            "beyond_chance": bool(apart and apart.beyond_zero),
            "test": vars(one.against.test) if one.against.test else None,
        }
    return shown


def notes(found: Sequence[Found], compared: Comparison) -> list[str]:
    """What has to be known before the numbers are believed."""
    said = []
    if any(count != compared.common for count in compared.asked):
        each = ", ".join(f"{one.letter} has {count}" for one, count in zip(found, compared.asked, strict=True))
        said.append(f"The runs have different prompts ({each}); the {compared.common} that all have answered count.")
    if compared.mixed_temperatures:
        said.append(MIXED_WORDS)
    if any(not one.hashed for one in found):
        said.append(
            "Some of these evaluations are older than the note of what was asked, so prompts are paired by the names "
            "of sets and questions: make sure that the files had the same content."
        )
    if len({one.machine for one in found}) > 1:
        said.append("Device, dtype, threads or batch differ, so tokens/s are not held against each other.")
    for one in found:
        if one.repeated:
            times = "once" if one.repeated == 1 else f"{one.repeated} times"
            said.append(f"{one.letter}: a prompt was decoded again {times}; the newest run counts.")
        if one.contended:
            said.append(f"{one.letter} was measured while something else used the device: its speed proves nothing.")
        if one.approximate:
            said.append(
                f"{one.letter} accepts by the typical rule: above temperature 0 its output is not the target's own."
            )
        said += [f"{one.letter}: {warning}" for warning in one.warnings]
    return said


COLUMNS = ("part", "part_value", "prompts", "figure", "side", "name", "value", "low", "high", "difference",
           "difference_low", "difference_high", "change", "change_low", "change_high", "wilcoxon_p", "rank_biserial",
           "cohens_dz", "higher", "lower", "equal", "mcnemar_p")  # fmt: skip


def comparison_csv(view: Mapping[str, Any]) -> str:
    """A line a figure and side, of all prompts first, then of each split; differences are to the reference."""
    parts = [("all", "", view["common"], [*view["figures"], *view["depths"]])]
    parts += [(one["by"], one["value"], one["prompts"], one["figures"]) for one in view["splits"]]
    rows = (
        [by, value, prompts, line["name"], side["letter"], side["title"], *_numbers(one)]
        for by, value, prompts, lines in parts
        for line in lines
        for side, one in zip(view["sides"], line["sides"], strict=True)
    )
    return as_csv(COLUMNS, rows)


def _numbers(one: Mapping[str, Any]) -> Iterable[Any]:
    against = one["against"] or {}
    test = against.get("test") or {}
    yield from (one["value"], *(one["interval"] or (None, None)))
    yield from (against.get("difference"), *(against.get("difference_interval") or (None, None)))
    yield from (against.get("change"), *(against.get("change_interval") or (None, None)))
    yield from (test.get(name) for name in ("p", "effect", "standardised", "higher", "lower", "equal"))
    yield (one["mcnemar"] or {}).get("p")
