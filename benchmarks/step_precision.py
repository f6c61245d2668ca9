"""A training step in float32 beside steps with products in bfloat16, on a target's own answers.

    python -m benchmarks.step_precision --answers prompts/answers-smollm2-135m.npz --family eagle3

Three ways take turns, so a slow minute of the machine hits each alike: float32; `--compute bfloat16`, the products
with the output rows alone; `--precision bfloat16`, all of the drafter's. A step is the loss of a batch, its gradient,
and the optimiser's step, with the family's preset; features are read before the clock starts. Told are medians, by the
clock and in processor time, which says more where others use the machine.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch

from backend.data.answers import read_any
from backend.drafters.learning import Learner
from backend.drafters.recipe import recipe_of
from backend.jobs.configs import TrainJobConfig
from backend.jobs.train_job import first_texts
from backend.settings import Settings
from backend.targets.opening import open_target
from backend.targets.target import Target
from backend.training.config import Precision
from backend.training.online import OnlinePositions, OnlineTexts
from backend.training.precision import computing_in
from backend.training.token_map import choose_tokens
from benchmarks.common import start_fast, write_results

WAYS: dict[str, tuple[str, Precision]] = {
    "float32": ("float32", "float32"),
    "compute bfloat16": ("bfloat16", "float32"),
    "precision bfloat16": ("float32", "bfloat16"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="smollm2-135m")
    parser.add_argument("--answers", default="prompts/answers-smollm2-135m.npz", metavar="FILE")
    parser.add_argument("--family", default="eagle3")
    parser.add_argument("--preset", default="small")
    parser.add_argument("--steps", type=int, default=7, help="steps of each way, after one that warms up")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", metavar="FILE.json", help="also write all numbers there")
    args = parser.parse_args()
    start_fast("benchmarks.step_precision")
    torch.set_num_threads(args.threads)
    target = open_target(args.target, Settings.from_environ())
    rows = _measured(target, args)
    for row in rows:
        times = f"{row['median_ms']:.0f} ms a step, {row['ratio']:.2f} times as fast"
        worked = f"{row['processor_ms']:.0f} ms of processor time, {row['processor_ratio']:.2f}"
        print(f"{row['way']}: {times}; {worked}; loss {row['loss']:.4f}")
    args.prompts = [args.answers]
    write_results(args, target, rows)


def _measured(target: Target, args: argparse.Namespace) -> list[dict[str, Any]]:
    sides = {way: _Side(target, args, *named) for way, named in WAYS.items()}
    order = list(sides)
    for turn in range(args.steps + 1):
        for way in order if turn % 2 else reversed(order):
            sides[way].step(turn)
        print(", ".join(f"{way} {1000 * side.times[-1]:.0f} ms" for way, side in sides.items()), file=sys.stderr)
    usual = {way: 1000 * statistics.median(side.times[1:]) for way, side in sides.items()}
    worked = {way: 1000 * statistics.median(side.worked[1:]) for way, side in sides.items()}
    return [
        {
            "way": way, "median_ms": usual[way], "ratio": usual["float32"] / usual[way],
            "processor_ms": worked[way], "processor_ratio": worked["float32"] / worked[way], "loss": sides[way].loss,
            "steps_ms": [round(1000 * one, 1) for one in sides[way].times[1:]],
        }
        for way in order
    ]  # fmt: skip


class _Side:
    """One way: a learner of its own on the batches of all."""

    def __init__(self, target: Target, args: argparse.Namespace, compute: str, precision: Precision) -> None:
        config = TrainJobConfig.model_validate({
            "answers": args.answers, "preset": args.preset,
            "drafter": {"family": args.family, "compute": compute}, "training": {"precision": precision},
        })  # fmt: skip
        answers = read_any(Path(args.answers))
        self._config, self._learner = config.training, _learner(config, target, answers)
        self._features: Any = (
            OnlineTexts(target, answers, self._learner.reads)
            if self._learner.reads
            else OnlinePositions(target, answers, self._learner.wants_ahead)
        )
        self._order = self._features.epoch(config.training.batch_tokens, 0)
        self._optimiser = torch.optim.AdamW(self._learner.model.parameters(), lr=1e-4, fused=True)
        self._device = target.device
        self.times: list[float] = []
        self.worked: list[float] = []  # processor seconds of all threads
        self.loss = float("nan")

    def step(self, number: int) -> None:
        batch = self._features.batch(self._order[number], self._learner.horizon).to(self._device)
        started, worked = time.perf_counter(), time.process_time()
        self._optimiser.zero_grad(set_to_none=True)
        with computing_in(self._config.precision, self._learner.model, self._device):
            loss, _ = self._learner.loss(batch)
        loss.backward()
        self._optimiser.step()
        self.loss = loss.item()  # waits for a GPU
        self.times.append(time.perf_counter() - started)
        self.worked.append(time.process_time() - worked)


def _learner(config: TrainJobConfig, target: Target, answers: Any) -> Learner:
    size = min(config.drafter.draft_vocab, target.vocab_size)
    tokens = choose_tokens(answers, target.vocab_size, size, target.eos_token_ids)[0] if size else None
    recipe = recipe_of(config.drafter.family)
    return recipe.new_learner(config.drafter, target, tokens, None, first_texts(answers))


if __name__ == "__main__":
    main()
