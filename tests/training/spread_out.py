"""Run by torchrun in two processes: a tiny target spread over both, beside the same one held whole.

Prints, as JSON, how far its states are apart in each process's turn, what it decodes, and which part of its layers a
process holds.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from backend.acceptance import Rule
from backend.decoding.loop import DecodeSettings, decode
from backend.decoding.records import DecodeResult
from backend.drafters.plain.drafter import PlainDrafter
from backend.settings import Settings
from backend.targets.opening import open_target
from backend.targets.target import FINAL, Target
from backend.training.processes import joined
from backend.training.spread import open_spread

READS = (0, 2, FINAL)


def states(target: Target) -> torch.Tensor:
    ids = torch.randint(97, 120, (3, 20), generator=torch.Generator().manual_seed(0))
    return target.hidden_states(ids, torch.ones_like(ids, dtype=torch.bool), READS)


def text(target: Target) -> list[int]:
    records = decode(target, PlainDrafter(), [[97, 98, 99]], DecodeSettings(12, Rule("greedy")), 1)
    return next(list(record.tokens) for record in records if isinstance(record, DecodeResult))


def main() -> int:
    with tempfile.TemporaryDirectory() as home, joined("cpu") as processes:
        settings = Settings(Path(home), Path(home))
        whole = open_target("tiny-llama", settings, "cpu")
        spread = open_spread("tiny-llama", settings, processes.rank, processes.count, "cpu")
        told: dict[str, Any] = {}
        for rank in range(processes.count):
            with spread.turn(rank) as mine:
                apart = float((states(spread.target) - states(whole)).abs().max()) if mine else 0.0
                tokens = text(spread.target) if mine else []
            told[f"apart in turn {rank}"] = processes.mean(torch.tensor([apart])).item() * processes.count
            if mine and processes.first:
                told |= {"tokens": tokens, "right": text(whole)}
        layers = spread.target.model.base_model.layers
        held = sum(weight.to_local().numel() for weight in layers.parameters() if isinstance(weight, DTensor))
        told["held"] = held / sum(weight.numel() for weight in layers.parameters())
        told["same weights"] = spread.target.identity == whole.identity
        if processes.first:
            print(json.dumps(told))
    return 0


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main())
