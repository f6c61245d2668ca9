"""What a training will take before it starts: bytes on disk, memory at its peak, minutes.

Pure arithmetic over facts that others gathered: what the target and the answers are (training/plan_facts.py), what the
drafter weighs (drafters/sizes.py), and, where there is one, a short measured probe (training/probe.py). With a probe of
the same machine the result is meant to hold within a factor of 1.5; without one it says that it is an estimate.
Torch-free; knows no family.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from backend.drafters.sizes import DrafterSizes, sizes_of
from backend.training.config import TrainConfig
from backend.training.plan_given import AnswerFacts, Planned, Probe, Speed, TargetFacts

SHARD_POSITIONS: Final = 16384  #: positions that a capture holds in memory until they are written
BATCH_TOKENS: Final = 4096  #: tokens a pass of a capture reads
HALF: Final = 2  # bytes of a cached feature
SMALL_FILES: Final = 20_000  # manifests, metadata, notes
#: States of a token at the peak of a pass: keys and values of each layer, which have fewer heads than the queries as a
#: rule, and what one layer computes with.
STATES_A_LAYER: Final = 1.3
STATES: Final = 20
TREES: Final = 10 * 6  # sizes of tree times rounds that are timed to choose one, each behind a text
TREE_TEXT: Final = 256
TREE_STEPS: Final = 6
GUESSED_LENGTH: Final = 1.5  # tokens a step that a drafter in training is taken to reach
RUNTIME_BYTES: Final = 120_000_000  # threads, kernels and buffers of the libraries once they compute


@dataclass(frozen=True)
class Phase:
    """A part of the time: what is done, how long it takes, whether the rate behind it was measured."""

    name: str
    seconds: float
    measured: bool


@dataclass(frozen=True)
class Plan:
    """Bytes that are written, memory at the peak over what an idle worker has, and time.

    `measured`: all rates come from a probe of these settings; `notes` are sentences that a person should read.
    """

    bytes_features: int
    bytes_checkpoints: int
    bytes_drafter: int
    peak_memory_bytes: int
    phases: tuple[Phase, ...]
    steps: int
    parameters: int
    measured: bool
    notes: tuple[str, ...]

    @property
    def bytes_in_all(self) -> int:
        return self.bytes_features + self.bytes_checkpoints + self.bytes_drafter

    @property
    def minutes(self) -> float:
        return sum(phase.seconds for phase in self.phases) / 60


def plan(config: Planned, target: TargetFacts, answers: AnswerFacts, probe: Probe | None, speed: Speed) -> Plan:
    """The plan; `speed` stands in where no probe of this target was made.

    A probe of the same target with other drafter settings is scaled by the operations of a step. Raises ValueError for
    a family that does not tell its sizes.
    """
    sizes = sizes_of(config.drafter, target.hidden_size, target.vocab_size, target.layer)
    fits = probe is not None and probe.target == target.name
    same = fits and probe is not None and _decides(config) == probe.settings
    steps = config.training.total_steps(answers.seen(config.drafter)[0])
    used = probe if fits else None
    return Plan(
        bytes_features=0 if _online(config) else feature_bytes(target, answers, config.drafter.states_a_token),
        bytes_checkpoints=_checkpoint_bytes(config, sizes, steps, used if same else None),
        bytes_drafter=sizes.parameters * (HALF if config.half else 4) + SMALL_FILES,
        peak_memory_bytes=_peak(config, target, answers, sizes, used, same),
        phases=_phases(config, target, answers, sizes, used, same, speed),
        steps=steps,
        parameters=sizes.parameters,
        measured=same,
        notes=_notes(config, answers, fits, same),
    )


def feature_bytes(target: TargetFacts, answers: AnswerFacts, states_a_token: int = 0) -> int:
    """A state in half precision and two small numbers a position; or so many states and its number a token. What was
    captured before takes nothing.
    """
    new, new_held_out = not answers.captured, not answers.held_out_captured
    if not (new or new_held_out):
        return 0
    if states_a_token:
        tokens = new * answers.text_tokens + new_held_out * answers.held_out_text_tokens
        return tokens * (HALF * states_a_token * target.hidden_size + 4) + SMALL_FILES
    positions = new * answers.positions + new_held_out * answers.held_out_positions
    return positions * (HALF * target.hidden_size + 8) + SMALL_FILES


def _online(config: Planned) -> bool:
    return config.features == "online"


def padded_tokens(shapes: Sequence[tuple[int, int]], batch_tokens: int = BATCH_TOKENS) -> int:
    """Tokens that a capture of these answers reads, padding included; `shapes` are (prompt, answer) in tokens.

    Answers fill a shard in their order; inside it those of like length are read together (training/features.py).
    """
    whole = 0
    shard: list[int] = []
    positions = 0
    for prompt, answer in shapes:
        shard.append(prompt + answer)
        positions += answer
        if positions >= SHARD_POSITIONS:
            whole += _padded(shard, batch_tokens)
            shard, positions = [], 0
    return whole + _padded(shard, batch_tokens)


def _padded(lengths: list[int], batch_tokens: int) -> int:
    whole = rows = longest = 0
    for length in sorted(lengths):
        if rows and (rows + 1) * length > batch_tokens:
            whole, rows = whole + rows * (longest - 1), 0
        rows, longest = rows + 1, length
    return whole + rows * max(0, longest - 1)


def decides(config: Planned) -> dict[str, Any]:
    """The settings that a probe's numbers depend on; two configs with equal ones share a probe."""
    return _decides(config)


