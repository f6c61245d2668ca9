"""A training over whole answers that goes on where it was stopped: groups of answers, rates by step, state on disk.

What is learned from a group, and with which parameters, is the subclass's. Knows token ids, no model.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from backend.drafters.learning import IGNORE
from backend.errors import HeadwayError
from backend.training.features import TokenizedAnswer
from backend.training.loop import Reporter
from backend.training.state import check_same_run, load_state, random_state, restore_random_state, save_state


class RunSettings(Protocol):
    """How long, in which groups, and when state and losses are written."""

    @property
    def epochs(self) -> float: ...
    @property
    def steps(self) -> int | None: ...
    @property
    def batch_tokens(self) -> int: ...
    @property
    def warmup_fraction(self) -> float: ...
    @property
    def gradient_clip(self) -> float: ...
    @property
    def weight_decay(self) -> float: ...
    @property
    def seed(self) -> int: ...
    @property
    def checkpoint_every(self) -> int: ...
    @property
    def report_every(self) -> int: ...


@dataclass(frozen=True)
class Texts:
    """B texts, right-padded: tokens int64 [B, T], inside bool [B, T], places bool [B, T] whose next token is an
    answer's, following int64 [P, F] of those places.
    """

    tokens: Tensor
    inside: Tensor
    places: Tensor
    following: Tensor


class AnswerRun(ABC):
    """Steps over groups of answers in an order that follows from seed and epoch, so the step is the place in the data.

    parameters: {"params": [...], "peak": rate} of each group, as the optimiser takes them.
    """

    def __init__(
        self,
        config: RunSettings,
        answers: Sequence[TokenizedAnswer],
        parameters: Sequence[dict[str, Any]],
        reporter: Reporter,
        folder: Path,
        device: torch.device,
        max_context: int,
    ) -> None:
        self.settings, self.reporter, self.folder, self.device = config, reporter, folder, device
        longest = min(max_context, config.batch_tokens)
        self.answers = [a for a in answers if a.answer_ids and a.prompt_ids and length(a) <= longest]
        if not self.answers:
            raise HeadwayError(f"None of the answers fits into {longest} tokens; raise batch_tokens.")
        self.total = config.steps or max(1, int(config.epochs * len(list(self._groups(0)))))
        self.optimiser = torch.optim.AdamW(
            list(parameters), lr=0.0, betas=(0.9, 0.95), weight_decay=config.weight_decay
        )
        self.step = 0

    def go(self, should_stop: Callable[[], bool]) -> bool:
        """False when asked to stop.

        Raises HeadwayError for another run's folder, a full disk, a loss that is no number.
        """
        torch.manual_seed(self.settings.seed)
        self._resume()
        self.reporter.resumed(self.step)
        while self.step < self.total:
            epoch, place = self._place()
            for group in list(self._groups(epoch))[place:]:
                if should_stop():
                    self._save()
                    return False
                self._one_step([self.answers[number] for number in group])
                if self.step == self.total:
                    break
        return True

    @abstractmethod
    def learn(self, answers: Sequence[TokenizedAnswer]) -> dict[str, float]:
        """Gradients of one group; what to report of it."""

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """What must be the same when a run goes on."""

    @abstractmethod
    def weights(self) -> dict[str, Any]:
        """What has been learned so far, for the state."""

    @abstractmethod
    def take(self, weights: Mapping[str, Any]) -> None:
        """The inverse of `weights`."""

    def _place(self) -> tuple[int, int]:
        """(epoch, groups of it that are done) of the step."""
        epoch, left = 0, self.step
        while left >= (count := len(list(self._groups(epoch)))):
            epoch, left = epoch + 1, left - count
        return epoch, left

    def _groups(self, epoch: int) -> Iterator[list[int]]:
        """Numbers of the answers of each step of an epoch, in an order of its own."""
        generator = torch.Generator().manual_seed(self.settings.seed * 1_000_003 + epoch)
        group: list[int] = []
        widest = 0
        for number in torch.randperm(len(self.answers), generator=generator).tolist():
            width = max(widest, length(self.answers[number]))
            if group and (len(group) + 1) * width > self.settings.batch_tokens:
                yield group
                group, width = [], length(self.answers[number])
            group.append(number)
            widest = width
        yield group

    def _one_step(self, answers: Sequence[TokenizedAnswer]) -> None:
        factor = rate_factor(self.settings.warmup_fraction, self.step, self.total)
        for group in self.optimiser.param_groups:
            group["lr"] = factor * group["peak"]
        self.optimiser.zero_grad(set_to_none=True)
        metrics = self.learn(answers)
        parameters: list[nn.Parameter] = [value for group in self.optimiser.param_groups for value in group["params"]]
        norm = float(torch.nn.utils.clip_grad_norm_(parameters, self.settings.gradient_clip))
        if not math.isfinite(norm + sum(metrics.values())):
            raise HeadwayError(f"At step {self.step} the loss stopped being a number; lower the learning rates.")
        self.optimiser.step()
        self.step += 1
        if self.step == self.total or self.step % self.settings.report_every == 0:
            self.reporter.report(self.step, self.total, metrics | {"gradient_norm": norm})
        if self.step == self.total or self.step % self.settings.checkpoint_every == 0:
            self._save()

    def _save(self) -> None:
        state = {
            "run": self.identity(),
            "step": self.step,
            **self.weights(),
            "optimiser": self.optimiser.state_dict(),
            "random": random_state(self.device),
        }
        save_state(self.folder, state)

    @torch.no_grad()
    def _resume(self) -> None:
        state = load_state(self.folder)
        if state is None:
            return
        check_same_run(state, self.identity(), self.folder)
        self.step = state["step"]
        self.take(state)
        self.optimiser.load_state_dict(state["optimiser"])
        restore_random_state(state["random"], self.device)


def length(answer: TokenizedAnswer) -> int:
    return len(answer.prompt_ids) + len(answer.answer_ids)


def texts_of(answers: Sequence[TokenizedAnswer], horizon: int, device: torch.device) -> Texts:
    width = max(map(length, answers))
    tokens = torch.zeros(len(answers), width, dtype=torch.int64)
    inside, places = torch.zeros_like(tokens, dtype=torch.bool), torch.zeros_like(tokens, dtype=torch.bool)
    following = []
    for row, answer in enumerate(answers):
        end, first = length(answer), len(answer.prompt_ids) - 1
        tokens[row, :end] = torch.tensor([*answer.prompt_ids, *answer.answer_ids])
        inside[row, :end] = True
        places[row, first : end - 1] = True
        padded = torch.tensor([*answer.answer_ids, *([IGNORE] * horizon)])
        following.append(padded.unfold(0, horizon, 1)[: len(answer.answer_ids)])
    return Texts(tokens.to(device), inside.to(device), places.to(device), torch.cat(following).to(device))


def rate_factor(warmup_fraction: float, step: int, total: int) -> float:
    """Part of the peak rates: a rise, then a cosine to zero."""
    rise = max(1, round(warmup_fraction * total))
    if step < rise:
        return (step + 1) / rise
    return 0.5 * (1 + math.cos(math.pi * (step - rise) / max(1, total - rise)))
