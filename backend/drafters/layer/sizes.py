"""What a drafter with a layer of its own weighs and costs, counted from settings. Knows no weights. Torch-free."""

from __future__ import annotations

from typing import Final

from backend.drafters.layer.config import PairSettings
from backend.drafters.sizes import DrafterSizes, LayerWeights

FLOAT: Final = 4  # training is in float32
STATES_KEPT: Final = 34  # of a token at each test-time step, in widths: layer's inside, norms, rotations, gradients
SCORES_AT_ONCE: Final = 2.25  # a depth's scores, their log-softmax, and a comparison, in an evaluation


def pair_sizes(
    settings: PairSettings,
    hidden_size: int,
    rows: int,
    layer: LayerWeights,
    joined: int,
    own_head: bool,
    norms: int,
    reads: int,
) -> DrafterSizes:
    """`joined`: weights that join features and tokens in front of the layer, `rows`: tokens that can be drafted,
    `own_head`: whether their output rows are trained, `norms`: numbers in norms beside the layer's, `reads`: states
    that are read of every token.
    """
    output = rows * hidden_size
    trained = layer.all + joined + norms + (output if own_head else 0)
    once, head = 2.0 * (layer.all + joined), 2.0 * output
    steps = settings.test_time_steps
    # Backwards a product is two; teacher's scores and the drafter's are made once each, and the latter's gradient.
    learn = 3 * steps * once + steps * head * (4 if own_head else 3)
    held = FLOAT * (4 * trained + (2 if own_head else 1) * output + output)
    states = FLOAT * hidden_size * (steps * STATES_KEPT + reads + 2)
    scores = FLOAT * SCORES_AT_ONCE * rows
    return DrafterSizes(
        parameters=trained,
        step_flops=learn,
        evaluate_flops=settings.draft_depth * (once + head),
        fixed_bytes=int(held),
        position_bytes=int(states + scores),
    )
