"""The Live page's events as functions: they always answer, and say what went wrong in one sentence."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from dashboard.access import AccessPolicy
from dashboard.pages.live_handlers import Handlers
from dashboard.presenters.drafters import drafter_choice
from dashboard.presenters.form import FormValues, to_request
from dashboard.runs import Runs
from dashboard.services import Services
from tests.ui.replay_engine import ReplayEngine

FORM = FormValues(prompt="Hello")
FIELDS = list(FormValues.__dataclass_fields__)
Page = dict[str, Any]


@pytest.fixture
def runs(engine: ReplayEngine) -> Runs:
    return Runs(Services(engine, AccessPolicy.for_bind()))


@pytest.fixture
def handlers(runs: Runs) -> Handlers:
    return Handlers(runs, [{"label": "A", "prompt": "demo"}], FORM)


def finished(handlers: Handlers, runs: Runs, form: FormValues = FORM, link: Any = None) -> Page:
    value = handlers.run(*form.to_components(), link)
    for _ in runs._services.engine.events(value["run"]):
        pass
    return value


def request_to(query: dict[str, str]) -> Any:
    return SimpleNamespace(query_params=query)


def test_run_gives_the_run_and_its_request(handlers: Handlers, runs: Runs) -> None:
    value = finished(handlers, runs, replace(FORM, temperature=0.7))
    assert value["error"] is None and value["request"]["rule"] == "rejection"
    assert runs.find(value["run"]).request == to_request(replace(FORM, temperature=0.7))


def test_a_refused_run_keeps_the_run_that_is_shown_and_is_new_each_time(handlers: Handlers, runs: Runs) -> None:
    shown = finished(handlers, runs)
    first = handlers.run(*replace(FORM, tree="nonsense").to_components(), shown)
    again = handlers.run(*replace(FORM, tree="nonsense").to_components(), first)
    assert first["run"] == shown["run"] and "Unknown tree" in first["error"] and first["request"] == shown["request"]
    assert again != first and again["error"] == first["error"]
    assert handlers.run(*FORM.to_components(), again)["error"] is None


def test_a_new_run_stops_the_pages_own_run_before_and_nobody_elses(
    handlers: Handlers, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[str] = []
    monkeypatch.setattr(runs, "cancel", stopped.append)
    mine = finished(handlers, runs)
    watched = handlers.load(request_to({"run": mine["run"]}))[-1]
    assert handlers.run(*FORM.to_components(), watched)["error"] is None and stopped == []
    assert handlers.run(*replace(FORM, tree="nonsense").to_components(), mine)["error"] and stopped == []
    assert handlers.run(*FORM.to_components(), mine)["error"] is None and stopped == [mine["run"]]


def test_faults_tell_nothing_of_the_inside(handlers: Handlers, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(request: Any) -> str:
        raise RuntimeError("secret path /home/me")

    monkeypatch.setattr(handlers._runs._services.engine, "submit", broken)
    value = handlers.run(*FORM.to_components(), None)
    assert value["run"] is None and "secret" not in value["error"] and value["error"].endswith(".")


def test_knobs_run_again_only_when_wanted_and_something_ran(handlers: Handlers, runs: Runs) -> None:
    link = finished(handlers, runs)
    assert handlers.run_again(*FORM.to_components(), link, True)["run"] != link["run"]
    for page in ([*FORM.to_components(), link, False], [*FORM.to_components(), None, True]):
        assert "run" not in handlers.run_again(*page)


def test_a_reply_carries_the_answer_along(handlers: Handlers, runs: Runs) -> None:
    link = finished(handlers, runs, replace(FORM, system="Be brief"))
    value, prompt, box = handlers.reply(*replace(FORM, system="Be brief").to_components(), link, "And then?")
    turns = value["request"]["messages"]
    assert [turn["role"] for turn in turns] == ["system", "user", "assistant", "user"]
    assert turns[2]["content"] == runs.answer(link["run"]) and (prompt, box) == ("And then?", "")
    empty, prompt, box = handlers.reply(*FORM.to_components(), link, " ")
    assert empty["error"] == "Type a prompt first." and (prompt, box) == ("Hello", " ")


def test_loading_re_attaches_or_starts_fresh(handlers: Handlers, runs: Runs) -> None:
    link = finished(handlers, runs, replace(FORM, prompt="Again", drafter="ngram", tree="chain-3"))
    loaded = dict(zip([*FIELDS, "link"], handlers.load(request_to({"run": link["run"]})), strict=True))
    assert loaded["link"] | {"own": True} == link and loaded["prompt"] == "Again" and loaded["tree"] == "chain-3"
    assert loaded["drafter"]["value"] == "ngram"
    assert handlers.load(request_to({}))[-1]["run"] is None
    gone = handlers.load(request_to({"run": "gone"}))[-1]
    assert gone["run"] is None and "There is no run" in gone["error"]


def test_a_fresh_page_starts_with_a_drafter_that_is_there(runs: Runs) -> None:
    handlers = Handlers(runs, [], replace(FORM, drafter="not-made-yet"))
    assert handlers.load(request_to({}))[FIELDS.index("drafter")]["value"] == "builtin-medusa"


def test_another_page_of_this_process_and_a_new_process_find_a_run(handlers: Handlers, runs: Runs) -> None:
    link = finished(handlers, runs)
    assert Runs(runs._services).find(link["run"]).request == runs.find(link["run"]).request


@pytest.mark.parametrize(("index", "prompt"), [(0, "demo"), (7, ""), (-1, ""), ("0", ""), (None, "")])
def test_demo_buttons_send_back_only_what_there_is(handlers: Handlers, index: Any, prompt: str) -> None:
    assert handlers.pick(SimpleNamespace(index=index)) == prompt  # type: ignore[arg-type]


def test_the_command_box_tells_mistakes_as_a_comment(handlers: Handlers) -> None:
    assert handlers.command(*FORM.to_components(), None)["text"].startswith("./run decode")
    assert handlers.command(*replace(FORM, prompt="").to_components(), None)["text"] == "# Type a prompt first."


def test_heads_for_another_target_say_so() -> None:
    assert drafter_choice({"spec": "d", "name": "Heads", "target": "b"}, "a") == ("Heads (for b)", "d")
    assert drafter_choice({"spec": "d", "name": "Heads", "target": "a"}, "a") == ("Heads", "d")
    assert drafter_choice({"spec": "ngram", "name": "n-gram", "target": ""}, "a") == ("n-gram", "ngram")
    label, _ = drafter_choice({"spec": "d", "name": "Heads", "target": "a", "cost": 0.061}, "a")
    assert label == "Heads · cost 0.06"
