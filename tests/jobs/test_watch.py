"""The watch as a job: the alarm at the right request, kills, stored runs, webhooks that hang, lines that are none."""

from __future__ import annotations

import json
import random
import socket
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

import app
from backend.errors import HeadwayError
from backend.jobs.context import ConsoleContext
from backend.jobs.kinds import JOB_KINDS
from backend.jobs.watch_config import WatchJobConfig
from backend.jobs.watch_job import ALARM, hand_over, post, run
from backend.settings import Settings
from storage import Store
from tests.dashboard.stored_runs import add_run


def lines(parts: list[tuple[str, int, float]], seed: int = 0) -> str:
    rng = random.Random(seed)
    rows = [
        {"version": version, "drafter": "heads", "acceptance_length": max(1.0, rng.gauss(length, 0.4))}
        for version, count, length in parts
        for _ in range(count)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)


class Killed(BaseException):
    """As if the process were gone."""


def test_the_alarm_is_raised_at_the_same_request_whatever_is_killed(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "requests.jsonl"
    file.write_text(lines([("v1", 400, 2.0), ("v2", 250, 1.7)]) + "no json\n\n{}\n" + '{"version": "cut', "utf-8")
    config = WatchJobConfig(requests=str(file))
    whole = run(config, ConsoleContext(settings, tmp_path, quiet=True))
    assert whole["requests"] == 650
    assert whole["rejected"] == {"no JSON": 1, "version must be a text of at most 200 letters": 1}
    first = next(one for one in whole["alarms"] if one["rule"] == "cusum")
    assert first["version"] == "v2" and first["baseline_version"] == "v1" and 5 < first["at"] <= 200

    class Fragile(ConsoleContext):
        left = 3

        def item(self, key: str, data: Any) -> None:
            if not key.startswith(ALARM):
                Fragile.left -= 1
                if Fragile.left == 0:
                    raise Killed  # between the alarms and the place that was read to
            super().item(key, data)

    parts: dict[str, dict[str, Any]] = {}
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        patch.setattr("backend.jobs.watch_job.ROUND", 200)
        run(config, Fragile(settings, tmp_path, quiet=True, parts=parts))
    again = run(config, ConsoleContext(settings, tmp_path, quiet=True, parts=parts))
    told = [{name: value for name, value in one.items() if name != "at_s"} for one in again["alarms"]]
    assert told == [{name: value for name, value in one.items() if name != "at_s"} for one in whole["alarms"]]
    assert again["requests"] == 650 and again["series"] == whole["series"]


def test_it_follows_a_file_that_grows_until_it_is_stopped(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "requests.jsonl"
    file.touch()
    stop = threading.Event()
    context = ConsoleContext(settings, tmp_path, quiet=True, stopped=stop.is_set)
    found: list[dict[str, Any]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("backend.jobs.watch_job.LOOK_S", 0.02)
        config = WatchJobConfig(requests=str(file), follow=True)
        thread = threading.Thread(target=lambda: found.append(run(config, context)))
        thread.start()
        for part in (lines([("v1", 120, 2.0)]), lines([("v1", 80, 2.0)], 1)):
            with file.open("a") as grown:
                grown.write(part[:100])
                grown.flush()
                time.sleep(0.1)
                grown.write(part[100:])
        deadline = time.monotonic() + 60
        while context.parts.get("state", {}).get("requests") != 200 and time.monotonic() < deadline:
            time.sleep(0.02)
        stop.set()
        thread.join(60)
    assert found[0]["requests"] == 200 and not found[0]["rejected"] and found[0]["alarms"] == []


def test_stored_runs_are_watched_once(settings: Settings, store: Store, tmp_path: Path) -> None:
    for number in range(4):
        add_run(store, prompt=f"question {number}", tree="3x2")
    config = WatchJobConfig(runs=True)
    context = ConsoleContext(settings, tmp_path, quiet=True, store=store)
    assert run(config, context)["requests"] == 4
    add_run(store, prompt="another", tree="3x2")
    again = run(config, context)
    assert again["requests"] == 5 and len(again["series"]) == 1


@pytest.fixture
def hooks() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A webhook's address, and what it was told; /broken answers 500."""
    told: list[dict[str, Any]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(500 if self.path == "/broken" else 200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Quietly."""

    server = HTTPServer(("127.0.0.1", 0), Hook)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", told
    server.shutdown()
    thread.join()
    server.server_close()


def test_alarms_are_told(settings: Settings, tmp_path: Path, hooks: tuple[str, list[dict[str, Any]]]) -> None:
    url, told = hooks
    file, noted = tmp_path / "requests.jsonl", tmp_path / "noted"
    file.write_text(lines([("v1", 200, 2.0), ("v2", 150, 1.6)]))
    noting = f"{sys.executable} -c \"import sys; open({str(noted)!r}, 'a').write(sys.stdin.read())\""
    config = WatchJobConfig(requests=str(file), webhook=url, alarm_command=noting)
    done = run(config, ConsoleContext(settings, tmp_path, quiet=True))
    assert done["alarms"] and len(told) == len(done["alarms"]) and told[0]["version"] == "v2"
    assert "below its" in told[0]["sentence"] and json.loads(noted.read_text().replace("}{", "}\n{").splitlines()[0])


def test_who_can_not_be_told_does_not_hold_the_watch_up(hooks: tuple[str, list[dict[str, Any]]]) -> None:
    url, _ = hooks
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        started = time.monotonic()
        assert "was not told" in str(post(f"http://127.0.0.1:{silent.getsockname()[1]}", "{}", 0.2))
        assert time.monotonic() - started < 20
    assert "500" in str(post(f"{url}/broken", "{}", 5)) and post(url, "{}", 5) is None
    assert "was not told" in str(post("no address", "{}", 1))
    sleeping = f"{sys.executable} -c 'import time; time.sleep(60)'"
    assert "did not end within 0.2 s" in str(hand_over(sleeping, "{}", 0.2))
    assert "ended with 1" in str(hand_over("false", "", 5)) and "can't be run" in str(hand_over("nosuchcommand", "", 5))
    assert "can't be run" in str(hand_over("'", "", 5)) and hand_over("true", "", 5) is None


def test_the_command_ends_with_1_when_an_alarm_was_raised(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADWAY_HOME", str(settings.home))
    file = tmp_path / "requests.jsonl"
    file.write_text(lines([("v1", 200, 2.0), ("v2", 150, 1.6)]))
    assert app.main(["watch", "--requests", str(file), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["requests"] == 350 and found["alarms"]
    file.write_text(lines([("v1", 200, 2.0)]))
    assert app.main(["watch", "--requests", str(file), "--max-drop", "0.2", "--no-store"]) == 0
    assert "200 requests, 0 alarms" in capsys.readouterr().err
    assert app.main(["watch", "--requests", str(tmp_path / "none"), "--no-store"]) == 2
    assert "can't be read" in capsys.readouterr().err


def test_a_watch_holds_no_device() -> None:
    assert not JOB_KINDS["watch"].needs_device({}) and JOB_KINDS["train"].needs_device({})


def test_a_missing_file_is_one_sentence(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match="give a file with a JSON object a line"):
        run(WatchJobConfig(requests=str(tmp_path / "x")), ConsoleContext(settings, tmp_path, quiet=True))
