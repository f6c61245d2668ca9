"""From a name to a target that is ready and examined: load, identify, pack, self-test.

The one way the rest of the program gets a `Target`. Knows the order of these steps and nothing of what happens in each.
"""

from __future__ import annotations

import psutil
import torch

from backend.settings import Settings
from backend.targets.identity import version_identity
from backend.targets.kernels import Kernels
from backend.targets.loading import Progress, load_model
from backend.targets.packed_linear import PackedFrom, packable_bytes
from backend.targets.self_test import examine, refuse_alibi, refuse_stateful
from backend.targets.sources import resolve_source
from backend.targets.target import Target
from backend.targets.width import fastest_width

SPARE_SHARE = 0.25  #: part of the free memory that a second layout of the matrices may take


def open_target(
    source: str,
    settings: Settings,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    trust_remote_code: bool = False,
    progress: Progress | None = None,
    context: int | None = None,
) -> Target:
    """The target called `source` (built-in name, folder, GGUF file or hub id) on a device.

    `context`: tokens that room is wanted for, for the memory that is told and checked.

    Raises HeadwayError when it can't be found, loaded, or run through trees; see loading.py and self_test.py.
    """
    report = progress or (lambda fraction, sentence: None)
    loaded = load_model(
        source,
        device=device,
        dtype=dtype,
        trust_remote_code=trust_remote_code,
        settings=settings,
        context=context,
        progress=lambda fraction, sentence: report(0.8 * fraction, sentence),
    )
    refuse_stateful(loaded.model)
    refuse_alibi(loaded.model)
    report(0.85, "Reading the identity of the weights.")
    identity = version_identity(loaded, settings.cache)  # before packing, which frees the weights it hashes
    report(0.9, "Choosing kernels for this machine.")
    target = Target(loaded.model, loaded.tokenizer, identity, source, packed_from=_kernels(loaded.model, settings))
    report(0.95, "Comparing a draft tree with plain text.")
    examine(target)
    report(0.98, "Measuring the narrowest pass.")
    target.min_width = fastest_width(target)
    report(1.0, f"{source} is ready.")
    return target


def open_to_read(source: str, settings: Settings, progress: Progress | None = None) -> Target:
    """A target of which only numbers and sizes are wanted: on the CPU in float32, unless its quantisation needs CUDA.

    Raises HeadwayError as `open_target` does.
    """
    elsewhere = resolve_source(source).needs_cuda
    device, dtype = (None, None) if elsewhere else ("cpu", "float32")
    return open_target(source, settings, device, dtype, progress=progress)


def _kernels(model: torch.nn.Module, settings: Settings) -> PackedFrom:
    """From how many rows on packing pays. Two layouts of every matrix are kept only where memory is plenty."""
    kernels = Kernels(settings.cache / "kernels.json")
    plenty = packable_bytes(model) < SPARE_SHARE * psutil.virtual_memory().available
    return lambda weight: kernels.packed_from(weight, two_layouts=plenty)
