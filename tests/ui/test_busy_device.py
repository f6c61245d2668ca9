"""While somebody else has the device, each form that starts work says who, and offers to wait, stop it or use the CPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backend.engine.protocol import EngineStatus
from backend.settings import Settings
from dashboard.access import AccessPolicy
from dashboard.services import DashboardSettings, Services
from storage import Store
from tests.ui.replay_engine import ReplayEngine
from tests.ui.serving import serving

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.ui
#: page -> the button that starts its work, and the kind of job
FORMS = {
    "evaluate": ("#hw-evaluate-start", "evaluate"),
    "trees": ("#hw-trees-calibrate", "calibrate"),
    "sweep": ("#hw-sweep-form [data-action=start]", "sweep"),
    "train": ("#hw-train-fields [data-action=start]", "train"),
}


class BusyEngine(ReplayEngine):
    device = "cuda:0"
    job: str | None = None

    def status(self) -> EngineStatus:
        return EngineStatus("training heads, 12 min left", None, (), None, self.device, {}, self.job)


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open(":memory:") as made:
        yield made


@pytest.fixture
def engine(store: Store) -> BusyEngine:
    made = BusyEngine(steps_per_s=None)
    job = store.lease_job("host:1:x", job_id=store.create_job(kind="train", name="heads", config={}).id)
    assert job is not None
    made.job = job.id
    return made


@pytest.fixture
def url(store: Store, engine: BusyEngine, tmp_path: Path) -> Iterator[str]:
    for name in ("demo", "heldout"):
        (tmp_path / f"{name}.jsonl").write_text('{"turns": ["Say a."]}\n' * 3)
    shown = DashboardSettings(demo_prompts=tmp_path / "demo.jsonl")
    with serving(Services(engine, AccessPolicy.for_bind(), store, shown, Settings(tmp_path, tmp_path))) as address:
        yield address


def test_each_form_names_the_holder_and_can_use_the_cpu_instead(
    url: str, store: Store, engine: BusyEngine, browser_page: Page
) -> None:
    page = browser_page
    page.set_default_timeout(60_000)
    for name, (start, kind) in FORMS.items():
        page.goto(f"{url}/{name}")
        note = page.locator(".hw-busy")
        note.get_by_text("cuda:0 is busy: training heads, 12 min left. What you start here waits for it.").wait_for()
        note.get_by_role("button", name="Use the CPU").click()
        note.get_by_text("it works on the CPU").wait_for()
        assert note.get_by_role("button", name="Stop it").is_hidden()
        before = {job.id for job in store.list_jobs()}
        page.locator(start).click()
        page.wait_for_function(f"window.headway.feed.jobs.some((job) => job.kind === '{kind}' && job.device === 'cpu')")
        (made,) = [job for job in store.list_jobs() if job.id not in before]
        assert (made.kind, made.device, made.config["device"]) == (kind, "cpu", "cpu"), name
    note.get_by_role("button", name="Wait for the device").click()
    note.get_by_role("button", name="Stop it").click()
    note.get_by_text("it was asked to end").wait_for()
    assert engine.job is not None and store.get_job(engine.job).requested == "stop"


def test_where_the_device_is_the_cpu_nothing_is_offered(url: str, engine: BusyEngine, browser_page: Page) -> None:
    engine.device = "cpu"
    for name in FORMS:
        browser_page.goto(f"{url}/{name}")
        browser_page.locator(".hw-holder", has_text="cpu busy: training heads").wait_for(timeout=60_000)
        browser_page.wait_for_function("document.querySelector('.hw-busy')?.hidden === true")
