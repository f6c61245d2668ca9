"""One training in several processes: each learns from its part of every batch, and together they take the step that one
process would have taken.

The first process speaks, measures and saves; the others only compute. The processes come from torchrun, and a process
that was started alone is the first of one. A mean over a batch is one over all its parts (drafters/learning.py), so the
gradient is that of the whole batch, whoever holds how much of it; only what a step draws at random, noise or dropped
places, is drawn by each process for its own part. Knows no family and no features.
"""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from backend.drafters.learning import FeatureBatch, Learner, SequenceBatch
from backend.errors import Cancelled, HeadwayError

PATIENCE: Final = timedelta(days=2)  # the others wait while the first one reads the answers, and while it evaluates
_FAILED: Final = "failed"  # the first failure, as a sentence
_HEARD: Final = "heard"  # the first process knows of it
_WAIT_S: Final = 60.0
_WORDS_S: Final = 3.0
_GONE: Final = "Another process of this training has ended; the same command goes on at the last checkpoint."


@dataclass(frozen=True)
class Processes:
    """This process among `count`; `rank` from 0. `store` is where processes leave words for each other; `turns` lets
    one of them work alone with a target that is spread over all, see training/spread.py.
    """

    rank: int = 0
    count: int = 1
    store: PrefixStore | None = field(default=None, repr=False, compare=False)
    turns: Callable[[int], AbstractContextManager[bool]] | None = field(default=None, repr=False, compare=False)

    @property
    def first(self) -> bool:
        return self.rank == 0

    @contextmanager
    def turn(self, rank: int) -> Iterator[bool]:
        """Process `rank` works alone while open: yields whether this is the one."""
        if self.turns is None:
            yield self.rank == rank
            return
        with self.turns(rank) as mine:
            yield mine

    def part(self, numbers: Tensor) -> Tensor:
        """This process's share of a batch's numbers; empty where there are fewer of them than processes."""
        return numbers.tensor_split(self.count)[self.rank]

    def total(self, own: Tensor) -> Tensor:
        """What a mean over all parts of a batch divides by, as a share of each: the gradients of the parts are averaged
        afterwards. float64, of the shape of `own`.
        """
        whole = own.to("cpu", torch.float64)
        dist.all_reduce(whole)
        return (whole.clamp(min=1) / self.count).to(own.device)

    def mean(self, values: Tensor) -> Tensor:
        """Over all processes, float64 on the CPU."""
        if self.count == 1:
            return values.to("cpu", torch.float64)
        whole = values.to("cpu", torch.float64)
        dist.all_reduce(whole)
        return whole / self.count

    def from_first(self, value: Any) -> Any:
        """What the first process gives here; the others wait for it, and give anything."""
        if self.count == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0, device=torch.device("cpu"))
        return box[0]

    def seeded(self, seed: int, step: int) -> None:
        """What a step draws depends on the step and the process alone, so that nothing of it has to be kept. A process
        alone draws on and on instead.
        """
        if self.count > 1:
            torch.manual_seed((seed * 1_000_003 + step) * self.count + self.rank)


ALONE: Final = Processes()
_processes = [ALONE]  # the last one: those that this process has joined, as torch's own default group


def here() -> Processes:
    """The processes that this one has joined; see `joined`."""
    return _processes[-1]


def parts_of(
    processes: Processes, batch_of: Callable[[Tensor], FeatureBatch | SequenceBatch], numbers: Tensor
) -> FeatureBatch | SequenceBatch:
    """This process's part of the batch of `numbers`, which knows of the others. Where nothing is left for it, it is one
    that nothing is learned from, so that all processes do the same.
    """
    if processes.count == 1:
        return batch_of(numbers)
    own = processes.part(numbers)
    batch = batch_of(own) if len(own) else batch_of(numbers[:1]).unlearned()
    return replace(batch, total=processes.total)


class _Loss(nn.Module):
    """A learner's loss as a module, which is what gradients are averaged over."""

    def __init__(self, learner: Learner) -> None:
        super().__init__()
        self.model, self._learner = learner.model, learner

    def forward(self, batch: Any) -> tuple[Tensor, Tensor]:
        return self._learner.loss(batch)


