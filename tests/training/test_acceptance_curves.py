"""The acceptance curves of a training: from ranks at held-out positions, and from prompts that are really decoded."""

from __future__ import annotations

import pytest
import torch

from backend.decoding.records import DecodeResult
from backend.drafters.learning import IGNORE, acceptance_of_ranks
from backend.drafters.registry import load_drafter
from backend.training import judge as judging
from backend.training.judge import Judge
from backend.trees import chain
from tests.support.targets import target_of


def test_acceptance_from_ranks_is_what_counting_position_by_position_gives() -> None:
    ranks = torch.randint(0, 3, (200, 3), generator=torch.Generator().manual_seed(1))
    ranks[::7, 2] = IGNORE
    ranks[::11, 1:] = IGNORE
    found = acceptance_of_ranks(ranks)
    for depth in range(3):
        positions = reached = hits = 0
        for row in ranks.tolist():
            if row[depth] == IGNORE:
                continue
            positions += 1
            if all(rank == 0 for rank in row[:depth]):
                reached += 1
                hits += row[depth] == 0
        assert found[f"accept_marginal_{depth}"] == hits / positions
        assert found[f"accept_conditional_{depth}"] == hits / reached
    assert acceptance_of_ranks(torch.full((4, 2), 5)) == {
        "accept_marginal_0": 0.0, "accept_conditional_0": 0.0, "accept_marginal_1": 0.0,
    }  # fmt: skip


def test_the_judge_counts_every_depth_of_what_it_decodes(monkeypatch: pytest.MonkeyPatch) -> None:
    target = target_of("llama")
    results: list[DecodeResult] = []
    decode = judging.decode

    def remembered(*given, **named):  # type: ignore[no-untyped-def]
        for record in decode(*given, **named):
            if isinstance(record, DecodeResult):
                results.append(record)
            yield record

    monkeypatch.setattr(judging, "decode", remembered)
    drafter, _ = load_drafter("ngram", target, chain(4))
    prompts = [[5, 6, 7, 5, 6, 7, 5], [9, 9, 9, 9, 9], [3, 4]]
    judged = Judge(target, lambda: drafter, prompts, 24)()
    assert judged is not None and len(results) == 3
    assert judged.steps == sum(one.num_steps for one in results)
    metrics = judged.as_metrics()
    assert metrics["acceptance_length"] == 1 + sum(one.num_accepted for one in results) / judged.steps > 1
    accepted, drafted = (
        [sum((*getattr(one, name), 0, 0, 0, 0)[depth] for one in results) for depth in range(4)]
        for name in ("accepted_per_depth", "drafted_per_depth")
    )
    for depth in range(4):
        assert metrics[f"accept_marginal_{depth}"] == accepted[depth] / judged.steps
        tried = {f"accept_conditional_{depth}": accepted[depth] / drafted[depth]} if drafted[depth] else {}
        assert metrics.items() >= tried.items() and (tried or f"accept_conditional_{depth}" not in metrics)
    assert "accept_marginal_4" not in metrics and drafted[0] > 0
