"""One copy from the device to the host a step, and no Python and no operators that grow with the number of nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from backend.acceptance import Rule, SamplingSettings
from backend.decoding import loop
from backend.decoding.loop import DecodeSettings, Record, decode
from backend.decoding.records import Detail, StepTrace
from backend.drafters.base import Drafter
from backend.drafters.draft_model.drafter import DraftModelDrafter
from backend.drafters.plain.drafter import PlainDrafter
from backend.targets.target import Target
from backend.trees import TreeShape, chain, product
from backend.trees.shapes import parse_tree
from tests.support.drafters import random_medusa
from tests.support.targets import random_text, target_of
from tests.support.watching import Operators, python_calls, reads

PROMPTS = [random_text(30, 6), random_text(31, 9), random_text(32, 9)]
GREEDY, SAMPLED = SamplingSettings(), SamplingSettings(0.8, top_k=20, top_p=0.9, repetition_penalty=1.1)
MANY = product([4, 4, 3])

Make = Callable[[Target], Drafter]
DRAFTERS: dict[str, Make] = {
    "plain": lambda target: PlainDrafter(),
    "medusa": lambda target: random_medusa(target, parse_tree("medusa-63")),
    "medusa-sampled": lambda target: random_medusa(target, product([3, 2]), 200).with_sampled(True),
    "draft-model": lambda target: DraftModelDrafter(target_of("llama", 9), target.vocab_size, product([3, 2])),
    "draft-itself": lambda target: DraftModelDrafter(target, target.vocab_size, chain(3), sampled=True),
}


def started(drafter: Drafter, settings: DecodeSettings, batch: int = 3) -> Iterator[Record]:
    """A decode whose rows have all been prefilled and have made one step (a draft model reads the prompt in it)."""
    records = decode(target_of("llama"), drafter, PROMPTS[:batch], settings, batch)
    for _ in range(2 * batch):
        next(records)
    return records


def one_step(records: Iterator[Record], batch: int = 3) -> None:
    for _ in range(batch):
        assert isinstance(next(records), StepTrace), "a row ended too early for this test"


def settings_of(sampling: SamplingSettings, detail: Detail = Detail.COUNTS, rule: str = "rejection") -> DecodeSettings:
    return DecodeSettings(60, Rule(rule), sampling, detail=detail, ignore_eos=True)


@pytest.mark.parametrize("detail", [Detail.COUNTS, Detail.FULL])
@pytest.mark.parametrize(("sampling", "rule"), [(GREEDY, "greedy"), (SAMPLED, "rejection"), (SAMPLED, "typical")])
@pytest.mark.parametrize("name", DRAFTERS)
def test_a_step_of_three_rows_reads_back_once(
    name: str, sampling: SamplingSettings, rule: str, detail: Detail, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = started(DRAFTERS[name](target_of("llama")), settings_of(sampling, detail, rule))
    operators = Operators()
    with reads(monkeypatch) as counts, operators:
        one_step(records)
    assert counts == {"tolist": 1}
    assert operators.waiting == 0, operators.counts
    assert sum(operators.counts.values()) > 50


@pytest.mark.parametrize(
    "spoil",
    [
        lambda tensor: tensor.sum().item(),
        lambda tensor: bool(tensor.any()),
        lambda tensor: tensor.cpu(),
        lambda tensor: tensor.tolist(),
        lambda tensor: tensor[tensor > 0],
        lambda tensor: tensor.nonzero(),
    ],
)
def test_the_guard_notices_a_second_read(spoil: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    records = started(PlainDrafter(), settings_of(GREEDY))
    right = loop.committed_tokens

    def wrong(*args: Any) -> Any:
        spoil(right(*args))
        return right(*args)

    monkeypatch.setattr(loop, "committed_tokens", wrong)
    operators = Operators()
    with reads(monkeypatch) as counts, operators:
        one_step(records)
    assert sum(counts.values()) > 1 or operators.waiting > 0


@pytest.mark.parametrize("sampling", [GREEDY, SamplingSettings(1.0)])
@pytest.mark.parametrize("kind", ["medusa", "medusa-sampled", "draft-model"])
def test_work_does_not_grow_with_the_number_of_nodes(kind: str, sampling: SamplingSettings) -> None:
    target = target_of("llama")

    def cost(shape: TreeShape) -> tuple[int, int]:
        drafter: Drafter = {
            "medusa": lambda: random_medusa(target, shape),
            "medusa-sampled": lambda: random_medusa(target, shape).with_sampled(True),
            "draft-model": lambda: DraftModelDrafter(target_of("llama", 9), target.vocab_size, shape),
        }[kind]()
        records, operators = started(drafter, settings_of(sampling)), Operators()
        with python_calls() as calls:
            one_step(records)
        with operators:
            one_step(records)
        return calls["call"] + calls["c_call"], sum(operators.counts.values())

    few, many = TreeShape(tuple(path for path in MANY.paths if not any(path[:-1]))), MANY
    assert (few.num_nodes, many.num_nodes, few.widths) == (11, 68, many.widths)  # rules try one sibling after another
    (few_calls, few_operators), (many_calls, many_operators) = cost(few), cost(many)
    assert abs(many_operators - few_operators) <= 10
    assert abs(many_calls - few_calls) <= 50
    assert few_calls > 500 and few_operators > 100


@pytest.mark.parametrize(("name", "uploads"), [("plain", 1), ("medusa", 1), ("draft-itself", 2)])
def test_lengths_are_sent_to_the_device_once_a_step(name: str, uploads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for each cache whose rows have grown; a draft model has one of its own and reads before it drafts."""
    records = started(DRAFTERS[name](target_of("llama")), settings_of(SAMPLED))
    made: list[Any] = []
    right = torch.tensor

    def counting(*args: Any, **kwargs: Any) -> torch.Tensor:
        made.append(args)
        return right(*args, **kwargs)

    monkeypatch.setattr(torch, "tensor", counting)
    one_step(records)
    assert 1 <= len(made) <= uploads
