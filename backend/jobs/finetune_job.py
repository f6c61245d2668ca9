"""A fine-tune as a job: the target learns given answers, and a new version of it is written, measured and remembered.

The new version is another target with an identity of its own; drafters made for the original refuse it. Its held-out
loss before and after stands in its folder and in the store. Knows contexts, not who is behind them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from pathlib import Path
from typing import Any, Final

from backend.data.prompts import Prompt, read_prompts, split_by_hash
from backend.data.templates import answer_samples
from backend.drafters.checkpoint import write_json_atomically
from backend.engine.remember import register_version
from backend.errors import Cancelled, HeadwayError
from backend.jobs.context import JobContext
from backend.jobs.finetune_config import FinetuneJobConfig
from backend.jobs.locks import only_one
from backend.jobs.opening import holding, open_for
from backend.jobs.places import chosen_place, release
from backend.jobs.provenance import provenance
from backend.jobs.version_folder import VERSION_NOTE, check_free, write_version
from backend.targets.loading import LoadedModel, load_model
from backend.targets.opening import open_target
from backend.targets.sources import short_name, source_to_train
from backend.targets.target import Target
from backend.training.backbone import Backbone, give_room
from backend.training.finetune import answer_loss, finetune

RUN: Final = "run"
MADE_BY: Final = "fine-tune"


@dataclass(frozen=True)
class GivenAnswer:
    """One answer of the file as tokens, behind exactly the prompt it is served with."""

    prompt_ids: list[int]
    answer_ids: list[int]


def run(config: FinetuneJobConfig, context: JobContext) -> dict[str, Any]:
    """Train, write the folder and measure. Returns {out, version, numbers}.

    Raises HeadwayError for anything the person can mend, Cancelled when asked to stop.
    """
    file = Path(config.answers).expanduser()
    dataset = context.pin([file])
    read = read_prompts(file, config.limit)
    for line, reason in read.broken:
        context.log(f"{file.name}, line {line}: {reason}; the row is left out.")
    prompts = [prompt for prompt in read.prompts if prompt.num_answers]
    if not prompts:
        raise HeadwayError(f"No row of {file} gives an answer; give rows with messages of the assistant, or an output.")
    name = config.name or f"{short_name(config.target)}-{file.stem}"
    out = chosen_place(context.folder, config.out, context.settings.versions, name)
    check_free(out)
    original = open_for(config, context)
    with (
        only_one(out.parent / f".{out.name}.lock", str(out), patience_s=2),
        holding(context, original, f"fine-tuning {out.name}"),
    ):
        numbers = _made(config, context, original, prompts, out)
        changed = open_target(str(out), context.settings, original.device, original.dtype)
        note = {
            "made_by": MADE_BY,
            "original": original.identity.to_dict(),
            "numbers": numbers,
            "answers": file.name,
            "dataset_sha256": next(iter(dataset.values()), ""),
            "finetune": config.finetune.model_dump(),
            "job": context.job_id,
            **provenance("finetune", config),
        }
        write_json_atomically(out / VERSION_NOTE, note)
        release(out)
    if context.store is not None:
        parent_id = register_version(context.store, original)
        context.link(version_id=register_version(context.store, changed, parent_id))
    return {"out": str(out), "version": changed.identity.to_dict(), "numbers": numbers}


def _made(
    config: FinetuneJobConfig, context: JobContext, original: Target, prompts: Sequence[Prompt], out: Path
) -> dict[str, Any]:
    """Train to the end and write the new version's folder; the numbers of the training."""
    source = source_to_train(config.target)
    loaded = load_model(source, original.device, original.dtype, config.trust_remote_code, settings=context.settings)
    tokens = [*config.special_tokens, *(token for prompt in prompts for token in prompt.special_tokens)]
    before = len(loaded.tokenizer)
    new = give_room(loaded.model, loaded.tokenizer, tokens)
    training, held = split_by_hash(prompts, config.held_out, seed=0)
    backbone = Backbone.of(loaded.model, config.finetune, new)
    learned, measured = _encoded(loaded, training), _encoded(loaded, held)
    about = {
        "target": original.identity.weights_id,
        "template": original.identity.template_id,
        "new tokens": sorted(set(tokens)),
        "tokens": sum(len(one.answer_ids) for one in learned),
    }
    loss = _held_out_loss(context, backbone, measured, loaded)
    done = finetune(
        config.finetune, backbone, learned, about, original.device, original.max_context, _Reporter(context),
        context.should_stop, context.folder / RUN,
    )  # fmt: skip
    if not done:
        raise Cancelled("The fine-tune was stopped; resume the job and it goes on where it stopped.")
    after, count = answer_loss(backbone, measured, original.device, context.should_stop)
    write_version(out, backbone.merged(), loaded.tokenizer, MADE_BY)
    return {
        "trained_answers": len(learned),
        "held_out_answers": len(measured),
        "held_out_tokens": count,
        "perplexity_before": _perplexity(*loss),
        "perplexity_after": _perplexity(after, count),
        "new_tokens": len(loaded.tokenizer) - before,
    }


def _held_out_loss(
    context: JobContext, backbone: Backbone, held: Sequence[GivenAnswer], loaded: LoadedModel
) -> tuple[float, int]:
    """Before training: low-rank additions are nothing yet. Measured at every attempt, since it takes no state."""
    context.progress(0, 1, "measuring", f"{len(held)} held-out answers before training")
    return answer_loss(backbone, held, loaded.device, context.should_stop)


def _perplexity(loss: float, count: int) -> float | None:
    return round(exp(min(loss / count, 50.0)), 4) if count else None


def _encoded(loaded: LoadedModel, prompts: Sequence[Prompt]) -> list[GivenAnswer]:
    """Every answer of the rows. Raises HeadwayError, with the row's name, for text the tokenizer can't take."""
    found = []
    for prompt in prompts:
        try:
            samples = answer_samples(loaded.tokenizer, prompt.chat(), None, prompt.tools, prompt.special_tokens)
        except HeadwayError as error:
            raise HeadwayError(f"{prompt.question_id}: {error}") from error
        found += [GivenAnswer(asked, answered) for asked, answered in samples]
    return found


class _Reporter:
    """Numbers to the context."""

    def __init__(self, context: JobContext) -> None:
        self._context = context

    def report(self, step: int, total: int, metrics: dict[str, float]) -> None:
        self._context.metrics(step, metrics)
        self._context.progress(step, total, "steps", f"loss {metrics['loss']:.3f}")

    def resumed(self, step: int) -> None:
        self._context.resumed_at(step)
