"""`db`: looks after the database and the files that belong to it: a copy, an upgrade, what can be deleted.

Deletes nothing without --yes, and never what a row of the database refers to. Knows where things lie, not what is in
them.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from backend.errors import HeadwayError
from backend.jobs.console import say
from backend.settings import Settings
from backend.words import bytes_in_words
from storage import (
    OPEN_JOB_STATUSES,
    Orphan,
    Store,
    StoreError,
    backup_database,
    delete_orphan,
    sqlite_path,
    upgrade_database,
)

OUTPUTS = ("answers", "drafters", "versions", "exports")  #: made to be kept: deleted only when asked for by name


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("backup", "upgrade", "gc", "usage"), help="what to do; see below")
    parser.add_argument("file", nargs="?", metavar="FILE", help="backup: where the copy goes")
    parser.add_argument("--yes", action="store_true", help="gc: delete what it lists")
    parser.add_argument(
        "--outputs", action="store_true", help="gc: also drafters, answers and exports that no row refers to"
    )
    parser.add_argument("--db", metavar="PATH_OR_URL", help="database; default: runs.db in Headway's home folder")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = (
        "backup FILE  a checked copy of the database, also while it is in use\n"
        "upgrade      bring the database to this version's schema, after a copy\n"
        "gc           list files that nothing refers to and nobody touched for an hour; with --yes delete them\n"
        "usage        how much the database and its folders hold"
    )


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Do one action; raises HeadwayError or StoreError for what a person can mend."""
    _check(args)
    database = args.db or settings.database
    if args.action == "backup":
        answer, lines = _backup(database, Path(args.file).expanduser().absolute())
    elif args.action == "upgrade":
        answer, lines = _upgrade(database)
    elif args.action == "gc":
        answer, lines = _gc(database, settings, args.yes, args.outputs)
    else:
        with Store.open(database) as store:
            answer, lines = _usage(store, settings)
    print(json.dumps(answer, ensure_ascii=False) if args.json else "\n".join(lines))
    return 0


def _check(args: argparse.Namespace) -> None:
    if args.action == "backup" and not args.file:
        raise HeadwayError("Where should the copy go? Write db backup FILE.")
    if args.action != "backup" and args.file:
        raise HeadwayError(f"db {args.action} takes no file, but got {args.file!r}; use --db to choose the database.")
    for name in ("yes", "outputs"):
        if getattr(args, name) and args.action != "gc":
            raise HeadwayError(f"--{name} belongs to db gc, not to db {args.action}.")


def _backup(database: str | Path, copy: Path) -> tuple[dict[str, Any], list[str]]:
    backup_database(database, copy)
    size = copy.stat().st_size
    return {"copy": str(copy), "num_bytes": size}, [f"Copied to {copy} ({bytes_in_words(size)}), checked and complete."]


def _upgrade(database: str | Path) -> tuple[dict[str, Any], list[str]]:
    done = upgrade_database(database)
    if done.before == done.after:
        lines = [f"The database is already at schema {done.after}."]
    elif done.before is None:
        lines = [f"Made a new database with schema {done.after}."]
    else:
        lines = [f"Upgraded from schema {done.before} to {done.after}."]
    if done.copy is not None:
        lines.append(f"The database as it was: {done.copy}")
    return asdict(done) | {"copy": None if done.copy is None else str(done.copy)}, lines


def _gc(database: str | Path, settings: Settings, delete: bool, outputs: bool) -> tuple[dict[str, Any], list[str]]:
    found = _orphans(database, settings)
    # What begins with a dot is what a training left half done.
    kept = [one for one in found if one.home in OUTPUTS and not one.path.name.startswith(".") and not outputs]
    doomed = [one for one in found if one not in kept]
    failed = _delete(doomed) if delete else []
    deleted = [one for one in doomed if one not in failed] if delete else []
    answer = {
        "orphans": [_as_json(one, one in deleted) for one in found],
        "num_bytes": sum(one.num_bytes for one in doomed),
        "deleted_bytes": sum(one.num_bytes for one in deleted),
    }
    return answer, _told(doomed, kept, deleted, delete)


