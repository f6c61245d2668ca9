"""What an evaluation is told, as it stands in a form, a file or a command line; and the parts it is measured in.

Torch-free: the page draws its form and its estimate from here. Knows nothing of how a part is measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Self

from pydantic import Field, model_validator

from backend.analysis.evaluation import PLAIN
from backend.engine.protocol import RuleName
from backend.errors import HeadwayError
from backend.jobs.configs import Name, TargetConfig, Text

PROMPTS_PER_ROW = 8  #: a block of a batch has at least this many prompts a row, so that its thin end weighs little
SETUP = "setup"  #: key of the item that says under which conditions the parts were measured
Temperature = Annotated[float, Field(ge=0, le=5, allow_inf_nan=False)]
Batch = Annotated[int, Field(ge=1, le=256)]


class EvaluateJobConfig(TargetConfig):
    """Drafters, prompt sets, temperatures and batches, each with each; plain decoding in turns with them."""

    drafters: tuple[Text, ...] = Field(
        ("builtin-medusa",), min_length=1, description="builtin-medusa, ngram, draft:MODEL or a folder of heads"
    )
    prompts: tuple[Text, ...] = Field(min_length=1, description="prompt file: JSONL with turns, ShareGPT or Alpaca")
    trees: tuple[Text, ...] = Field(
        (), description="trees to compare, such as chain-4, 3x2x1, medusa-63, eagle2; none: each drafter's own"
    )
    limit: int | None = Field(None, ge=1, description="only the first N prompts of each file")
    temperatures: tuple[Temperature, ...] = Field((0.0,), min_length=1, description="temperatures, with commas")
    batches: tuple[Batch, ...] = Field((1,), min_length=1, description="prompts decoded at once, with commas")
    max_new_tokens: int = Field(128, ge=1, le=8192, description="longest answer, in tokens")
    rule: RuleName = Field("rejection", description="rejection is exact and greedy at T = 0; typical is approximate")
    epsilon: float = Field(0.09, gt=0, lt=1, description="typical rule: probability that always passes")
    delta: float = Field(0.3, gt=0, le=1, description="typical rule: lower bar where the target is unsure")
    sampled: bool = Field(False, description="draw siblings at random instead of taking the best ones")
    seed: int = Field(0, ge=0, description="same seed, same answers")
    force: bool = Field(False, description="measure heads of another version all the same, labelled")
    name: Name | None = Field(None, description="name of the evaluation; default: made of prompts and target")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.rule == "greedy" and any(self.temperatures):
            raise HeadwayError("The greedy rule is exact at temperature 0 only; use the rejection rule above 0.")
        for name in ("drafters", "prompts", "trees", "temperatures", "batches"):
            values = getattr(self, name)
            if len(set(values)) < len(values):
                raise HeadwayError(f"{name} names something twice ({', '.join(map(str, values))}); name it once.")
        return self

    @property
    def num_configurations(self) -> int:
        """How often every prompt is answered, plain decoding included."""
        drafting = len([one for one in self.drafters if one != "none"]) * max(1, len(self.trees))
        return (1 + drafting) * len(self.temperatures) * len(self.batches)


@dataclass(frozen=True)
class Block:
    """Prompts `start` to `end` (not included) of one set at one temperature and batch, and whose turn is first."""

    set: str
    temperature: float
    batch: int
    start: int
    end: int
    turn: int

    def order(self, contenders: Sequence[str]) -> list[str]:
        """The order rotates from block to block, so that a slow minute of the machine hits each alike."""
        shift = self.turn % len(contenders)
        return [*contenders[shift:], *contenders[:shift]]

    def key(self, contender: str) -> str:
        """The name of a part: the same in every attempt."""
        return f"{self.set}|T{self.temperature:g}|B{self.batch}|{self.start}-{self.end}|{contender}"


def blocks(config: EvaluateJobConfig, sizes: Mapping[str, int]) -> Iterator[Block]:
    """All blocks in the order they are measured. `sizes`: prompts by set. Batches wider than a set are left out.

    With one row a block is one prompt; a batch gets the whole set, or even pieces of it where the set is large.
    """
    turn = 0
    for name, size in sizes.items():
        for temperature in config.temperatures:
            for batch in config.batches:
                if batch > size:
                    continue
                count = size if batch == 1 else max(1, size // (PROMPTS_PER_ROW * batch))
                for number in range(count):
                    start, end = size * number // count, size * (number + 1) // count
                    yield Block(name, temperature, batch, start, end, turn)
                    turn += 1


def contender_key(spec: str, tree: str | None) -> str:
    """How a drafter with a tree is called in parts and tables."""
    if spec == "none":
        return PLAIN
    return spec if tree is None else f"{spec} · {tree}"
