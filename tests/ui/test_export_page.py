"""The Export page in Chromium: choose a drafter and an engine, start, and read the command and the findings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backend.formats.check import check_folder
from backend.jobs.context import ConsoleContext
from backend.jobs.export_config import ExportJobConfig
from backend.jobs.export_job import run
from backend.settings import Settings
from backend.targets.opening import open_target
from dashboard.access import AccessPolicy
from dashboard.services import DashboardSettings, Services
from storage import Store
from tests.formats.made import heads_for
from tests.ui.replay_engine import ReplayEngine
from tests.ui.serving import serving

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.ui


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open(":memory:") as made:
        yield made


@pytest.fixture
def places(tmp_path: Path) -> Settings:
    settings = Settings(tmp_path / "home", tmp_path / "cache")
    settings.make_folders()
    return settings


@pytest.fixture
def heads(places: Settings) -> Path:
    return heads_for(places.drafters / "mine", open_target("tiny-llama", places, "cpu"))


@pytest.fixture
def url(store: Store, places: Settings, heads: Path) -> Iterator[str]:
    class Engine(ReplayEngine):
        def drafters(self, target: str) -> list[dict[str, Any]]:
            mine = {"spec": str(heads), "name": "my heads", "family": "medusa", "target": "tiny-llama", "tree": []}
            return [*super().drafters(target), mine]

    shown = DashboardSettings(default_target="tiny-llama")
    with serving(Services(Engine(steps_per_s=None), AccessPolicy.for_bind(), store, shown, places)) as address:
        yield f"{address}/export"


def carried_out(store: Store, places: Settings, job_id: str, fault: str = "") -> dict[str, Any]:
    """The job as a worker would do it; `fault`: a key that gets lost from the config before the check."""
    job = store.lease_job("host:1:x", job_id=job_id)
    assert job is not None
    result = run(ExportJobConfig.model_validate(job.config), ConsoleContext(places, places.jobs / job.id, quiet=True))
    if fault:
        file = Path(result["out"]) / "config.json"
        config = json.loads(file.read_text())
        del config[fault]
        file.write_text(json.dumps(config))
        result["check"] = check_folder(Path(result["out"]), "vllm", None).to_dict()
    store.end_job(job.id, job.attempt, "finished", result=result)
    return result


def test_heads_are_handed_on_and_what_the_check_found_is_told(
    url: str, store: Store, places: Settings, browser_page: Page
) -> None:
    page = browser_page
    page.set_default_timeout(60_000)
    page.goto(url)
    page.wait_for_function("window.headway && window.headway.feed.jobs && window.headway.mounts.export === 1")
    page.get_by_role("heading", name="Hand a drafter to the engine that serves it").wait_for()
    form = page.locator("#hw-export-form")
    form.get_by_label("Drafter", exact=True).select_option(label="my heads")
    page.wait_for_function("document.querySelector('[data-path=target] select').value === 'tiny-llama'")
    form.get_by_role("button", name="Copy as command").click()
    page.locator("#hw-export-text pre", has_text="python app.py export --drafter").wait_for()
    form.get_by_role("button", name="As YAML").click()
    page.locator("#hw-export-text pre", has_text="engine: vllm").wait_for()
    form.get_by_role("button", name="Export", exact=True).click()
    page.locator(".hw-exported .hw-job[data-status=queued]:not([hidden])").wait_for()
    assert page.locator(".hw-exported .hw-welcome").is_hidden()
    (job,) = store.list_jobs(kinds=["export"])
    assert job.device == "cpu" and f"job={job.id}" in page.url
    done = carried_out(store, places, job.id)
    assert Path(done["out"]).parent == places.exports
    page.locator(".hw-exported-clean", has_text="tensors").wait_for()
    assert page.get_by_label("The folder's path").inner_text() == done["out"]
    assert page.get_by_label("The command").inner_text() == done["command"]
    assert done["command"] in (Path(done["out"]) / "README.md").read_text()

    form.locator("[data-path=out] input").fill(str(places.home / "again"))
    form.get_by_role("button", name="Export", exact=True).click()
    page.wait_for_function(f"!window.location.search.includes('{job.id}')")
    (second, _) = store.list_jobs(kinds=["export"])
    found = carried_out(store, places, second.id, "medusa_fc_bias")["check"]["findings"]
    assert len(found) == 1
    page.locator(".hw-exported-findings li").get_by_text(found[0]["what"]).wait_for()
    page.get_by_text(found[0]["mend"]).wait_for()
    page.reload()
    page.locator(".hw-exported-findings li").wait_for()
    page.set_viewport_size({"width": 800, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= 800
    page.get_by_role("link", name="Export", exact=True).wait_for()
    assert page.title() == "Export · Headway"
