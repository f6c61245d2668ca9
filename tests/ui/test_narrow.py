"""Nothing on any page is cut off, in a wide window and in one of 800 pixels, whether the device is idle or busy. One
app with something to show on every page.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

from backend.data.answers import pack_answers
from backend.jobs import audit_job, doctor_job
from backend.jobs.audit_config import AuditJobConfig
from backend.jobs.context import ConsoleContext
from backend.jobs.doctor_config import DoctorJobConfig
from backend.jobs.tune_view import view
from backend.settings import Settings
from backend.targets.opening import open_target
from dashboard.access import AccessPolicy
from dashboard.services import DashboardSettings, Services
from storage import JobRecord, Store, VersionIdentity
from tests.dashboard import evaluations, served, sweeps
from tests.dashboard.compared_adapters import add_comparison
from tests.dashboard.comparisons import add_compared
from tests.dashboard.stored_runs import add_run
from tests.formats.made import heads_for
from tests.training.test_planner import made_up
from tests.ui.cut import cut_texts
from tests.ui.serving import serving
from tests.ui.test_export_page import carried_out
from tests.ui.test_frame import READY, BusyEngine
from tests.ui.test_train_page import values
from tests.ui.test_trees_page import add_calibration, add_cost

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.ui
#: Plotly draws a chart anew a tenth of a second after its place has another width.
CHARTS_FIT = """() => [...document.querySelectorAll(".js-plotly-plot")].every((plot) => !plot.checkVisibility()
    || Math.abs(plot.querySelector(".main-svg").clientWidth - plot.clientWidth) <= 1)"""
WIDTHS = (1440, 1000, 800)
HOLDER = "training heads for the customer-support model, 12 min left"
LONG = "Why is the sky blue at noon and red in the evening, and why is it not violet, which scatters even more? " * 3


@dataclass(frozen=True)
class Site:
    url: str
    engine: BusyEngine
    store: Store
    jobs: dict[str, str]  # by what it is
    prompts: Path


def running(store: Store, kind: str, name: str, config: Mapping[str, Any] | None = None) -> JobRecord:
    job = store.create_job(kind=kind, name=name, config=config or {"target": "smollm2-135m"})
    leased = store.lease_job("host:1:x", job_id=job.id)
    assert leased is not None
    store.heartbeat(job.id, leased.attempt, {"done": 1, "total": 9, "unit": "steps", "note": "", "left_s": 720.0})
    return leased


def filled(store: Store) -> dict[str, str]:
    """Something of everything in the store; the jobs' ids by kind."""
    identity = VersionIdentity(weights_id="w", tokenizer_id="t", template_id="c")
    store.register_version(
        identity, label="support-assistant-2026-11", source="/m", model_type="llama", num_parameters=134515008
    )
    for number in range(3):
        add_run(store, prompt=LONG, tree="chain-4", temperature=0.7 * (number % 2), tags=["night", "keep"])
    add_run(store, prompt=LONG, failed=True)
    ended = running(store, "distill", "answers of the customer-support model")
    store.end_job(ended.id, ended.attempt, "failed", error="The machine ran out of memory; lower the batch to 8.")
    train = running(store, "train", "heads for the customer-support model")
    store.add_metrics(train.id, train.attempt, [(step, values(step)) for step in range(40)])
    evaluation = evaluations.add_evaluation(store)
    evaluations.report(store, evaluation, evaluations.measured())
    add_calibration(store)
    jobs = {"train": train.id, "evaluate": evaluation.id, "cost": add_cost(store)}
    compared = add_compared(store, "heads for the customer-support model", {"a good one": 0.8, "a poor one": 0.3})
    return jobs | {"sweep": sweeps.add_sweep(store, trials=60).id, "compared": compared}


