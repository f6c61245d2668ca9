"""The Data page in Chromium: a file with broken rows comes in, its counts and tokens are seen, a distillation is
queued. Nothing of a file is ever run as code, and nothing is cut off at 800 pixels.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backend.settings import Settings
from dashboard.access import AccessPolicy
from dashboard.services import DashboardSettings, Services
from storage import Store
from tests.ui.cut import cut_texts
from tests.ui.idle_engine import IdleEngine
from tests.ui.serving import serving

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.ui

READY = "window.headway && window.headway.data && window.headway.data.sets !== null"
HOSTILE = "${document.title='broken'} <img src=x onerror=\"document.title=1\"> {{x}} " + (
    "why is the old town so quiet at night"
)
ROWS = [
    {"question_id": HOSTILE, "turns": [HOSTILE], "category": HOSTILE},
    {"messages": [{"role": "user", "content": "Say yes."}, {"role": "assistant", "content": "yes"}]},
    {"turns": []},
    *({"turns": [f"Tell me about the number {n}."], "category": "numbers"} for n in range(40)),
]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "runs.db") as made:
        yield made


@pytest.fixture
def url(store: Store, tmp_path: Path) -> Iterator[str]:
    places = Settings(home=tmp_path / "home", cache=tmp_path / "cache")
    shown = DashboardSettings(default_target="tiny-llama")
    with serving(Services(IdleEngine(), AccessPolicy.for_bind(), store, shown, places)) as address:
        yield f"{address}/data"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "my prompts.jsonl"
    path.write_text("\n".join([*map(json.dumps, ROWS), "no json"]))
    return path


def opened(page: Page, url: str) -> Page:
    page.set_default_timeout(60_000)
    page.goto(url)
    page.wait_for_function(READY)
    return page


def test_from_a_file_with_broken_rows_to_a_queued_distillation(
    url: str, file: Path, store: Store, browser_page: Page
) -> None:
    page = opened(browser_page, url)
    page.locator(".hw-data-empty").wait_for()
    page.locator("#hw-data-licence").fill("own work")
    page.locator("#hw-data-file").set_input_files(file)
    page.locator(".hw-set-numbers .wrong", has_text="2 broken rows").wait_for()
    assert "42 usable rows" in page.locator(".hw-set-numbers").inner_text().replace("\n", " ")
    page.locator(".hw-broken summary", has_text="2 broken rows are left out").wait_for()
    assert "Line 3: turns is not a list" in page.locator(".hw-broken").inner_text()
    assert "Line 44: is no valid JSON" in page.locator(".hw-broken").inner_text()
    assert page.locator("#hw-set-licence").input_value() == "own work"
    record = store.list_datasets()[0]
    assert (record.num_rows, record.num_broken, record.licence) == (42, 2, "own work")

    # what a file holds is text and nothing else
    assert page.locator(".hw-rows .hw-clip").first.inner_text() == HOSTILE
    assert page.title().endswith("Headway") and page.locator(".hw-data img").count() == 0

    # the split follows the slider
    held = sum(record.details["places"][:300])
    page.locator("#hw-split").fill("30")
    assert f"{42 - held} training / {held} held-out" in page.locator("#hw-split-counts").inner_text()

    # tokens of the row that has an answer
    page.locator(".hw-rows tr[data-row='2'] button").click()
    page.locator(".hw-mask .hw-tok.trained").first.wait_for()
    trained = page.locator(".hw-mask .hw-tok.trained").all_inner_texts()
    assert trained == ["y", "e", "s", "<|im_end|>"]
    assert "4 trained" in page.locator(".hw-mask-sums").inner_text()
    page.locator(".hw-mask .hw-tok.trained").first.hover()
    page.locator(".hw-mask-told", has_text="id 121, trained").wait_for()

    # distil: a wrong number is told beside its field, a right one queues a job with this file
    form = page.locator(".hw-distill")
    form.locator("[data-path='max_new_tokens'] input").fill("0")
    form.locator("[data-action='start']").click()
    form.locator("[data-path='max_new_tokens'] .hw-problem", has_text="greater than or equal to 1").wait_for()
    assert store.list_jobs() == []
    form.locator("[data-path='max_new_tokens'] input").fill("8")
    form.locator("[data-path='temperatures'] input").fill("0")
    form.locator("[data-action='start']").click()
    page.locator(".hw-joblist .hw-job[data-status='queued']").wait_for()
    job = store.list_jobs()[0]
    assert job.kind == "distill" and job.config["prompts"] == [record.path]
    assert (job.config["target"], job.config["max_new_tokens"], job.config["temperatures"]) == ("tiny-llama", 8, [0.0])

    # the address leads back here, and the command is the same job
    page.goto(page.url)
    page.locator(".hw-set-numbers", has_text="42").wait_for()
    page.locator(".hw-distill [data-action='command']").click()
    page.locator(".hw-distill .hw-command-text", has_text="python app.py distill").wait_for()


def test_leaks_by_path_and_a_wrong_path(url: str, file: Path, browser_page: Page, tmp_path: Path) -> None:
    judges = tmp_path / "judges.jsonl"
    judges.write_text(json.dumps({"turns": ["WHY is the old town so quiet at night?"], "question_id": "j1"}))
    page = opened(browser_page, url)
    page.locator("#hw-data-path").fill(str(tmp_path / "none.jsonl"))
    page.locator("[data-action='bring']").click()
    page.locator(".hw-bring .hw-problem", has_text="is not there; check the path").wait_for()
    page.locator("#hw-data-path").fill(str(file))
    page.locator("[data-action='bring']").click()
    page.locator(".hw-set-numbers").wait_for()
    page.locator("#hw-leak-paths").fill(str(judges))
    page.locator("[data-action='leaks']").click()
    page.locator(".hw-leaking", has_text="1 of 42 prompts share eight words with 1 rows of judges.jsonl").wait_for()
    assert page.locator(".hw-leaks q").inner_text() == "is the old town so quiet at night"
    page.locator("[data-action='split']").click()
    page.locator(".hw-sets a", has_text="(held-out)").wait_for()
    page.locator(".hw-sets a", has_text="my prompts (training)").wait_for()


@pytest.mark.parametrize("width", [1440, 800])
def test_nothing_is_wider_than_the_window(
    url: str, file: Path, open_page: Callable[..., Page], width: int
) -> None:
    page = opened(open_page(viewport={"width": width, "height": 900}), url)
    page.locator("#hw-data-file").set_input_files(file)
    page.locator(".hw-rows").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert cut_texts(page) == []
