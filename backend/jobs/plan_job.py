"""Measuring as a job: the first seconds of a training, thrown away again, and the plan that follows from them.

Needs the device like any other job, so nothing else disturbs it. Knows contexts, not who is behind them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from backend.data.answers import Answer, read_any
from backend.drafters.base import Drafter
from backend.drafters.layer.starting import layer_like
from backend.drafters.learning import Learner
from backend.drafters.recipe import recipe_of
from backend.drafters.sizes import LayerWeights
from backend.jobs.configs import TrainJobConfig
from backend.jobs.context import JobContext
from backend.jobs.opening import holding
from backend.jobs.plan_config import PlanJobConfig
from backend.jobs.train_job import check_tokens, first_texts
from backend.targets.loading import choose_device
from backend.targets.opening import open_target
from backend.targets.target import Target
from backend.training.known_targets import KnownTarget, remember_target
from backend.training.plan_facts import answer_facts, layer_weights, machine_speed, with_captures
from backend.training.plan_given import AnswerFacts, Probe, TargetFacts
from backend.training.planner import Plan, plan
from backend.training.probe import Loaded, load_watched, probe
from backend.training.shards import makes
from backend.training.split import split_held_out
from backend.training.token_map import choose_tokens
from backend.trees import chain


def run(config: PlanJobConfig, context: JobContext) -> dict[str, Any]:
    """Measure. Returns {probe, minutes, bytes, peak_memory_bytes, contended}.

    Raises HeadwayError for anything the person can mend.

    `contended`: somebody else used the device meanwhile, so the numbers are not to be planned with.
    """
    answers = read_any(Path(config.answers))
    device = choose_device(context.device or config.device)
    loaded = load_watched(lambda: _target(config, context), device)
    check_tokens(config, answers, loaded.target)
    context.progress(0.5, 1, "", "measuring")
    with holding(context, loaded.target, f"measuring {config.name or config.target}") as alone:
        found = measure(config, loaded, answers, context.folder / "probe", config.seconds)
    facts = facts_of(config.target, loaded.target)
    planned = plan(config, facts, told(config, loaded.target, context), found, machine_speed())
    context.log(summary(planned))
    return {
        "probe": found.to_json(),
        "minutes": planned.minutes,
        "bytes": planned.bytes_in_all,
        "peak_memory_bytes": planned.peak_memory_bytes,
        "contended": not alone,
    }


def measure(config: TrainJobConfig, loaded: Loaded, answers: list[Answer] | Any, folder: Path, seconds: float) -> Probe:
    """The probe of a training with this config."""
    target, settings = loaded.target, config.drafter
    recipe = recipe_of(settings.family)
    trained, _ = split_held_out(answers, config.held_out)

    def new_learner() -> Learner:
        tokens: Tensor | None = None
        if settings.draft_vocab:
            size = min(settings.draft_vocab, target.vocab_size)
            tokens, _ = choose_tokens(trained, target.vocab_size, size, target.eos_token_ids)
        return recipe.new_learner(settings, target, tokens, None, first_texts(trained))

    def new_drafter(learner: Learner) -> Drafter:
        return recipe.drafter(learner, target, "probe", chain(settings.depth))

    return probe(loaded, config, trained, new_learner, new_drafter, config.target, folder, seconds)


def facts_of(name: str, target: Target) -> TargetFacts:
    """Facts of a target that is loaded."""
    outer = target.vocab_size * target.hidden_size
    tied = target.lm_head_weight().data_ptr() == target.embedding_weight().data_ptr()
    return TargetFacts(
        name=name, hidden_size=target.hidden_size, vocab_size=target.vocab_size, num_layers=target.num_layers,
        num_weights=target.num_parameters, read_weights=target.num_parameters - outer * (1 if tied else 2),
        value_bytes=target.dtype.itemsize, max_context=target.max_context, layer=_layer(target),
    )  # fmt: skip


def _layer(target: Target) -> LayerWeights:
    shape = layer_like(target)
    return layer_weights(
        shape.hidden_size, shape.num_heads, shape.num_kv_heads, shape.head_dim, shape.intermediate_size
    )


def told(config: TrainJobConfig, target: Target, context: JobContext) -> AnswerFacts:
    """The answers, and whether their features were captured before."""
    answers = answer_facts(Path(config.answers), config.held_out, target.max_context)
    known = KnownTarget(target.identity.weights_id, makes(target))
    remember_target(context.settings.cache, config.target, config.device, config.dtype, known)
    parent = Path(config.work) if config.work else context.settings.features
    return with_captures(answers, config, target.num_layers, parent, known)


def summary(planned: Plan) -> str:
    """One sentence for the log."""
    return (
        f"This training takes about {planned.minutes:.1f} minutes, {planned.peak_memory_bytes / 1e9:.2f} GB of memory "
        f"and {planned.bytes_in_all / 1e9:.2f} GB of disk."
    )


def _target(config: PlanJobConfig, context: JobContext) -> Target:
    return open_target(
        config.target, context.settings, context.device or config.device, config.dtype, config.trust_remote_code,
        lambda fraction, sentence: context.progress(0.5 * fraction, 1, "", sentence),
    )  # fmt: skip
