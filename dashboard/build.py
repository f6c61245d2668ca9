"""Builds the dashboard's ASGI app: the guard outside, Headway's routes, then Gradio's pages. Loads no weights."""

from __future__ import annotations

from typing import Any

import gradio as gr
from fastapi import FastAPI

from dashboard.access import AccessGuard
from dashboard.components.assets import base_path
from dashboard.pages.live import live_page
from dashboard.routes import headway_routes
from dashboard.runs import Runs
from dashboard.services import Services
from dashboard.theme import headway_theme

NO_DOCUMENTS: dict[str, Any] = {"docs_url": None, "redoc_url": None, "openapi_url": None}


def create_app(services: Services) -> FastAPI:
    """The whole dashboard. Run it with one process: sessions and running decodes live in memory."""
    runs = Runs(services)
    app = FastAPI(title="Headway", **NO_DOCUMENTS)
    app.router.routes.extend(headway_routes(services, runs))
    page = live_page(services, runs)
    gr.mount_gradio_app(
        app,
        page,
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
        max_file_size=1,
    )
    app.add_middleware(AccessGuard, policy=services.access)
    return app


def _head() -> str:
    return (
        f'<link rel="stylesheet" href="{base_path()}/css/headway.css">'
        f'<link rel="stylesheet" href="{base_path()}/css/live.css">'
        f'<link rel="modulepreload" href="{base_path()}/js/mount.js">'
    )
