"""A target and a drafter as vLLM is started with them: the checkpoint's folder, the drafter exported, the options.

Joins formats and serving. A drafter of Headway's own is exported into the job's folder, and every drafter's folder is
held against what vLLM looks for before anything is started.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backend.drafters.checkpoint import META, read_meta
from backend.drafters.registry import DRAFT_PREFIX, folder_of
from backend.engine.lease import holder_of, try_lease
from backend.engine.workbench import lease_place
from backend.errors import HeadwayError
from backend.formats.check import check_folder
from backend.formats.export import export_drafter
from backend.formats.facts import facts_of
from backend.formats.parts import ExportOptions
from backend.formats.served import Speculation, model_speculation, ngram_speculation, speculation_of
from backend.jobs.context import JobContext
from backend.jobs.vllm_config import SAMPLING_ON_CPU, ServedConfig
from backend.serving.environment import VllmEnvironment
from backend.serving.server import Server, ServerOptions, free_port, start_server
from backend.serving.waiting import wait_until_ready
from backend.targets.loading import fetch_folder, load_model
from backend.targets.opening import open_to_read
from backend.targets.sources import SourceKind, TargetSource, resolve_source

EXPORT = "drafter"  #: folder inside the job's own


@dataclass(frozen=True)
class Served:
    """`model`: the checkpoint's folder; `findings`: sentences of the check that would pass without a word."""

    model: Path
    name: str
    speculation: Speculation | None
    findings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """For the store."""
        return {
            "folder": str(self.model), "name": self.name, "findings": list(self.findings),
            "speculation": None if self.speculation is None else dict(self.speculation.config),
        }  # fmt: skip


def prepare(config: ServedConfig, context: JobContext) -> Served:
    """Target and drafter on the disk as vLLM reads them. Raises HeadwayError for what vLLM could not run."""
    source = _whole_checkpoint(config.target)
    if source.kind is SourceKind.TINY:
        raise HeadwayError("vLLM serves checkpoints, and tiny random targets have none; choose a real target.")
    folder = fetch_folder(
        source, False, lambda part, words: context.progress(part, 1, "loading", words), context.settings
    )
    speculation = _speculation(config, context)
    findings = _held_against(speculation, context) if speculation is not None else ()
    model = speculation.inside if speculation is not None and speculation.inside is not None else folder
    return Served(model, config.target, speculation, findings)


def _whole_checkpoint(name: str) -> TargetSource:
    """Raises HeadwayError for a target with anything behind it, which vLLM has options of its own for."""
    source = resolve_source(name)
    if source.quantisation is not None or source.adapter is not None:
        what = "a quantisation" if source.adapter is None else "an adapter"
        raise HeadwayError(
            f"vLLM is started here with whole checkpoints, and {name} has {what} behind it; start it yourself with "
            "that configuration and name its address."
        )
    return source


def options_of(config: ServedConfig, served: Served, vllm: VllmEnvironment, port: int, host: str = "127.0.0.1",
               temperature: float = 0.0) -> ServerOptions:  # fmt: skip
    """The server's options on this build. Raises HeadwayError for what the CPU build can't do."""
    on_cpu = vllm.build == "cpu"
    if on_cpu and config.dtype not in (None, "float32"):
        raise HeadwayError(f"vLLM's CPU build is only right in float32: with {config.dtype} drafting changes the text.")
    speculation = None if served.speculation is None else served.speculation.config
    refuse_sampling(vllm.build, speculation is not None, temperature)
    # Requests that name no temperature get this one instead of the engine's 1 or the checkpoint's own.
    sampling = ["--generation-config", "vllm", "--override-generation-config", f'{{"temperature": {temperature}}}']
    return ServerOptions(
        served.model, served.name, port, host, speculation,
        dtype=config.dtype or ("float32" if on_cpu else "auto"),
        max_model_len=config.max_model_len, max_num_seqs=config.max_num_seqs, cache_gb=config.cache_gb,
        eager=on_cpu if config.eager is None else config.eager, more=(*sampling, *config.option),
    )  # fmt: skip


