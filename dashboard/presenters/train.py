"""The Train page's form and plan as plain values: which fields in which group, and a plan in words. Pure functions.

What the fields are comes from the job's config; here stands only what a person sees first and how it is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from backend.analysis.draft_vocab import CurvePoint
from backend.drafters.families import PRESETS
from backend.jobs.configs import TrainJobConfig
from backend.targets.sources import short_name
from backend.training.plan_given import Probe
from backend.training.planner import Plan
from backend.words import bytes_in_words, count_in_words
from dashboard.presenters.schema_form import FormField, form_fields, typed_from, with_choices

GROUPS: Final = (("data", "Data"), ("drafter", "Drafter"), ("training", "Training"), ("output", "Output"))
FAMILY: Final = "drafter.family"
PRESET: Final = "preset"
_GROUP_OF: Final[Mapping[str, str]] = {
    "target": "data", "answers": "data", "also": "data", "held_out": "data", "features": "data", "preset": "drafter",
    "drafter": "drafter", "training": "training",
}  # fmt: skip
_FAMILIES: Final[Mapping[str, str]] = {
    "medusa": "Medusa heads", "hydra": "Hydra heads", "eagle": "EAGLE", "eagle3": "EAGLE-3", "mtp": "MTP modules",
    "peagle": "P-EAGLE",
}  # fmt: skip
_PRESETS: Final[Mapping[str, str]] = {
    "paper": "as published", "small": "for two cores", "blockwise": "blockwise parallel decoding",
}  # fmt: skip
_LABELS: Final[Mapping[str, str]] = {
    "drafter.draft_vocab": "Draft vocabulary",
    "drafter.head_arch": "Head architecture",
    "drafter.num_heads": "Heads",
    "drafter.num_blocks": "Blocks a head",
    "drafter.test_time_steps": "Test-time steps",
    "drafter.draft_depth": "Depth drafted",
    "drafter.reads": "Layers read",
    "drafter.token_weight": "Weight of tokens",
    "drafter.feature_weight": "Weight of states",
    "drafter.fc_norm": "Norm of each layer",
    "drafter.norm_before_fc": "Norm of all layers",
    "drafter.norm_before_residual": "Residual after the norm",
    "drafter.norm_output": "Recycle the normed state",
    "drafter.recycle_normed": "Recycle the normed state",
    "drafter.num_layers": "Layers",
    "drafter.kept_places": "Places kept a depth",
    "drafter.kept_least": "Places kept at least",
    "training.gradient_value_clip": "Gradient value clip",
    "preset": "Preset",
    "also": "Other versions too",
    "tree": "Tree stored",
    "training.batch_tokens": "Batch",
    "training.beta_1": "β1",
    "training.beta_2": "β2",
    "training.warmup_fraction": "Warm-up",
    "training.final_fraction": "Final rate",
    "training.decode_prompts": "Prompts decoded",
    "training.decode_tokens": "Tokens decoded",
    "training.keep": "Weights kept",
    "training.kept_checkpoints": "Checkpoints kept",
    "out": "Folder",
    "half": "Half precision",
    "tree_nodes": "Tree nodes",
    "work": "Work folder",
    "dtype": "Numbers",
}
_MORE: Final = (
    "also", "features", "held_out", "drafter.num_blocks", "drafter.decay", "drafter.dropout", "drafter.compute",
    "drafter.reads", "drafter.token_weight", "drafter.feature_weight", "drafter.noise", "drafter.fc_norm",
    "drafter.norm_before_fc", "drafter.norm_before_residual", "drafter.norm_output", "drafter.recycle_normed",
    "drafter.kept_places",
    "drafter.kept_least", "training.gradient_value_clip", "training.precision", "tree", "training.steps",
    "training.warmup_fraction", "training.final_fraction", "training.weight_decay", "training.beta_1",
    "training.beta_2", "training.gradient_clip", "training.seed", "training.checkpoint_every",
    "training.kept_checkpoints",
    "training.evaluate_every", "training.report_every", "training.explosion_reports", "training.explosion_factor",
    "training.decode_prompts", "training.decode_tokens", "training.keep", "out", "half", "work", "device", "dtype",
    "spread_target", "trust_remote_code", "start_from",
)  # fmt: skip
#: What the one button of the empty page trains: few heads, so that the first one is there soon.
FIRST: Final[Mapping[str, Any]] = {
    "drafter": {"family": "medusa", "num_heads": 3, "draft_vocab": 4096, "shared_output": True},
    "training": {"epochs": 1.0, "batch_tokens": 1024},
    "name": "First heads",
}


def train_fields(
    family: str | None, targets: Sequence[tuple[str, str]], answers: Sequence[tuple[str, str]]
) -> tuple[FormField, ...]:
    """The fields for a family (None: the usual one); targets and answers to choose from, and room for another."""
    branch = {"drafter": family} if family else {}
    fields = form_fields(TrainJobConfig, groups=_GROUP_OF, labels=_LABELS, more=_MORE, branch=branch)
    fields = _family_first(tuple(_output(field) for field in fields))
    chosen = next(field.default for field in fields if field.path == FAMILY)
    families = next(field.choices for field in fields if field.path == FAMILY)
    fields = with_choices(fields, FAMILY, [(_FAMILIES.get(name, name), name) for _, name in families])
    fields = with_choices(fields, PRESET, [(_PRESETS.get(one, one), one) for one in PRESETS[str(chosen)]])
    return with_choices(with_choices(fields, "target", targets, other=True), "answers", answers, other=True)


def _family_first(fields: Sequence[FormField]) -> tuple[FormField, ...]:
    """The preset belongs to the family, so it stands behind it."""
    preset = next(field for field in fields if field.path == PRESET)
    rest = [field for field in fields if field.path != PRESET]
    place = 1 + next(place for place, field in enumerate(rest) if field.path == FAMILY)
    return (*rest[:place], preset, *rest[place:])


def preset_values(fields: Sequence[FormField], family: str, name: str) -> dict[str, Any]:
    """What a preset writes into the form: everything of drafter and training, so that two presets never mix."""
    presets = PRESETS.get(family, {})
    wanted = presets.get(name, {})
    touched = {key for preset in presets.values() for key in preset}
    typed = typed_from(fields, {**wanted, "drafter": {**wanted.get("drafter", {}), "family": family}})
    return {path: value for path, value in typed.items() if path.split(".")[0] in touched} | {PRESET: name}


def _output(field: FormField) -> FormField:
    return field if field.group else replace(field, group="output")


def form_value(
    fields: Sequence[FormField], typed: Mapping[str, Any], problems: Mapping[str, str], fill: int
) -> dict[str, Any]:
    """What the form's view takes; a new `fill` writes `typed` into the fields."""
    return {
        "name": "train",
        "fields": [field.to_json() for field in fields],
        "groups": [list(group) for group in GROUPS],
        "typed": dict(typed),
        "problems": dict(problems),
        "fill": fill,
        "buttons": [
            {"action": "start", "label": "Start training", "primary": True},
            {"action": "command", "label": "As command", "primary": False},
            {"action": "yaml", "label": "As YAML", "primary": False},
        ],
    }


