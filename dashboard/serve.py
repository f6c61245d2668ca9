"""`serve`: the dashboard's process, from command-line arguments to a listening port.

Makes the engine, opens the store, decides who may reach the pages, and starts the web server. Knows no page.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
from pathlib import Path

from backend.engine.service import LocalEngine
from backend.errors import HeadwayError
from backend.settings import Settings
from dashboard.access import AccessPolicy
from dashboard.services import DashboardSettings, Services
from storage import Store

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
    import uvicorn  # with Gradio below, two seconds that a refused start should not cost

    from dashboard.build import create_app

    with Store.open(args.db or settings.database) as store:
        engine = LocalEngine(settings, store, args.device, args.dtype, args.trust_remote_code)
        try:
            shown = DashboardSettings(default_target=args.target, demo_prompts=DEMO_PROMPTS)
            app = create_app(Services(engine, access, store, shown))
            print(f"Headway is ready: {_link(args.host, args.port, access)}", file=sys.stderr, flush=True)
            uvicorn.run(app, host=args.host, port=args.port, log_level="warning", timeout_graceful_shutdown=3)
        finally:
            engine.close()
    return 0


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