def _decides(config: Planned) -> dict[str, Any]:
    training = config.training.model_dump(include={"batch_tokens", "decode_prompts"}, mode="json")
    if config.training.precision != "float32":  # measured before there was a choice: float32
        training["precision"] = config.training.precision
    return {"drafter": config.drafter.model_dump(mode="json"), **training}


def _checkpoint_bytes(config: Planned, sizes: DrafterSizes, steps: int, probe: Probe | None) -> int:
    """One state of the run, and beside it weights: the best so far where those are kept, and those to fork from."""
    state = probe.checkpoint_bytes if probe else 12 * sizes.parameters
    best = 1 if config.training.keep == "best" and config.training.decode_prompts else 0
    kept = min(config.training.kept_checkpoints, _saves(config.training, steps))
    return state + (best + kept) * 4 * sizes.parameters


def _saves(training: TrainConfig, steps: int) -> int:
    return -(-steps // training.checkpoint_every)


def _peak(
    config: Planned, target: TargetFacts, answers: AnswerFacts, sizes: DrafterSizes, probe: Probe | None, same: bool
) -> int:
    """The largest of loading, capturing and learning; what is loaded stays loaded, and features are mapped memory."""
    states = config.drafter.states_a_token
    mapped = feature_bytes(target, replace(answers, captured=False, held_out_captured=False), states)
    in_shard = min(SHARD_POSITIONS, answers.text_tokens if states else answers.positions)
    shard = in_shard * target.hidden_size * HALF * 2 * max(1, states)  # its parts, and joined
    # A pass over a full batch; a probe of a slow target reads less at once, and so sees less of it.
    capture = int(
        BATCH_TOKENS * target.value_bytes * (STATES_A_LAYER * target.num_layers + STATES) * target.hidden_size
    )
    if probe is not None:
        loaded, loading, capture = probe.target_bytes, probe.load_peak_bytes, max(capture, probe.capture_peak_bytes)
    else:
        weights = target.num_weights * target.value_bytes
        # A head that shares the embedding's weight is laid out once more for the processor.
        loaded = weights + target.vocab_size * target.hidden_size * target.value_bytes + RUNTIME_BYTES
        loading = 2 * weights + RUNTIME_BYTES
    if probe is not None and same:
        learning = probe.train_peak_bytes
    else:
        # An evaluation drafts with a copy of the weights, laid out once more; a step needs its batch's states instead.
        copies = 8 * sizes.parameters if config.training.decode_prompts else 0
        learning = sizes.fixed_bytes + max(copies, config.training.batch_tokens * sizes.position_bytes)
    if _online(config):  # a pass, and then a step with what it gave
        return int(max(loading, loaded + capture + learning))
    capturing = loaded + capture + shard if answers.read else 0
    return int(max(loading, capturing, loaded + learning + mapped))


def _phases(
    config: Planned,
    target: TargetFacts,
    answers: AnswerFacts,
    sizes: DrafterSizes,
    probe: Probe | None,
    same: bool,
    speed: Speed,
) -> tuple[Phase, ...]:
    training = config.training
    seen, held_out = answers.seen(config.drafter)
    steps = training.total_steps(seen)
    evaluations = 1 + -(-steps // training.evaluate_every)
    saves = _saves(training, steps) * (4 / 3 if training.kept_checkpoints else 1)  # a state has three numbers a weight
    if probe is not None:
        scale = 1.0 if same else _step_flops(config, sizes) / _probe_step_flops(probe, config, target)
        load_s, read = probe.load_s, probe.capture_tokens_per_s
        step_s, evaluate = probe.step_s * scale, probe.evaluate_positions_per_s / scale
        judge_s, draft_s, save_s = probe.judge_step_s, probe.draft_step_s, probe.save_s * scale
    else:
        read_flops = 2.0 * target.read_weights
        load_s, read = speed.load_s * target.num_weights / 1e8, speed.read / read_flops
        step_s, evaluate = _step_flops(config, sizes) / speed.learn, speed.learn / sizes.evaluate_flops
        # Few rows read every weight for few tokens, which is far from what a processor computes at its best.
        judge_s = draft_s = 8 * read_flops / speed.read
        save_s = 12 * sizes.parameters / speed.write
    known = probe is not None
    judged = _judge_s(config, answers, judge_s, read)
    tree_s = 0.0 if config.tree_nodes or config.tree else TREES * (TREE_TEXT / read + TREE_STEPS * draft_s)
    parts = (
        Phase("load the target", load_s, known),
        Phase("read the answers", _read(config, answers, steps, evaluations) / read, known),
        Phase("learn", steps * step_s, same),
        Phase("evaluate", evaluations * (held_out / evaluate + judged), same),
        Phase("save", saves * save_s, same),
        Phase("choose the tree", tree_s, known),
    )
    return tuple(part for part in parts if part.seconds > 0)


def _read(config: Planned, answers: AnswerFacts, steps: int, evaluations: int) -> float:
    """Tokens that the target reads: all of them once for a capture; online those of every step and evaluation."""
    if not _online(config):
        return answers.read
    epochs = steps / config.training.steps_per_epoch(answers.seen(config.drafter)[0])
    return epochs * answers.tokens + evaluations * answers.held_out_tokens


def _judge_s(config: Planned, answers: AnswerFacts, step_s: float, read: float) -> float:
    """Decoding the prompts of one evaluation: they are read one by one and answered together."""
    training = config.training
    if not training.decode_prompts:
        return 0.0
    positions = answers.positions + answers.held_out_positions
    prompt = max(0, answers.tokens + answers.held_out_tokens - positions) / max(1, answers.answers)
    return training.decode_prompts * prompt / read + training.decode_tokens / GUESSED_LENGTH * step_s


def _step_flops(config: Planned, sizes: DrafterSizes) -> float:
    return sizes.step_flops * config.training.batch_tokens


def _probe_step_flops(probe: Probe, config: Planned, target: TargetFacts) -> float:
    """Operations of the step that the probe measured; of another family only the time itself is known."""
    settings = type(config.drafter)
    stored = probe.settings["drafter"]
    if stored.get("family") != config.drafter.family:
        return _step_flops(config, sizes_of(config.drafter, probe.hidden_size, probe.vocab_size, target.layer))
    sizes = sizes_of(settings.model_validate(stored), probe.hidden_size, probe.vocab_size, target.layer)
    return sizes.step_flops * int(probe.settings["batch_tokens"])


def _notes(config: Planned, answers: AnswerFacts, fits: bool, same: bool) -> tuple[str, ...]:
    notes = []
    if not fits:
        notes.append("All of it is an estimate: nothing was measured with this target on this machine yet.")
    elif not same:
        notes.append("The target was measured; the rest is scaled from other settings.")
    if not config.drafter.states_a_token and answers.positions < config.training.batch_tokens:
        notes.append(
            f"There are {answers.positions:,} training positions, fewer than one batch of "
            f"{config.training.batch_tokens:,}: it would not start."
        )
    if not _online(config) and not answers.read:
        notes.append("The features were captured before and are used again.")
    if answers.held_out_positions == 0:
        notes.append("No prompt is held out, so nothing will be measured.")
    return tuple(notes)
