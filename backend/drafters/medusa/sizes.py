"""What a set of Medusa heads weighs and costs, counted from its settings. Knows no weights. Torch-free."""

from __future__ import annotations

from typing import Final

from backend.drafters.medusa.config import MedusaSettings
from backend.drafters.sizes import DrafterSizes, LayerWeights

FLOAT: Final = 4  # training is in float32
STATES_KEPT: Final = 5  # per block and head: input, product, activation, and the gradients of two of them
SCORES_AT_ONCE: Final = 2.25  # one head's scores, their log-softmax, and a comparison, in an evaluation


def sizes(settings: MedusaSettings, hidden_size: int, vocab_size: int, layer: LayerWeights) -> DrafterSizes:
    """For a target with this width and vocabulary."""
    heads, blocks = settings.num_heads, settings.num_blocks
    rows = min(settings.draft_vocab, vocab_size) if settings.draft_vocab else vocab_size
    output = (1 if settings.shared_output else heads) * rows * hidden_size
    parameters = heads * blocks * (hidden_size**2 + hidden_size) + output
    forward = heads * (blocks * 2.0 * hidden_size**2 + 2.0 * rows * hidden_size)
    return DrafterSizes(
        parameters=parameters,
        step_flops=3 * forward,  # backwards a product is two
        evaluate_flops=forward,
        # The fused loss makes the output layer's gradient before it is asked for, one head's product at a time.
        fixed_bytes=FLOAT * (4 * parameters + output + rows * hidden_size),
        position_bytes=int(FLOAT * (STATES_KEPT * heads * (blocks + 1) * hidden_size + SCORES_AT_ONCE * rows)),
    )
