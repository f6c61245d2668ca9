"""What every test shares: a quiet, offline environment and a Chromium. Knows nothing of what is tested."""

from __future__ import annotations

import faulthandler
import os
import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# Before torch, transformers and gradio are imported, and inherited by the processes that tests start. Threads that wait
# for each other by spinning slow each other tenfold, so processes side by side share the cores.
_THREADS = str(min(2, os.cpu_count() or 1))
if "PYTEST_XDIST_WORKER_COUNT" in os.environ:
    _THREADS = str(max(1, (os.cpu_count() or 1) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])))
    for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.pop(_name, None)  # inherited from the process that shares out the tests
for _name, _value in {
    "OMP_NUM_THREADS": _THREADS,
    "MKL_NUM_THREADS": _THREADS,
    "HF_HUB_OFFLINE": "1",
    "GRADIO_ANALYTICS_ENABLED": "False",
    "TOKENIZERS_PARALLELISM": "false",
}.items():
    os.environ.setdefault(_name, _value)
faulthandler.enable()

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM_FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def find_chromium() -> str:
    """The path of an installed Chromium. Without one the test is skipped, or fails where CI is set."""
    for name in CHROMIUM_NAMES:
        path = shutil.which(name)
        if path is not None:
            return path
    reason = "no Chromium found: apt-get install chromium"
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """The path of Chromium, see find_chromium."""
    return find_chromium()


@pytest.fixture(scope="session")
def browser(chromium_path: str) -> Iterator[Browser]:
    """One Chromium for the session; every page gets a context of its own."""
    from playwright.sync_api import sync_playwright

    # The OpenMP runtime that is preloaded for torch is nothing for a browser.
    environment: dict[str, str | float | bool] = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium_path, args=CHROMIUM_FLAGS, env=environment)
        yield running
        running.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """open_page(**context_options) gives a page in a new context, say viewport= or color_scheme=.

    Uncaught errors and console errors of all pages opened are collected and fail the test at its end.
    """
    errors: list[str] = []
    contexts: list[Any] = []

    def new_page(**options: Any) -> Page:
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(f"uncaught: {error}"))
        page.on("console", lambda line: errors.append(f"console: {line.text}") if line.type == "error" else None)
        return page

    yield new_page
    for context in contexts:
        context.close()
    assert not errors, "the page reported errors:\n" + "\n".join(errors)


@pytest.fixture
def browser_page(open_page: Callable[..., Page]) -> Page:
    """One page of 1440 x 900 pixels; an error in its console fails the test."""
    return open_page(viewport={"width": 1440, "height": 900})
