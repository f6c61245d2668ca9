"""The Versions page in Chromium: labels move, notes stay, a target is registered and compared, files are checked."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backend.jobs.context import ConsoleContext
from backend.jobs.version_files import answer
from backend.jobs.watch_config import WatchJobConfig
from backend.jobs.watch_job import run
from backend.settings import Settings
from backend.targets.tiny import tiny_checkpoint
from dashboard.access import AccessPolicy
from dashboard.services import Services
from storage import Store
from tests.storage.samples import register
from tests.ui.replay_engine import ReplayEngine
from tests.ui.serving import serving

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.ui
HOSTILE = "${document.title='broken'} <img src=x onerror=\"document.title='broken'\">"


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open(":memory:") as made:
        yield made


@pytest.fixture
def url(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    # Here and not in a process of its own, which loads PyTorch for each request.
    monkeypatch.setattr(
        "dashboard.versions.ask", lambda module, request, *_: {"found": json.loads(json.dumps(answer(request)))}
    )
    places = Settings(tmp_path / "home", tmp_path / "cache")
    services = Services(ReplayEngine(steps_per_s=None), AccessPolicy.for_bind(), store, places=places)
    with serving(services) as address:
        yield f"{address}/versions"


def test_labels_and_notes_stay(url: str, store: Store, browser_page: Page) -> None:
    first, second = register(store), register(store, weights_id="w2")
    store.annotate_version(first.id, label=HOSTILE)
    page = browser_page
    page.set_default_timeout(60_000)
    page.goto(url)
    cards = {one.id: page.locator(f"[data-version='{one.id}']") for one in (first, second)}
    for one in (first, second):
        cards[one.id].get_by_placeholder("label").fill("serving")
        cards[one.id].get_by_role("button", name="Add label").click()
        cards[one.id].locator(".hw-ver-label", has_text="serving").wait_for()
    assert page.locator(".hw-ver-label").count() == 1
    cards[first.id].get_by_placeholder("What you want to remember").fill(HOSTILE)
    cards[first.id].get_by_role("button", name="Save the notes").click()
    cards[first.id].get_by_role("button", name="Save the notes").wait_for(state="hidden")
    page.reload()
    page.locator(".hw-ver-label").wait_for()
    assert cards[first.id].locator("textarea").input_value() == HOSTILE == store.get_version(first.id).notes
    page.locator(".hw-ver-label").click()
    page.locator(".hw-ver-label").wait_for(state="detached")
    assert page.title() == "Versions · Headway"


def test_a_target_is_registered_compared_and_its_files_are_checked(
    url: str, store: Store, tmp_path: Path, browser_page: Page
) -> None:
    folder = tiny_checkpoint(tmp_path / "one")
    other = tiny_checkpoint(tmp_path / "two", seed=1)
    page = browser_page
    page.set_default_timeout(120_000)
    page.goto(url)
    page.get_by_role("heading", name="No version yet").wait_for()
    for place in (folder, other):
        page.get_by_label("Target to register").fill(str(place))
        page.get_by_role("button", name="Register").click()
        page.locator(".hw-ver-card h3", has_text=place.name).wait_for()
    page.get_by_role("button", name="What changed").click()
    page.locator(".hw-ver-changes", has_text="differs from").locator("th", has_text="layer 2").wait_for()
    assert "first=" in page.url
    shutil.move(other, tmp_path / "three")
    page.get_by_role("button", name="Check files").click()
    page.locator(".hw-ver-state[data-state=gone]", has_text="The same version lies in").wait_for()
    page.get_by_role("button", name="Use it from there").click()
    page.get_by_text("All files are as they were registered.").wait_for()
    assert {Path(one.source).name for one in store.list_versions()} == {"one", "three"}


def test_what_a_watch_has_seen_stands_above_the_versions(
    url: str, store: Store, tmp_path: Path, browser_page: Page
) -> None:
    rng = random.Random(0)
    rows = [
        {"version": version, "drafter": HOSTILE, "acceptance_length": max(1.0, rng.gauss(length, 0.4))}
        for version, count, length in (("support-10", 300, 2.0), ("support-11", 150, 1.6))
        for _ in range(count)
    ]
    file = tmp_path / "requests.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = WatchJobConfig(requests=str(file))
    made = store.create_job(kind="watch", name="watch", config=config.model_dump(mode="json"))
    job = store.lease_job("host:1:x", job_id=made.id)
    assert job is not None
    context = ConsoleContext(Settings(tmp_path, tmp_path), tmp_path, quiet=True)
    run(config, context)
    store.put_items(job.id, job.attempt, context.items())
    page = browser_page
    page.set_default_timeout(60_000)
    page.goto(url)
    page.locator(".hw-ver-alarms li", has_text="support-11").first.wait_for()
    assert HOSTILE in page.locator(".hw-ver-watch th[scope=row]").first.inner_text()
    assert page.locator(".hw-ver-watch tr.hw-far").count() == 1
    assert "450 requests" in page.locator(".hw-ver-watch").inner_text()
    page.set_viewport_size({"width": 800, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= 800 and page.title() == "Versions · Headway"
