"""A target that no device holds whole: the weights of its layers are spread over the processes of a training (FSDP2),
and each layer is put together while it computes.

Every process has to take part in every pass, and each works alone at times: the first one captures and judges, each one
makes a learner. So one process *drives* while the others *stand by*: whenever it runs a pass they run one too, over a
single token, of which only the exchange of weights matters. For reading only: nothing of the target learns. Knows no
training.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from backend.settings import Settings
from backend.targets.identity import version_identity
from backend.targets.loading import Progress, choose_device, choose_dtype, load_model
from backend.targets.self_test import examine, refuse_alibi, refuse_stateful
from backend.targets.target import Target

_PASS: Final = 1  # the driver runs a pass
_OVER: Final = 0  # it has finished its turn


class Spread:
    """A target spread over `count` processes, of which this is number `rank`."""

    def __init__(self, target: Target, base: nn.Module, rank: int, count: int) -> None:
        self.target, self._base, self.rank, self.count = target, base, rank, count

    @contextmanager
    def turn(self, rank: int) -> Iterator[bool]:
        """Process `rank` drives while open, and may run passes: yields whether this is the one. The others stand by and
        come out when its turn is over.
        """
        if self.rank != rank:
            self._stand_by(rank)
            yield False
            return
        handle = self._base.register_forward_pre_hook(lambda _module, _args: _tell(_PASS, rank))
        try:
            yield True
        finally:
            handle.remove()
        _tell(_OVER, rank)  # not after a failure, which the others hear of in another way

    def _stand_by(self, rank: int) -> None:
        token = torch.zeros(1, 1, dtype=torch.int64, device=self.target.device)
        while _told(rank) == _PASS:
            with torch.inference_mode():
                self._base(input_ids=token, use_cache=False)


def open_spread(
    source: str,
    settings: Settings,
    rank: int,
    count: int,
    device: str | None = None,
    dtype: str | None = None,
    trust_remote_code: bool = False,
    progress: Progress | None = None,
) -> Spread:
    """Open a target in all processes at once, each with its part of the layers. Raises HeadwayError like open_target.

    Each process reads the whole checkpoint into its ordinary memory first, and gives up all but its part.
    """
    place = choose_device(device)
    loaded = load_model(source, "cpu", choose_dtype(dtype, place), trust_remote_code, progress, settings)
    refuse_stateful(loaded.model)
    refuse_alibi(loaded.model)
    identity = version_identity(loaded, settings.cache)
    mesh = init_device_mesh(place.type, (count,))
    base: Any = loaded.model.base_model
    for layer in _layers(base, loaded.model.config.get_text_config(decoder=True).num_hidden_layers):
        fully_shard(layer, mesh=mesh, reshard_after_forward=True)
    loaded.model.to(place)  # type: ignore[arg-type]  # what every process keeps: embedding, norm, head
    spread = Spread(Target(loaded.model, loaded.tokenizer, identity, source, pack=False), base, rank, count)
    with spread.turn(0) as mine:
        if mine:
            examine(spread.target)
    return spread


def _layers(base: nn.Module, count: int) -> nn.ModuleList:
    """The decoder layers among a model's parts; as Target finds them."""
    return next(part for part in base.modules() if isinstance(part, nn.ModuleList) and len(part) == count)


def _tell(word: int, rank: int) -> None:
    dist.broadcast(torch.tensor([word]), src=rank)


def _told(rank: int) -> int:
    word = torch.tensor([_OVER])
    dist.broadcast(word, src=rank)
    return int(word)
