"""The world of 64 tokens: exact decoding, the two lessons, and the command that scripts depend on."""

from __future__ import annotations

import json

import pytest
import torch

from app import main
from backend.analysis.toy import ToyConfig, ToyRow, learn, make_world, pair_counts, run_toy, speculate, write_text

SMALL = ToyConfig(tokens=16, rank=4, train_tokens=30_000, steps=6_000)


@pytest.fixture(scope="module")
def rows() -> dict[tuple[str, str | None], ToyRow]:
    return {(row.drafter, row.data): row for row in run_toy(ToyConfig(seed=1))}


def test_the_first_lesson_independent_heads_meet_a_ceiling_at_depth_2(
    rows: dict[tuple[str, str | None], ToyRow],
) -> None:
    ceiling = rows["exact-marginals", None]
    assert ceiling.acceptance_per_depth[0] == 1.0
    assert ceiling.acceptance_per_depth[1] < 0.7
    for data in ("base", "target"):
        one = rows["independent", data]
        assert one.tokens_per_step < ceiling.tokens_per_step
        assert one.tokens_per_step < rows["sequential", data].tokens_per_step
    assert rows["exact-target", None].tokens_per_step == 5.0


def test_the_second_lesson_own_text_lifts_the_sequential_drafter(rows: dict[tuple[str, str | None], ToyRow]) -> None:
    own, other = rows["sequential", "target"], rows["sequential", "base"]
    assert own.tokens_per_step > other.tokens_per_step + 1
    assert own.tokens_per_step > rows["exact-marginals", None].tokens_per_step


def test_what_is_written_follows_the_target_whatever_drafts() -> None:
    """Chi-square on the pairs written; 60 tests of a true hypothesis at 1e-5 each, fixed seed."""
    world = make_world(SMALL)
    chance = torch.Generator().manual_seed(5)
    wrong = torch.softmax(torch.randn(16, 16, generator=chance, dtype=torch.float64), dim=1)
    for sequential in (False, True):
        _, _, pairs = speculate(world.target, [wrong] * 3, sequential, 60_000, chance)
        visits = pairs.sum(1, keepdim=True)
        expected = visits * world.target
        enough = expected >= 5
        pooled = torch.where(enough, pairs, 0), torch.where(enough, expected, 0)
        statistic = ((pooled[0] - pooled[1]) ** 2 / pooled[1].clamp(min=1)).sum(1)
        freedom = enough.sum(1).clamp(min=1).double()
        # Wilson and Hilferty: the cube root of a chi-square over its degrees of freedom is close to normal.
        normal = ((statistic / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / torch.sqrt(2 / (9 * freedom))
        assert float(normal.max()) < 4.3, normal


def test_the_chi_square_sees_a_rule_without_residual() -> None:
    """The test above fails for text that follows another law."""
    world = make_world(SMALL)
    text = write_text(world.base, 60_000, torch.Generator().manual_seed(1))
    counted = pair_counts(text, SMALL)[0]
    expected = counted.sum(1, keepdim=True) * world.target
    assert float((((counted - expected) ** 2) / expected.clamp(min=5)).sum()) > 10_000


def test_acceptance_is_the_overlap_of_both_laws() -> None:
    """Where all contexts have one law, it is sum(min(p, q)) at every depth; 5 standard deviations."""
    chance = torch.Generator().manual_seed(2)
    p, q = torch.softmax(torch.randn(2, 16, generator=chance, dtype=torch.float64), dim=1)
    reached, accepted, _ = speculate(p.expand(16, 16), [q.expand(16, 16)] * 2, False, 90_000, chance)
    overlap = float(torch.minimum(p, q).sum())
    assert reached[0] == 90_000 and reached[1] == accepted[0]
    for depth in (0, 1):
        deviation = (overlap * (1 - overlap) / reached[depth].item()) ** 0.5
        assert abs(accepted[depth].item() / reached[depth].item() - overlap) < 5 * deviation


def test_a_head_of_full_rank_learns_the_counted_law() -> None:
    config = SMALL.model_copy(update={"rank": 16, "depth": 1})
    counts = pair_counts(write_text(make_world(config).target, 30_000, torch.Generator().manual_seed(3)), config)
    law, counted = learn(counts, config)[0], counts[0] / counts[0].sum(1, keepdim=True).clamp(min=1)
    often = counts[0].sum(1) > 200
    assert float((law - counted)[often].abs().max()) < 0.05


def test_the_command_prints_what_scripts_read(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--tokens", "16", "--train-tokens", "9000", "--steps", "3000"]
    assert main(["toy", "--seed", "3", "--json", *sizes]) == 0
    first = capsys.readouterr().out
    assert main(["toy", "--seed", "3", "--json", *sizes]) == 0
    assert capsys.readouterr().out == first
    told = json.loads(first)
    assert told["seed"] == 3 and list(told) == ["seed", "rows"]
    assert [(row["drafter"], row["data"]) for row in told["rows"]] == [
        ("independent", "base"), ("independent", "target"), ("sequential", "base"), ("sequential", "target"),
        ("exact-marginals", None), ("exact-target", None),
    ]  # fmt: skip
    assert all(len(row["acceptance_per_depth"]) == 4 for row in told["rows"])


@pytest.mark.parametrize("words", [["--depth", "0"], ["--steps", "5"], ["--sharpness", "-1"], ["--seed", "-3"]])
def test_sizes_out_of_range_are_one_sentence(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["toy", *words]) == 2
    told = capsys.readouterr()
    assert told.out == "" and told.err.count("\n") == 1 and words[0] in told.err
