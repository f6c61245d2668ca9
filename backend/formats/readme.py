"""The README of an exported folder: the command that serves it, with the numbers that belong to this drafter.

Knows the engines' options, not their code.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backend.errors import HeadwayError
from backend.formats.facts import TargetFacts
from backend.formats.own import Own
from backend.formats.parts import ExportOptions, Parts
from backend.targets.sources import split_target
from backend.trees import TreeShape
from backend.tuning.notation import three_numbers


@dataclass(frozen=True)
class Tuning:
    """What to draft: a tree and, where it was tuned, how deep a chain should be in each batch.

    `schedule`: [from, to, tokens] (vLLM). `adaptive`: SGLang's steps by batch. `source`: where the tree comes from.
    """

    shape: TreeShape
    source: str
    schedule: Sequence[Sequence[int]] = ()
    adaptive: dict[str, Any] = field(default_factory=dict)


def tuning_of(own: Own, tuned: Path | None) -> Tuning:
    """The drafter's own tree, or that of a file `tune-tree --json` printed. Raises HeadwayError for another file."""
    if tuned is None:
        words = "stored with the drafter" if own.meta.tree else "a chain, since the drafter stores no tree"
        return Tuning(own.shape, words)
    try:
        data = json.loads(tuned.read_text(encoding="utf-8"))
        paths = data.get("paths", data.get("medusa_choices"))
        shape = TreeShape(tuple(tuple(int(rank) for rank in path) for path in paths))
    except (OSError, ValueError, TypeError, AttributeError):
        raise HeadwayError(f"{tuned} is not what `tune-tree --json` prints; tune a tree first.") from None
    return Tuning(
        shape,
        f"tuned, from {tuned.name}",
        data.get("num_speculative_tokens_per_batch_size") or (),
        data.get("sglang_adaptive_steps") or {},
    )


def draft_depth(own: Own, tuning: Tuning, options: ExportOptions) -> int:
    """Tokens drafted at a time, at most as many as there are heads. Raises HeadwayError for more."""
    most = getattr(own.config, "num_heads", None)
    depth = options.max_tokens or max(1, tuning.shape.max_depth)
    if most is not None and depth > most:
        raise HeadwayError(f"The drafter has {most} heads, so it can't draft {depth} tokens; ask for {most} or fewer.")
    return int(depth)


def readme_of(own: Own, parts: Parts, options: ExportOptions, facts: TargetFacts, tuning: Tuning, out: Path) -> str:
    """Markdown."""
    depth = draft_depth(own, tuning, options)
    writer = {"vllm": _vllm, "sglang": _sglang, "hydra": _hydra}[options.engine]
    lines = [
        f"# {own.meta.name} for {options.engine}",
        "",
        f"A drafter of the family {own.family} for the target {facts.name} "
        f"(weights {facts.version.get('weights_id', '')[:12]}), exported by Headway. It fits this target only.",
        "",
        *writer(own, options, facts, tuning, depth, out.name),
        *_stand_ins(facts, out.name, options),
        "",
        "Check the folder before you serve it:",
        "",
        "```sh",
        f"python app.py check {out.name} --target {facts.name}"
        + (f" --engine {options.engine}" if options.engine != "hydra" else " --engine hydra"),
        "```",
    ]
    if parts.reads:
        words = ", ".join(map(str, parts.reads))
        lines += ["", f"It reads the target's states *entering* the layers {words} (counted from 0). The list in",
                  "config.json is in the engine's own convention."]  # fmt: skip
    if parts.notes:
        lines += ["", "Worth knowing:", "", *(f"- {note}" for note in parts.notes)]
    return "\n".join(lines) + "\n"


def _stand_ins(facts: TargetFacts, name: str, options: ExportOptions) -> list[str]:
    if options.engine == "hydra":
        return []
    target = "" if "/" in facts.name else f"`{facts.name}` stands for the target's checkpoint as the engine loads it. "
    return ["", f"{target}`{name}` is this folder: run the command in the folder above it, or write the whole path."]