def ended_jobs(store: Store, places: Settings) -> dict[str, str]:
    """A load test, an export with a fault, an audit and a diagnosis."""
    config = {"target": "smollm2-135m", "max_new_tokens": 64, "rounds": 1, "seconds": 20.0}
    arms = [("with drafts", 1, 20.0), ("plain", 1, 10.0), ("with drafts", 4, 30.0), ("plain", 4, 40.0)]
    items = {f"0|{arm}|{clients} clients": served.part(arm, clients, speed) for arm, clients, speed in arms}
    load = served.running(store, "load-test", config, items)
    store.end_job(load.id, load.attempt, "finished", result={})
    heads = heads_for(places.drafters / "mine", open_target("tiny-llama", places, "cpu"))
    name = "heads for the customer-support model"
    asked = {"drafter": str(heads), "target": "tiny-llama"}
    export = store.create_job(kind="export", name=name, config=asked | {"engine": "vllm"})
    carried_out(store, places, export.id, "medusa_fc_bias")
    few = {"tree": "2x1", "total_variation": 0.3, "max_new_tokens": 10, "greedy_answers": 3, "limit": 4}
    config = AuditJobConfig.model_validate(asked | few)
    audit = running(store, "audit", name, config.model_dump(mode="json"))
    context = ConsoleContext(places, places.jobs / audit.id, quiet=True)
    result = audit_job.run(config, context)
    store.put_items(audit.id, audit.attempt, context.items())
    store.end_job(audit.id, audit.attempt, "finished", result=result)
    asking = DoctorJobConfig.model_validate(asked | {"max_new_tokens": 12, "limit": 8})
    doctor = running(store, "doctor", name, asking.model_dump(mode="json"))
    context = ConsoleContext(places, places.jobs / doctor.id, quiet=True)
    result = doctor_job.run(asking, context)
    store.put_items(doctor.id, doctor.attempt, context.items())
    store.end_job(doctor.id, doctor.attempt, "finished", result=result)
    adapters = add_comparison(store, places.home / "adapters", name)
    return {
        "load": load.id, "export": export.id, "audit": audit.id, "doctor": doctor.id, "adapters": adapters.id,
    }  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder: Path = tmp_path_factory.mktemp("narrow")
    for name in ("demo", "heldout"):
        (folder / f"{name}.jsonl").write_text(f'{{"turns": ["{LONG}"]}}\n' * 3)
    rows = [{"question_id": f"q{n}", "turns": [LONG], "category": "questions about physics"} for n in range(30)]
    (folder / "brought.jsonl").write_text("\n".join([*map(json.dumps, rows), "no json"]))
    pack_answers(made_up(30), folder / "answers.npz")
    places = Settings(folder / "home", folder / "cache")
    places.make_folders()
    engine = BusyEngine(steps_per_s=None)
    shown = DashboardSettings(demo_prompts=folder / "demo.jsonl")
    with pytest.MonkeyPatch.context() as patch, Store.open(places.database) as store:
        # The search itself runs in this process: what is tested is the page.
        patch.setattr("backend.jobs.tune_helper._asked", lambda request: json.loads(json.dumps(view(request))))
        jobs = filled(store) | ended_jobs(store, places)
        with serving(Services(engine, AccessPolicy.for_bind(), store, shown, places)) as url:
            yield Site(url, engine, store, jobs, folder / "brought.jsonl")


