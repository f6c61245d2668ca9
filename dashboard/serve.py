"""`serve`: the dashboard's process, from command-line arguments to a listening port.

Starts the engine's process or joins the one that runs, opens the store, decides who may reach the pages, and starts the
web server; closes them in order when told to end. Knows no page and loads no weights: torch stays in the engine's
process.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from backend.engine.host import EngineHost
from backend.engine.launch import Launch
from backend.engine.remote import RemoteEngine
from backend.errors import HeadwayError
from backend.settings import Settings
from dashboard.access import AccessPolicy
from dashboard.leaving import EndsWithServer
from dashboard.services import DashboardSettings, Services
from storage import Store
from storage.engine import resolve_url, sqlite_file

SUPERVISOR = "backend.jobs.supervisor:Supervisor"  #: runs in the engine's process, whose device the jobs need
OURS_ALONE = ("HEADWAY_PASSWORD", "HEADWAY_TOKEN")  #: what no other process needs to know
ANSWERS_S = 2  #: what answers that are being written get to end
DEMO_PROMPTS = Path(__file__).parent.parent / "prompts" / "demo.jsonl"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    web = parser.add_argument_group("web")
    web.add_argument(
        "--host", default="127.0.0.1", help="address to listen on; others than this machine need a password or token"
    )
    web.add_argument("--port", type=int, default=7860)
    web.add_argument("--password", help="asked of every visitor (better: set HEADWAY_PASSWORD)")
    web.add_argument("--token", help="lets scripts in as a Bearer token (better: set HEADWAY_TOKEN)")
    web.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="further Host name, as behind a proxy; repeatable",
    )
    parser.add_argument("--target", default="smollm2-135m", help="target shown at first")
    parser.add_argument("--db", metavar="PATH_OR_URL", help="database; default: runs.db in Headway's home folder")
    machine = parser.add_argument_group("machine")
    machine.add_argument("--device", help="cuda, mps or cpu; default: the best there is")
    machine.add_argument("--dtype", help="float32, bfloat16 or float16; default: bfloat16 on CUDA, else float32")
    machine.add_argument("--trust-remote-code", action="store_true", help="run Python code that comes with a model")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Serve until interrupted; raises HeadwayError or StoreError when it can't start."""
    access = AccessPolicy.for_bind(
        args.host,
        args.password or os.environ.get("HEADWAY_PASSWORD"),
        args.token or os.environ.get("HEADWAY_TOKEN"),
        args.allow_host,
    )
    _check_port(args.host, args.port)
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
    place = _place(args.db or settings.database)
    launch = Launch(
        home=str(settings.home),
        cache=str(settings.cache),
        store=place,
        device=args.device,
        dtype=args.dtype,
        trust_remote_code=args.trust_remote_code,
        beside=SUPERVISOR,
    )
    with Store.open(place) as store:
        host = EngineHost(launch, _environ(settings), died=lambda: _mark_dead(store), say=_say)
        host.start()
        try:
            from dashboard.build import create_app  # with Gradio two seconds, in which the engine starts

            host.wait_ready()  # before the pages are built: they ask what can draft
            shown = DashboardSettings(default_target=args.target, demo_prompts=DEMO_PROMPTS)
            app = create_app(Services(RemoteEngine(host), access, store, shown, settings))
            _serve(app, args, access, host)
        finally:
            host.close()
    return 0


def _serve(app: Any, args: argparse.Namespace, access: AccessPolicy, host: EngineHost) -> None:
    """Serve until told to end. The server has a thread of its own, so that signals reach nobody but us."""
    import uvicorn

    streams = EndsWithServer(app)
    config = uvicorn.Config(
        streams, host=args.host, port=args.port, log_level="warning", timeout_graceful_shutdown=ANSWERS_S
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, name="headway-web", daemon=True)
    with _told_to_end() as told:
        thread.start()
        while thread.is_alive() and not server.started and not told.wait(0.02):
            pass
        if server.started:
            _say(f"Headway is ready: {_link(args.host, args.port, access)}")
        while thread.is_alive() and not told.wait(0.5):
            pass
        if not told.is_set():
            raise HeadwayError("The web server ended; its own words are above.")
    streams.close()
    ending = threading.Thread(target=host.close, daemon=True)
    ending.start()  # at the same time, since jobs may take a while to write their checkpoints
    server.should_exit = True
    thread.join()
    ending.join()


@contextmanager
def _told_to_end() -> Iterator[threading.Event]:
    """Set by Ctrl-C or SIGTERM; afterwards these do again what they did before, so a second Ctrl-C ends at once."""
    told = threading.Event()
    before = {name: signal.signal(name, lambda *_: told.set()) for name in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield told
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


def _place(database: str | Path) -> str:
    """The database's path or URL in a form that means the same in every process."""
    url = resolve_url(database)
    path = sqlite_file(url)
    if path is None and url.get_backend_name() == "sqlite":
        raise HeadwayError("A database in memory can't be shared with the engine's process; give --db a file.")
    return str(path) if path is not None else url.render_as_string(hide_password=False)


def _environ(settings: Settings) -> dict[str, str]:
    """What the engine's process starts with."""
    kept = {name: value for name, value in os.environ.items() if name not in OURS_ALONE}
    return kept | {"HEADWAY_HOME": str(settings.home), "HEADWAY_CACHE": str(settings.cache)}


def _mark_dead(store: Store) -> None:
    store.mark_interrupted()
    store.interrupt_dead_jobs()


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def _link(host: str, port: int, access: AccessPolicy) -> str:
    shown = "127.0.0.1" if host in ("0.0.0.0", "::", "") else host
    shown = f"[{shown}]" if ":" in shown else shown
    token = access.link_token()
    return f"http://{shown}:{port}/" + (f"?token={token}" if token else "")


def _check_port(host: str, port: int) -> None:
    if not 0 < port < 65536:
        raise HeadwayError(f"The port must be 1 to 65535, but it is {port}.")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise HeadwayError(
                f"Can't listen on {host}:{port} ({error.strerror}); choose another --port or --host."
            ) from None
