"""The validator: a folder held against what the engine looks for, key by key, because the engines do not.

check_tensors.py compares tensors, check_medusa.py and check_layers.py know each family's traps. Loads no engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from backend.errors import HeadwayError
from backend.formats.check_layers import check_eagle, check_eagle3, check_mtp
from backend.formats.check_medusa import check_medusa
from backend.formats.check_tensors import Case, check_architecture, compare
from backend.formats.facts import TargetFacts, same_numbers
from backend.formats.findings import Book, Finding
from backend.formats.folder import CONFIG, Published, read_published
from backend.formats.import_hydra import OTHER_KINDS, has_prefix
from backend.formats.recognise import recognise
from backend.formats.tables import HYDRA_PREFIX, Sizes, hydra_place, hydra_rows, layout_of

ENGINES: Final = ("vllm", "sglang", "hydra")


@dataclass(frozen=True)
class Report:
    """What was found. `engine` None: the folder was checked for the reference's own decoder."""

    path: Path
    engine: str
    family: str
    layout: str
    num_tensors: int
    findings: tuple[Finding, ...]

    def to_dict(self) -> dict[str, Any]:
        """What `check --json` prints."""
        return {
            "path": str(self.path),
            "engine": self.engine,
            "family": self.family,
            "layout": self.layout,
            "tensors": self.num_tensors,
            "findings": [one.to_dict() for one in self.findings],
        }


def check_folder(path: Path, engine: str | None, facts: TargetFacts | None) -> Report:
    """Every fault of the folder that can be told without the engine.

    engine: vllm, sglang or hydra; None takes the one that Headway exported for, else vllm. facts: of the target;
    without them what only the target tells is left out. Raises HeadwayError for what can't be read or is no drafter.
    """
    found = read_published(path)
    if (found.path / "headway.json").is_file():
        raise HeadwayError(f"{path} is in Headway's own format; export it for an engine first, then check the export.")
    return check_published(found, engine, facts)


def check_published(found: Published, engine: str | None, facts: TargetFacts | None) -> Report:
    """check_folder for a folder that was read."""
    path = found.path
    kind = recognise(found)
    if kind.family == "mtp" and not any(name.startswith("model.mtp_layers.") for name in found.tensors):
        raise HeadwayError(f"{path} is a target with MTP modules of a kind that can't be checked; only MiMo's can.")
    name = engine or str(found.note.get("engine") or ("hydra" if kind.family == "hydra" else "vllm"))
    book = Book()
    layout = layout_of(name, kind.family)
    if layout is None:
        book.add("engine-lacks-family", CONFIG, f"{name} has no {kind.family}")
        return Report(path, name, kind.family, kind.layout, len(found.tensors), tuple(book.findings))
    if not found.config:
        book.add("config-missing", CONFIG, "there is no config.json")
    else:
        # Medusa's and Hydra's names are told apart without wrappers; the others' are what the engine sees.
        tensors = kind.tensors if kind.family == "medusa" else found.tensors
        case = Case(layout, found.config, tensors, found.note, facts, book)
        try:
            _CHECKS[kind.family](case)
            _against_target(case)
        except (TypeError, ValueError, AttributeError, IndexError, KeyError) as error:
            raise HeadwayError(
                f"The config.json in {found.path} holds a value of the wrong kind, so nothing else can be checked; "
                "compare it with an export of the same family."
            ) from error
    return Report(path, name, kind.family, kind.layout, len(found.tensors), tuple(book.findings))


def check_hydra(case: Case) -> None:
    """The reference's layout; heads of the kinds mlp and prefix-mlp."""
    other = [words for prefix, words in OTHER_KINDS.items() if any(n.startswith(prefix) for n in case.tensors)]
    if other:
        raise HeadwayError(
            f"These Hydra heads have {other[0]}; only those of the kinds mlp and prefix-mlp are checked."
        )
    if not case.keys():
        return
    prefixed = has_prefix(case.tensors)
    first = f"hydra_mlp.0.{hydra_place(0, prefixed)}.linear.weight"
    head, rows = case.tensors.get(first), case.tensors.get(f"hydra_lm_head.0{'.1' * prefixed}.weight")
    if head is None or rows is None:
        case.book.add("tensor-missing", first, "the first head is not there")
        return
    config: Mapping[str, Any] = case.config
    sizes = Sizes(
        head.shape[0], rows.shape[0], rows.shape[0],
        heads=int(config["hydra_num_heads"]), blocks=int(config["hydra_num_layers"]),
    )  # fmt: skip
    compare(case, _with_prefix(case, sizes) if prefixed else sizes, hydra_rows)


def _with_prefix(case: Case, sizes: Sizes) -> Sizes:
    """The prefix layer is like the target's own; where that is unknown, its matrices are held against each other."""

    def height(name: str) -> int:
        found = case.tensors.get(f"{HYDRA_PREFIX}layers.0.{name}.weight")
        return 0 if found is None else found.shape[0]

    inner, wide, narrow = height("mlp.gate_proj"), height("self_attn.q_proj"), height("self_attn.k_proj")
    if case.facts is not None:
        layer = case.facts.layer
        inner, wide = layer.intermediate_size, layer.num_heads * layer.head_dim
        narrow = layer.num_kv_heads * layer.head_dim
    return replace(sizes, inner=inner, query_heads=wide, kv_heads=narrow, flags=frozenset({"prefix"}))


_CHECKS: Final = {
    "medusa": check_medusa,
    "eagle": check_eagle,
    "eagle3": check_eagle3,
    "hydra": check_hydra,
    "mtp": check_mtp,
}


def _against_target(case: Case) -> None:
    facts, book = case.facts, case.book
    check_architecture(case)
    if facts is None:
        return
    merged = case.layer_config()
    width = case.config.get("target_hidden_size") or merged.get("hidden_size")
    if isinstance(width, int) and width != facts.hidden_size:
        book.add("hidden-size", "hidden_size", f"{width}, {facts.name} has {facts.hidden_size}")
    vocabulary = merged.get("vocab_size")
    if isinstance(vocabulary, int) and vocabulary != facts.vocab_size:
        book.add("vocab-size", "vocab_size", f"{vocabulary}, {facts.name} has {facts.vocab_size}")
    version = case.note.get("version")
    if isinstance(version, Mapping) and version.get("weights_id") != facts.version.get("weights_id"):
        book.add("other-version", "headway_export.json", f"made for {version.get('name')}, not for {facts.name}")
    words = case.tensors.get("embed_tokens.weight")
    if words is not None and words.is_floating_point() and not same_numbers(words, facts.embedding):
        book.add("embedding-differs", "embed_tokens.weight", f"not the embedding of {facts.name}")
    context = merged.get("max_position_embeddings")
    if isinstance(context, int) and context < facts.max_context:
        book.add("context-short", "max_position_embeddings", f"{context}, {facts.name} has {facts.max_context}")
