"""The Sweep page without a browser: its form back and forth, what it tells the charts, its files, the link to Live."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from backend.errors import HeadwayError
from backend.jobs.as_text import as_yaml
from backend.jobs.sweep_config import SweepJobConfig
from dashboard.access import AccessPolicy
from dashboard.jobs import Jobs
from dashboard.pages.live_handlers import named_in
from dashboard.pages.sweep_handlers import SweepHandlers, sweep_name
from dashboard.pages.sweep_tables import Sweeps, sweep_csv
from dashboard.presenters.form import TYPICAL
from dashboard.presenters.sweep_form import config_from, dial_typed, estimate, first_typed, row_notes, typed_from
from dashboard.services import DashboardSettings, Services
from storage import Store, StoreError
from tests.dashboard.sweeps import add_sweep, config_of, made_up_trials, report
from tests.ui.idle_engine import IdleEngine


@pytest.fixture
def sweeps(store: Store) -> Sweeps:
    return Sweeps(Jobs(Services(IdleEngine(), AccessPolicy.for_bind(), store)))


@pytest.fixture
def handlers(store: Store, tmp_path: Path) -> SweepHandlers:
    (tmp_path / "heldout.jsonl").write_text('{"turns": ["Say a."]}\n' * 5)
    shown = DashboardSettings(demo_prompts=tmp_path / "demo.jsonl")
    services = Services(IdleEngine(), AccessPolicy.for_bind(), store, shown)
    jobs = Jobs(services)
    return SweepHandlers(services, jobs, Sweeps(jobs))


def event(**values: Any) -> Any:
    return SimpleNamespace(**values)


def test_the_ready_example_is_a_valid_sweep_and_so_is_the_dial() -> None:
    first = first_typed("smollm2-135m", ["prompts/heldout.jsonl"])
    example = SweepJobConfig.model_validate(config_from(first))
    assert example.sampler == "grid" and example.num_trials == 12 and example.limit == 4
    dial = SweepJobConfig.model_validate(config_from(dial_typed(first)))
    assert dial.objectives == ("speed", "drift") and dial.samples == 2 and "epsilon" in dial.space


@pytest.mark.parametrize("changes", [{}, {"max_drift": 0.1, "trials": None, "samples": 3, "prune_p": 0, "limit": None}])
def test_a_config_goes_through_the_form_unchanged(changes: dict[str, Any]) -> None:
    config = config_of(**changes)
    again = SweepJobConfig.model_validate(config_from(typed_from(config.model_dump(mode="json"))))
    assert again == config
    written = yaml.safe_load(as_yaml("sweep", config))
    assert SweepJobConfig.model_validate(written) == config


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"limit": "few"}, "First prompts is a whole number; “few” is not"),
        ({"prompts": " "}, "at least one prompt file"),
        ({"objectives": []}, "choose at least one objective"),
        ({"rows": [["tree", "2x2"], ["tree", "3x1"]]}, "stands there twice"),
        ({"rows": [["epsilon", "much"]]}, "takes numbers"),
    ],
)
def test_what_is_wrong_in_the_form_is_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(HeadwayError, match=sentence):
        config_from(first_typed("t", ["p"]) | changes)


def test_each_row_of_the_space_says_what_it_means() -> None:
    notes = row_notes([["tree", "2x2, 3x1"], ["epsilon", "0.01 to 0.3 log"], ["batch", "x"], ["delta", ""],
                       ["temperature", "0.7"]])  # fmt: skip
    assert notes[0] == {"text": "2 values", "problem": False}
    assert "geometric middle" in notes[1]["text"] and "5 points" in notes[1]["text"]
    assert notes[2]["problem"] and notes[3]["text"] == "" and notes[4]["text"] == "always this value"


def test_the_estimate_counts_and_tells_time_when_a_pace_is_known() -> None:
    config = config_of(trials=40)
    assert estimate(config, 8, None).startswith("40 trials of 8 answers and 2 plain")
    assert "at most about 9 min at 50 tokens/s" in estimate(config, 8, 50.0)


def test_events_check_start_and_give_text(handlers: SweepHandlers, store: Store) -> None:
    form, shown = handlers.load(event(query_params={}))
    assert shown["job"] is None and not form["problem"] and "12 trials of 4 answers" in form["note"]
    typed = form["typed"]
    wrong = handlers.edit(event(typed=typed | {"rows": [["tree", "fir"], ["epsilon", "2"]]}))
    assert wrong["problem"] and wrong["notes"][1]["problem"]
    _, _, text = handlers.act(event(action="yaml", typed=typed))
    assert "sampler: grid" in text["text"]
    _, _, text = handlers.act(event(action="command", typed=typed))
    assert text["text"].startswith("python app.py sweep ")
    form, shown, _ = handlers.act(event(action="start", typed=typed))
    (job,) = store.list_jobs(kinds=["sweep"])
    assert shown["job"] == job.id and job.name == "tree, depth for tokens/s" and job.config["limit"] == 4
    form, again = handlers.load(event(query_params={"job": job.id}))
    assert again["job"] == job.id and form["typed"]["rows"] == typed["rows"]
    refused, _, _ = handlers.act(event(action="start", typed=typed))
    assert refused["problem"] and job.id in refused["note"]  # the very same sweep is queued already
    form, _, _ = handlers.act(event(action="dial", typed=typed))
    assert form["typed"]["sampler"] == "nsga2" and form["fill"]
    assert sweep_name(config_of(name="mine")) == "mine"


def test_the_view_tells_news_only_and_everything_that_charts_need(store: Store, sweeps: Sweeps) -> None:
    job = add_sweep(store, trials=40)
    whole = sweeps.view(job.id)
    assert [axis["name"] for axis in whole["knobs"]] == ["tree", "epsilon", "delta"]
    assert whole["knobs"][1]["log"] and whole["knobs"][0]["values"] == ["chain-2", "2x2", "3x2x1"]
    assert len(whole["trials"]) == 43 and whole["counts"] == {"finished": 40, "skipped": 1, "pruned": 1}
    numbers = {row["number"]: row for row in whole["trials"]}
    assert numbers[-1]["reference"] and -1 not in whole["front"] and whole["best"] == whole["front"][0]
    speeds = {number: row["figures"]["speed"] for number, row in numbers.items() if row["figures"] and number >= 0}
    assert whole["best"] == max(speeds, key=lambda number: speeds[number])
    shares = whole["importance"]["speed"]
    assert shares["tree"] > shares["delta"] and whole["importance"]["drift"]["epsilon"] > 0.3
    assert whole["notes"] == ["1 trial left out: The product tree is too large."] and whole["approximate"]
    assert sweeps.view(job.id, whole["seq"])["trials"] == []
    report(store, job, [made_up_trials(41)[41]])
    assert [row["number"] for row in sweeps.view(job.id, whole["seq"])["trials"]] == [40]
    json.dumps(whole)


def test_a_setting_opens_live_as_it_was_tried(store: Store, sweeps: Sweeps) -> None:
    job = add_sweep(store, trials=3)
    row = next(row for row in sweeps.view(job.id)["trials"] if row["number"] == 2)
    query = {name: values[0] for name, values in parse_qs(urlsplit(row["live"]).query).items()}
    form = named_in(query)
    assert form["rule"] == TYPICAL and form["temperature"] == 0.7 and form["tree"] == row["values"]["tree"]
    assert form["epsilon"] == pytest.approx(row["values"]["epsilon"]) and form["target"] == "smollm2-135m"
    assert named_in({"temperature": "warm", "rule": "rejection"}) == {"rule": "exact"}


def test_files_to_take_along(store: Store, sweeps: Sweeps) -> None:
    job = add_sweep(store, trials=5)
    table = sweeps.table(job.id)
    lines = sweep_csv(table["trials"]).splitlines()
    assert len(lines) == 1 + 8 and lines[0].startswith("trial,state,reference,front,feasible,")
    assert {row["number"] for row in table["trials"] if row["front"]} == set(table["front"])


def test_other_jobs_are_no_sweeps(store: Store, sweeps: Sweeps) -> None:
    other = store.create_job(kind="train", name="x", config={})
    with pytest.raises(HeadwayError, match="no sweep"):
        sweeps.view(other.id)
    with pytest.raises(StoreError):
        sweeps.view("nothing")


def test_routes_answer(dashboard: Callable[..., Any], store: Store) -> None:
    from starlette.testclient import TestClient

    job = add_sweep(store, trials=4)
    policy = AccessPolicy.for_bind()
    client = TestClient(dashboard(policy, store=store), base_url="http://127.0.0.1")
    assert len(client.get(f"/headway/sweeps/{job.id}").json()["trials"]) == 7
    assert client.get(f"/headway/sweeps/{job.id}.csv").text.count("\n") == 8
    assert "csv or .json" in client.get(f"/headway/sweeps/{job.id}.txt").json()["error"]
