"""Distillation and feature capture beside the straightforward way to do them with transformers.

    python -m benchmarks.distill_speed --target smollm2-135m --batch 32

Distillation: ours (the decode loop of plain rows) beside a loop that pads a batch on the left, grows a DynamicCache by
concatenation, and decodes until all rows of the batch are over, at the same batch, prompts and length, greedy in both.
Tokens that a row would write after its end token are not counted on either side. Features: ours (answers of like length
together, float16 shards on the disk) beside one forward pass an answer batch in the order of the file with
`output_hidden_states`. The two sides take turns, block by block, so a slow minute of the machine hits each alike.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from backend.acceptance import Rule, SamplingSettings
from backend.data.answers import Answer
from backend.decoding.loop import DecodeSettings, decode
from backend.decoding.records import DecodeResult
from backend.drafters.plain.drafter import PlainDrafter
from backend.targets.target import Target
from backend.training.features import CaptureConfig, capture
from benchmarks.common import add_prompt_arguments, first_turn_ids, open_both, prompt_sets, start_fast, write_results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_prompt_arguments(parser, limit=128, new_tokens=160)
    parser.set_defaults(prompts=["prompts/train.jsonl"])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--blocks", type=int, default=2, help="parts that the prompts are split into, for taking turns")
    args = parser.parse_args()
    start_fast("benchmarks.distill_speed")
    target, reference = open_both(args.target, with_reference=True)
    prompts = [prompt for named in prompt_sets(args.prompts, args.limit).values() for prompt in named]
    ids = [first_turn_ids(target, prompt, args.max_new_tokens + 8) for prompt in prompts]
    # Once each, unmeasured: the first passes of a process are slow, and that is nobody's fault.
    our_answers(target, ids[: args.batch], args.batch, 2)
    straightforward_answers(reference, ids[: args.batch], args.batch, 2, target.eos_token_ids)
    rows = [_distillation(target, reference, ids, args), _features(target, reference, ids, args)]
    for row in rows:
        print(
            f"{row['what']}: ours {row['ours_per_s']:.1f} {row['unit']}/s, straightforward "
            f"{row['straightforward_per_s']:.1f} {row['unit']}/s, ratio {row['ratio']:.2f}"
        )
    write_results(args, target, rows)


def _distillation(target: Target, reference: Any, ids: list[list[int]], args: argparse.Namespace) -> dict[str, Any]:
    ours, theirs, same = _Side(), _Side(), []
    for number, block in enumerate(_blocks(ids, args.blocks)):
        answers: dict[str, list[list[int]]] = {}
        for name in ("ours", "theirs") if number % 2 == 0 else ("theirs", "ours"):
            started = time.perf_counter()
            if name == "ours":
                answers[name] = our_answers(target, block, args.batch, args.max_new_tokens)
            else:
                answers[name] = straightforward_answers(
                    reference, block, args.batch, args.max_new_tokens, target.eos_token_ids
                )
            side = ours if name == "ours" else theirs
            side.add(sum(map(len, answers[name])), time.perf_counter() - started)
        same += [a == b for a, b in zip(answers["ours"], answers["theirs"], strict=True)]
        print(f"block {number}: ours {ours.per_s:.1f}, straightforward {theirs.per_s:.1f} tokens/s", file=sys.stderr)
    # Equal answers show that both sides do the same work; in float32 ties may still break differently.
    return _row("distillation", "tokens", ours, theirs) | {"same_answers": statistics.mean(same)}


def _features(target: Target, reference: Any, ids: list[list[int]], args: argparse.Namespace) -> dict[str, Any]:
    answers = [_as_answer(number, prompt, args.max_new_tokens) for number, prompt in enumerate(ids)]
    ours, theirs = _Side(), _Side()
    for number, block in enumerate(_blocks(answers, args.blocks)):
        positions = sum(len(answer.answer_ids) for answer in block)
        for name in ("ours", "theirs") if number % 2 == 0 else ("theirs", "ours"):
            started = time.perf_counter()
            if name == "ours":
                with tempfile.TemporaryDirectory() as folder:
                    capture(target, block, Path(folder) / "features", CaptureConfig())
            else:
                straightforward_features(reference, block, args.batch)
            (ours if name == "ours" else theirs).add(positions, time.perf_counter() - started)
        print(f"block {number}: ours {ours.per_s:.1f}, straightforward {theirs.per_s:.1f} positions/s", file=sys.stderr)
    return _row("feature capture", "positions", ours, theirs)


def our_answers(target: Target, prompts: Sequence[list[int]], batch: int, new_tokens: int) -> list[list[int]]:
    """Greedy answers by our loop; rows that are over are replaced at once."""
    settings = DecodeSettings(new_tokens, Rule("rejection"), SamplingSettings(temperature=0.0))
    answers: dict[int, list[int]] = {}
    order = sorted(range(len(prompts)), key=lambda number: len(prompts[number]))  # as the distillation does
    for record in decode(target, PlainDrafter(), [prompts[n] for n in order], settings, batch, numbers=order):
        if isinstance(record, DecodeResult):
            answers[record.row] = list(record.tokens)
    return [answers[number] for number in range(len(prompts))]


@torch.inference_mode()
def straightforward_answers(
    model: Any, prompts: Sequence[list[int]], batch: int, new_tokens: int, eos: frozenset[int]
) -> list[list[int]]:
    """Greedy answers by a plain loop over transformers' model with a cache that grows."""
    answers: list[list[int]] = []
    for start in range(0, len(prompts), batch):
        group = prompts[start : start + batch]
        ids, mask = left_padded(group)
        cache, rows, open_rows = DynamicCache(), [[] for _ in group], [True] * len(group)  # type: ignore[var-annotated]
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        for _ in range(new_tokens):
            out = model(
                input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=True,
                logits_to_keep=1,
            )  # fmt: skip
            following = out.logits[:, -1].argmax(-1)
            for row, token in enumerate(following.tolist()):
                if open_rows[row]:
                    rows[row].append(token)
                    open_rows[row] = token not in eos
            if not any(open_rows):
                break
            ids, positions = following[:, None], positions[:, -1:] + 1
            mask = torch.cat([mask, torch.ones_like(mask[:, :1])], dim=1)
        answers += rows
    return answers


