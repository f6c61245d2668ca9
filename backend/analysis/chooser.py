"""Which family of drafters suits a situation: six answers in, families with reasons out. Pure rules, no measurement.

Every rule says in words why it speaks for or against a family, and where that is shown or explained. What the rules add
up to is a first choice to train and measure, not a prediction: numbers come from `evaluate`, and only they decide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

Weights = Literal["own", "open", "closed"]
Adapters = Literal["none", "merged", "many"]
Quality = Literal["exact", "drift"]

PLAIN: Final = "plain"
#: in the order of preference where nothing else decides: what accepts most per drafted token comes first
FAMILIES: Final = ("eagle3", "eagle", "mtp", "hydra", "peagle", "medusa", "medusa2", "draft_model", "ngram")
SMALL_BATCH, LARGE_BATCH = 4, 32
OFTEN, VERY_OFTEN = 2, 8  #: fine-tunes a month
WARM: Final = 0.7
MANY: Final = 3  #: families that are shown


@dataclass(frozen=True)
class Situation:
    """The six answers.

    Args:
        weights: `own`: may be changed; `open`: may be read, not changed; `closed`: behind an API.
        fine_tunes: new checkpoints a month.
        adapters: `many`: several are served at once over one base.
        batch: sequences that are usually decoded at once.
        temperature: 0 is greedy.
        quality: `exact`: the output has to stay the target's own; `drift`: a measured drift is allowed.

    Raises ValueError for a number out of its range.
    """

    weights: Weights = "own"
    fine_tunes: int = 1
    adapters: Adapters = "none"
    batch: int = 1
    temperature: float = 0.0
    quality: Quality = "exact"

    def __post_init__(self) -> None:
        if self.fine_tunes < 0 or self.batch < 1 or not 0 <= self.temperature <= 100:
            raise ValueError(
                f"fine-tunes are 0 or more, a batch is 1 or more and a temperature 0 to 100; got {self.fine_tunes}, "
                f"{self.batch} and {self.temperature}"
            )


@dataclass(frozen=True)
class Reason:
    """`link`: the page, or the section of it, that shows it."""

    text: str
    link: str
    speaks_for: bool = True


@dataclass(frozen=True)
class Advice:
    """A family with its reasons, those for it first."""

    family: str
    points: float
    reasons: tuple[Reason, ...]


@dataclass(frozen=True)
class Choice:
    """`families`: the recommended one first, then the next best; `rule`: how to accept; `notes`: what else matters."""

    families: tuple[Advice, ...]
    rule: Literal["greedy", "rejection", "typical"]
    notes: tuple[Reason, ...]


@dataclass(frozen=True)
class _Rule:
    when: Callable[[Situation], bool]
    points: Mapping[str, float]
    text: str
    link: str


def choose(situation: Situation) -> Choice:
    """The families whose points are highest; ties go by FAMILIES. `plain` alone where nothing can be drafted."""
    if situation.weights == "closed":
        reason = Reason(
            "Behind an API there are no weights to check drafts with; only its provider can draft.", "/learn#gain"
        )
        return Choice((Advice(PLAIN, 0.0, (reason,)),), _rule(situation), ())
    rules = [rule for rule in _RULES if rule.when(situation)]
    advice = sorted(
        (_advice(family, rules) for family in FAMILIES if _possible(family, situation)),
        key=lambda one: (-one.points, FAMILIES.index(one.family)),
    )
    return Choice(tuple(advice[:MANY]), _rule(situation), tuple(_notes(situation)))


def _advice(family: str, rules: Sequence[_Rule]) -> Advice:
    own = [rule for rule in rules if family in rule.points]
    own.sort(key=lambda rule: -rule.points[family])
    reasons = tuple(Reason(rule.text, rule.link, rule.points[family] > 0) for rule in own)
    return Advice(family, sum(rule.points[family] for rule in own), reasons)


def _possible(family: str, situation: Situation) -> bool:
    """Medusa-2 changes the target: only for those who may, and who accept that its output changes."""
    return family != "medusa2" or (situation.weights == "own" and situation.quality == "drift")


def _rule(situation: Situation) -> Literal["greedy", "rejection", "typical"]:
    if situation.temperature == 0:
        return "greedy"
    return "typical" if situation.quality == "drift" else "rejection"


_SEQUENTIAL: Final = ("eagle3", "eagle", "mtp", "hydra")
_TRAINED: Final = (*_SEQUENTIAL, "peagle", "medusa", "medusa2")


def _each(families: Sequence[str], points: float) -> dict[str, float]:
    return dict.fromkeys(families, points)


_RULES: Final[tuple[_Rule, ...]] = (
    _Rule(
        lambda s: True,
        {"eagle3": 3.0, "eagle": 2.5, "mtp": 2.5, "hydra": 2.0},
        "It sees its own guesses, so that depth 2 and deeper fit what was guessed before.",
        "/learn#lessons",
    ),
    _Rule(
        lambda s: True,
        {"peagle": 1.5, "medusa": 1.5, "medusa2": 1.5},
        "All depths come out of one drafting pass, so drafting costs little.",
        "/learn#gain",
    ),
    _Rule(lambda s: True, {"ngram": 1.0, "draft_model": 1.0}, "Nothing has to be trained.", "/learn#families"),
    _Rule(
        lambda s: s.fine_tunes >= OFTEN,
        {"medusa": 1.5, "hydra": 0.5, "ngram": 1.0, "draft_model": 0.5},
        "New checkpoints come often, and it is trained quickly or not at all.",
        "/train",
    ),
    _Rule(
        lambda s: s.fine_tunes >= VERY_OFTEN,
        {"medusa": 1.0, "ngram": 1.0},
        "With a checkpoint every few days, the little it needs anew weighs most.",
        "/train",
    ),
    _Rule(
        lambda s: s.fine_tunes >= VERY_OFTEN,
        {"eagle3": -1.0, "peagle": -1.0, "eagle": -0.5, "mtp": -0.5},
        "With a checkpoint every few days, capturing the states of whole texts and a longer training weigh.",
        "/train",
    ),
    _Rule(
        lambda s: s.adapters == "many",
        {"ngram": 2.0, "draft_model": 1.5},
        "It drafts for any adapter alike.",
        "/learn#families",
    ),
    _Rule(
        lambda s: s.adapters == "many",
        _each(_TRAINED, -2.5),
        "Heads belong to one version, so that each adapter would need its own; which one earns it can be measured.",
        "/adapters",
    ),
    _Rule(
        lambda s: s.adapters == "merged",
        _each(_TRAINED, 0.5),
        "A merged adapter is a version like any other; train on what the merged model writes.",
        "/data",
    ),
    _Rule(
        lambda s: s.batch > SMALL_BATCH,
        {"eagle3": 1.0, "mtp": 1.0, "eagle": 0.5, "peagle": 0.5},
        "At this batch every drafted row costs, and a short chain of good guesses is what is left.",
        "/learn#hardware",
    ),
    _Rule(
        lambda s: s.batch > SMALL_BATCH,
        {"medusa": -0.5, "ngram": -0.5},
        "At this batch a wide tree, or a guess that is seldom right, no longer rides for free.",
        "/learn#hardware",
    ),
    _Rule(
        lambda s: s.batch > LARGE_BATCH,
        {"ngram": 1.0},
        "At a large batch drafting has to be nearly free.",
        "/trees",
    ),
    _Rule(
        lambda s: s.batch > LARGE_BATCH,
        {"draft_model": -2.0, "hydra": -1.0, "medusa": -0.5},
        "At a large batch what drafting costs is multiplied, and many sequences may not pay at all.",
        "/trees",
    ),
    _Rule(
        lambda s: s.temperature >= WARM and s.quality == "exact",
        {"eagle3": 0.5, "eagle": 0.5, "draft_model": 0.5},
        "Exact sampling rewards a drafter that knows the target's whole law, not only its best token.",
        "/learn#typical",
    ),
    _Rule(
        lambda s: s.temperature >= WARM and s.quality == "exact",
        {"ngram": -1.0},
        "Sampled text repeats itself less, and copied guesses miss.",
        "/evaluate",
    ),
    _Rule(
        lambda s: s.temperature >= WARM and s.quality == "drift",
        {"medusa": 1.0, "medusa2": 0.5},
        "The typical rule was made for it: likely guesses are taken although they were not drawn.",
        "/learn#typical",
    ),
    _Rule(
        lambda s: s.weights == "own" and s.quality == "drift",
        {"medusa2": 1.5},
        "You may change the target, and heads that learn together with it guess more; the change is measured.",
        "/train",
    ),
)


def _notes(situation: Situation) -> list[Reason]:
    notes = []
    if situation.fine_tunes:
        notes.append(
            Reason("After each fine-tune train again, or start from the heads before: stale heads accept less.",
                   "/learn#failures")
        )  # fmt: skip
    if situation.batch > SMALL_BATCH:
        notes.append(Reason("Measure the cost curve at your batch before you ship: at one it turns.", "/trees"))
    if situation.quality == "drift" and situation.temperature > 0:
        notes.append(Reason("The typical rule changes the output; say by how much, with an audit.", "/audit"))
    else:
        notes.append(Reason("That the output stays the target's own can be shown, with an audit.", "/audit"))
    if situation.weights == "open":
        notes.append(Reason("Look first whether somebody published a drafter for these weights.", "/export"))
    return notes
