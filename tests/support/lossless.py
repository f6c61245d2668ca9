"""Whether a drafter leaves the target's output as it is: greedy text token by token, samples by chi-square.

Two tiny targets: one that writes bytes, one of 32 tokens whose law is easily sampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch

from backend.acceptance import Acceptance, Rule, SamplingSettings, process_logits, verify
from backend.analysis.chi_square import conditional_p_value
from backend.decoding.loop import DecodeSettings, decode
from backend.decoding.records import DecodeResult
from backend.drafters.base import DraftContext, Drafter
from backend.drafters.plain.drafter import PlainDrafter
from backend.targets.target import Target
from backend.targets.tiny import tiny_model
from backend.trees import DraftTree
from tests.support.targets import random_text, wrap

SMALL_VOCABULARY = 32
SMALL_PROMPT = [3, 1, 4, 1, 5]
PROMPTS = [random_text(11, 5), random_text(12, 17), random_text(13, 3), random_text(14, 9)]


@cache
def small_target() -> Target:
    return wrap(tiny_model("llama", vocab_size=SMALL_VOCABULARY), "tiny-32")


def greedy(
    target: Target, drafter: Drafter, count: int, batch: int, prompts: Sequence[Sequence[int]]
) -> list[DecodeResult]:
    """The answers in the order of the prompts."""
    settings = DecodeSettings(count, Rule("greedy"), ignore_eos=True)
    found = [r for r in decode(target, drafter, prompts, settings, batch) if isinstance(r, DecodeResult)]
    return sorted(found, key=lambda r: r.row)


def check_greedy(target: Target, drafter: Drafter, count: int = 14, prompts: Sequence[Sequence[int]] = PROMPTS) -> int:
    """Assert that one row and four together give plain decoding's tokens; returns how many drafts were accepted."""
    expected = _plain(target, count, tuple(map(tuple, prompts)))
    accepted = 0
    for batch in (1, 4):
        results = greedy(target, drafter, count, batch, prompts)
        assert [r.tokens for r in results] == expected, f"{drafter.name} with {batch} rows"
        accepted += sum(r.num_accepted for r in results)
    return accepted


@cache
def _plain(target: Target, count: int, prompts: tuple[tuple[int, ...], ...]) -> list[list[int]]:
    return [r.tokens for r in greedy(target, PlainDrafter(), count, 1, prompts)]


#: how the target may be sampled; drafts know the temperature and nothing of what is cut off
LAWS = {
    "T=1": SamplingSettings(1.0),
    "T=0.7": SamplingSettings(0.7),
    "top-p 0.9": SamplingSettings(1.0, top_p=0.9),
}


def sampling_p_value(drafter: Any, sampling: SamplingSettings = LAWS["T=1"], samples: int = 2000) -> float:
    """p-value of the tokens that `small_target` commits in one step with this drafter, each given those before it,
    under its own law. Asserts that drafts were accepted, or it would prove nothing.

    All rows hold the same prompt, so that its cache and the drafter's are copied instead of read anew.
    """
    target, count = small_target(), samples if drafter.sampled else 1
    text = torch.tensor(SMALL_PROMPT)
    cache = target.new_cache(count, len(text) + drafter.shape.num_nodes + 1)
    hidden, states = target.prefill_with_states(cache, 0, SMALL_PROMPT[:-1], drafter.reads)
    drafter.start(count, 64)
    drafter.replace_rows(range(count))
    if states is not None:
        drafter.read_prompt(0, text, states)
    for row in range(1, count):
        cache.copy_row(0, row)
        drafter.move_row(0, row)
    context = DraftContext(
        text.expand(count, -1), torch.full((count,), len(text)), hidden.expand(count, -1),
        sampling.temperature, torch.Generator().manual_seed(5), 16, [len(text)] * count,
        None if states is None else states[-1:].expand(count, 1, -1), torch.ones(count, dtype=torch.int64),
    )  # fmt: skip
    draft = drafter.draft(context)
    logits = target.tree_pass(cache, draft.tree, slice(0, count), drafter.reads).logits
    tree = DraftTree(
        draft.tree.tokens.expand(samples, -1), draft.tree.parents, draft.tree.num_nodes.expand(samples),
        draft.tree.max_depth,
    )  # fmt: skip
    accepted = verify(
        Rule("rejection"), tree, logits.expand(samples, -1, -1), sampling,
        generator=torch.Generator().manual_seed(6), distribution=draft.distribution,
    )  # fmt: skip
    assert int(accepted.num_accepted.sum()) > samples / 20
    return _p_value(_committed(tree, accepted), sampling)


def _committed(tree: DraftTree, accepted: Acceptance) -> list[list[int]]:
    """Tokens of every row's step."""
    rows = zip(accepted.path.tolist(), accepted.num_accepted.tolist(), accepted.next_token.tolist(), strict=True)
    return [[*(int(tree.tokens[row, c]) for c in path[:n]), last] for row, (path, n, last) in enumerate(rows)]


def _p_value(committed: list[list[int]], sampling: SamplingSettings) -> float:
    counts: dict[tuple[int, ...], np.ndarray] = {}
    for tokens in committed:
        for place, token in enumerate(tokens):
            counts.setdefault(tuple(tokens[:place]), np.zeros(SMALL_VOCABULARY))[token] += 1
    width = max(map(len, counts))
    ids = torch.tensor([[*SMALL_PROMPT, *c, *([0] * (width - len(c)))] for c in counts])
    hidden = small_target().hidden_states(ids, torch.ones_like(ids, dtype=torch.bool))
    last = torch.tensor([len(SMALL_PROMPT) + len(c) - 1 for c in counts])
    logits = small_target().logits(hidden[torch.arange(len(ids)), last])
    laws = process_logits(logits, sampling, None).double().softmax(-1).numpy()
    return conditional_p_value(np.stack(list(counts.values())), laws)
