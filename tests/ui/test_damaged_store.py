"""A database file that is damaged while the dashboard runs, in Chromium: every page says so in one sentence, nothing is
written over, and the copy that a person puts back holds all that was stored.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backend.engine.service import LocalEngine
from backend.settings import Settings
from dashboard.access import AccessPolicy
from dashboard.services import DashboardSettings, Services
from storage import Store
from tests.dashboard.stored_runs import add_run
from tests.ui.serving import serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.ui
PAGES = ("/", "/live", "/data", "/train", "/evaluate", "/sweep", "/trees", "/runs", "/learn")


def damage(path: Path) -> bytes:
    """Overwrites all but the first two pages; gives what stands there then."""
    with path.open("r+b") as file:
        file.seek(8192)
        file.write(b"\xff" * (path.stat().st_size - 8192))
    return path.read_bytes()


def test_a_damaged_database_is_one_sentence_on_every_page(tmp_path: Path, browser: Browser) -> None:
    places = Settings(tmp_path / "home", tmp_path / "cache")
    places.make_folders()
    shown = DashboardSettings(default_target="tiny-llama")
    with Store.open(places.database) as store:
        kept = [add_run(store, prompt=f"prompt {number}") for number in range(20)]
        before = [store.get_run(run_id) for run_id in kept]
        engine = LocalEngine(places, store)
        with serving(Services(engine, AccessPolicy.for_bind(), store, shown, places)) as url:
            store.close()  # the next question connects anew, instead of answering from what it has read
            whole = places.database.read_bytes()
            damaged = damage(places.database)
            sentence = f"The database {places.database} is damaged; move it away and put back a copy"
            page = browser.new_page(viewport={"width": 800, "height": 900})  # its console tells of refused requests
            page.set_default_timeout(30_000)
            for path in (*PAGES, f"/live?run={kept[0]}"):
                page.goto(url + path)
                page.wait_for_function("window.headway?.feed?.trouble")
                said = page.get_by_text(sentence).locator("visible=true")
                said.first.wait_for()
                page.wait_for_timeout(300)  # long enough for a page's own answer to come too
                assert said.count() == 1, f"{path} says it {said.count()} times"
                assert "Traceback" not in page.content()
            page.goto("about:blank")  # lets go of its stream before the server stops
            page.close()
        assert places.database.read_bytes() == damaged
    places.database.write_bytes(whole)
    with Store.open(places.database) as store:
        assert [store.get_run(run_id) for run_id in kept] == before