def loss_over(processes: Processes, learner: Learner) -> Callable[[Any], tuple[Tensor, Tensor]]:
    """The learner's loss, whose gradient is that of all parts; the first process's weights become everyone's."""
    if processes.count == 1:
        return learner.loss
    # The graph is the same in every step, and some families have weights that some settings leave unused.
    together = DistributedDataParallel(_Loss(learner), broadcast_buffers=False, static_graph=True)
    return cast("Callable[[Any], tuple[Tensor, Tensor]]", together)


@contextmanager
def joined(device: str | None) -> Iterator[Processes]:
    """Join the processes that torchrun started; a process that it did not start is alone. On CUDA each takes the device
    of its own local rank. `device`: the one that was asked for.

    Raises HeadwayError where there are not enough devices. Processes other than the first are left with SystemExit when
    any of them has failed: the first one says why.
    """
    if not dist.is_torchelastic_launched():
        yield ALONE
        return
    backend = _backend(device)
    store, rank, count = next(rendezvous("env://", timeout=PATIENCE))
    words = PrefixStore("headway", store)
    dist.init_process_group(backend, store=store, rank=rank, world_size=count, timeout=PATIENCE)
    processes = Processes(rank, count, words)
    _processes.append(processes)
    try:
        yield processes
    except Exception as error:
        if processes.first:
            raise
        _fall_silent(processes, error)
        raise SystemExit(2) from None
    finally:
        _processes.pop()
        if processes.first:
            words.set(_HEARD, "")
        _leave()


def _backend(device: str | None) -> str:
    """What the processes speak through; on CUDA this process takes its device."""
    from backend.targets.loading import choose_device  # a process that is alone needs none of it

    chosen = choose_device(device)
    if chosen.type != "cuda":
        return "gloo"
    local, there = dist.get_node_local_rank(), torch.cuda.device_count()
    if device is not None and ":" in device:
        raise HeadwayError(f"Several processes can't share {device}; ask for cuda, and each takes one of its own.")
    if local >= there:
        raise HeadwayError(f"There are {there} CUDA devices for more processes; start {there} at most.")
    torch.cuda.set_device(local)
    return "cpu:gloo,cuda:nccl"


def _fall_silent(processes: Processes, error: Exception) -> None:
    """Where this process failed first, wait until the first one, which is to say so, has noticed."""
    if not isinstance(error, HeadwayError):
        traceback.print_exc()
    if isinstance(error, Cancelled) or first_failure(processes, error) is not None or processes.store is None:
        return
    _let_go(error)
    with suppress(RuntimeError):
        processes.store.wait([_HEARD], timedelta(seconds=_WAIT_S))
        time.sleep(1.0)  # whoever started us ends all as soon as one has ended


def _let_go(error: BaseException | None) -> None:
    """Close this process's connections, which wakes up whoever waits for it; frames of the failure still hold them."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
    _leave()
    gc.collect()


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


@contextmanager
def failing_together(processes: Processes) -> Iterator[None]:
    """A failure of any process becomes everyone's, with the sentence of the one that failed first."""
    try:
        yield
    except Cancelled:
        raise  # by the first one, for all
    except Exception as error:
        if processes.count == 1:
            raise
        told = first_failure(processes, error)
        if told is None:
            raise
        raise HeadwayError(told) from error


def first_failure(processes: Processes, error: Exception) -> str | None:
    """The sentence of the process that failed first where this is another one, whose failure may be its loss."""
    if processes.store is None:
        return None
    lost = _is_loss(error)
    deadline = time.monotonic() + (_WORDS_S if lost else 0.0)
    while not processes.store.check([_FAILED]) and time.monotonic() < deadline:
        time.sleep(0.05)  # the other one's words may come later than its silence
    own = f"{error}" if isinstance(error, HeadwayError) else f"{type(error).__name__}: {error}"
    words = f"-1 {_GONE}" if lost else f"{processes.rank} {own}"  # who is gone can't say so
    rank, _, sentence = processes.store.compare_set(_FAILED, "", words).decode().partition(" ")
    return None if int(rank) == processes.rank else sentence


def _is_loss(error: Exception) -> bool:
    """Whether it is what a sum gives when another process goes away in the middle of it."""
    return isinstance(error, dist.DistError) or (
        isinstance(error, RuntimeError) and any(word in str(error).lower() for word in ("gloo", "connection", "nccl"))
    )
