"""Which settings make sense together: impossible ones are named, and settings that come to the same are one.

Torch-free until a tree's shape is asked for. Knows what a knob means for decoding; measures nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from backend.errors import HeadwayError
from backend.sweeps.knobs import DECODE_KNOBS, Scalar
from backend.sweeps.space import key_of

if TYPE_CHECKING:
    from backend.trees import TreeShape

Settings = Mapping[str, Scalar]


@dataclass(frozen=True)
class Facts:
    """What is known before anything is loaded.

    num_prompts: of the smallest set. draft_vocab, depth: by drafter, tokens it can draft and levels it has; `trained`
    stands for the drafter that a trial trains.
    """

    num_prompts: int | None = None
    draft_vocab: Mapping[str, int] = field(default_factory=dict)
    depth: Mapping[str, int] = field(default_factory=dict)
    trained: bool = False


def with_defaults(values: Settings, trained: bool = False) -> dict[str, Scalar]:
    """All settings of decoding that have a value, and those of training that are turned."""
    found: dict[str, Scalar] = {
        name: knob.default for name, knob in DECODE_KNOBS.items() if knob.default is not None
    } | dict(values)
    if trained:
        found.pop("drafter", None)
    return found


def meaningful(values: Settings, trained: bool = False) -> dict[str, Scalar]:
    """The settings without those that change nothing: two trials with the same ones measure the same."""
    found = with_defaults(values, trained)
    if found["temperature"] == 0:
        found["rule"] = "rejection"  # every exact rule is greedy there
        found.pop("sampled", None)
    if found["rule"] != "typical":
        found.pop("epsilon", None)
        found.pop("delta", None)
    if found.get("drafter") == "none":
        for name in ("tree", "max_depth", "rule", "sampled", "epsilon", "delta"):
            found.pop(name, None)
    return found


def identity(settings: Settings) -> str:
    """The same text for settings that measure the same: of a static tree, what is left of it at the depth."""
    found = dict(settings)
    shape = _shape(str(found["tree"])) if "tree" in found else None
    if shape is not None and not isinstance(shape, str):
        depth = found.pop("max_depth", None)
        kept = shape if depth is None else shape.cut(int(depth))
        found["tree"] = str(kept.to_json())
    return key_of(found)


def impossible(values: Settings, facts: Facts) -> str | None:
    """Why these settings can't be measured, as one sentence; None when they can, as far as is known."""
    found = with_defaults(values, facts.trained)
    temperature, rule = float(found["temperature"]), found["rule"]
    if rule == "typical" and temperature == 0:
        return "Typical acceptance at temperature 0 is the greedy rule, so ε and δ would do nothing."
    if rule == "greedy" and temperature > 0:
        return f"The greedy rule is exact at temperature 0 only, not at {temperature:g}."
    if facts.num_prompts is not None and int(found["batch"]) > facts.num_prompts:
        return f"A batch of {found['batch']} needs as many prompts, and there are {facts.num_prompts}."
    return _tree_problem(found, facts)


def _tree_problem(found: Mapping[str, Any], facts: Facts) -> str | None:
    if "tree" not in found or found.get("drafter") == "none":
        return None
    shape = _shape(str(found["tree"]))
    if shape is None or isinstance(shape, str):
        return shape
    drafter = str(found.get("drafter", "trained"))
    widest, tree = max(shape.max_children, default=0), found["tree"]
    vocabulary = int(found.get("draft_vocab") or facts.draft_vocab.get(drafter) or 0)
    if vocabulary and widest > vocabulary:
        return f"The tree {tree} takes {widest} guesses in one place, and only {vocabulary} tokens can be drafted."
    if "max_depth" in found:
        shape = shape.cut(int(found["max_depth"]))
    depth = int(found.get("num_heads") or facts.depth.get(drafter) or 0)
    if depth and shape.max_depth > depth:
        return f"The tree {tree} is {shape.max_depth} levels deep, and the heads guess {depth} tokens ahead."
    return None


@lru_cache(maxsize=512)
def _shape(text: str) -> TreeShape | str | None:
    """The shape, what is wrong with it, or None for a tree that grows anew in every step: its drafter judges that."""
    if text == "eagle2" or text.startswith("{"):
        return None
    from backend.trees.shapes import parse_tree  # here, so that pages, which know spaces only, load no torch

    try:
        return parse_tree(text)
    except HeadwayError as error:
        return str(error)
