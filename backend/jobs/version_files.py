"""Whether the files behind a registered version are still those that were registered, and where they are if not; what
is at a place; what differs between two. Runs as a short-lived process too, for pages that load no weights:

    python -m backend.jobs.version_files < request.json

A request is {home, cache, action: describe, diff or check, ...} and the reply {found} or {error}. Knows no store: it is
told what was registered.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backend.drafters.checkpoint import file_sha256
from backend.errors import HeadwayError
from backend.settings import Settings
from backend.targets.adapters import adapter_id
from backend.targets.changes import changes
from backend.targets.describing import describe, moved_to
from backend.targets.identity import VersionIdentity
from backend.targets.sources import absolute_target, resolve_source, short_name, split_target

WEIGHTS = "model.safetensors"


def described(source: str, settings: Settings, trust_remote_code: bool = False) -> dict[str, Any]:
    """{identity, source, name, model_type, num_parameters} of the target at a folder, GGUF file or hub id, with what
    stands behind it.

    Raises HeadwayError.
    """
    found = describe(source, settings, trust_remote_code)
    exists = Path(split_target(source)[0]).expanduser().exists()
    return {
        "identity": found.identity.to_dict(),
        "source": absolute_target(source),
        "name": short_name(source) if exists else source.strip(),
        "model_type": found.model_type,
        "num_parameters": found.num_parameters,
    }


def differing(
    first: Mapping[str, Any], second: Mapping[str, Any], settings: Settings, trust_remote_code: bool = False
) -> dict[str, Any]:
    """The fields of Changes, of two of {source, identity or None}. Raises HeadwayError, also where a source no longer
    holds the version that was registered.
    """
    found = [describe(str(one["source"]), settings, trust_remote_code) for one in (first, second)]
    for one, is_there in zip((first, second), found, strict=True):
        if one["identity"] is not None and is_there.identity != VersionIdentity.from_dict(one["identity"]):
            raise HeadwayError(
                f"{one['source']} now holds another version than the one that was registered; check its files."
            )
    return changes(*found).to_dict()


def checked(version: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """{id, state, sentence, moved, drafters: [{id, state, sentence}]}; `version` is {id, source, identity, drafters}.

    state: there, changed, gone, or elsewhere (no file of this machine: it is read anew whenever it is loaded).
    """
    drafters = [_checked_drafter(one) for one in version["drafters"]]
    return {"id": version["id"], **_checked(version, settings), "drafters": drafters}


def _checked(version: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    source = str(version["source"])
    base, behind = split_target(source)
    place, wanted = Path(base).expanduser(), VersionIdentity.from_dict(version["identity"])
    if not place.is_absolute() and not place.exists() and _is_known(source):
        if _has_other_adapter(source, wanted):
            return {"state": "changed", "sentence": f"{source} now holds another adapter.", "moved": None}
        return {"state": "elsewhere", "sentence": f"{source} is read anew whenever it is loaded.", "moved": None}
    if place.exists():
        try:
            if describe(source, settings).identity == wanted:
                return {"state": "there", "sentence": f"{source} is as it was registered.", "moved": None}
            state, sentence = "changed", f"{source} now holds another version."
        except HeadwayError as error:
            state, sentence = "changed", str(error)
    else:
        state, sentence = "gone", f"{source} is gone."
    moved = moved_to(wanted, _places(place, settings), settings, behind)
    if moved is not None:
        sentence += f" The same version lies in {moved}{behind}."
    return {"state": state, "sentence": sentence, "moved": f"{moved}{behind}" if moved else None}


def _is_known(name: str) -> bool:
    """Whether it is a built-in name or may be a hub id, and the adapter behind it can be found."""
    try:
        resolve_source(name)
    except HeadwayError:
        return False
    return True


def _has_other_adapter(source: str, wanted: VersionIdentity) -> bool:
    """Whether the adapter behind a name lies here and is not the one that was registered."""
    adapter = resolve_source(source).adapter
    try:
        return adapter is not None and adapter.path is not None and adapter_id(adapter.path) != wanted.adapter_id
    except HeadwayError:  # damaged
        return True


def _places(place: Path, settings: Settings) -> list[Path]:
    """Where a version that is not where it was may be: beside its old place, and where versions are made here."""
    found: list[Path] = []
    for folder in (place.parent, settings.versions, settings.drafters):
        if folder.is_dir():
            found += sorted(one for one in folder.iterdir() if one.is_dir() and one != place)
    return list(dict.fromkeys(found))


def _checked_drafter(drafter: Mapping[str, Any]) -> dict[str, Any]:
    path = str(drafter["path"])
    weights = Path(path) / WEIGHTS
    if not weights.is_file():
        state, sentence = "gone", f"{path} is gone."
    elif file_sha256(weights) != drafter["weights_hash"]:
        state, sentence = "changed", f"{path} now holds other weights; they are refused when they are loaded."
    else:
        state, sentence = "there", f"{path} is as it was registered."
    return {"id": drafter["id"], "name": drafter["name"], "state": state, "sentence": sentence}


def answer(request: Mapping[str, Any]) -> Any:
    """What a request asks for. Raises HeadwayError."""
    settings = Settings(home=Path(request["home"]), cache=Path(request["cache"]))
    if request["action"] == "describe":
        return described(str(request["source"]), settings)
    if request["action"] == "diff":
        return differing(request["first"], request["second"], settings)
    return [checked(version, settings) for version in request["versions"]]


def main() -> None:
    request = json.load(sys.stdin)
    out, sys.stdout = sys.stdout, sys.stderr  # what libraries print is no part of the reply
    try:
        reply = {"found": answer(request)}
    except HeadwayError as error:
        reply = {"error": str(error)}
    out.write(json.dumps(reply))
    out.flush()  # whatever the libraries do on their way out


if __name__ == "__main__":
    main()
