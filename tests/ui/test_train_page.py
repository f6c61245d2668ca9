"""The Train page in Chromium over a real store: curves that stay fast and keep their zoom, the same view after a reload
and in a second browser, and a form whose mistakes are said beside the field.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backend.settings import Settings
from backend.training.kept import weights_file
from dashboard.access import AccessPolicy
from dashboard.services import Services
from storage import JobRecord, Store, owner_token
from tests.ui.replay_engine import ReplayEngine
from tests.ui.serving import serving

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.ui

TRAIN = "window.headway.train"
BOARD = "window.headway.train.charts"
HEADS = 4


class Site:
    """A dashboard over a store that the test writes to as a worker would."""

    def __init__(self, url: str, store: Store, folder: Path) -> None:
        self.url, self.store, self.folder = url, store, folder

    def job(self, title: str, /, **config: Any) -> JobRecord:
        """A training that runs."""
        whole = {"target": "tiny-llama", "answers": str(self.folder / "answers.npz"), **config}
        made = self.store.create_job(kind="train", name=title, config=whole)
        leased = self.store.lease_job(owner_token(), job_id=made.id)
        assert leased is not None
        return leased

    def report(self, job: JobRecord, first: int, count: int) -> None:
        rows = [(step, values(step)) for step in range(first, first + count)]
        self.store.add_metrics(job.id, job.attempt, rows)


def values(step: int) -> dict[str, float]:
    found = {f"loss_{head}": 3 + head + math.exp(-step / 50) for head in range(HEADS)}
    if step % 10 == 0:
        found |= {f"held_out_top{k}_{head}": 0.1 * k for head in range(HEADS) for k in (1, 3)}
        found["acceptance_length"] = 1.5
        for head in range(HEADS):
            found |= {f"accept_conditional_{head}": 0.5 - 0.1 * head, f"accept_marginal_{head}": 0.5 ** (head + 1)}
            found |= {f"held_out_accept_conditional_{head}": 0.4, f"held_out_accept_marginal_{head}": 0.3}
    return found | {"learning_rate": 1e-3}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    from backend.data.answers import pack_answers
    from tests.training.test_planner import made_up

    folder = tmp_path_factory.mktemp("train")
    pack_answers(made_up(30), folder / "answers.npz")
    places = Settings(home=folder / "home", cache=folder / "cache")
    places.make_folders()
    with Store.open(places.database) as store:
        services = Services(ReplayEngine(steps_per_s=None), AccessPolicy.for_bind(), store, places=places)
        with serving(services) as url:
            yield Site(url, store, folder)


def opened(page: Page, site: Site, query: str = "") -> Page:
    page.set_default_timeout(90_000)
    page.goto(f"{site.url}/train{query}")
    page.locator("#hw-f-training-batch_tokens").wait_for()
    page.locator(".hw-plan-figure, .hw-plan .hw-problem").first.wait_for(state="attached")
    return page


def drawn(page: Page) -> None:
    page.locator(".hw-plot[data-chart=loss] .main-svg").first.wait_for()


#: Feeds rows in batches and draws after each; gives the work of every update: numbers read from the curves' arrays or
#: copied out of them, points handed to Plotly, and elements in the charts.
FEED = """async ([batches, rows]) => {
  const train = window.headway.train, board = train.charts, work = [];
  board.changed = () => {};  // only the draws that are counted
  let read = 0, handed = 0;
  const counted = (array) => new Proxy(array, {
    get: (target, key) => {
      if (typeof key === 'string' && /^[0-9]+$/.test(key)) { read += 1; return target[key]; }
      const value = target[key];
      if (typeof value !== 'function') return value;
      return (...given) => {
        const found = value.apply(target, given);
        read += found && found.length !== undefined && found !== target ? found.length : target.length;
        return found;
      };
    },
    set: (target, key, value) => { target[key] = value; return true; },
  });
  const watched = new Set();
  const watch = (series) => {
    if (watched.has(series)) return;
    watched.add(series);
    for (const name of ['x', 'y', 'smooth']) {
      let array = counted(series[name]);
      Object.defineProperty(series, name, { get: () => array, set: (given) => { array = counted(given); } });
    }
  };
  const plotly = { ...window.Plotly, react: (element, traces, ...rest) => {
    handed += traces.reduce((sum, one) => sum + one.x.length, 0);
    return window.Plotly.react(element, traces, ...rest);
  } };
  for (const card of board.cards.values()) if (card.chart) card.chart.plotly = plotly;
  for (let batch = 0; batch < batches; batch += 1) {
    const fresh = [];
    for (let step = batch * rows; step < (batch + 1) * rows; step += 1) {
      const values = {};
      const wave = Math.exp(-step / 9000);
      for (let head = 0; head < 4; head += 1) values[`loss_${head}`] = 3 + head + Math.sin(step * 0.37 + head) * wave;
      fresh.push({ step, values });
    }
    [read, handed] = [0, 0];
    train.metrics.take(fresh);
    for (const series of train.metrics.series.values()) watch(series);
    board.drawNow(plotly);
    work.push({ read, handed, elements: document.querySelectorAll('#hw-train-charts *').length });
    if (batch % 20 === 0) await new Promise((resolve) => setTimeout(resolve, 0));
  }
  delete board.changed;
  return work;
}"""


def test_an_hour_of_curves_costs_no_more_at_its_end_and_keeps_the_zoom(site: Site, browser_page: Page) -> None:
    job = site.job("an hour")
    site.report(job, 0, 3)
    page = opened(browser_page, site, f"?job={job.id}")
    drawn(page)
    page.evaluate(f"{TRAIN}._leave(); {TRAIN}.metrics.cut(0)")  # the feed is ours from here on
    work = page.evaluate(FEED, [120, 300])
    # How many points a block of a view has goes by powers of two, so updates with four times as many points compare.
    early, late = work[25:30], work[115:120]
    for what, slack in (("read", 1.2), ("handed", 1.05), ("elements", 1.2)):
        before, after = (max(one[what] for one in some) for some in (early, late))
        assert 0 < after <= slack * before, f"{what} grew from {before} to {after} an update"
    assert page.evaluate(f"{TRAIN}.metrics.series.get('loss_0').length") == 36_000
    loss = ".hw-plot[data-chart=loss]"
    most = page.evaluate(f"Math.max(...document.querySelector('{loss}').data.map((trace) => trace.x.length))")
    assert 400 < most <= 1500

    plot = page.locator(loss)
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 0.4 * box["width"], middle)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], middle, steps=6)
    page.mouse.up()
    page.wait_for_function(f"{BOARD}.zoom.x !== null")
    low, high = page.evaluate(f"{BOARD}.zoom.x")
    assert 0 < low < high < 36_000
    page.evaluate(f"{TRAIN}.metrics.take([{{step: 36001, values: {{loss_0: 3}}}}]); {BOARD}.drawNow(window.Plotly)")
    assert page.evaluate(f"document.querySelector('{loss}').layout.xaxis.range") == [low, high]
    shown = page.evaluate(f"Array.from(document.querySelector('{loss}').data.at(-1).x)")
    # Zoomed in there are more points to see than before: those of the range, not those of the whole.
    assert low - 300 < shown[1] and shown[-2] < high + 300 and len(shown) > 400
    page.get_by_role("button", name="Show all steps").wait_for()
    page.mouse.move(0, 0)
    page.wait_for_timeout(600)  # two clicks near a drag's end would count as a double click of that drag
    page.mouse.dblclick(box["x"] + 0.5 * box["width"], middle)
    page.wait_for_function(f"{BOARD}.zoom.x === null")
    assert page.evaluate("window.headway.mounts.charts") == 1


def test_curves_come_live_and_a_reload_or_another_browser_shows_the_same(
    site: Site, open_page: Callable[..., Page]
) -> None:
    job = site.job("seen twice")
    site.report(job, 0, 30)
    page = opened(open_page(viewport={"width": 1440, "height": 900}), site, f"?job={job.id}")
    drawn(page)
    page.wait_for_function(f"{TRAIN}.metrics.lastStep === 29")
    site.report(job, 30, 30)
    page.wait_for_function(f"{TRAIN}.metrics.lastStep === 59")
    page.wait_for_function("document.querySelector('.hw-plot[data-chart=loss]').data.some((t) => t.x.at(-1) === 59)")
    page.reload()
    drawn(page)
    other = opened(open_page(viewport={"width": 800, "height": 900}), site, f"?job={job.id}")
    drawn(other)
    for one in (page, other):
        one.wait_for_function(f"{TRAIN}.metrics.lastStep === 59")
        assert one.evaluate(f"Array.from({TRAIN}.metrics.series.get('loss_1').y.slice(0, 60))") == pytest.approx(
            [values(step)["loss_1"] for step in range(60)]
        )
        assert set(one.evaluate("Object.values(window.headway.mounts)")) == {1}
        assert one.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.get_by_role("button", name="Depth 1", exact=True).click()
    page.wait_for_function(
        "!document.querySelector('.hw-plot[data-chart=loss]').data.some((t) => t.name === 'depth 1')"
    )
    page.locator("#hw-train-job").get_by_role("button", name="Pause").click()
    page.locator("#hw-train-job", has_text="asked to pause").wait_for()
    other.locator("#hw-train-job", has_text="asked to pause").wait_for()
    assert site.store.get_job(job.id).requested == "pause"


def test_a_finished_training_shows_its_result_and_can_be_forked(site: Site, browser_page: Page) -> None:
    job = site.job("done", name="Done heads")
    held = {f"loss_{head}": 4.0 for head in range(2)} | {
        f"top{k}_{head}": 0.125 * k for head in range(2) for k in (1, 2, 3, 4, 5)
    }
    numbers = {
        "steps": 40, "train_s": 75.0, "training_positions": 5000, "held_out": held, "kept_step": 20,
        "expected_acceptance_length": 1.61, "decoded_acceptance_length": 1.52,
    }  # fmt: skip
    result = {"out": "/somewhere/done-heads", "numbers": numbers, "tree": [[0], [0, 0]]}
    site.store.end_job(job.id, job.attempt, "finished", result=result)
    run = site.folder / "home" / "jobs" / job.id / "run"
    run.mkdir(parents=True)
    for step in (30, 40):
        (run / weights_file(step)).touch()
    page = opened(browser_page, site, f"?job={job.id}")
    box = page.locator("#hw-train-job")
    box.locator("table").wait_for()
    assert "12.5" in box.locator("tbody tr").first.inner_text() and "1.52" in box.inner_text()
    assert "kept are the weights of step 20" in box.inner_text()
    address = box.get_by_role("link", name="Try it on the Live page").get_attribute("href")
    assert address == "/live?target=tiny-llama&drafter=%2Fsomewhere%2Fdone-heads"
    box.get_by_role("button", name="As YAML").click()
    page.locator(".hw-command-text", has_text="name: Done heads").wait_for()
    box.get_by_role("button", name="Fork").click()
    page.wait_for_function(f"document.querySelector('#hw-f-start_from').value === '{job.id}'")
    assert page.locator("#hw-f-name").input_value() == "Done heads (fork)"
    assert "job=" not in page.url
    page.get_by_role("button", name="Start training").click()
    page.wait_for_function(f"{TRAIN}.id !== null && {TRAIN}.id !== '{job.id}'")
    child = site.store.get_job(page.evaluate(f"{TRAIN}.id"))
    assert (child.parent_id, child.config["start_from"], child.status) == (job.id, job.id, "queued")
    page.goto(f"{site.url}/train?job={job.id}")
    weights = page.get_by_label("Weights a fork starts from")
    weights.locator("option", has_text="step 30").wait_for(state="attached")
    assert weights.locator("option").all_inner_texts() == ["its best weights", "step 40", "step 30"]
    weights.select_option(label="step 30")
    box.get_by_role("button", name="Fork").click()
    page.wait_for_function(f"document.querySelector('#hw-f-start_from').value === '{job.id}@30'")


def test_mistakes_are_said_beside_the_field_and_the_plan_follows(site: Site, browser_page: Page) -> None:
    page = opened(browser_page, site, f"?target=tiny-llama&answers={site.folder / 'answers.npz'}")
    page.locator(".hw-plan-figure").first.wait_for()
    steps = page.locator(".hw-plan-figure", has_text="Time").locator(".hw-muted")
    before = steps.inner_text()
    page.locator("#hw-f-training-batch_tokens").fill("64")
    page.wait_for_function(f"document.querySelector('.hw-plan-figure .hw-muted').textContent !== '{before}'")
    batch = page.locator(".hw-field[data-path='training.batch_tokens']")
    page.locator("#hw-f-training-batch_tokens").fill("-3")
    batch.locator(".hw-problem", has_text="Batch has to be greater than or equal to 1, not -3.").wait_for()
    num = len(site.store.list_jobs(kinds=["train"]))
    page.get_by_role("button", name="Start training").click()
    page.wait_for_timeout(500)
    assert len(site.store.list_jobs(kinds=["train"])) == num
    page.locator("#hw-f-training-batch_tokens").fill("64")
    batch.locator(".hw-problem").wait_for(state="hidden")
    page.locator("#hw-train-fields").get_by_role("button", name="As command").click()
    page.locator(".hw-command-text", has_text="--batch-tokens 64").wait_for()
    page.get_by_role("button", name="Measure: 10 seconds").click()
    page.locator(".hw-plan", has_text="Waiting for the device").wait_for()
    assert site.store.list_jobs(kinds=["plan"])[0].config["training"]["batch_tokens"] == 64


def test_a_family_brings_its_fields_and_a_preset_fills_them(site: Site, browser_page: Page) -> None:
    page = opened(browser_page, site, f"?target=tiny-llama&answers={site.folder / 'answers.npz'}")
    page.locator("#hw-f-drafter-num_heads").wait_for()
    page.locator("#hw-f-name").fill("a grown one")
    page.select_option("#hw-f-drafter-family", "eagle3")
    steps = page.locator("#hw-f-drafter-test_time_steps")
    steps.wait_for()
    assert page.locator("#hw-f-drafter-num_heads").count() == 0
    assert page.locator("#hw-f-name").input_value() == "a grown one"
    rate = page.locator("#hw-f-training-learning_rate")
    before = rate.input_value()
    page.select_option("#hw-f-preset", "paper")
    page.wait_for_function(f"document.querySelector('#hw-f-training-learning_rate').value !== '{before}'")
    assert (steps.input_value(), rate.input_value()) == ("7", "5e-05")
    steps.fill("3")
    page.locator("#hw-train-fields").get_by_role("button", name="As command").click()
    command = page.locator(".hw-command-text", has_text="--family eagle3")
    command.wait_for()
    assert "--test-time-steps 3" in command.inner_text() and "--preset" not in command.inner_text()
    page.get_by_role("button", name="Start training").click()
    page.wait_for_function(f"{TRAIN}.id !== null")
    drafter = site.store.get_job(page.evaluate(f"{TRAIN}.id")).config["drafter"]
    assert (drafter["family"], drafter["test_time_steps"], drafter["draft_vocab"]) == ("eagle3", 3, 32000)


def test_an_empty_page_has_one_button(tmp_path: Path, browser_page: Page) -> None:
    places = Settings(home=tmp_path / "home", cache=tmp_path / "cache")
    places.make_folders()
    with Store.open(places.database) as store:
        services = Services(ReplayEngine(steps_per_s=None), AccessPolicy.for_bind(), store, places=places)
        with serving(services) as url:
            page = opened(browser_page, Site(url, store, tmp_path))
            button = page.locator(".hw-first button")
            button.wait_for()
            assert "about" in button.inner_text()
            button.click()
            page.wait_for_function(f"{TRAIN}.id !== null")
            (job,) = store.list_jobs(kinds=["train"])
            assert job.config["target"] == "smollm2-135m" and job.config["drafter"]["num_heads"] == 3
            page.locator(".hw-first").wait_for(state="hidden")
            page.goto(f"{url}/train?job=none")
            page.locator(".hw-schema > .hw-problem", has_text="There is no job").wait_for()
            page.goto("about:blank")  # lets go of its stream before the server stops


def test_acceptance_of_each_depth_is_drawn_and_the_length_apart(site: Site, browser_page: Page) -> None:
    job = site.job("accepting")
    site.report(job, 0, 60)
    page = opened(browser_page, site, f"?job={job.id}")
    page.wait_for_function(
        f"document.querySelector('.hw-plot[data-chart=acceptance]')?.data?.length === {2 * HEADS}"
    )
    data = "document.querySelector('.hw-plot[data-chart=acceptance]').data"
    names = [f"depth {head + 1}" for head in range(HEADS)]
    drawn_now = page.evaluate(f"{data}.map((t) => [t.name, t.y.at(-1), t.line.dash])")
    assert [one[0] for one in drawn_now if one[2] != "dash"] == names
    assert [one[0] for one in drawn_now if one[2] == "dash"] == [f"{name}, best guesses" for name in names]
    assert [one[1] for one in drawn_now if one[2] != "dash"] == pytest.approx([0.5 - 0.1 * h for h in range(HEADS)])
    figure = page.locator("figure", has=page.locator(".hw-plot[data-chart=acceptance]"))
    figure.get_by_label("Which numbers").select_option(label="Marginal")
    page.wait_for_function(f"{data}.some((t) => t.name === 'depth 2' && t.y.at(-1) === 0.25)")
    length = "document.querySelector('.hw-plot[data-chart=length]').data"
    assert page.evaluate(f"{length}.map((t) => t.y.at(-1))") == [1.5]
