"""A small world in which every quantity of speculative decoding can be computed: 64 tokens, each drawn by the last.

A base model is fine-tuned: on half of the contexts its law changes strongly. Two kinds of drafter of the same size are
trained on text of the base or of the fine-tuned model and draft for the latter under exact speculative sampling:

- *independent*: head d guesses the token d ahead from the last written token alone, as Medusa's heads do;
- *sequential*: one head guesses the next token and is applied to its own drafts, as EAGLE and MTP do.

Beside them the best any drafter of each kind could do: *exact-marginals*, the true law of the token d ahead, and
*exact-target*, the target itself. Knows no language model and no engine; a run takes seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

Kind = Literal["independent", "sequential", "exact-marginals", "exact-target"]
Data = Literal["base", "target"]

CHAINS: Final = 300  #: texts decoded side by side; the steps of a run are shared among them


class ToyConfig(BaseModel):
    """The world's sizes. The defaults are those of the figure in the docs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seed: int = Field(0, ge=0, lt=1 << 31, description="same seed, same numbers")
    tokens: int = Field(64, ge=4, le=512, description="size of the vocabulary")
    rank: int = Field(8, ge=1, le=64, description="width of every drafter's head, and of the world's own law")
    depth: int = Field(4, ge=1, le=8, description="drafted tokens a step")
    sharpness: float = Field(2.8, gt=0, le=10, description="how sure the models are of the next token")
    changed: float = Field(0.5, ge=0, le=1, description="part of the contexts that the fine-tune changes")
    train_tokens: int = Field(200_000, ge=1000, le=10_000_000, description="length of the text a drafter learns from")
    steps: int = Field(30_000, ge=CHAINS, le=1_000_000, description="steps that are decoded for each drafter")


@dataclass(frozen=True)
class World:
    """Transition matrices float64 [V, V], rows sum to 1: `base` and, fine-tuned from it, `target`."""

    base: Tensor
    target: Tensor


@dataclass(frozen=True)
class ToyRow:
    """acceptance_per_depth: accepted at depth d among the steps that reached it; tokens_per_step: 1 + mean accepted."""

    drafter: Kind
    data: Data | None
    acceptance_per_depth: tuple[float, ...]
    tokens_per_step: float

    def to_dict(self) -> dict[str, Any]:
        return {
            "drafter": self.drafter,
            "data": self.data,
            "acceptance_per_depth": [round(value, 6) for value in self.acceptance_per_depth],
            "tokens_per_step": round(self.tokens_per_step, 6),
        }


def run_toy(config: ToyConfig, report: Callable[[int, int], None] = lambda done, total: None) -> list[ToyRow]:
    """All drafters on both kinds of text, then the two ceilings; `report` gets (rows done, all)."""
    world = make_world(config)
    texts: dict[Data, Tensor] = {
        "base": write_text(world.base, config.train_tokens, _generator(config, 1)),
        "target": write_text(world.target, config.train_tokens, _generator(config, 2)),
    }
    trained = {data: learn(pair_counts(text, config), config) for data, text in texts.items()}
    marginals = [torch.linalg.matrix_power(world.target, ahead) for ahead in range(1, config.depth + 1)]
    contenders: list[tuple[Kind, Data | None, list[Tensor], bool]] = [
        *(("independent", data, list(laws), False) for data, laws in trained.items()),
        *(("sequential", data, [laws[0]] * config.depth, True) for data, laws in trained.items()),
        ("exact-marginals", None, marginals, False),
        ("exact-target", None, [world.target] * config.depth, True),
    ]
    rows: list[ToyRow] = []
    for kind, data, laws, sequential in contenders:
        report(len(rows), len(contenders))
        rows.append(_row(kind, data, world, laws, sequential, config))
    report(len(rows), len(contenders))
    return rows


def make_world(config: ToyConfig) -> World:
    """Logits of rank `rank`; the fine-tune gives a part of the contexts a new law over the same token directions."""
    chance = _generator(config, 0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=chance, dtype=torch.float64)

    contexts, directions = normal(config.tokens, config.rank), normal(config.rank, config.tokens)
    fresh = normal(config.tokens, config.rank)
    order = torch.randperm(config.tokens, generator=chance)[: round(config.changed * config.tokens)]
    tuned = contexts.clone()
    tuned[order] = fresh[order]
    scale = config.sharpness / math.sqrt(config.rank)
    base, target = (torch.softmax(scale * rows @ directions, dim=1) for rows in (contexts, tuned))
    return World(base, target)


