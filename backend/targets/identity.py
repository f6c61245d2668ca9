"""Which frozen target this is: a hash for each part of a version, and what to say when two versions differ.

The weights' hash covers names, shapes and values in canonical order and stays the same after a lossless conversion:
another dtype that holds the same numbers, other shards, a tied output head stored once or twice, another common name
prefix. It is taken from the stored checkpoint, so the dtype a target is loaded in does not change it. Knows no drafter
and no store.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import safe_open
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerBase

from backend.errors import HeadwayError, MismatchError
from backend.targets.adapters import adapter_id
from backend.targets.checkpoint import read_json, stored_tensors, weight_files
from backend.targets.gguf import quiet_bars
from backend.targets.loading import LoadedModel
from backend.targets.notes import write_note
from backend.targets.quantising import quantisation_name
from backend.targets.sources import SourceKind
from backend.targets.tiny import tiny_model

_SCHEME: Final = 1  # part of every cached id: raise it when the canonical form changes
_BLOCK: Final = 2**22  # numbers hashed at a time, so that no second copy of a large tensor is made
_HEADS: Final = ("lm_head.weight", "embed_out.weight")  # the output head's names in checkpoints
_WORDS: Final = {
    "weights_id": "weights",
    "adapter_id": "adapter",
    "quantisation": "quantisation",
    "tokenizer_id": "tokenizer",
    "template_id": "chat template",
}


@dataclass(frozen=True)
class VersionIdentity:
    """One version: hex hashes of its parts; `adapter_id` and `quantisation` are "none" where there is none.

    `name` is for showing and takes no part in comparisons.
    """

    weights_id: str
    adapter_id: str
    quantisation: str
    tokenizer_id: str
    template_id: str
    name: str = field(default="", compare=False)

    @property
    def short(self) -> str:
        """12 hex digits over all parts, for showing."""
        parts = [getattr(self, part) for part in _WORDS]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]

    def to_dict(self) -> dict[str, str]:
        """For JSON; `from_dict` reads it back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, str]) -> VersionIdentity:
        """Raises ValueError when a part is missing, unknown or no string."""
        unknown, missing = set(values) - {*_WORDS, "name"}, set(_WORDS) - set(values)
        if unknown or missing or not all(isinstance(value, str) for value in values.values()):
            raise ValueError(f"a version identity has the parts {', '.join(_WORDS)}; got {', '.join(map(str, values))}")
        return cls(**values)

    def __str__(self) -> str:
        return f"{self.name} ({self.short})" if self.name else self.short


def compare(first: VersionIdentity, second: VersionIdentity) -> list[str]:
    """The parts that differ, in words, in the order weights, adapter, quantisation, tokenizer, chat template."""
    return [word for part, word in _WORDS.items() if getattr(first, part) != getattr(second, part)]


def nearest(versions: Sequence[VersionIdentity], version: VersionIdentity) -> VersionIdentity:
    """Of the versions that a drafter learned from, the one that differs from `version` in the fewest parts."""
    return min(versions, key=lambda one: len(compare(one, version)))


def check_match(drafter: VersionIdentity, version: VersionIdentity, force: bool = False) -> str | None:
    """Whether a drafter trained for `drafter` may be used with `version`: None if they agree, else a warning sentence.

    Weights, adapter, quantisation or tokenizer that differ raise MismatchError, or only warn with `force`; a chat
    template that differs only warns.
    """
    differing = compare(drafter, version)
    if not differing:
        return None
    parts = " and ".join([", ".join(differing[:-1]), differing[-1]] if len(differing) > 1 else differing)
    sentence = f"The drafter was trained for {drafter}, but the target is {version}: the {parts} differ"
    if differing == [_WORDS["template_id"]]:
        return f"{sentence}, so fewer drafted tokens may be accepted."
    if force:
        return f"{sentence}; used all the same because it was forced."
    raise MismatchError(f"{sentence}; use a drafter trained for this target, or force it.")


def version_identity(loaded: LoadedModel, cache: Path) -> VersionIdentity:
    """The identity of a loaded target. The weights' hash is kept under `cache`, keyed by the files' sizes and times."""
    return VersionIdentity(
        weights_id=weights_id(loaded, cache),
        adapter_id=adapter_id(loaded.adapter_folder),
        quantisation=quantisation_name(loaded.source) or quantisation_of(loaded.model.config),
        tokenizer_id=tokenizer_id(loaded.tokenizer),
        template_id=template_id(loaded.tokenizer),
        name=loaded.source.name,
    )


def weights_id(loaded: LoadedModel, cache: Path) -> str:
    """The hash of the stored weights behind a loaded target (tiny ones: of the float32 weights they are made from)."""
    if loaded.source.kind is SourceKind.TINY:
        return weights_id_of_state(tiny_model(loaded.source.tiny_kind or "", loaded.source.seed).state_dict())
    assert loaded.folder is not None
    return weights_id_of_folder(loaded.folder, cache)


def weights_id_of_state(state: Mapping[str, Tensor]) -> str:
    """The hash of a model's state dict (before its weights are packed or its layers replaced)."""
    return _combine((name, tuple(tensor.shape), _digest(tensor)) for name, tensor in state.items())


def weights_id_of_folder(folder: Path, cache: Path) -> str:
    """The hash of a Hugging Face folder's weights; equals that of the model loaded from it in its own dtype or float32.

    Streams the files where their tensors carry the model's own names. Some families are stored under other names or in
    other pieces (experts one by one): these are loaded once, on the CPU. Raises HeadwayError for an unreadable file.
    """
    note = cache / "identity" / f"{_files_key(folder)}.json"
    with suppress(HeadwayError, OSError):
        known = read_json(note).get("weights_id") if note.is_file() else None
        if isinstance(known, str):
            return known
    result = _stream(folder) if _has_own_names(folder) else weights_id_of_state(_load(folder).state_dict())
    with suppress(OSError):  # a cache that cannot be written costs time, not correctness
        write_note(note, {"weights_id": result, "folder": str(folder)})
    return result