def serving_command(own: Own, options: ExportOptions, facts: TargetFacts, tuning: Tuning, out: Path) -> str | None:
    """Shell text, to be run in the folder above `out`; None for the reference's layout, which no engine serves."""
    depth = draft_depth(own, tuning, options)
    if options.engine == "vllm":
        served, config = _vllm_config(own, facts, tuning, depth, out.name)
        return f"vllm serve {served} --speculative-config '{json.dumps(config)}'"
    return _sglang_command(own, options, facts, tuning, depth, out.name) if options.engine == "sglang" else None


def _vllm_config(own: Own, facts: TargetFacts, tuning: Tuning, depth: int, name: str) -> tuple[str, dict[str, Any]]:
    """What is served, and vLLM's `speculative_config`."""
    config: dict[str, Any] = {"method": own.family, "model": name, "num_speculative_tokens": depth}
    inside = own.family == "mtp"  # the folder is the target itself
    if inside:
        del config["model"]
    if tuning.schedule:
        config["num_speculative_tokens_per_batch_size"] = [list(one) for one in tuning.schedule]
    return (name if inside else split_target(facts.name)[0]), config


def _vllm(own: Own, options: ExportOptions, facts: TargetFacts, tuning: Tuning, depth: int, name: str) -> list[str]:
    served, config = _vllm_config(own, facts, tuning, depth, name)
    lines = [
        "vLLM drafts chains, no trees. Start the server with",
        "",
        "```sh",
        f"vllm serve {served} --speculative-config '{json.dumps(config)}'",
        "```",
        "",
        "or in Python:",
        "",
        "```python",
        "from vllm import LLM",
        "",
        f"llm = LLM(model={served!r}, speculative_config={config!r})",
        "```",
        "",
        f"`num_speculative_tokens` is {depth}: the depth of the tree ({tuning.source}).",
    ]
    if options.speculators:
        lines += ["", f"The folder names its target, so `vllm serve {name}` alone does the same."]
    if tuning.schedule:
        lines += ["", "The schedule says [from batch, to batch, tokens]: larger batches draft less."]
    return lines


def _sglang_command(own: Own, options: ExportOptions, facts: TargetFacts, tuning: Tuning, depth: int, name: str) -> str:
    shape = tuning.shape
    nodes = shape.num_nodes if options.max_tokens is None else max(shape.num_nodes, depth)
    numbers = three_numbers(depth, max(1, max(shape.max_children, default=1)), nodes)["sglang"]
    words = " ".join(f"--{key.replace('_', '-')} {value}" for key, value in numbers.items())
    algorithm = "EAGLE3" if own.family == "eagle3" else "EAGLE"
    model = split_target(facts.name)[0]
    return (
        f"python -m sglang.launch_server --model-path {model} --speculative-algorithm {algorithm} \\\n"
        f"    --speculative-draft-model-path {name} {words}"
    )


def _sglang(own: Own, options: ExportOptions, facts: TargetFacts, tuning: Tuning, depth: int, name: str) -> list[str]:
    lines = [
        "Start the server with",
        "",
        "```sh",
        _sglang_command(own, options, facts, tuning, depth, name),
        "```",
        "",
        f"The three numbers belong to the tree ({tuning.source}): levels, most children of a node, and nodes. SGLang "
        "counts the root, so its number of draft tokens is one more than the nodes that are drafted.",
    ]
    if tuning.adaptive:
        lines += ["", f"Steps by batch, as they were tuned: `{json.dumps(tuning.adaptive)}`."]
    return lines


def _hydra(own: Own, options: ExportOptions, facts: TargetFacts, tuning: Tuning, depth: int, name: str) -> list[str]:
    return [
        "No serving engine runs Hydra heads. This is the layout of the reference implementation (`hydra_lm_head.pt`, a",
        "state dict), for its own decoder; Headway reads it back with `python app.py import`.",
        "",
        f"The tree ({tuning.source}), as paths of ranks:",
        "",
        "```python",
        f"hydra_choices = {tuning.shape.to_json()}",
        "```",
    ]
