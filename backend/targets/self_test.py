"""The two-second examination that every target sits at load: does a tree pass say what plain passes say?

Most models do; those whose positions are not positions (ALiBi), whose caches cannot forget (state-space and hybrid
models) or whose masks are home-made do not, and would give wrong text without a word. Better one sentence at the door.
Knows nothing of particular families beyond the names that say "I keep a running state".
"""

from __future__ import annotations

import torch
from torch import Tensor

from backend.errors import HeadwayError
from backend.targets.target import Target
from backend.trees import DraftTree, TreeShape

TREE = TreeShape(((0,), (1,), (2,), (0, 0), (0, 1), (1, 0), (0, 0, 0), (0, 1, 0)))
PROMPT_LENGTHS = (5, 11)
STATEFUL_KINDS = {"linear_attention", "mamba", "mamba2", "recurrent", "conv", "short_conv", "gated_delta_net"}


def refuse_stateful(model: object) -> None:
    """Raise HeadwayError for a model whose layers keep a running state, which no rollback to a prefix can restore."""
    config = model.config.get_text_config(decoder=True)  # type: ignore[attr-defined]
    kinds = set(getattr(config, "layer_types", None) or []) & STATEFUL_KINDS
    if getattr(model, "_is_stateful", False) or kinds:
        raise HeadwayError(
            f"{type(model).__name__} keeps a running state instead of a cache of past tokens, and such a state cannot "
            "forget rejected tokens, so it can't be a target; choose a model with attention in all layers."
        )


def refuse_alibi(model: object) -> None:
    """Raise HeadwayError for a model that tells near from far by ALiBi instead of by positions."""
    config = model.config.get_text_config(decoder=True)  # type: ignore[attr-defined]
    inner = getattr(config, "attn_config", None)  # MPT keeps it there
    if getattr(config, "alibi", False) or getattr(inner, "alibi", False) or config.model_type == "bloom":
        raise HeadwayError(
            f"{type(model).__name__} can't be a target: it tells near from far by ALiBi, a penalty on attention that "
            "counts places in the cache, and in a draft tree several tokens share one position, so each branch would "
            "be read at wrong distances; choose a model with rotary or learned positions."
        )


def tolerance(dtype: torch.dtype) -> float:
    """How far logits may differ, relative to their spread: rounding of batched kernels, not more.

    In half precision rounding alone moves SmolLM2's by 0.04, and a mask that sees siblings by 0.33.
    """
    return {torch.float32: 1e-3, torch.float64: 1e-6}.get(dtype, 0.12)


@torch.inference_mode()
def tree_pass_error(target: Target) -> float:
    """Root mean square of tree logits - plain logits: an 8-node tree, two rows of unequal length, over their spread.

    The mean and not the largest difference: among 50,000 logits of a deep model in half precision the largest is far
    out by rounding alone, while a wrong mask or position moves all of them.
    """
    generator = torch.Generator().manual_seed(0)
    prompts = [
        torch.randint(0, target.vocab_size, (length,), generator=generator).tolist() for length in PROMPT_LENGTHS
    ]
    tokens = torch.randint(0, target.vocab_size, (2, TREE.num_nodes + 1), generator=generator).to(target.device)
    cache = target.new_cache(2, max(PROMPT_LENGTHS) + TREE.num_nodes + 1)
    for row, prompt in enumerate(prompts):
        target.prefill(cache, row, prompt)
    logits = target.tree_pass(cache, DraftTree.from_shape(TREE, tokens)).logits
    errors, spreads = [], []
    for row, prompt in enumerate(prompts):
        for node in _leaves():
            columns = _path(node)
            plain = _plain_logits(target, prompt + tokens[row, columns].tolist())[-len(columns) :]
            errors.append((logits[row, columns] - plain).float().square().mean())
            spreads.append(plain.float().var())
    return float((torch.stack(errors).mean() / torch.stack(spreads).mean().clamp(min=1e-12)).sqrt())  # NaN stays NaN


def examine(target: Target) -> None:
    """Raise HeadwayError unless trees and plain text agree on this target, or when it can't run trees at all."""
    refuse_alibi(target.model)
    try:
        error = tree_pass_error(target)
    except (RuntimeError, TypeError, ValueError, AttributeError, KeyError, IndexError) as problem:
        first_line = (str(problem) or type(problem).__name__).splitlines()[0][:160]
        raise HeadwayError(
            f"{target.name} can't run a draft tree ({type(target.model).__name__}: {first_line}); its attention code "
            "does not take a mask of its own, so choose another model."
        ) from problem
    if not error <= tolerance(target.dtype):
        raise HeadwayError(
            f"{target.name} gives other answers on a draft tree than on plain text (off by {error:.2g} of the logits' "
            "spread): its attention depends on more than each token's position and mask; choose another model."
        )


def _plain_logits(target: Target, ids: list[int]) -> Tensor:
    """[T, V] by the model's own forward, with its own masks and no cache: the truth to compare with."""
    batch = torch.tensor([ids], device=target.device)
    return target.model(input_ids=batch, use_cache=False).logits[0]  # type: ignore[no-any-return]


def _leaves() -> list[int]:
    return [node for node in range(TREE.num_nodes + 1) if node not in TREE.parents]


def _path(node: int) -> list[int]:
    columns = [node]
    while columns[0] > 0:
        columns.insert(0, TREE.parents[columns[0]])
    return columns