@torch.inference_mode()
def straightforward_features(model: Any, answers: Sequence[Answer], batch: int) -> list[Tensor]:
    """float16 [n, H] an answer: the last hidden states at the positions that predict its tokens."""
    found: list[Tensor] = []
    for start in range(0, len(answers), batch):
        group = answers[start : start + batch]
        ids, mask = left_padded([[*answer.prompt_ids, *answer.answer_ids][:-1] for answer in group])
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        out = model(
            input_ids=ids, attention_mask=mask, position_ids=positions, output_hidden_states=True, logits_to_keep=1
        )
        last = out.hidden_states[-1].to(torch.float16).cpu()
        found += [last[row, -len(answer.answer_ids) :].clone() for row, answer in enumerate(group)]
    return found


def left_padded(rows: Sequence[list[int]]) -> tuple[Tensor, Tensor]:
    """(ids, mask), int64 [B, T] each."""
    width = max(map(len, rows))
    ids = torch.tensor([[0] * (width - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
    return ids, mask


class _Side:
    """Units done and seconds spent."""

    def __init__(self) -> None:
        self.units, self.seconds = 0, 0.0

    def add(self, units: int, seconds: float) -> None:
        self.units, self.seconds = self.units + units, self.seconds + seconds

    @property
    def per_s(self) -> float:
        return self.units / self.seconds


def _row(what: str, unit: str, ours: _Side, theirs: _Side) -> dict[str, Any]:
    return {
        "what": what,
        "unit": unit,
        "ours": ours.units,
        "ours_per_s": ours.per_s,
        "straightforward": theirs.units,
        "straightforward_per_s": theirs.per_s,
        "ratio": ours.per_s / theirs.per_s,
    }


def _as_answer(number: int, prompt: list[int], longest: int) -> Answer:
    """Text to take features of: the prompt's own tokens again, in lengths that differ as answers' do."""
    length = max(8, longest * (1 + number * 7 % 10) // 10)
    answer = (prompt * (1 + length // len(prompt)))[:length]
    return Answer(f"q{number}", "", tuple(prompt), tuple(answer), 0.0, 0, "length", True)


def _blocks(items: Sequence[Any], count: int) -> list[list[Any]]:
    """`count` parts with every count-th item each, so that parts are alike."""
    return [list(items[start::count]) for start in range(count) if items[start::count]]


if __name__ == "__main__":
    main()
