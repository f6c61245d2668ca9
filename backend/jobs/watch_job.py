"""The watch for stale heads as a job: reads requests as they come, raises alarms, tells whoever has to know.

Requests are JSON lines in a file that grows: one that a person names, or the one that the dashboard writes what is
posted to it. Where it has read to and what it knows is kept after every round, so a watch that was killed goes on there
and raises nothing twice. A line that is no request is counted and passed over. Torch-free; knows no page.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from backend.analysis.watch_series import Raised, Request, WatchedSeries, request_from
from backend.errors import Cancelled, HeadwayError
from backend.jobs.context import JobContext
from backend.jobs.watch_config import WatchJobConfig
from backend.settings import Settings
from storage import RunFilter, RunSort, Store

STATE, ALARM = "state", "alarm "  #: keys of items
FOLDER, FILE = "watch", "requests.jsonl"
ROUND = 2000  #: lines between two savings
LOOK_S = 1.0
PAGE = 200


def posted_requests(settings: Settings) -> Path:
    """The file that the dashboard of this home folder writes posted requests to."""
    return settings.home / FOLDER / FILE


def run(config: WatchJobConfig, context: JobContext) -> dict[str, Any]:
    """Watch. Returns {requests, rejected, alarms, series}; raises HeadwayError for what a person can mend. With
    `follow` it ends when it is stopped, with what it has.
    """
    file = Path(config.requests).expanduser() if config.requests else posted_requests(context.settings)
    if config.requests and not file.is_file():
        raise HeadwayError(f"{file} can't be read; give a file with a JSON object a line.")
    watch = _Watch(config, context, file)
    while True:
        while watch.round():
            pass
        if context.should_stop() and not config.follow:
            raise Cancelled("The watch was stopped; started again, it goes on where it was.")
        if not config.follow or context.should_stop():
            return watch.result()
        time.sleep(LOOK_S)


class _Watch:
    def __init__(self, config: WatchJobConfig, context: JobContext, file: Path) -> None:
        self.config, self.context, self.file = config, context, file
        self.series = WatchedSeries(config.rules(), config.baseline)
        self.offset, self.last_run, self.requests = 0, "", 0
        self.rejected: Counter[str] = Counter()
        kept = context.items()
        self.alarms = 0
        if STATE in kept:
            state = kept[STATE]
            self.series.load(state["series"])
            self.offset, self.last_run, self.requests = state["offset"], state["last_run"], state["requests"]
            self.rejected.update(state["rejected"])
            self.alarms = state["alarms"]

    def round(self) -> bool:
        """Read what has come, up to ROUND requests; False when there was nothing."""
        raised: list[Raised] = []
        before = self.requests + sum(self.rejected.values())
        for request in self._lines():
            raised += self._add(request)
        if self.config.runs and self.context.store is not None:
            for request in self._runs(self.context.store):
                raised += self._add(request)
        if self.requests + sum(self.rejected.values()) == before:
            return False
        first = self.alarms
        for number, one in enumerate(raised, first):
            told = {"sentence": sentence(one), "at_s": time.time()}
            self.context.item(f"{ALARM}{number:06d}", one.to_dict() | told)
        self.alarms += len(raised)
        # The alarms are stored before the place that was read to: after a kill between the two the same are raised
        # again under the same numbers, and none is lost.
        self.context.item(STATE, self._state())
        self._report()
        for one in raised:
            self._tell(one)
        return not self.context.should_stop()

    def _add(self, request: Request) -> list[Raised]:
        self.requests += 1
        return self.series.add(request)

    def _lines(self) -> Iterator[Request]:
        """Whole lines behind the place that was read to; a file that became shorter is read from its start."""
        if not self.file.is_file():
            return
        if self.file.stat().st_size < self.offset:
            self.context.log(f"{self.file} has been begun anew, so it is read from its start.")
            self.offset = 0
        with self.file.open("rb") as lines:
            lines.seek(self.offset)
            for _ in range(ROUND):
                line = lines.readline()
                if not line.endswith(b"\n"):
                    return  # still being written
                self.offset += len(line)
                if not line.strip():
                    continue
                try:
                    yield request_from(json.loads(line))
                except (ValueError, RecursionError) as error:
                    self.rejected["no JSON" if isinstance(error, json.JSONDecodeError) else str(error)[:200]] += 1

    def _runs(self, store: Store) -> Iterator[Request]:
        """Stored runs since the last one that was looked at, the oldest first; ids sort by time."""
        fresh: list[Any] = []
        for page in range(0, ROUND, PAGE):
            order = RunSort(by="created_at")
            found = store.list_runs(RunFilter(status="finished"), order=order, limit=PAGE, offset=page)
            fresh += [one for one in found if one.id > self.last_run]
            if len(found) < PAGE or found[-1].id <= self.last_run:
                break
        for one in reversed(fresh):
            self.last_run = one.id
            if one.num_steps and one.num_drafted:
                version = one.version_label or one.version_id or "unknown"
                yield Request(version, one.drafter_name, "", 1 + one.num_accepted / one.num_steps)

    def _state(self) -> dict[str, Any]:
        return {
            "offset": self.offset, "last_run": self.last_run, "requests": self.requests,
            "alarms": self.alarms, "rejected": dict(self.rejected), "series": self.series.to_dict(),
        }  # fmt: skip

    def _report(self) -> None:
        rows = [row for row in self.series.rows() if not row["domain"] and row["recent"] is not None]
        if rows:
            mean = sum(row["recent"] for row in rows) / len(rows)
            self.context.metrics(self.requests, {"acceptance_length": mean, "alarms": float(self.alarms)})
        self.context.progress(self.requests, max(1, self.requests), "requests", f"{self.alarms} alarms")

    def _tell(self, one: Raised) -> None:
        self.context.log(sentence(one))
        body = json.dumps(one.to_dict() | {"sentence": sentence(one)}, ensure_ascii=False)
        for tell, whom in ((post, self.config.webhook), (hand_over, self.config.alarm_command)):
            if whom is not None and (problem := tell(whom, body, self.config.patience)) is not None:
                self.context.log(problem)

    def result(self) -> dict[str, Any]:
        return seen(self.context.items(), self.config)


def seen(items: Mapping[str, Mapping[str, Any]], config: WatchJobConfig) -> dict[str, Any]:
    """{requests, rejected, alarms, series} of a watch that kept these items."""
    state = items.get(STATE, {"series": [], "requests": 0, "rejected": {}})
    series = WatchedSeries(config.rules(), config.baseline)
    series.load(state["series"])
    alarms = [dict(data) for key, data in sorted(items.items()) if key.startswith(ALARM)]
    return {
        "requests": state["requests"], "rejected": dict(state["rejected"]), "alarms": alarms, "series": series.rows(),
    }  # fmt: skip


def sentence(one: Raised) -> str:
    """An alarm for people."""
    where = f" on {one.domain}" if one.domain else ""
    than = "" if one.version == one.baseline_version else f" on {one.baseline_version}"
    lost = 100 * (1 - one.alarm.recent / one.baseline)
    return (
        f"{one.drafter} with {one.version}{where} accepts {one.alarm.recent:.2f} tokens a step, {lost:.0f} % below its "
        f"{one.baseline:.2f}{than} ({one.alarm.rule}, request {one.alarm.at})."
    )


def post(url: str, body: str, patience_s: float) -> str | None:
    """Send to a webhook; None, or a sentence on what went wrong."""
    try:
        request = urllib.request.Request(url, body.encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=patience_s) as answer:
            return None if answer.status < 400 else f"The webhook answered {answer.status}."
    except urllib.error.HTTPError as error:
        error.close()
        return f"The webhook answered {error.code}; the alarm is kept."
    except (urllib.error.URLError, OSError, ValueError) as error:
        return f"The webhook was not told ({getattr(error, 'reason', None) or error}); the alarm is kept."


def hand_over(command: str, body: str, patience_s: float) -> str | None:
    """Give to a command's input; None, or a sentence on what went wrong."""
    try:
        done = subprocess.run(
            shlex.split(command), input=body, text=True, capture_output=True, timeout=patience_s, check=False
        )
    except subprocess.TimeoutExpired:
        return f"The command that is told of alarms did not end within {patience_s:g} s; the alarm is kept."
    except (OSError, ValueError, IndexError) as error:
        return f"The command that is told of alarms can't be run ({error}); the alarm is kept."
    return None if done.returncode == 0 else f"The command that is told of alarms ended with {done.returncode}."
