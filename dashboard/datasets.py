"""What the Data page asks: bring a file, list and look at data sets, split, check for leaks, look at masks, distil.

Joins the store, the files and the jobs for the page. Files are named by the id of a data set; a path is only taken
where a person types one to bring a file. Knows no Gradio and no HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from backend.data.answers import iter_answers, unpack_answers
from backend.data.overlap import leak_check
from backend.data.registering import DatasetEntry, dataset_entry, lineage_beside, split_lineage
from backend.data.scanning import ANSWERS, PROMPTS, preview, scan
from backend.data.splitting import SIDES, write_split
from backend.errors import HeadwayError
from backend.jobs.mask_helper import MaskHelper
from backend.settings import Settings
from dashboard.jobs import Jobs
from dashboard.presenters.datasets import answer_row, dataset_details, dataset_row, leak_report, prompt_row
from dashboard.presenters.distill_form import distill_config, distill_fields, refused
from dashboard.presenters.targets import offered_targets
from dashboard.services import Services
from dashboard.tasks import Progress

PREVIEW_ROWS = 20
OWN_PROMPTS = Path(__file__).parent.parent / "prompts" / "train.jsonl"
OWN_NAME = "Headway's own prompts"
OWN_LICENCE = "Apache-2.0, written for Headway"


class Datasets:
    """`masks` shows rows token by token; made here unless one is handed in."""

    def __init__(self, services: Services, jobs: Jobs, masks: MaskHelper | None = None) -> None:
        self._services = services
        self._jobs = jobs
        self._masks = masks

    # Looking

    def listed(self) -> list[dict[str, Any]]:
        """All data sets, the newest first; empty without a store."""
        if self._services.store is None:
            return []
        versions = self._versions()
        return [dataset_row(one, versions, not Path(one.path).is_file()) for one in self._store.list_datasets()]

    def shown(self, dataset_id: str) -> dict[str, Any]:
        """One data set with its counts and first rows. Raises StoreError for an unknown one."""
        record = self._store.get_dataset(dataset_id)
        path = Path(record.path)
        row = dataset_row(record, self._versions(), not path.is_file())
        rows: dict[str, Any] = {"preview": [], "more": False, "trouble": None}
        try:
            rows |= self._first_rows(record.kind, path)
            if record.details.get("num_bytes") not in (None, path.stat().st_size):
                rows["trouble"] = (
                    "The file has changed since it was brought; bring it again to count what it holds now."
                )
        except (HeadwayError, OSError) as error:
            rows["trouble"] = str(error) if isinstance(error, HeadwayError) else f"{path} cannot be read."
        answered_by = [one.source for one in self._store.list_versions() if one.id == record.version_id]
        return dataset_details(row, record, rows) | {"target": answered_by[0] if answered_by else None}

    def mask(self, dataset_id: str, target: str, number: int) -> dict[str, Any]:
        """One row token by token under a target's template."""
        if not target.strip():
            raise HeadwayError("Choose a target first: its tokenizer and template decide what a row looks like.")
        record = self._store.get_dataset(dataset_id)
        if self._masks is None:
            self._masks = MaskHelper(self._places)
        return self._masks.mask(target.strip(), Path(record.path), number)

    # Bringing and changing

    def bring(self, path: Path, licence: str, name: str, progress: Progress) -> dict[str, Any]:
        """Count a file and keep it as a data set; {id, known}. The same content is the same data set; where it lies
        now is noted."""
        found = scan(path, progress)
        lineage = lineage_beside(path) if found.kind == ANSWERS else {}
        return self._register(dataset_entry(found, name, licence, lineage=lineage))

    def annotate(self, dataset_id: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Name, licence note, notes."""
        changes = {key: str(values[key])[:2000] for key in ("name", "licence", "notes") if key in values}
        if "name" in changes and not changes["name"].strip():
            raise HeadwayError("A data set needs a name.")
        self._store.annotate_dataset(dataset_id, **changes)
        return self.shown(dataset_id)

    def forget(self, dataset_id: str) -> None:
        """The store forgets it; its file stays."""
        self._store.delete_dataset(dataset_id)

    def split(self, dataset_id: str, fraction: float, progress: Progress) -> dict[str, Any]:
        """Both sides of a prompt set as data sets of their own; {ids: [training, held out]}."""
        record = self._prompts(dataset_id)
        folder = self._places.home / "datasets"
        stem = f"{_plain(record.name)}-{record.content_hash[:8]}-{round(1000 * fraction):03d}"
        paths = [folder / f"{stem}-{side}.jsonl" for side in SIDES]
        seen = _Seen(progress, Path(record.path))
        write_split(record.path, paths[0], paths[1], fraction, feed=seen.feed)
        source = {"name": record.name, "hash": record.content_hash}
        made = []
        for path, side in zip(paths, SIDES, strict=True):
            lineage = split_lineage(source, side, fraction)
            entry = dataset_entry(scan(path), f"{record.name} ({side})", record.licence, lineage=lineage)
            made.append(self._register(entry)["id"])
        return {"ids": made}

    def leaks(self, dataset_id: str, others: Sequence[str], typed: str, progress: Progress) -> dict[str, Any]:
        """Compare a prompt set with other prompt sets by id and with files by path, one a line."""
        record = self._prompts(dataset_id)
        names = {str(_typed(line)): Path(line.strip()).name for line in typed.splitlines() if line.strip()}
        names |= {other.path: other.name for other in map(self._prompts, others)}
        if not names:
            raise HeadwayError("Choose at least one evaluation set to compare with.")
        seen = _Seen(progress, Path(record.path), *map(Path, names))
        return leak_report(leak_check(record.path, names, feed=seen.feed), list(names.values()))

    # Distilling

    def form(self) -> dict[str, Any]:
        """The fields of the distillation form, with what can be chosen now."""
        fields = distill_fields(*self._choices())
        return {"fields": [field.to_json() for field in fields], "target": self._services.settings.default_target}

    def distill(self, action: str, typed: Mapping[str, Any]) -> dict[str, Any]:
        """`action`: check, start, command or yaml. {problems} and, without any, {job} or {text}."""
        fields = distill_fields(*self._choices())
        config, problems = distill_config(typed, fields, self._paths())
        if action == "check" or problems:
            return {"problems": problems}
        if action == "start":
            return {"problems": {}, "job": self._jobs.start("distill", config)}
        if action == "command":
            return {"problems": {}, "text": self._jobs.command("distill", config)}
        if action == "yaml":
            return {"problems": {}, "text": self._jobs.yaml("distill", config)}
        raise refused({"": f"The form can't {action[:40]}."})

    @property
    def places(self) -> Settings:
        """Where files lie. Raises HeadwayError when the dashboard was started without."""
        return self._places

    def _first_rows(self, kind: str, path: Path) -> dict[str, Any]:
        if kind == ANSWERS:
            answers: Any = unpack_answers(path) if path.suffix == ".npz" else iter_answers(path)
            first = list(islice(answers, PREVIEW_ROWS + 1))
            rows = [answer_row(number, one) for number, one in enumerate(first[:PREVIEW_ROWS], 1)]
            return {"preview": rows, "more": len(first) > PREVIEW_ROWS}
        found = preview(path, PREVIEW_ROWS)
        rows, number = [], 0
        for row in found.rows:
            number += row.prompt is not None
            rows.append(prompt_row(number, row))
        return {"preview": rows, "more": found.more}

    def _register(self, entry: DatasetEntry) -> dict[str, Any]:
        before = {one.id for one in self._store.list_datasets()}
        record = self._store.register_dataset(**entry.arguments())
        if record.path != entry.path:
            self._store.annotate_dataset(record.id, path=entry.path)
        return {"id": record.id, "known": record.id in before}

    def _prompts(self, dataset_id: str) -> Any:
        record = self._store.get_dataset(dataset_id)
        if record.kind != PROMPTS:
            raise HeadwayError(f"{record.name} holds answers, which are token ids; choose the prompts they came from.")
        return record

    def _choices(self) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        """(prompt sets, targets) as (label, value)."""
        prompts = [(f"{one.name} ({one.num_rows:,})", one.id) for one in self._store.list_datasets(kind=PROMPTS)]
        sources = [self._services.settings.default_target, *(one.source for one in self._store.list_versions())]
        return prompts, offered_targets(sources)

    def _paths(self) -> dict[str, str]:
        return {one.id: one.path for one in self._store.list_datasets(kind=PROMPTS)}

    def _versions(self) -> dict[str, str]:
        return {version.id: version.label for version in self._store.list_versions()}

    @property
    def _store(self) -> Any:
        if self._services.store is None:
            raise HeadwayError("This dashboard was started without a store, so it keeps no data sets.")
        return self._services.store

    @property
    def _places(self) -> Settings:
        if self._services.places is None:
            raise HeadwayError("This dashboard was started without a home folder, so it can keep no files.")
        return self._services.places


class _Seen:
    """Turns bytes read into progress over files that are read once each."""

    def __init__(self, progress: Progress, *paths: Path) -> None:
        self._progress = progress
        self._total = sum(path.stat().st_size for path in paths if path.is_file())
        self._done = 0

    def feed(self, data: bytes) -> None:
        self._done += len(data)
        self._progress(self._done, self._total)


def typed_path(text: str) -> Path:
    """The file a person typed. Raises HeadwayError when there is none."""
    if not text.strip():
        raise HeadwayError("Type the path of a file on the machine Headway runs on.")
    return _typed(text)


def _typed(text: str) -> Path:
    try:
        path = Path(text.strip().strip("\"'")).expanduser().absolute()
        if path.is_file():
            return path
        what = "is a folder; give a file in it" if path.is_dir() else "is not there; check the path"
    except (OSError, ValueError, RuntimeError):  # a name too long, a null byte, an unknown home
        what = "is no path"
    shown = "".join(c if c.isprintable() else "?" for c in text.strip()[:200])
    raise HeadwayError(f"“{shown}” {what}.")


def _plain(name: str) -> str:
    """A name as part of a file's name."""
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in name).strip("-.")[:60] or "data"
