"""The app as a whole: light, quiet, small, and its own routes answer."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator

import gradio as gr
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from dashboard.access import AccessPolicy
from dashboard.build import build_pages
from dashboard.components.assets import assets, base_path
from dashboard.components.views import LIVE_VIEWS, VIEWS
from dashboard.jobs import Jobs
from dashboard.runs import Runs
from dashboard.services import Services
from storage import Store
from tests.ui.replay_engine import ReplayEngine
from tests.ui.serving import in_loop


@pytest.fixture(scope="module")
def demo(engine: ReplayEngine) -> gr.Blocks:
    services = Services(engine, AccessPolicy.for_bind())
    return in_loop(lambda: build_pages(services, Runs(services), Jobs(services)))


@pytest.fixture(scope="module")
def client(dashboard: Callable[..., FastAPI]) -> Iterator[TestClient]:
    with Store.open(":memory:") as store:
        yield TestClient(dashboard(AccessPolicy.for_bind(), store=store), base_url="http://127.0.0.1:7860")


def test_the_dashboards_process_loads_no_model_code() -> None:
    code = "import sys, dashboard.build; print([m for m in ('torch', 'transformers', 'vllm') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    assert result.stdout.strip() == "[]"


def test_each_page_is_small_and_holds_no_connection(demo: gr.Blocks) -> None:
    config = demo.get_config_file()
    assert len(config["page"]) >= 2
    for name, page in config["page"].items():
        assert 0 < len(page["components"]) < 100, name
    # Each page may hold one connection, its event stream: browsers allow six a host.
    assert config["connect_heartbeat"] is False


def test_every_event_names_its_concurrency_and_none_queues(demo: gr.Blocks) -> None:
    functions = [function for function in demo.fns.values() if function.fn is not None]
    assert len(functions) >= 9
    for function in functions:
        assert function.concurrency_id == "light" and function.queue is False and function.api_visibility == "private"


def test_templates_are_constant_and_every_view_has_its_module(demo: gr.Blocks) -> None:
    views = [block for block in demo.blocks.values() if isinstance(block, gr.HTML)]
    assert len(views) > 12
    for view in views:
        assert view.html_template == "<div></div>" and view.css_template == ""
        assert "${" not in view.js_on_load
    for name in LIVE_VIEWS | VIEWS:
        assert f"js/views/{name}.js" in assets(), name


def test_every_page_has_its_own_address_that_a_reload_finds(client: TestClient, demo: gr.Blocks) -> None:
    addresses = [path for path, _, _ in demo.pages]
    assert {"", "live", "runs"} <= set(addresses)
    components = set()
    for path in addresses:
        page = client.get(f"/{path}?job=x&run=" if path else "/")
        assert page.status_code == 200
        config = json.loads(re.search(r"window\.gradio_config = (\{.*?\});</script>", page.text)[1])
        assert config["current_page"] == path
        shown = {one["id"] for one in config["components"]}
        assert shown and not shown & components, "a component on two pages"
        components |= shown


def test_old_links_lead_to_the_live_page(client: TestClient) -> None:
    answer = client.get("/?run=r1&x=%20y", follow_redirects=False)
    assert answer.status_code == 307 and answer.headers["location"] == "/live?run=r1&x=%20y"
    assert client.get("/?job=r1", follow_redirects=False).status_code == 200


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
