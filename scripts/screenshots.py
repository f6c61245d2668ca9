"""Pictures of a running dashboard: `python scripts/screenshots.py URL FOLDER` takes every page at 1440 and 800 pixels,
light and dark, and the Live page also in the middle of a run, and after it with a node chosen. Knows the pages'
addresses and element ids, nothing behind them.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SIZES = {1440: 900, 800: 1000}
PAGES = {
    "home": "/",
    "data": "/data",
    "train": "/train",
    "evaluate": "/evaluate",
    "sweep": "/sweep",
    "trees": "/trees",
    "audit": "/audit",
    "export": "/export",
    "runs": "/runs",
    "compare": "/compare",
    "versions": "/versions",
    "learn": "/learn",
}
IS_THERE = "window.headway && window.headway.feed.status"
HAS_STEPS = "window.headway?.live?.last >= 12"
IS_OVER = "window.headway?.live?.run?.over"


def take_pages(page: Page, url: str, folder: Path, name: str) -> None:
    for page_name, path in PAGES.items():
        page.goto(url + path)
        page.wait_for_function(IS_THERE)
        page.wait_for_timeout(1500)  # what a page asks for when it is loaded
        page.screenshot(path=folder / f"{page_name}-{name}.png", full_page=True)


def take_live(page: Page, url: str, folder: Path, name: str) -> None:
    page.goto(url + "/live")
    page.locator("#hw-tree .hw-tree").wait_for()
    page.screenshot(path=folder / f"{name}-empty.png", full_page=True)
    page.locator("#hw-run").click()
    page.wait_for_function(HAS_STEPS, timeout=120_000)
    page.screenshot(path=folder / f"{name}-running.png", full_page=True)
    page.wait_for_function(IS_OVER, timeout=300_000)
    page.evaluate("window.headway.live.go(7)")
    page.locator("#hw-tree .node.rejected").first.hover()
    page.wait_for_timeout(300)
    page.screenshot(path=folder / f"{name}-stepping.png", full_page=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Take pictures of a running dashboard.")
    parser.add_argument("url", help="say http://127.0.0.1:7860")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--chromium", default=shutil.which("chromium") or shutil.which("google-chrome"))
    arguments = parser.parse_args()
    if not arguments.chromium:
        print("No Chromium found: install it or give --chromium PATH.", file=sys.stderr)
        return 2
    arguments.folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser: Browser = playwright.chromium.launch(executable_path=arguments.chromium, args=FLAGS)
        for width, height in SIZES.items():
            for scheme in ("light", "dark"):
                page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
                page.on("pageerror", lambda error: print(f"page error: {error}", file=sys.stderr))
                page.on(
                    "console", lambda line: line.type == "error" and print(f"console: {line.text}", file=sys.stderr)
                )
                take_live(page, arguments.url.rstrip("/"), arguments.folder, f"live-{width}-{scheme}")
                take_pages(page, arguments.url.rstrip("/"), arguments.folder, f"{width}-{scheme}")
                page.close()
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
