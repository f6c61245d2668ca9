"""Which captures of a target's states lie in a folder, and which of them serve a learner: one that holds more layers
than are read holds those too, whole texts hold the positions of their answers, and many texts hold any part of them.

Looks at manifests, never at states. Torch-free, so that a plan can ask as a training does. Knows no drafter: it is told
layers.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from backend.errors import HeadwayError

MANIFEST: Final = "features.json"
FINAL: Final = -1  # in a capture's layers: the last hidden state, which is there in any case; as in targets/target.py
TEXTS: Final = "texts"  # kind of a capture of whole texts; one of single positions names none
#: What a capture was made in before its manifest said so: found again in the folder's name.
_DTYPES: Final = ("torch.float32", "torch.bfloat16", "torch.float16")
_DEVICES: Final = ("cpu", "cuda", "mps")
_TEXTS_FILE: Final = "texts.json"  #: beside a manifest of whole texts: what stands where, see text_digests
_ONCE: Final = ("dtype", "device")  # told by every capture; anything else only where there is something to tell


class TokenizedAnswer(Protocol):
    """A prompt and what the target answered, as token ids (data/answers.py has the whole record)."""

    @property
    def prompt_ids(self) -> Sequence[int]: ...

    @property
    def answer_ids(self) -> Sequence[int]: ...


def answers_digest(answers: Sequence[TokenizedAnswer]) -> str:
    """The same for the same tokens in the same order."""
    digest = hashlib.sha256()
    for answer in answers:
        digest.update(json.dumps([list(answer.prompt_ids), list(answer.answer_ids)]).encode())
    return digest.hexdigest()


def text_digests(answers: Sequence[TokenizedAnswer]) -> list[str]:
    """A short digest of each, in order; the same for the same tokens."""
    told = (json.dumps([list(answer.prompt_ids), list(answer.answer_ids)]) for answer in answers)
    return [hashlib.sha256(text.encode()).hexdigest()[:20] for text in told]


def write_texts(folder: Path, digests: Sequence[str]) -> None:
    """Keep what texts a capture holds, in their order, so that one of some of them finds it."""
    (folder / _TEXTS_FILE).write_text(json.dumps(list(digests)), encoding="utf-8")


def read_texts(folder: Path) -> list[str]:
    """What `write_texts` kept; [] where nothing is, or damaged: then the capture serves whole or not at all."""
    try:
        return [str(one) for one in json.loads((folder / _TEXTS_FILE).read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):
        return []


@dataclass(frozen=True)
class Wanted:
    """States to learn from: of these answers (their digest and those of each), by a target with these weights.

    layers: those that must be there beside the last hidden state. texts: they are needed at every token of whole texts;
    else at the answers' positions alone. made_by: dtype, device and so on as `made_in` gives them; of a plan, whatever
    is known of them.
    """

    weights_id: str
    answers: str
    layers: frozenset[int]
    texts: bool
    made_by: Mapping[str, str]
    each: Sequence[str] = ()


def serving(parent: Path, wanted: Wanted) -> list[Path]:
    """Complete captures right below `parent` that hold all that is wanted: of just these answers before of more, and of
    those with the fewest layers first.
    """
    found = []
    for path in parent.glob(f"*/{MANIFEST}"):
        try:
            manifest = read_manifest(path.parent)
        except HeadwayError:
            continue  # somebody else's damage
        if manifest is not None and _serves(path.parent, manifest, wanted):
            header = manifest["header"]
            more = header["answers"] != wanted.answers
            found.append((more, len(header.get("reads", ())), path.parent.name, path.parent))
    return [folder for *_, folder in sorted(found)]


def _serves(folder: Path, manifest: Mapping[str, Any], wanted: Wanted) -> bool:
    header = manifest.get("header", {})
    if header.get("weights_id") != wanted.weights_id:
        return False
    texts = header.get("kind") == TEXTS
    if header.get("answers") != wanted.answers and not (texts and _held(wanted.each, read_texts(folder))):
        return False
    if (wanted.texts and not texts) or not wanted.layers <= {*header.get("reads", ()), FINAL}:
        return False
    return _made_alike(made_in(folder, manifest), wanted.made_by) and seems_complete(folder, manifest)


def _held(each: Sequence[str], there: Sequence[str]) -> bool:
    return bool(each) and not Counter(each) - Counter(there)


def _made_alike(made: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    once = all(made.get(name) == wanted[name] for name in _ONCE if name in wanted)
    others = {*made, *wanted} - {*_ONCE}
    return bool(made) and once and all(made.get(name) == wanted.get(name) for name in others)


def seems_complete(folder: Path, manifest: Mapping[str, Any]) -> bool:
    """Whether all shards are there in their sizes; that each is whole is looked at when it is read."""
    shards = manifest["shards"]
    if sum(shard["positions"] for shard in shards) != manifest["positions"]:
        return False
    files = [(folder / shard["file"], shard["bytes"]) for shard in shards]
    return all(path.is_file() and path.stat().st_size == size for path, size in files)


def made_in(folder: Path, manifest: Mapping[str, Any]) -> dict[str, str]:
    """What made a capture's states beside the weights: dtype, device, and an adapter or rounding where there was one.

    Empty where neither the manifest nor the folder's name tells.
    """
    told = manifest.get("made_by")
    if told is not None:
        return dict(told)
    for dtype in _DTYPES:
        for device in _DEVICES:
            made = {"dtype": dtype, "device": device}
            if folder.name == folder_name(manifest["header"], made):
                return made
    return {}


def folder_name(header: Mapping[str, Any], made_by: Mapping[str, str]) -> str:
    """The name of the folder for features with this header, made in this way."""
    digest = hashlib.sha256(json.dumps({**header, **made_by}, sort_keys=True).encode()).hexdigest()
    return f"{str(header['weights_id'])[:8]}-{digest[:16]}"


def identity(
    header: Mapping[str, Any], made_by: Mapping[str, str], reads: Collection[int] | None, online: bool = False
) -> str:
    """What a run is told to learn from, whichever capture holds it: a run begun with one goes on with another.

    reads: the layers side by side, None for positions with the last hidden state. online: the states are not halved.
    """
    told = {name: header[name] for name in ("weights_id", "hidden_size", "answers")} | dict(made_by)
    told |= {"reads": None if reads is None else list(reads), "online": online}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """None where there is none. Raises HeadwayError for a damaged one."""
    path = folder / MANIFEST
    if not path.is_file():
        return None
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise HeadwayError(f"{path} is damaged; delete the folder and capture the features again.") from error
    return manifest
