"""What a set of Hydra heads weighs and costs, counted from its settings. Knows no weights. Torch-free."""

from __future__ import annotations

from typing import Final

from backend.drafters.hydra.config import HydraSettings
from backend.drafters.layer.sizes import STATES_KEPT as LAYER_STATES
from backend.drafters.sizes import DrafterSizes, LayerWeights

FLOAT: Final = 4  # training is in float32
STATES_KEPT: Final = 5  # per layer and head: input, product, activation, and the gradients of two of them
SCORES_AT_ONCE: Final = 2.25  # one head's scores, their log-softmax, and a comparison, in an evaluation


def sizes(settings: HydraSettings, hidden_size: int, vocab_size: int, layer: LayerWeights) -> DrafterSizes:
    """For a target with this width and vocabulary; a prefix layer is like this one of its own."""
    heads, blocks = settings.num_heads, settings.num_blocks
    rows = min(settings.draft_vocab, vocab_size) if settings.draft_vocab else vocab_size
    joined = sum(head + 2 for head in range(heads)) * hidden_size  # inputs of all joining layers
    output = (1 if settings.shared_output else heads) * rows * hidden_size
    layers = joined * hidden_size + heads * blocks * hidden_size**2
    prefixed = settings.head_arch == "prefix-mlp"
    prefix = layer.all + 3 * hidden_size if prefixed else 0
    parameters = layers + heads * (blocks + 1) * hidden_size + output + prefix
    forward = 2.0 * (layers + prefix) + heads * 2.0 * rows * hidden_size
    states = STATES_KEPT * heads * (blocks + 1) + (LAYER_STATES if prefixed else 0)
    return DrafterSizes(
        parameters=parameters,
        step_flops=3 * forward,  # backwards a product is two
        evaluate_flops=forward,
        # The fused loss makes the output layer's gradient before it is asked for, one head's product at a time.
        fixed_bytes=FLOAT * (4 * parameters + output + rows * hidden_size),
        position_bytes=int(FLOAT * (states * hidden_size + 2 * joined + SCORES_AT_ONCE * rows)),
    )
