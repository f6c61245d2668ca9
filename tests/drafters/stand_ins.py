"""Tiny random targets and contexts for drafting tests."""

import torch

from backend.drafters.base import DraftContext
from backend.targets.identity import VersionIdentity
from backend.targets.target import Target
from backend.targets.tiny import tiny_model, tiny_tokenizer


def tiny_target(kind: str = "llama", seed: int = 0, **overrides: object) -> Target:
    identity = VersionIdentity(f"{kind}-{seed}", "none", "none", "tiny", "chatml", f"tiny-{kind}-{seed}")
    return Target(tiny_model(kind, seed, **overrides), tiny_tokenizer(), identity, f"tiny-{kind}-{seed}")


def context_of(texts: list[list[int]], temperature: float = 0.0, max_depth: int = 8, seed: int = 0) -> DraftContext:
    tokens = torch.full((len(texts), max(map(len, texts)) + 3), 255)
    for row, text in enumerate(texts):
        tokens[row, : len(text)] = torch.tensor(text)
    lengths = torch.tensor([len(text) for text in texts])
    generator = torch.Generator().manual_seed(seed)
    return DraftContext(tokens, lengths, torch.zeros(len(texts), 64), temperature, generator, max_depth)
