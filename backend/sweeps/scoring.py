"""What the target thinks of an answer: log p of each of its tokens, in one teacher-forced pass.

Decoding itself keeps counts only, so that measuring drift costs the measured speed nothing. Knows a target and token
ids; no rule.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from backend.acceptance.processors import SamplingSettings, process_logits
from backend.targets.target import Target

ROWS_AT_ONCE = 64  #: of logits, which are as wide as the vocabulary


@torch.inference_mode()
def log_probs(
    target: Target, prompt: Sequence[int], answer: Sequence[int], sampling: SamplingSettings
) -> tuple[list[float], list[float]]:
    """(log p under the sampling settings, log p at temperature 1) of every token of a non-empty `answer`.

    Raises ValueError for settings that depend on the context's tokens, which is not done here.
    """
    if sampling.needs_seen:
        raise ValueError("a repetition penalty depends on the context")
    ids = torch.tensor([[*prompt, *answer]], device=target.device)
    hidden = target.hidden_states(ids[:, :-1], torch.ones_like(ids[:, :-1], dtype=torch.bool))[0, len(prompt) - 1 :]
    tokens = ids[0, len(prompt) :, None]  # [A, 1]
    plain = SamplingSettings(temperature=1.0)
    found: dict[SamplingSettings, list[float]] = {sampling: [], plain: []}
    for start in range(0, len(answer), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        logits = target.logits(hidden[rows])
        for settings, values in found.items():
            log_p = process_logits(logits, settings).log_softmax(-1)
            values += log_p.gather(1, tokens[rows])[:, 0].tolist()
    return found[sampling], found[plain]
