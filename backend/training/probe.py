"""A few seconds of the real thing: what loading, reading, learning, evaluating and saving take on this machine.

It runs the same capture and the same loop as a training does, on a sample of the answers, and watches the clock and the
memory meanwhile. What it measured goes into training/planner.py, which does the arithmetic. Knows no family.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil
import torch
from torch import Tensor

from backend.acceptance import Rule
from backend.decoding.loop import DecodeSettings, decode
from backend.decoding.records import StepTrace
from backend.drafters.base import Drafter
from backend.drafters.learning import Learner
from backend.targets.target import Target
from backend.training.features import CaptureConfig, FeatureStore, TokenizedAnswer, capture
from backend.training.loop import Features, train
from backend.training.order import PositionOrder, TextOrder
from backend.training.plan_given import Planned, Probe
from backend.training.planner import BATCH_TOKENS, decides, padded_tokens
from backend.training.state import STATE
from backend.training.text_features import TextFeatureStore, capture_texts

WATCH_S = 0.004  #: how often memory is looked at
MAX_STEPS = 6
DECODE_STEPS = 12


class MemoryWatch:
    """Bytes that this process has on the device (on a CPU: resident in memory), and the most since `start`.

    Linux keeps the peak itself and lets a process begin it anew; elsewhere a thread looks often, which may miss a short
    one.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._exact = device.type != "cuda" and _begin_peak()
        self._most = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def now(self) -> int:
        if self._device.type == "cuda":
            return int(torch.cuda.memory_reserved(self._device))
        return int(psutil.Process().memory_info().rss)

    def start(self) -> None:
        """Forget the peak."""
        self._most = self.now()
        if self._exact:
            _begin_peak()

    def peak(self) -> int:
        return max(self._most, self.now(), _peak() if self._exact else 0)

    def __enter__(self) -> MemoryWatch:
        self.start()
        if not self._exact:
            self._thread = threading.Thread(target=self._watch, name="memory watch", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(WATCH_S):
            self._most = max(self._most, self.now())


def _begin_peak() -> bool:
    """Let the system's own peak of this process's memory begin now; False where it can't."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return False
    return True


def _peak() -> int:
    """The system's own peak, in bytes."""
    for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("VmHWM:"):
            return 1024 * int(line.split()[1])
    return 0


@dataclass(frozen=True)
class Loaded:
    """A target with what loading it took: seconds, and bytes over what the process had before."""

    target: Target
    load_s: float
    peak_bytes: int
    bytes: int
    before: int


def load_watched(open_target: Callable[[], Target], device: torch.device) -> Loaded:
    """Open a target under watch."""
    with MemoryWatch(device) as memory:
        before, started = memory.now(), time.perf_counter()
        target = open_target()
        seconds = time.perf_counter() - started
        return Loaded(target, seconds, memory.peak() - before, memory.now() - before, before)


def probe(
    loaded: Loaded,
    config: Planned,
    answers: Sequence[TokenizedAnswer],
    new_learner: Callable[[], Learner],
    new_drafter: Callable[[Learner], Drafter],
    name: str,
    folder: Path,
    seconds: float = 10.0,
    clock: Callable[[], float] = time.perf_counter,
) -> Probe:
    """Measure for about `seconds` (a slow target takes a little longer); `folder` is used and emptied again.

    `new_learner` makes what will be trained, `new_drafter` a drafter of its weights; `name` is the target's, as a plan
    names it. Raises HeadwayError when no answer can be used or the disk refuses.
    """
    target = loaded.target
    usable = [a for a in answers if a.answer_ids and a.prompt_ids and _length(a) <= target.max_context]
    with MemoryWatch(target.device) as memory, _scratch(folder):
        learner = new_learner()  # it says what has to be captured, and is there meanwhile, as in a training
        capture_to = _capture_for(target, learner)
        rate, features = _capture(capture_to, usable or answers, folder / "features", 0.4 * seconds, clock)
        capture_peak = memory.peak() - loaded.before - loaded.bytes
        memory.start()
        learned = _learn(config, learner, features, folder / "run", 0.35 * seconds, clock)
        positions_per_s = _evaluate(learner, features, config.training.batch_tokens, clock)
        drafter = new_drafter(learner)
        judge_step_s = _decode(target, drafter, usable or answers, max(1, config.training.decode_prompts))
        draft_step_s = _decode(target, drafter, usable or answers, 1)
        train_peak = memory.peak() - loaded.before - loaded.bytes
    return Probe(
        target=name, device=str(target.device), settings=decides(config), hidden_size=target.hidden_size,
        vocab_size=target.vocab_size, load_s=loaded.load_s, capture_tokens_per_s=rate, step_s=learned.step_s,
        evaluate_positions_per_s=positions_per_s, judge_step_s=judge_step_s, draft_step_s=draft_step_s,
        save_s=learned.save_s,
        checkpoint_bytes=learned.checkpoint_bytes, load_peak_bytes=loaded.peak_bytes, target_bytes=loaded.bytes,
        capture_peak_bytes=max(0, capture_peak), train_peak_bytes=max(0, train_peak),
    )  # fmt: skip


@contextmanager
def _scratch(folder: Path):  # type: ignore[no-untyped-def]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _length(answer: TokenizedAnswer) -> int:
    return len(answer.prompt_ids) + len(answer.answer_ids)


def _spread(answers: Sequence[TokenizedAnswer], tokens: float) -> list[TokenizedAnswer]:
    """Every so manieth answer, until about `tokens` tokens are read; at least one."""
    whole = sum(map(_length, answers))
    count = max(1, min(len(answers), round(len(answers) * tokens / max(1, whole))))
    return [answers[index * len(answers) // count] for index in range(count)]


Capture = Callable[[Sequence[TokenizedAnswer], Path], FeatureStore | TextFeatureStore]


def _capture_for(target: Target, learner: Learner) -> Capture:
    """How the features of this learner are made."""
    config = CaptureConfig(batch_tokens=BATCH_TOKENS)
    if learner.reads:
        return lambda answers, folder: capture_texts(target, answers, learner.reads, folder, config)
    return lambda answers, folder: capture(target, answers, folder, config, ahead=learner.wants_ahead)


def _capture(
    capture_to: Capture, answers: Sequence[TokenizedAnswer], folder: Path, seconds: float, clock: Callable[[], float]
) -> tuple[float, FeatureStore | TextFeatureStore]:
    """(tokens a second, padding included; the features). The first answer warms up and gives a first guess."""
    first = sorted(answers, key=_length)[len(answers) // 2 :][:1]
    for attempt in ("cold", "warm"):
        started = clock()
        capture_to(first, folder / attempt)
        guess = padded_tokens([_shape(a) for a in first], BATCH_TOKENS) / (clock() - started)
    sample = _spread(answers, max(1.0, guess * seconds))
    started = clock()
    store = capture_to(sample, folder / "sample")
    return padded_tokens([_shape(a) for a in sample], BATCH_TOKENS) / (clock() - started), store


def _shape(answer: TokenizedAnswer) -> tuple[int, int]:
    return len(answer.prompt_ids), len(answer.answer_ids)


@dataclass(frozen=True)
class _Learned:
    step_s: float
    save_s: float
    checkpoint_bytes: int


@dataclass
class _Times:
    """A reporter that keeps when each step ended, by the loop's own clock."""

    spent: list[float] = field(default_factory=list)

    def report(self, step: int, total: int, metrics: dict[str, float]) -> None:
        if "train_s" in metrics:
            self.spent.append(metrics["train_s"])

    def resumed(self, step: int) -> None:
        return None


class _Repeated(PositionOrder):
    """The sample again and again, so that it is large enough for a batch."""

    def __init__(self, inner: FeatureStore | TextFeatureStore, count: int) -> None:
        self._inner, self._count, self.fingerprint = inner, count, inner.fingerprint

    def __len__(self) -> int:
        return self._count

    def batch(self, positions: Tensor, horizon: int) -> Any:
        return self._inner.batch(positions % len(self._inner), horizon)


class _RepeatedTexts(TextOrder):
    """The same with whole texts."""

    def __init__(self, inner: TextFeatureStore, tokens: int) -> None:
        times = 1 + tokens // max(1, int(inner.lengths.sum()))
        super().__init__(inner.lengths.tolist() * times)
        self._inner, self.fingerprint = inner, inner.fingerprint

    def __len__(self) -> int:
        return len(self._inner)

    def batch(self, texts: Tensor, horizon: int) -> Any:
        return self._inner.batch(texts % self._inner.num_texts, horizon)


def _repeated(features: FeatureStore | TextFeatureStore, batch: int) -> Features:
    if isinstance(features, TextFeatureStore):
        return _RepeatedTexts(features, batch * (MAX_STEPS + 1))
    return _Repeated(features, max(len(features), batch * (MAX_STEPS + 1)))


def _learn(
    config: Planned,
    learner: Learner,
    features: FeatureStore | TextFeatureStore,
    folder: Path,
    seconds: float,
    clock: Callable[[], float],
) -> _Learned:
    """Real steps at the real batch size. The first one warms up and says how many more there is time for."""
    whole = _repeated(features, config.training.batch_tokens)
    nothing = _Repeated(features, 0)
    short = {"report_every": 1, "evaluate_every": 1 << 30, "checkpoint_every": 1 << 30, "explosion_reports": 0}
    times = _Times()

    def enough() -> bool:
        return len(times.spent) > 1 and times.spent[-1] + (times.spent[-1] - times.spent[-2]) > seconds

    started = clock()
    training = config.training.model_copy(update={**short, "steps": MAX_STEPS})
    train(training, learner, whole, nothing, times, enough, folder)
    took = clock() - started
    steps = [after - before for before, after in zip(times.spent, times.spent[1:], strict=False)] or times.spent
    return _Learned(
        step_s=sorted(steps)[len(steps) // 2],
        save_s=max(0.0, took - times.spent[-1]),
        checkpoint_bytes=(folder / STATE).stat().st_size,
    )


def _evaluate(
    learner: Learner, features: FeatureStore | TextFeatureStore, batch: int, clock: Callable[[], float]
) -> float:
    """What an evaluation goes through in a second, counted as a batch is: positions, or tokens of texts."""
    whole = _repeated(features, batch)
    numbers = whole.in_order(batch)[0]
    device = next(learner.model.parameters()).device
    learner.model.eval()
    started = clock()
    given = whole.batch(numbers, learner.horizon)
    learner.evaluate(given.to(device))[1].cpu()
    took = clock() - started
    learner.model.train()
    return (given.tokens.numel() if learner.reads else len(numbers)) / max(took, 1e-9)


def _decode(target: Target, drafter: Drafter, answers: Sequence[TokenizedAnswer], rows: int) -> float:
    """Seconds of one drafting and checking step of `rows` rows together, behind a text of middling length."""
    text = sorted(answers, key=_length)[len(answers) // 2].prompt_ids
    found: list[float] = []
    settings = DecodeSettings((DECODE_STEPS + 1) * (drafter.shape.max_depth + 1), Rule("greedy"), ignore_eos=True)
    done = DECODE_STEPS * rows
    for record in decode(target, drafter, [list(text)] * rows, settings, rows, lambda: len(found) >= done):
        if isinstance(record, StepTrace):
            found.append(record.step_ms / 1000)
    later = sorted(found[rows:] or found)
    return later[len(later) // 2] if later else 0.0