def write_text(law: Tensor, length: int, chance: torch.Generator) -> Tensor:
    """int64 [CHAINS, length / CHAINS]: texts of the law [V, V], each begun with a random token."""
    tokens = torch.randint(len(law), (CHAINS,), generator=chance)
    written = [tokens]
    for _ in range(max(1, length // CHAINS) - 1):
        tokens = draw(law[tokens], chance)
        written.append(tokens)
    return torch.stack(written, dim=1)


def pair_counts(text: Tensor, config: ToyConfig) -> Tensor:
    """float64 [depth, V, V]: how often token j stands d places behind token i."""
    size = config.tokens
    counts = []
    for ahead in range(1, config.depth + 1):
        pairs = text[:, :-ahead].flatten() * size + text[:, ahead:].flatten()
        counts.append(torch.bincount(pairs, minlength=size * size).double().view(size, size))
    return torch.stack(counts)


def learn(counts: Tensor, config: ToyConfig, iterations: int = 600) -> Tensor:
    """Heads of rank `rank` with the least cross-entropy on the pairs; counts [D, V, V] -> laws float64 [D, V, V].

    A head's loss depends on its pairs alone, so it is minimised over all of them at once.
    """
    chance = _generator(config, 3)
    depth, size, _ = counts.shape
    shares = counts / counts.sum(dim=(1, 2), keepdim=True)
    left = (0.1 * torch.randn(depth, size, config.rank, generator=chance, dtype=torch.float64)).requires_grad_()
    right = (0.1 * torch.randn(depth, config.rank, size, generator=chance, dtype=torch.float64)).requires_grad_()
    optimiser = torch.optim.Adam([left, right], lr=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, iterations)
    for _ in range(iterations):
        optimiser.zero_grad(set_to_none=True)
        loss = -(shares * torch.log_softmax(left @ right, dim=2)).sum()
        loss.backward()
        optimiser.step()
        schedule.step()
    return torch.softmax(left @ right, dim=2).detach()


def draw(law: Tensor, chance: torch.Generator) -> Tensor:
    """One token a row of law [C, V] (rows need not sum to 1) -> int64 [C]."""
    return torch.multinomial(law, 1, generator=chance)[:, 0]


def speculate(
    target: Tensor, laws: list[Tensor], sequential: bool, steps: int, chance: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Decode with exact speculative sampling (Leviathan et al., arXiv 2211.17192).

    Args:
        target: float64 [V, V]. laws: the drafter's law at each depth, [V, V]; given the last written token, or with
            `sequential` the drafted token before.

    Returns (steps that reached each depth int64 [D], those that accepted there int64 [D], written pairs float64 [V, V]:
    how often token j followed token i, for tests of exactness).
    """
    size = len(target)
    reached, accepted = torch.zeros(len(laws), dtype=torch.int64), torch.zeros(len(laws), dtype=torch.int64)
    pairs = torch.zeros(size * size, dtype=torch.float64)

    def wrote(before: Tensor, after: Tensor) -> None:
        pairs.add_(torch.bincount(before * size + after, minlength=size * size))

    written = torch.randint(size, (CHAINS,), generator=chance)
    for _ in range(steps // CHAINS):
        last, alive = written.clone(), torch.ones(CHAINS, dtype=torch.bool)
        for depth, law in enumerate(laws):
            drafted_by = law[last if sequential else written]
            guess = draw(drafted_by, chance)
            wanted = target[last]
            odds = wanted.gather(1, guess[:, None]) / drafted_by.gather(1, guess[:, None])
            passes = torch.rand(CHAINS, generator=chance, dtype=torch.float64) <= odds[:, 0]
            instead = draw((wanted - drafted_by).clamp(min=1e-300), chance)
            reached[depth] += alive.sum()
            accepted[depth] += (alive & passes).sum()
            token = torch.where(passes, guess, instead)
            wrote(last[alive], token[alive])
            last = torch.where(alive, token, last)
            alive = alive & passes
        bonus = draw(target[last], chance)
        wrote(last[alive], bonus[alive])
        written = torch.where(alive, bonus, last)
    return reached, accepted, pairs.view(size, size)


def _row(
    kind: Kind, data: Data | None, world: World, laws: list[Tensor], sequential: bool, config: ToyConfig
) -> ToyRow:
    chance = _generator(config, 4)  # the same for all, so that they differ by their laws alone
    reached, accepted, _ = speculate(world.target, laws, sequential, config.steps, chance)
    rates = (accepted.double() / reached.clamp(min=1)).tolist()
    return ToyRow(kind, data, tuple(rates), 1 + accepted.sum().item() / reached[0].item())


def _generator(config: ToyConfig, purpose: int) -> torch.Generator:
    return torch.Generator().manual_seed(config.seed * 1_000 + purpose)
