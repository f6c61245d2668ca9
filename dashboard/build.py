"""Builds the dashboard's ASGI app: the guard outside, Headway's routes, then Gradio's pages. Loads no weights."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import gradio as gr
from fastapi import FastAPI

from dashboard.access import AccessGuard
from dashboard.components.assets import assets, base_path
from dashboard.jobs import Jobs
from dashboard.pages.adapters import adapters_page
from dashboard.pages.audit import audit_page
from dashboard.pages.compare import compare_page
from dashboard.pages.data import data_page
from dashboard.pages.doctor import doctor_page
from dashboard.pages.evaluate import evaluate_page
from dashboard.pages.export import export_page
from dashboard.pages.frame import page_header
from dashboard.pages.home import home_page
from dashboard.pages.learn import learn_page
from dashboard.pages.live import live_page
from dashboard.pages.race import race_page
from dashboard.pages.runs import runs_page
from dashboard.pages.serve import serve_page
from dashboard.pages.sweep import sweep_page
from dashboard.pages.train import train_page
from dashboard.pages.trees import trees_page
from dashboard.pages.versions import versions_page
from dashboard.routes import OldLinks, headway_routes
from dashboard.runs import Runs
from dashboard.services import Services
from dashboard.theme import headway_theme

NO_DOCUMENTS: dict[str, Any] = {"docs_url": None, "redoc_url": None, "openapi_url": None}
UPLOAD_LIMIT = "512mb"
Page = Callable[[Services, Jobs], None]


def pages(runs: Runs) -> list[tuple[str, str, Page]]:
    """(name, path, function that builds it) in the order of the navigation."""
    return [
        ("Home", "/", home_page),
        ("Live", "/live", lambda services, jobs: live_page(services, runs)),
        ("Race", "/race", race_page),
        ("Data", "/data", data_page),
        ("Train", "/train", train_page),
        ("Evaluate", "/evaluate", evaluate_page),
        ("Trees", "/trees", trees_page),
        ("Sweep", "/sweep", sweep_page),
        ("Audit", "/audit", audit_page),
        ("Doctor", "/doctor", doctor_page),
        ("Export", "/export", export_page),
        ("Serve", "/serve", serve_page),
        ("Runs", "/runs", runs_page),
        ("Compare", "/compare", compare_page),
        ("Versions", "/versions", versions_page),
        ("Adapters", "/adapters", adapters_page),
        ("Learn", "/learn", learn_page),
    ]


def create_app(services: Services) -> FastAPI:
    """The whole dashboard. Run it with one process: sessions and running decodes live in memory."""
    runs, jobs = Runs(services), Jobs(services)
    app = FastAPI(title="Headway", **NO_DOCUMENTS)
    addresses = [path for _, path, _ in pages(runs)]
    app.router.routes.extend(headway_routes(services, runs, jobs, addresses))
    with warnings.catch_warnings():
        # Said about several pages even where server-side rendering is off, as here.
        warnings.filterwarnings("ignore", "SSR mode is not supported", UserWarning)
        gr.mount_gradio_app(
            app,
            build_pages(services, runs, jobs),
            path="/",
            theme=headway_theme(),
            head=_head(),
            footer_links=[],
            run_history=False,
            enable_monitoring=False,
            show_error=False,
            ssr_mode=False,
            mcp_server=False,
            pwa=False,
            app_kwargs=dict(NO_DOCUMENTS),
            max_file_size=UPLOAD_LIMIT,
        )
    app.add_middleware(OldLinks)
    app.add_middleware(AccessGuard, policy=services.access)
    return app


def build_pages(services: Services, runs: Runs, jobs: Jobs) -> gr.Blocks:
    """All pages in one Blocks; each has its own address, components and events."""
    listed = pages(runs)
    shown = [(name, path) for name, path, _ in listed]
    demo = gr.Blocks(title="Headway", analytics_enabled=False, fill_width=True)
    for name, path, build in listed:
        with demo if path == "/" else demo.route(name, path, show_in_navbar=False):
            page_header(path, shown)
            build(services, jobs)
    return demo


def _head() -> str:
    styles = sorted(
        (name for name in assets() if name.endswith(".css")), key=lambda name: ("headway.css" not in name, name)
    )
    links = [f'<link rel="stylesheet" href="{base_path()}/{name}">' for name in styles]
    return "".join([*links, f'<link rel="modulepreload" href="{base_path()}/js/mount.js">'])