def refuse_sampling(build: str | None, speculates: bool, temperature: float) -> None:
    """Raises HeadwayError for what the CPU build gets wrong."""
    if build == "cpu" and speculates and temperature > 0:
        raise HeadwayError(f"{SAMPLING_ON_CPU}.")


def refuse_sampling_at(url: str, temperature: float, context: JobContext) -> None:
    """The same for a running server, where a job of ours started it: that says what it was built for."""
    if context.store is None or temperature == 0:
        return
    for job in context.store.list_jobs(kinds=["vllm"], statuses=["running"], limit=50):
        items = {item.key: item.data for item in context.store.items(job.id)}
        server = items.get("server", {})
        if server.get("url") == url:
            refuse_sampling(server.get("build"), server.get("speculation") is not None, temperature)


@contextmanager
def running(
    config: ServedConfig, served: Served, vllm: VllmEnvironment, context: JobContext, log: Path
) -> Iterator[Server]:
    """A server of its own for a measurement, ready when entered and gone afterwards.

    Raises HeadwayError when it dies while loading, Cancelled when the job was asked to stop.
    """
    server = start_server(vllm, options_of(config, served, vllm, free_port()), log)
    try:
        wait_until_ready(server, config.startup_s, context.should_stop, note_loading(context))
        yield server
    finally:
        server.stop()


def note_loading(context: JobContext) -> Any:
    """A callback for waiting: what the server said last, on the job's card."""
    return lambda seconds, line: context.progress(0, 1, "loading", f"vLLM starts ({seconds:.0f} s): {line[:120]}")


@contextmanager
def device_held(context: JobContext, device: str | None, who: str) -> Iterator[bool]:
    """Hold the device that a server runs on; yields whether nobody else has it."""
    home, place = context.settings.home, lease_place(context.device or device)
    with try_lease(home, place, who, "command" if context.job_id is None else "job", context.job_id) as taken:
        holder = holder_of(home, place)
        yield taken == "held" or (holder is not None and holder.job is not None and holder.job == context.job_id)


def _speculation(config: ServedConfig, context: JobContext) -> Speculation | None:
    spec = config.drafter.strip()
    if spec == "none":
        return None
    if spec == "ngram":
        return ngram_speculation(config.num_tokens)
    if spec.startswith(DRAFT_PREFIX):
        source = _whole_checkpoint(spec.removeprefix(DRAFT_PREFIX))
        return model_speculation(fetch_folder(source, False, None, context.settings), config.num_tokens)
    folder = folder_of(spec) or Path(spec).expanduser()
    if (folder / META).is_file():
        folder = _exported(folder, config, context)
    return speculation_of(folder, config.num_tokens)


def _exported(folder: Path, config: ServedConfig, context: JobContext) -> Path:
    """Headway's own drafter as vLLM reads it; the embedding is the target's and stays out."""
    out = context.folder / EXPORT
    context.progress(0, 1, "loading", "Exporting the drafter for vLLM")
    facts = facts_of(open_to_read(config.target, context.settings))
    family = read_meta(folder).family
    loaded = load_model(config.target, "cpu", "float32", settings=context.settings) if family == "mtp" else None
    options = ExportOptions("vllm", max_tokens=config.num_tokens)
    written = export_drafter(folder, out, options, facts, loaded=loaded)
    for note in written.notes:
        context.log(note)
    return out


def _held_against(speculation: Speculation, context: JobContext) -> tuple[str, ...]:
    """The check's silent findings; the first that would stop the engine is raised."""
    place = speculation.inside or Path(str(speculation.config.get("model", "")))
    if speculation.config["method"] in ("ngram", "draft_model"):
        return ()
    findings = check_folder(place, "vllm", None).findings
    for one in findings:
        if one.effect == "load":
            raise HeadwayError(f"vLLM would not load the drafter: {one.where}: {one.what}. {one.mend}")
    sentences = tuple(f"{one.where}: {one.what}. {one.consequence}" for one in findings)
    for sentence in sentences:
        context.log(f"The check says of the drafter: {sentence}")
    return sentences