def tokenizer_id(tokenizer: PreTrainedTokenizerBase) -> str:
    """The hash of what turns text into ids: vocabulary, merges, normaliser, pre-tokeniser, special tokens.

    Padding and truncation, which training scripts change, take no part.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        content = json.loads(backend.to_str())
        for part in ("padding", "truncation", "version"):
            content.pop(part, None)
        content["added_tokens"] = sorted(content.get("added_tokens") or [], key=lambda token: token["id"])
        content = _without_empty(content)
    else:  # tokenizers in plain Python or sentencepiece
        content = {"class": type(tokenizer).__name__, "vocabulary": tokenizer.get_vocab()}
    special = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "unk_token_id")}
    return _hash_json({"content": content, "special": special})


def _without_empty(value: Any) -> Any:
    """Drops null, false and empty entries of JSON objects, which other versions of the tokenizer library leave out."""
    if isinstance(value, list):
        return [_without_empty(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _without_empty(item)
        for key, item in value.items()
        if not (item is None or item is False or item == [] or item == {})
    }


def template_id(tokenizer: PreTrainedTokenizerBase) -> str:
    """The hash of the chat template, "none" for a tokenizer without one."""
    template: Any = tokenizer.chat_template
    return _hash_json(template) if template else "none"


def _combine(entries: Iterable[tuple[str, tuple[int, ...], str]]) -> str:
    """One hash over (name, shape, digest of values) in any order, with any prefix, a tied head stored or not."""
    tensors = {name: (shape, digest) for name, shape, digest in entries}
    others = {value for name, value in tensors.items() if not name.endswith(_HEADS)}
    kept = {name: value for name, value in tensors.items() if not (name.endswith(_HEADS) and value in others)}
    prefix = _common_prefix([name for name in kept if not name.endswith(_HEADS)])
    plain = {_HEADS[0] if name.endswith(_HEADS) else name.removeprefix(prefix): value for name, value in kept.items()}
    lines = sorted(f"{name} {list(shape)} {digest}" for name, (shape, digest) in plain.items())
    return hashlib.sha256("\n".join([f"scheme {_SCHEME}", *lines]).encode()).hexdigest()


def _common_prefix(names: list[str]) -> str:
    """The leading components ("model.", "transformer.") that all names share; never a whole name."""
    prefix = ""
    while names:
        rests = [name.removeprefix(prefix) for name in names]
        first = {rest.partition(".")[0] for rest in rests}
        if len(first) != 1 or not all(rest.partition(".")[2] for rest in rests):
            break
        prefix += f"{first.pop()}."
    return prefix


def _digest(tensor: Tensor) -> str:
    """SHA-256 of the values: floats as float32 (float64 only where float32 cannot hold them), the rest as int64."""
    flat = tensor.detach().reshape(-1).cpu()
    wide = torch.float32 if flat.is_floating_point() else torch.int64
    if flat.dtype == torch.float64 and not torch.equal(flat, flat.float().double()):
        wide = torch.float64
    if flat.is_complex():
        flat, wide = torch.view_as_real(flat).reshape(-1), torch.float64
    digest = hashlib.sha256(str(wide).encode())
    for block in flat.split(_BLOCK):
        digest.update(block.to(wide).numpy())
    return digest.hexdigest()


def _stream(folder: Path) -> str:
    return _combine(_stored_digests(folder))


def _stored_digests(folder: Path) -> Iterable[tuple[str, tuple[int, ...], str]]:
    for file in weight_files(folder):
        with safe_open(file, framework="pt") as stored:
            for name in stored.keys():  # noqa: SIM118 - safe_open is no mapping
                tensor = stored.get_tensor(name)
                yield name, tuple(tensor.shape), _digest(tensor)


def _has_own_names(folder: Path) -> bool:
    """Whether the files hold just the tensors, by name and shape, that the model class has (prefix and head aside).

    Quantised models, and models with code of their own, are hashed as they are stored.
    """
    stored = {tensor.name: tensor.shape for tensor in stored_tensors(folder)}
    settings = read_json(folder / "config.json")
    if not stored or settings.get("quantization_config") or settings.get("auto_map"):
        return bool(stored)
    config = AutoConfig.from_pretrained(folder)
    with torch.device("meta"):
        state = AutoModelForCausalLM.from_config(config).state_dict()
    own = {name: tuple(tensor.shape) for name, tensor in state.items()}
    return _plain_names(stored) == _plain_names(own)


def _plain_names(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    body = {name: shape for name, shape in shapes.items() if not name.endswith(_HEADS)}
    prefix = _common_prefix(list(body))
    return {name.removeprefix(prefix): shape for name, shape in body.items()}


def _load(folder: Path) -> torch.nn.Module:
    with quiet_bars():
        model: torch.nn.Module = AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    return model


def quantisation_of(config: Any) -> str:
    """The method and a hash of its settings, "none" for a model that is not quantised."""
    settings = getattr(config, "quantization_config", None)
    if settings is None:
        return "none"
    values = settings if isinstance(settings, dict) else settings.to_dict()
    return f"{values.get('quant_method', 'unknown')}-{_hash_json(values)[:12]}"


def _files_key(folder: Path) -> str:
    files = weight_files(folder) or sorted(folder.glob("*.bin"))
    stats = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in [*files, folder / "config.json"]]
    return _hash_json([_SCHEME, str(folder.resolve()), stats])


def _hash_json(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
