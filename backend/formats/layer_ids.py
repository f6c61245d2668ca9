"""Which layers of the target an EAGLE-3 folder means: two conventions, one apart, and no word in the file which it is.

*input*: number k is the state entering layer k, as vLLM, the reference and the speculators library count. *output*: the
state leaving layer k, as SGLang and Model-Optimizer count, so one less for the same state. Knows configs, no tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

Convention = Literal["auto", "input", "output"]
INPUT_WORDS = "the state entering each layer"
OUTPUT_WORDS = "the state leaving each layer"


def usual_layers(num_layers: int) -> list[int]:
    """What readers take that find no list, as inputs: 2, L // 2, L - 3."""
    return [2, num_layers // 2, num_layers - 3]


def listed(config: Mapping[str, Any]) -> tuple[list[int] | None, bool]:
    """(the numbers as they stand, whether only inside eagle_config)."""
    inner = config.get("eagle_config")
    nested = inner.get("eagle_aux_hidden_state_layer_ids") if isinstance(inner, Mapping) else None
    top = config.get("eagle_aux_hidden_state_layer_ids")
    for found, inside in ((top, False), (nested, True)):
        if isinstance(found, Sequence) and not isinstance(found, str) and found:
            return [int(one) for one in found], inside
    return None, False


def layers_read(
    config: Mapping[str, Any], note: Mapping[str, Any], num_layers: int, convention: Convention = "auto"
) -> tuple[tuple[int, ...], str]:
    """(layers whose *input* is read, from low to high; a sentence on how that was found).

    Some writers list them in no order, but all capture states in the order of the layers, so that is the order of fc.

    With "auto": what Headway noted beside an export; else the usual triple in either convention is recognised; else a
    list at the top level counts inputs and one inside eagle_config alone outputs, as their writers do.
    """
    if note.get("reads") and convention == "auto":
        return tuple(int(one) for one in note["reads"]), "The layers that are read are those noted beside the export."
    ids, nested = listed(config)
    ids = None if ids is None else sorted(ids)
    usual = usual_layers(num_layers)
    if ids is None:
        words = ", ".join(map(str, usual))
        return tuple(usual), f"It names no layers, so the usual ones were taken: {words}."
    if convention == "auto":
        if ids == usual:
            convention = "input"
        elif [one + 1 for one in ids] == usual:
            convention = "output"
        else:
            convention = "output" if nested and "speculators_model_type" not in config else "input"
    found = tuple(one + 1 for one in ids) if convention == "output" else tuple(ids)
    other = "input" if convention == "output" else "output"
    words = OUTPUT_WORDS if convention == "output" else INPUT_WORDS
    return found, (
        f"Its layer numbers {', '.join(map(str, ids))} were read as {words}; if few tokens are accepted, import with "
        f"--layer-ids {other}."
    )
