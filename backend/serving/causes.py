"""Why a server ended: known lines of its output, each with a sentence for a person.

The patterns are vLLM's, PyTorch's and the system's own words; what no pattern knows is left to the last lines.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from typing import Final

#: In order: the first that is found anywhere in the output is told.
CAUSES: Final[tuple[tuple[str, str], ...]] = (
    (
        r"not initialized from checkpoint: \{'token_map'\}",
        "This vLLM can't load Medusa heads with a token map: export them with --full-head.",
    ),
    (
        r"weights were not initialized from checkpoint",
        "The drafter's folder lacks tensors that vLLM looks for: hold it against them with `check --engine vllm`.",
    ),
    (
        r"no module or parameter named",
        "The drafter's folder has a tensor under a name that vLLM does not know: `check --engine vllm` says which.",
    ),
    (
        r"AssertionError.*\bn_predict\b|num_speculative_tokens.*must be divisible|more speculative tokens than",
        "More tokens are to be drafted at a time than the drafter can: ask for fewer.",
    ),
    (r"address already in use|Errno 98", "Its port was taken meanwhile: choose another one, or 0 for any free one."),
    (
        r"larger than the available KV cache memory|KV cache is needed.*larger than|No available memory for the cache"
        r"|larger than the maximum number of tokens that can be stored",
        "The cache for keys and values is too small for one text of the longest length: lower max_model_len, or give "
        "it more memory.",
    ),
    (
        r"User-specified max_model_len .* is greater than",
        "max_model_len is more than the target was made for: lower it.",
    ),
    (
        r"out of memory|OutOfMemoryError|Cannot allocate memory|can't allocate memory|not enough memory|bad_alloc",
        "Memory ran out: lower max_num_seqs or max_model_len, or stop what else runs here.",
    ),
    (
        r"GatedRepoError|gated repo|401 Client Error|403 Client Error",
        "The hub asks for a token for this model: accept its licence there and set HF_TOKEN.",
    ),
    (
        r"OfflineModeIsEnabled|couldn't connect to .*huggingface|We couldn't connect to",
        "A model was to be fetched from the hub, which can't be reached: name a folder.",
    ),
    (
        r"Model architectures .* are not supported|architectures .* failed to be inspected|Unsupported model",
        "This vLLM does not know the target's or the drafter's kind of model.",
    ),
    (
        r"Device string must not be empty|Failed to infer device type",
        "vLLM found no device that its build is made for.",
    ),
    (r"No module named '?vllm", "vLLM is not installed in its environment: run `python app.py vllm-setup` again."),
    (r"unrecognized arguments: (.*)", "This vLLM does not know an option it was given."),
    (r"EngineDeadError|EngineCore .*died|Engine core .*(died|failed)", "Its engine process died."),
)


def why_it_died(lines: Sequence[str], exit_code: int | None) -> str:
    """One sentence, with a full stop; what the exit code says where no line is known."""
    text = "\n".join(lines)
    for pattern, sentence in CAUSES:
        if re.search(pattern, text, re.IGNORECASE):
            return sentence
    if exit_code is not None and exit_code < 0:
        number = -exit_code
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        if number == signal.SIGKILL:
            return "It was killed from outside, perhaps by the system because memory ran out."
        if number == signal.SIGILL:
            return "Its build uses instructions that this processor does not have."
        return f"It was ended from outside ({name})."
    return f"Its exit code is {exit_code}." if exit_code is not None else "It no longer answers."