def on_home(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/")
    page.locator(".hw-way-name").wait_for()


def on_live(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/live")
    page.wait_for_function(f"{READY} && window.headway.mounts.tree === 1")
    page.get_by_role("button", name="More").click()
    page.locator("#hw-prompt-text textarea").fill(LONG)
    page.locator("#hw-run").click()
    page.wait_for_function("window.headway.live.run?.over")
    page.locator(".hw-recent summary").click()


def on_data(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/data")
    page.wait_for_function("window.headway?.data?.sets")
    page.locator("#hw-data-file").set_input_files(site.prompts)
    page.locator(".hw-rows").wait_for()


def on_train(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/train?job={site.jobs['train']}")
    page.locator(".hw-plot[data-chart=loss] .main-svg").first.wait_for()


def on_train_form(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/train?target=tiny-llama&answers={site.prompts.parent / 'answers.npz'}")
    page.locator(".hw-plan-figure").first.wait_for()


def on_evaluate(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/evaluate?job={site.jobs['evaluate']}")
    page.locator("tr[data-contender=good]").nth(1).locator(".hw-fold").click()
    page.locator(".hw-domain").first.wait_for()


def on_sweep(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/sweep?job={site.jobs['sweep']}")
    page.get_by_text("61 of 61 trials selected").wait_for()


def on_trees(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/trees?cost={site.jobs['cost']}")
    page.get_by_text("Expected tokens/s").wait_for()


def on_runs(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/runs")
    page.locator("tr[data-run]").nth(2).wait_for()
    for row in range(2):
        page.locator("tr[data-run]").nth(row).locator("input[type=checkbox]").check()
    page.get_by_role("button", name="Compare").click()
    page.locator(".hw-compared").wait_for()


def on_learn(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/learn")
    page.locator("#typical .hw-lines").first.wait_for()


def on_compare(page: Page, site: Site) -> None:
    sides = [("side", f"eval/{site.jobs['compared']}/{name}") for name in ("a poor one", "a good one")]
    page.goto(f"{site.url}/compare?{urlencode(sides)}")
    page.locator(".hw-cmp-chart.clickable [data-asked]").first.dispatch_event("click")
    page.locator(".hw-cmp-prompt .hw-cmp-answer").nth(1).wait_for()


def on_race(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/race")
    page.get_by_role("button", name="Add a lane").click()
    page.locator(".hw-race-row").nth(2).wait_for()
    page.locator("#hw-race-prompt").fill(LONG)
    page.locator("#hw-race-start").click()
    page.locator(".hw-race-texts li").first.wait_for()
    page.locator(".hw-race-setup > summary").click()
    page.get_by_role("button", name="Link to this race").click()


def on_versions(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/versions")
    page.locator(".hw-ver-card").first.wait_for()


def on_export(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/export?job={site.jobs['export']}")
    page.locator(".hw-exported-findings li").first.wait_for()


def on_audit(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/audit?job={site.jobs['audit']}")
    page.locator(".hw-audit-tests tbody tr").first.wait_for()


def on_doctor(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/doctor?job={site.jobs['doctor']}")
    page.locator(".hw-doctor-verdict").wait_for()
    for words in page.locator(".hw-doctor-result summary").all():
        words.click()


def on_adapters(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/adapters?job={site.jobs['adapters']}")
    page.locator(".hw-adp-mix tbody tr").nth(4).wait_for()


def on_serve(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/serve?job={site.jobs['load']}")
    page.locator(".hw-serve table tbody tr").nth(3).wait_for()


PAGES = (
    on_home, on_live, on_race, on_data, on_train, on_train_form, on_evaluate, on_sweep, on_trees, on_runs, on_compare,
    on_versions, on_adapters, on_audit, on_doctor, on_export, on_serve, on_learn,
)  # fmt: skip


@pytest.mark.parametrize(
    "show",
    PAGES,
    ids=lambda show: show.__name__,
)
def test_nothing_is_cut_off(site: Site, open_page: Callable[..., Page], show: Callable[[Page, Site], None]) -> None:
    page = open_page(viewport={"width": WIDTHS[0], "height": 900})
    page.set_default_timeout(60_000)
    show(page, site)
    for holder, words in ((None, "idle"), (HOLDER, f"busy: {HOLDER}")):
        site.engine.holder = holder
        page.locator(".hw-holder-text", has_text=words).wait_for()
        if holder:
            page.locator(".hw-holder summary").click()  # wait, stop, or use the CPU
            page.get_by_role("button", name="Stop the job").wait_for()
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            page.wait_for_function(CHARTS_FIT)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert cut_texts(page) == [], f"cut at {width} pixels"


@pytest.mark.parametrize(
    ("page_body", "expected"),
    [
        ("<p style='width: 90px; white-space: nowrap; overflow: hidden; text-overflow: ellipsis'>{}</p>", True),
        ("<p style='width: 90px; overflow: hidden'><i style='white-space: nowrap'>{}</i></p>", True),
        ("<div style='height: 20px; overflow: hidden'><p style='margin: 0; width: 90px'>{}</p></div>", True),
        ("<p style='position: absolute; left: 750px; white-space: nowrap'>{}</p>", True),
        ("<p style='width: 90px; white-space: nowrap'>{}</p>", True),
        ("<input placeholder='{}' style='width: 90px'>", True),
        ("<p style='width: 90px'>{}</p>", False),
        ("<p style='width: 90px; overflow: auto; white-space: nowrap'>{}</p>", False),
        ("<details><summary>x</summary><p style='width: 9px; overflow: hidden'>{}</p></details>", False),
    ],
)
def test_what_counts_as_cut(open_page: Callable[..., Page], page_body: str, expected: bool) -> None:
    text = "a sentence that is longer"
    page = open_page(viewport={"width": 800, "height": 600})
    page.set_content(page_body.format(text))
    assert cut_texts(page) == ([text] if expected else [])
