"""An export as a job: writes a drafter as an engine reads it, and holds what was written against what the engine looks
for.

What a folder holds is backend/formats' business. Knows no page.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from backend.drafters.checkpoint import read_meta
from backend.drafters.registry import folder_of
from backend.engine.remember import recorded_drafter, recorded_version, register_drafter, register_version
from backend.errors import HeadwayError
from backend.formats.check import check_folder
from backend.formats.export import export_drafter
from backend.formats.facts import TargetFacts, facts_of
from backend.formats.parts import ExportOptions
from backend.jobs.console import Progress
from backend.jobs.context import JobContext
from backend.jobs.export_config import ExportJobConfig
from backend.jobs.places import chosen_place, release
from backend.jobs.tune_sources import tuned_at
from backend.targets.loading import LoadedModel, load_model
from backend.targets.opening import open_to_read
from backend.targets.sources import resolve_source
from backend.targets.target import Target


def run(config: ExportJobConfig, context: JobContext) -> dict[str, Any]:
    """Export and check. Returns what `export --json` prints: the folder, the command that serves it, the findings.

    Raises HeadwayError for what a person can mend, MismatchError for another target.
    """
    folder = folder_of(config.drafter)
    if folder is None or not folder.is_dir():
        raise HeadwayError(f"There is no drafter folder {config.drafter}; give the folder that training wrote.")
    own = config.engine == "own"
    if not own and config.target is None:
        raise HeadwayError("Name the target that the drafter was trained for with --target.")
    tuned = None if config.tuned is None else tuned_at(config.tuned, context.store)
    meta = read_meta(folder)
    target: Target | None = None
    facts: TargetFacts | None = None
    loaded: LoadedModel | None = None
    if not own:
        target = open_to_read(str(config.target), context.settings, _loading(context))
        facts = facts_of(target)
        if meta.family == "mtp":  # unlike an opened one, its weights are not packed
            loaded = _whole(str(config.target), context)
    _link(config, context, target, folder)
    name = config.name or f"{meta.name}-{config.engine}"
    place = chosen_place(context.folder, config.out, context.settings.exports, name)
    options = ExportOptions(
        config.engine, config.speculators, config.full_head, config.embedding, max_tokens=config.num_tokens
    )
    context.progress(0, 1, "loading", f"writing {place.name}")
    written = export_drafter(folder, place, options, facts, config.dtype, tuned, config.force, loaded)
    release(place)
    for note in written.notes:
        context.log(note)
    context.progress(1, 1, "loading", "checking it")
    report = None if own else check_folder(written.out, config.engine, facts)
    return written.to_dict() | {"check": None if report is None else report.to_dict()}


def _whole(name: str, context: JobContext) -> LoadedModel:
    """The target that MTP modules are written inside of, an adapter in its matrices."""
    source = resolve_source(name).with_merged_adapter()
    if source.quantisation is not None:
        raise HeadwayError(
            f"MTP modules are written inside their whole target, and {name} can't be written as it is quantised; leave "
            f"+{source.quantisation} out and force it."
        )
    return load_model(source, "cpu", "float32", settings=context.settings)


def _loading(context: JobContext) -> Progress:
    return lambda fraction, sentence: context.progress(fraction, 1, "loading", sentence)


def _link(config: ExportJobConfig, context: JobContext, target: Target | None, folder: Path) -> None:
    """The version and the heads that are handed on. Heads of another version, which were forced, are not recorded as
    this one's.
    """
    if context.store is None:
        return
    meta = read_meta(folder)
    version_id = recorded_version(context.store, meta.version)
    if target is not None:
        version_id = register_version(context.store, target)
        if not config.force:
            register_drafter(context.store, config.drafter, version_id)
    if version_id is not None:
        drafter_id = recorded_drafter(context.store, meta.weights_sha256, version_id)
        context.link(version_id=version_id, drafter_id=drafter_id)
