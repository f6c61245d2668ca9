"""`versions`: the versions of targets in the store: list, register, label, note; what differs between two, and whether
their files are still those that were registered.

Turns words into calls; knows nothing of how an identity is made.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from backend.errors import HeadwayError
from backend.jobs.version_files import checked, described, differing
from backend.jobs.version_words import checked_label, to_check, to_compare
from backend.settings import Settings
from storage import Store, VersionIdentity, VersionRecord

#: action -> (words it takes, fewest and most; None: any number)
ACTIONS: dict[str, tuple[str, int, int | None]] = {
    "list": ("", 0, 0),
    "register": ("TARGET...", 1, None),
    "label": ("VERSION LABEL", 2, 2),
    "unlabel": ("VERSION LABEL", 2, 2),
    "note": ("VERSION TEXT", 2, 2),
    "diff": ("VERSION VERSION", 2, 2),
    "check": ("[VERSION...]", 0, None),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    takes = "; ".join(f"{name} {words}".strip() for name, (words, _, _) in ACTIONS.items())
    parser.add_argument("action", nargs="?", default="list", choices=list(ACTIONS), help="what to do; default: list")
    parser.add_argument("words", nargs="*", metavar="WORD", help=takes)
    parser.add_argument("--parent", metavar="VERSION", help="register: the version it was made from")
    parser.add_argument("--name", help="register: what it is called; default: as it was named")
    parser.add_argument("--trust-remote-code", action="store_true", help="run Python code that comes with a model")
    parser.add_argument("--db", metavar="PATH_OR_URL", help="database; default: runs.db in Headway's home folder")
    parser.add_argument("--json", action="store_true", help="one JSON object a version on stdout")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """1 when a check finds files changed or gone. Raises HeadwayError or StoreError for what the person can mend."""
    takes, fewest, most = ACTIONS[args.action]
    if len(args.words) < fewest or (most is not None and len(args.words) > most):
        raise HeadwayError(f"`versions {args.action}` takes {takes or 'nothing more'}, not {len(args.words)} words.")
    with Store.open(args.db or settings.database) as store:
        if args.action == "diff":
            _diff(args, settings, store)
            return 0
        if args.action == "check":
            return _check(args, settings, store)
        for version in _changed(args, settings, store):
            print(json.dumps(as_json(version, store), ensure_ascii=False) if args.json else _line(version, store))
    return 0


def _changed(args: argparse.Namespace, settings: Settings, store: Store) -> list[VersionRecord]:
    """Does what is asked for and gives the versions to print."""
    if args.action == "register":
        parent = one_of(store, args.parent).id if args.parent else None
        found = [described(word, settings, args.trust_remote_code) for word in args.words]
        return [record(store, one, args.name, parent) for one in found]
    if args.action == "list":
        return store.list_versions()
    version = one_of(store, args.words[0])
    if args.action == "note":
        store.annotate_version(version.id, notes=args.words[1])
    else:
        store.label_version(version.id, checked_label(args.words[1]), args.action == "label")
    return [store.get_version(version.id)]


def record(store: Store, found: dict[str, Any], name: str | None, parent_id: str | None) -> VersionRecord:
    """What `described` found, recorded if it is new."""
    return store.register_version(
        VersionIdentity.from_parts(found["identity"]),
        label=name or found["name"],
        source=found["source"],
        model_type=found["model_type"],
        num_parameters=found["num_parameters"],
        parent_id=parent_id,
    )


def one_of(store: Store, word: str) -> VersionRecord:
    """The version with this id, label or name, or whose weights hash so. Raises HeadwayError for none or many."""
    versions = store.list_versions()
    hashed = [one for one in versions if len(word) >= 6 and one.identity.weights_id.startswith(word)]
    for found in (
        [one for one in versions if one.id == word],
        [one for one in versions if word in one.tags],
        [one for one in versions if one.label == word],
        hashed,
    ):
        if len(found) == 1:
            return found[0]
        if found:
            raise HeadwayError(f"{len(found)} versions are called “{word}”; name one by its id.")
    raise HeadwayError(f"There is no version “{word}”; `python app.py versions` lists them.")


def _check(args: argparse.Namespace, settings: Settings, store: Store) -> int:
    chosen = [one_of(store, word) for word in args.words] or store.list_versions()
    bad = False
    for version in chosen:
        found = checked(to_check(version, store.list_drafters(version.id)), settings)
        bad |= any(one["state"] in ("changed", "gone") for one in (found, *found["drafters"]))
        if args.json:
            print(json.dumps(found, ensure_ascii=False))
            continue
        print(f"{found['state']:<10} {version.label}: {found['sentence']}")
        for one in found["drafters"]:
            if one["state"] != "there":
                print(f"{one['state']:<10} {one['name']}: {one['sentence']}")
    return int(bad)


def as_json(version: VersionRecord, store: Store) -> dict[str, Any]:
    return {
        "id": version.id,
        "label": version.label,
        "labels": list(version.tags),
        "parent_id": version.parent_id,
        "source": version.source,
        "model_type": version.model_type,
        "num_parameters": version.num_parameters,
        "created_at": version.created_at.isoformat(),
        "notes": version.notes,
        **vars(version.identity),
        "drafters": [one.name for one in store.list_drafters(version.id)],
    }


def _diff(args: argparse.Namespace, settings: Settings, store: Store) -> None:
    first, second = (_compared(store, word) for word in args.words)
    found = differing(first, second, settings, args.trust_remote_code)
    if args.json:
        print(json.dumps(found, ensure_ascii=False))
        return
    print(f"differs in: {', '.join(found['parts']) or 'nothing'}")
    for layer in found["layers"]:
        if layer["changed"] or layer["reshaped"]:
            shape = f", {layer['reshaped']} of another shape" if layer["reshaped"] else ""
            many = f"{layer['changed']} of {layer['tensors']} tensors{shape}"
            print(f"{layer['name']:<40} {100 * layer['change']:8.3f} %  {many}")
    counts = (found["num_tokens_added"], found["num_tokens_removed"], found["num_tokens_moved"])
    print("tokens: {} more, {} fewer, {} moved".format(*counts))
    for line in found["template"]:
        print(line)


def _compared(store: Store, word: str) -> dict[str, Any]:
    """A registered version, or the target at the place itself for a word that names a file or folder."""
    if Path(word).expanduser().exists():
        return {"source": word, "identity": None}
    return to_compare(one_of(store, word))


def _line(version: VersionRecord, store: Store) -> str:
    labels = f" [{', '.join(version.tags)}]" if version.tags else ""
    drafters = len(store.list_drafters(version.id))
    return f"{version.id}  {version.label}{labels}  {version.num_parameters:,} parameters, {drafters} drafters"
