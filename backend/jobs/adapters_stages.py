"""What each stage of a comparison of adapters asks of which job, and what it gives back. The order of the stages is
adapters_job.py's.

Knows the other jobs' settings; no verdict and no report.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import torch

from backend.analysis.counts import PromptCounts
from backend.analysis.evaluation import PLAIN, part_from_dict
from backend.analysis.many_adapters import DRAFTERS, MIXTURE, NGRAM, OWN, SHARED, Cost
from backend.data.splitting import write_split
from backend.drafters.checkpoint import META, read_meta, write_text_atomically
from backend.drafters.registry import folder_of, load_drafter
from backend.errors import HeadwayError
from backend.jobs import distill_job, evaluate_job, train_job
from backend.jobs.adapters_config import AdaptersJobConfig
from backend.jobs.as_text import validated
from backend.jobs.configs import TrainJobConfig
from backend.jobs.context import JobContext
from backend.jobs.evaluate_config import SETUP, contender_key
from backend.jobs.opening import open_for
from backend.jobs.release_stages import MEASURED_TOKENS, done, known
from backend.jobs.stage import StageContext
from backend.jobs.train_several import vocabulary_digest
from backend.targets.checkpoint import stored_tensors

DRAFTER: Final = "drafter"
CHAIN: Final = "chain"
BASE: Final = "the model alone"
MEGA: Final = 1e6


# -- what is compared --------------------------------------------------------------------------------------------------


def looked_at(config: AdaptersJobConfig, context: StageContext, name: str) -> dict[str, Any]:
    """{version, vocab_size, vocabulary, bytes} of the target with this adapter, opened once before anything is spent on
    it. bytes: of one of its numbers.

    Raises HeadwayError for an adapter of another model, and for a shared drafter that can't draft for it.
    """
    target = open_for(config.model_copy(update={"target": config.version_of(name)}), context)
    if config.shared is not None:
        load_drafter(config.shared, target, force=True)
    return {
        "version": target.identity.to_dict(),
        "vocab_size": target.vocab_size,
        "vocabulary": vocabulary_digest(target),
        "bytes": torch.empty((), dtype=target.dtype).element_size(),
    }


def check_together(config: AdaptersJobConfig, seen: Mapping[str, Mapping[str, Any]]) -> str | None:
    """Why no drafter can be made for the mixture; None where one can.

    Raises HeadwayError for adapters that are the same, and for one whose tokens are not those of the others, for which
    nothing that is shared can draft.
    """
    names = list(seen)
    for place, name in enumerate(names):
        for other in names[:place]:
            if seen[other]["version"]["adapter_id"] == seen[name]["version"]["adapter_id"]:
                raise HeadwayError(
                    f"The adapters {other} and {name} hold the same numbers, so there is nothing to compare; name one."
                )
            if seen[other]["vocab_size"] != seen[name]["vocab_size"]:
                sizes = " and ".join(f"{one} has {seen[one]['vocab_size']:,} tokens" for one in (other, name))
                raise HeadwayError(f"{sizes}, so no drafter can be shared; give one of them a release of its own.")
    odd = next((name for name in names if seen[name]["vocabulary"] != seen[names[0]]["vocabulary"]), None)
    if odd is None:
        return None
    return (
        f"{odd} changes the embedding or the output head, which a drafter holds of its target, so none is made for the "
        "mixture."
    )


def split_prompts(config: AdaptersJobConfig, context: StageContext) -> dict[str, dict[str, str]]:
    """{adapter: {train, measure}}, a file each, every prompt on one side only; and under BASE what the model alone is
    asked: all prompts to learn from, each once.

    Ids are told apart by the adapter's name, since files of different adapters may number their rows alike.
    """
    found: dict[str, dict[str, str]] = {}
    together: dict[str, str] = {}
    for name, files in config.files.items():
        rows: dict[str, list[str]] = {"train": [], "measure": []}
        for number, file in enumerate(files):
            sides = {side: context.folder / "parts" / f"{name}-{number}-{side}.jsonl" for side in rows}
            try:
                write_split(Path(file).expanduser(), sides["train"], sides["measure"], config.held_out)
            except HeadwayError as error:
                raise HeadwayError(f"The prompts of {name}: {error}") from error
            for side, place in sides.items():
                rows[side] += _renamed(place, f"{name}-{number}")
        for row in rows["train"]:
            together.setdefault(_content(row), row)
        found[name] = {side: _written(context.folder / side / f"{name}.jsonl", rows[side]) for side in rows}
    found[BASE] = {"train": _written(context.folder / "train.jsonl", list(together.values()))}
    return found


def _renamed(place: Path, prefix: str) -> list[str]:
    """The rows of a file with ids that no other file has."""
    rows = [json.loads(line) for line in place.read_text(encoding="utf-8").split("\n") if line]
    return [
        json.dumps(row | {"question_id": f"{prefix}-{row.get('question_id', number)}"}, ensure_ascii=False)
        for number, row in enumerate(rows)
    ]


def _content(row: str) -> str:
    return json.dumps({key: value for key, value in json.loads(row).items() if key not in ("question_id", "id")})


def _written(place: Path, rows: Sequence[str]) -> str:
    place.parent.mkdir(parents=True, exist_ok=True)
    write_text_atomically(place, "\n".join(rows) + "\n")
    return str(place)


# -- answers and drafters ----------------------------------------------------------------------------------------------


def answered(config: AdaptersJobConfig, context: StageContext, target: str, prompts: str) -> dict[str, Any]:
    """What the target says to these prompts itself."""
    asked = {
        "target": target, "prompts": [prompts], "temperatures": config.answer_temperatures, "seed": config.seed,
        "max_new_tokens": config.max_new_tokens, "batch": config.batch, "out": str(context.folder / "answers.jsonl"),
    }  # fmt: skip
    return done("distill", distill_job, config, context, asked)


def trained(
    config: AdaptersJobConfig,
    context: StageContext,
    target: str,
    answers: str,
    name: str,
    also: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """{out}: a drafter that learned from the target's own answers, and from those of further versions.

    All keep the weights of their last step: those of several versions can't be told apart by one of them, and drafters
    that are compared are chosen alike.
    """
    context.store = None  # they are recorded where they are in the end
    place = context.folder / DRAFTER
    asked = _learning(config) | {
        "target": target, "answers": answers, "out": str(place), "name": name, "tree": tree_for(config),
        "also": [f"{version}={file}" for version, file in (also or {}).items()],
    }  # fmt: skip
    if not (place / META).is_file():
        done("train", train_job, config, context, asked)
    return {"out": str(place)}


def _learning(config: AdaptersJobConfig) -> dict[str, Any]:
    """What every training here is told alike."""
    given = {"epochs": config.epochs, "batch_tokens": config.batch_tokens, "seed": config.seed, "keep": "last"}
    drafter = {"family": config.family, "draft_vocab": config.draft_vocab}
    return {"preset": config.preset, "drafter": known(drafter), "training": known(given)}


def tree_for(config: AdaptersJobConfig) -> str:
    """The tree of all drafters made here: that of the shared one where it was given, is of the same family and no
    deeper than they learn to guess, so that heads are compared and not trees; else a chain of the trained depth.

    Raises HeadwayError for a shared drafter that is none.
    """
    if config.shared is None:
        return CHAIN
    folder = folder_of(config.shared)
    if folder is None:
        raise HeadwayError(f"{config.shared} has no heads that adapters could share; give the folder of some.")
    meta = read_meta(folder)
    depth = cast(TrainJobConfig, validated("train", _learning(config) | {"answers": "any"})).drafter.depth
    fits = meta.family == config.family and meta.tree and max(map(len, meta.tree)) <= depth
    return json.dumps(meta.tree) if fits else CHAIN


def cost_of(drafter: str, number_bytes: int) -> Cost:
    """What a drafter's folder says it cost to train, and its weights in the target's dtype."""
    folder = folder_of(drafter)
    assert folder is not None, "n-gram lookup and plain decoding have no weights"
    seconds = read_meta(folder).numbers.get("train_s")
    weights = sum(tensor.numel for tensor in stored_tensors(folder))
    return Cost(None if seconds is None else float(seconds) / 60, weights * number_bytes / MEGA)


# -- measuring ---------------------------------------------------------------------------------------------------------


def measured(
    config: AdaptersJobConfig, context: StageContext, name: str, drafters: Mapping[str, str], prompts: str
) -> dict[str, Any]:
    """{setup, keys}: the conditions, and how each drafter is called in the parts that were kept.

    Heads of the model alone are measured on the adapter all the same, labelled, as old heads on a new version are.
    """
    asked = {
        "target": config.version_of(name), "drafters": list(drafters.values()), "prompts": [prompts],
        "limit": config.measured, "temperatures": [config.temperature], "seed": config.seed, "force": True,
        "max_new_tokens": min(MEASURED_TOKENS, config.max_new_tokens), "name": name,
    }  # fmt: skip
    table = done("evaluate", evaluate_job, config, context, asked)["table"]
    setup = json.loads(Path(table).read_text(encoding="utf-8"))["setup"]
    return {"setup": setup, "keys": {drafter: contender_key(spec, None) for drafter, spec in drafters.items()}}


def answers_of(context: JobContext, name: str, keys: Mapping[str, str]) -> dict[str, dict[str, PromptCounts]]:
    """By drafter, by prompt: what a stage of `measured` kept; plain decoding among them."""
    parts = [part_from_dict(data) for key, data in StageContext(context, name).items().items() if key != SETUP]
    wanted = {**keys, PLAIN: PLAIN}
    return {
        drafter: {one.prompt: one for part in parts if part.contender == wanted[drafter] for one in part.answers}
        for drafter in DRAFTERS
        if drafter in wanted
    }


def specs(shared: str, own: str, mixture: str | None) -> dict[str, str]:
    """Who answers beside plain decoding, by what it is, as drafters are named."""
    return {SHARED: shared, OWN: own, **({} if mixture is None else {MIXTURE: mixture}), NGRAM: NGRAM}