def _orphans(database: str | Path, settings: Settings) -> list[Orphan]:
    """What no row refers to: neither of the database at hand nor of the usual one of the same folders."""
    with ExitStack() as opened:
        stores = [opened.enter_context(Store.open(one)) for one in _existing(database, settings)]
        if all(store.is_empty() for store in stores):
            raise HeadwayError(
                f"The database {stores[0].location} holds nothing, so it cannot tell which files are wanted; choose "
                "the right one with --db."
            )
        homes = _homes(settings)
        if any(store.count_jobs(statuses=OPEN_JOB_STATUSES) for store in stores):
            # An open job reads features for hours without changing them, and names only the answers they are of.
            say("Cached features were left alone, because there are jobs that are not finished.")
            del homes["features"]
        found, *others = [store.find_orphans(homes) for store in stores]
    return [one for one in found if all(one in other for other in others)]


def _existing(database: str | Path, settings: Settings) -> list[str | Path]:
    path = sqlite_path(database)
    if path is not None and not path.is_file():
        raise HeadwayError(f"There is no database {path}, so nothing can tell which files are wanted; check the path.")
    usual = settings.database
    return [database, usual] if usual.is_file() and (path is None or not path.samefile(usual)) else [database]


def _delete(orphans: Sequence[Orphan]) -> list[Orphan]:
    """Delete; returns those that could not be, each named on stderr."""
    failed = []
    for orphan in orphans:
        try:
            delete_orphan(orphan)
        except StoreError as error:
            print(error, file=sys.stderr)
            failed.append(orphan)
    return failed


def _told(doomed: list[Orphan], kept: list[Orphan], deleted: list[Orphan], delete: bool) -> list[str]:
    lines = [f"{bytes_in_words(one.num_bytes):>9}  {one.path}" for one in (deleted if delete else doomed)]
    total = bytes_in_words(sum(one.num_bytes for one in (deleted if delete else doomed)))
    if delete:
        lines.append(f"Deleted {len(deleted)} of {len(doomed)} orphans, {total}.")
    elif doomed:
        lines.append(f"{total} that nothing refers to; delete it with: db gc --yes")
    else:
        lines.append("Nothing to delete.")
    if kept:
        lines += ["Kept, because they may be wanted (--outputs deletes them too):"]
        lines += [f"{bytes_in_words(one.num_bytes):>9}  {one.path}" for one in kept]
    return lines


def _usage(store: Store, settings: Settings) -> tuple[dict[str, Any], list[str]]:
    usage = store.usage(_homes(settings))
    disk = shutil.disk_usage(settings.home if settings.home.exists() else Path.home())
    lines = [
        f"runs {usage.num_runs}, of them {usage.num_trashed_runs} in the waste basket",
        f"jobs {usage.num_jobs} with {usage.num_metrics} steps of metrics; datasets {usage.num_datasets}",
        *(f"{bytes_in_words(size):>9}  {name}" for name, size in _parts(usage.trace_bytes, usage.file_bytes).items()),
        *(f"{bytes_in_words(size):>9}  {_homes(settings)[name]}" for name, size in usage.folder_bytes.items()),
        f"{bytes_in_words(disk.free):>9}  free on the disk",
    ]
    return asdict(usage) | {"free_bytes": disk.free}, lines


def _parts(trace_bytes: int, file_bytes: int | None) -> dict[str, int]:
    parts = {"steps of runs, in the database": trace_bytes}
    return parts if file_bytes is None else {"the database": file_bytes} | parts


def _homes(settings: Settings) -> dict[str, Path]:
    return {
        "jobs": settings.jobs,
        "features": settings.features,
        "answers": settings.answers,
        "drafters": settings.drafters,
        "versions": settings.versions,
        "exports": settings.exports,
        "artifacts": settings.home / "artifacts",
    }


def _as_json(orphan: Orphan, deleted: bool) -> dict[str, Any]:
    return {"home": orphan.home, "path": str(orphan.path), "num_bytes": orphan.num_bytes, "deleted": deleted}
