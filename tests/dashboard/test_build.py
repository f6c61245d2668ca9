"""The app as a whole: light, quiet, small, and its own routes answer."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace

import gradio as gr
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from dashboard.access import AccessPolicy
from dashboard.components.assets import assets, base_path
from dashboard.pages.live import live_page
from dashboard.runs import Runs
from dashboard.services import Services
from storage.errors import NotFoundError
from tests.ui.replay_engine import ReplayEngine
from tests.ui.serving import in_loop


@pytest.fixture(scope="module")
def page(engine: ReplayEngine) -> gr.Blocks:
    services = Services(engine, AccessPolicy.for_bind())
    return in_loop(lambda: live_page(services, Runs(services)))


@pytest.fixture(scope="module")
def client(dashboard: Callable[..., FastAPI]) -> TestClient:
    store = SimpleNamespace(list_runs=lambda limit: [], get_run=_unknown)
    return TestClient(dashboard(AccessPolicy.for_bind(), store=store), base_url="http://127.0.0.1:7860")


def _unknown(run_id: str) -> None:
    raise NotFoundError(f"The store holds no run {run_id}.")


def test_the_dashboards_process_loads_no_model_code() -> None:
    code = "import sys, dashboard.build; print([m for m in ('torch', 'transformers', 'vllm') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    assert result.stdout.strip() == "[]"


def test_the_page_is_small_and_holds_no_connection(page: gr.Blocks) -> None:
    config = page.get_config_file()
    assert len(config["components"]) < 100
    # Each page may hold one connection, its event stream: browsers allow six a host.
    assert config["connect_heartbeat"] is False


def test_every_event_names_its_concurrency_and_none_queues(page: gr.Blocks) -> None:
    functions = [function for function in page.fns.values() if function.fn is not None]
    assert len(functions) == 9
    for function in functions:
        assert function.concurrency_id == "light" and function.queue is False and function.api_visibility == "private"


def test_templates_are_constant(page: gr.Blocks) -> None:
    views = [block for block in page.blocks.values() if isinstance(block, gr.HTML)]
    assert len(views) == 12
    for view in views:
        assert view.html_template == "<div></div>" and view.css_template == ""
        assert "${" not in view.js_on_load


def test_own_routes_answer(client: TestClient) -> None:
    assert client.get("/headway/status").json()["device"] == "cpu"
    assert client.get("/headway/runs").json() == []
    script = client.get(f"{base_path()}/js/mount.js")
    assert script.status_code == 200 and script.headers["content-type"].startswith("text/javascript")
    assert "immutable" in script.headers["cache-control"]
    for name in ("../views.py", "views.py", "js/none.js", "%2e%2e/views.py"):
        assert client.get(f"{base_path()}/{name}").status_code == 404


def test_scripts_write_text_only_as_text() -> None:
    for name, content in assets().items():
        if name.endswith(".js"):
            for risky in (b"innerHTML", b"outerHTML", b"insertAdjacentHTML", b"document.write", b"eval("):
                assert risky not in content, name
            assert b"http:" not in content.replace(b"http://www.w3.org/2000/svg", b"") and b"https:" not in content


def test_there_is_no_monitoring_page_and_no_documentation_of_the_api(client: TestClient) -> None:
    assert client.get("/docs").status_code == 404 and client.get("/openapi.json").status_code == 404
    assert client.get("/monitoring").status_code in (403, 404)
    assert client.get("/config").json()["run_history"] is False
