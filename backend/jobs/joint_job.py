"""Joint training as a job: a new version of the target, its drafter, and what the change has cost.

The new version is another target with an identity of its own, in a folder of its own that says where it came from; the
drafter is made for it and refuses the original. How much worse it is than the original is measured on held-out answers
and stored with both. Knows contexts, not who is behind them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from backend.data.answers import Answer, read_any
from backend.drafters.checkpoint import DrafterMeta, read_meta, write_json_atomically
from backend.drafters.learning import Evaluation, Learner
from backend.drafters.recipe import Recipe, recipe_of
from backend.engine.remember import register_drafter, register_version
from backend.errors import Cancelled
from backend.jobs.context import JobContext
from backend.jobs.joint_config import JointJobConfig
from backend.jobs.locks import only_one
from backend.jobs.opening import holding, open_for
from backend.jobs.places import chosen_place, release
from backend.jobs.provenance import provenance
from backend.jobs.train_job import check_tokens, first_texts
from backend.jobs.version_folder import VERSION_NOTE, check_free, write_version
from backend.targets.loading import load_model
from backend.targets.opening import open_target
from backend.targets.sources import short_name, source_to_train
from backend.targets.target import Target
from backend.training.backbone import Backbone
from backend.training.features import FeatureStore, capture
from backend.training.joint import check_can_learn_jointly, train_jointly
from backend.training.quality import quality_loss
from backend.training.split import split_held_out
from backend.training.text_features import TextFeatureStore, capture_texts
from backend.training.token_map import choose_tokens
from backend.trees.search import acceptance_length_from_ranks, best_tree_from_ranks

RUN: Final = "run"


def run(config: JointJobConfig, context: JobContext) -> dict[str, Any]:
    """Train, write both folders and measure. Returns {out, version_out, quality, numbers, tree}.

    Raises HeadwayError for anything the person can mend, Cancelled when asked to stop.
    """
    dataset = context.pin([Path(config.answers)])
    answers = read_any(Path(config.answers))
    made_by, recipe = _kind(config), recipe_of(config.drafter.family)
    name = config.name or f"{made_by.replace('medusa-2', 'medusa2')}-{short_name(config.target)}"
    out = chosen_place(context.folder, config.out, context.settings.drafters, name)
    version_out = Path(config.version_out).expanduser().absolute() if config.version_out else _beside(out)
    check_free(version_out)
    training, held = split_held_out(answers, config.held_out)
    original = open_for(config, context)
    check_tokens(config, answers, original)  # type: ignore[arg-type]  # of the config it reads one field that both have
    with (
        only_one(out.parent / f".{out.name}.lock", str(out), patience_s=2),
        holding(context, original, f"training {out.name}"),
    ):
        weights, tokens = _trained(config, recipe, context, original, training, version_out)
        changed = open_target(str(version_out), context.settings, original.device, original.dtype)
        # What drafter and target share is taken from the target as it was saved.
        learner = recipe.new_learner(config.drafter, changed, tokens, weights, first_texts(training))
        lost = quality_loss(original, changed, held, context.should_stop).as_numbers()
        note = {"made_by": made_by, "original": original.identity.to_dict(), "quality": lost}
        write_json_atomically(version_out / VERSION_NOTE, note | provenance("joint", config))
        counts, ranks = _evaluated(learner, _features(context, changed, held, learner))
        tree = best_tree_from_ranks(ranks, config.tree_nodes)
        numbers = {
            "held_out_positions": int(counts.positions[0]),
            "held_out": {key: round(value, 4) for key, value in counts.as_metrics().items()},
            "hit_rates": [[round(rate, 5) for rate in row] for row in counts.hit_rates()],
            "expected_acceptance_length": round(acceptance_length_from_ranks(tree, ranks), 4),
            "target_changed": lost,
        }
        meta = DrafterMeta(
            family=config.drafter.family,
            name=config.name or out.name,
            config={},
            version=changed.identity.to_dict(),
            tree=tree.to_json(),
            numbers=numbers,
            lineage=provenance("joint", config)
            | {
                "target": version_out.name,
                "original": {"target": Path(config.target).name, "version": original.identity.to_dict()},
                "answers": Path(config.answers).name,
                "dataset_sha256": next(iter(dataset.values()), ""),
                "joint": config.joint.model_dump(),
                "drafter": config.drafter.model_dump(),
                "job": context.job_id,
            },
        )
        recipe.save(out, learner, meta, torch.float16 if config.half else torch.float32)
        release(out)
    _remember(context, original, changed, out)
    return {"out": str(out), "version_out": str(version_out), "quality": lost, "numbers": numbers, "tree": meta.tree}


def _kind(config: JointJobConfig) -> str:
    """What this way of training is called."""
    return "medusa-2" if config.drafter.family == "medusa" else f"joint-{config.drafter.family}"


def _beside(out: Path) -> Path:
    return out.with_name(f"{out.name}-target")


class _Reporter:
    """Numbers to the context."""

    def __init__(self, context: JobContext) -> None:
        self._context = context

    def report(self, step: int, total: int, metrics: dict[str, float]) -> None:
        self._context.metrics(step, metrics)
        words = [f"drafter's loss {metrics['loss']:.3f}"]
        if "kl_per_token" in metrics:
            words.append(f"KL to the original {metrics['kl_per_token']:.4f}")
        self._context.progress(step, total, "steps", ", ".join(words))

    def resumed(self, step: int) -> None:
        self._context.resumed_at(step)


def _trained(
    config: JointJobConfig,
    recipe: Recipe,
    context: JobContext,
    original: Target,
    training: Sequence[Answer],
    version_out: Path,
) -> tuple[dict[str, Tensor], Tensor | None]:
    """Train to the end and write the new target's folder. Returns the drafter's weights and the tokens it can draft."""
    tokens: Tensor | None = None
    if config.drafter.draft_vocab:
        size = min(config.drafter.draft_vocab, original.vocab_size)
        tokens, _ = choose_tokens(training, original.vocab_size, size, original.eos_token_ids)
    learner = recipe.new_learner(config.drafter, original, tokens, None, first_texts(training))
    check_can_learn_jointly(learner)
    loaded = load_model(
        source_to_train(config.target), original.device, original.dtype, config.trust_remote_code,
        settings=context.settings,
    )
    backbone = Backbone.of(loaded.model, config.joint)
    done = train_jointly(
        config.joint, backbone, learner, original, training, _Reporter(context), context.should_stop,
        context.folder / RUN,
    )  # fmt: skip
    if not done:
        raise Cancelled("Joint training was stopped; resume the job and it goes on where it stopped.")
    write_version(version_out, backbone.merged(), loaded.tokenizer, _kind(config))
    return {name: value.detach() for name, value in learner.model.state_dict().items()}, tokens


def _features(
    context: JobContext, changed: Target, held: Sequence[Answer], learner: Learner
) -> FeatureStore | TextFeatureStore:
    folder = context.folder / f"held-out-{changed.identity.weights_id[:8]}"
    if learner.reads:
        return capture_texts(changed, held, learner.reads, folder, should_stop=context.should_stop)
    return capture(changed, held, folder, should_stop=context.should_stop, ahead=learner.wants_ahead)


def _evaluated(learner: Learner, features: FeatureStore | TextFeatureStore) -> tuple[Evaluation, Tensor]:
    """Counts over all positions, and ranks int64 [P, K]."""
    learner.model.eval()
    device = next(learner.model.parameters()).device
    parts = [
        learner.evaluate(features.batch(numbers, learner.horizon).to(device)) for numbers in features.in_order(1024)
    ]
    counts = [one for one, _ in parts]
    return sum(counts[1:], start=counts[0]), torch.cat([ranks for _, ranks in parts]).cpu()


def _remember(context: JobContext, original: Target, changed: Target, out: Path) -> None:
    if context.store is None:
        return
    version_id = register_version(context.store, changed, register_version(context.store, original))
    drafter_id = register_drafter(context.store, str(out), version_id)
    context.link(version_id=version_id, drafter_id=drafter_id)
    context.log(f"{read_meta(out).name} is made for the new version {changed.identity.weights_id[:8]}.")