def answer_choices(datasets: Iterable[Any], builtin: Path) -> list[tuple[str, str]]:
    """(label, path) of the answers that are known: those that come with the project, then the registered ones."""
    found = [("SmolLM2's answers that come with Headway", str(builtin))] if builtin.is_file() else []
    known = {path for _, path in found}
    for dataset in datasets:
        if dataset.path not in known:
            found.append((f"{dataset.name} ({dataset.num_rows:,} rows)", str(dataset.path)))
    return found


def coverage_figure(point: CurvePoint, enough: int) -> dict[str, str]:
    """How much of the target's own text the draft vocabulary covers; `enough`: the size that covers 99 %."""
    ceiling = point.ceilings[0]
    return {
        "label": "Text it can draft",
        "value": f"{100 * point.coverage:.1f} %",
        "note": f"so a chain of {ceiling.depth} reaches {ceiling.acceptance_length:.2f} at most; "
        f"99 % takes a vocabulary of {enough:,}",
    }


def plan_view(
    plan: Plan,
    free_bytes: int | None = None,
    memory_bytes: int | None = None,
    coverage: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A plan as its box shows it. `free_bytes`: room on the disk; `memory_bytes`: free memory; `coverage`: see
    coverage_figure.
    """
    known = [phase.measured for phase in plan.phases]
    badge = "measured here" if plan.measured else "partly measured" if any(known) else "estimate"
    notes = list(plan.notes)
    if free_bytes is not None and plan.bytes_in_all > free_bytes:
        notes.insert(0, f"Only {bytes_in_words(free_bytes)} of disk are free.")
    if memory_bytes is not None and plan.peak_memory_bytes > memory_bytes:
        notes.insert(0, f"Only {bytes_in_words(memory_bytes)} of memory are free now.")
    seconds = sum(phase.seconds for phase in plan.phases)
    return {
        "badge": badge,
        "figures": [
            {"label": "Time", "value": duration(seconds), "note": f"{plan.steps:,} steps"},
            {
                "label": "Memory at its peak",
                "value": bytes_in_words(plan.peak_memory_bytes),
                "note": "over an idle worker",
            },
            {
                "label": "Disk",
                "value": bytes_in_words(plan.bytes_in_all),
                "note": f"features {bytes_in_words(plan.bytes_features)}, "
                f"checkpoints {bytes_in_words(plan.bytes_checkpoints)}, drafter {bytes_in_words(plan.bytes_drafter)}",
            },
            {"label": "Trained numbers", "value": count_in_words(plan.parameters), "note": ""},
            *([dict(coverage)] if coverage else []),
        ],
        "phases": [
            {
                "name": phase.name[:1].upper() + phase.name[1:],
                "text": duration(phase.seconds),
                "share": phase.seconds / max(seconds, 1e-9),
                "measured": phase.measured,
            }
            for phase in plan.phases
        ],
        "notes": notes,
        "problem": "",
        "measuring": None,
    }


def fitting_probe(results: Iterable[Any], target: str, settings: Mapping[str, Any]) -> Probe | None:
    """The newest stored probe of these settings, else the newest of this target; `results` are newest first.

    One that shared the device with somebody else is never planned with.
    """
    of_target = None
    for result in results:
        if (result or {}).get("contended"):
            continue
        try:
            found = Probe.from_json(dict((result or {}).get("probe") or {}))
        except (TypeError, ValueError):
            continue  # of another version
        if found.target != target:
            continue
        if found.settings == settings:
            return found
        of_target = of_target or found
    return of_target


def fork_config(config: Mapping[str, Any], job_id: str, step: int | None = None) -> dict[str, Any]:
    """The settings of a job as those of one that starts from its weights (a step's or the best), writing elsewhere."""
    name = config.get("name")
    return {
        **config,
        "start_from": job_id if step is None else f"{job_id}@{step}",
        "name": f"{str(name)[:70]} (fork)" if name else None,
        "out": None,
        "work": None,
    }


def job_name(config: Mapping[str, Any]) -> str:
    """How a list calls the training: as the person named it, else what is trained for what."""
    return str(config.get("name") or f"{config['drafter']['family']} for {short_name(str(config['target']))}")


def duration(seconds: float) -> str:
    """ "40 s", "12 min", "3 h 20 min"."""
    if seconds < 99:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"
