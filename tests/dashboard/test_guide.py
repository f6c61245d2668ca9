"""The guide of the Learn page: it is complete, its links and commands exist, and its figures are measured ones."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

import app
from backend.analysis.chooser import FAMILIES, PLAIN, Situation, choose
from backend.analysis.evaluation import MEAN
from backend.glossary import glossary
from backend.guide import Guide, guide
from dashboard.build import pages
from dashboard.learn import figure
from dashboard.presenters.guide import (
    Measured,
    default_of,
    explained,
    from_equality_file,
    from_evaluation,
    from_families_file,
    from_speed_file,
    guide_view,
)
from dashboard.presenters.schema_form import FormField

ROOT = Path(__file__).resolve().parents[2]
LEARN = (ROOT / "dashboard/components/js/views/learn.js").read_text()


def links() -> set[str]:
    words = guide()
    found = {one.page for one in words.questions if one.page} | {one.page for one in words.failures}
    found |= {one.measured for one in glossary().knobs.values()}
    for weights in ("own", "open", "closed"):
        for batch, tunes, adapters, temperature, quality in (
            (1, 0, "none", 0.0, "exact"), (8, 4, "merged", 1.0, "drift"), (99, 20, "many", 1.0, "exact"),
        ):  # fmt: skip
            choice = choose(Situation(weights, tunes, adapters, batch, temperature, quality))  # type: ignore[arg-type]
            reasons = [reason for one in choice.families for reason in one.reasons]
            found |= {one.link for one in [*reasons, *choice.notes]}
    return found


def test_every_link_leads_to_a_page_that_is_there() -> None:
    addresses = {path for _, path, _ in pages(None)}  # type: ignore[arg-type]
    sections = set(re.findall(r'^  \["(\w+)", "', LEARN, re.M))
    for link in links():
        page, _, section = link.partition("#")
        assert page in addresses, link
        assert not section or (page == "/learn" and section in sections), link


def test_every_command_is_one_of_the_command_line() -> None:
    commands = [one.command for one in guide().questions if one.command]
    commands += [one.command for one in glossary().knobs.values()]
    commands += [one.command for one in guide().families.values()]
    for command in commands:
        assert command.split()[1] in app.COMMANDS, command


def test_the_families_are_those_that_can_be_chosen_and_their_docs_exist() -> None:
    assert set(guide().families) == {PLAIN, *FAMILIES}
    for one in guide().families.values():
        page, _, title = one.docs.partition("#")
        text = (ROOT / page).read_text()
        titles = {re.sub(r"[^a-z0-9 -]", "", line.lower()).strip().replace(" ", "-") for line in text.splitlines()
                  if line.startswith("#")}  # fmt: skip
        assert not title or title in titles, one.docs


def test_a_question_ends_in_a_page_or_a_command() -> None:
    assert len({one.asks for one in guide().questions}) == len(guide().questions) >= 20
    data = guide().model_dump(mode="json")
    data["questions"][0] |= {"page": None, "command": None}
    with pytest.raises(ValidationError, match="one of the two"):
        Guide.model_validate(data)


def test_defaults_of_knobs_are_read_from_the_settings() -> None:
    for one in glossary().knobs.values():
        for at in one.default:
            assert default_of(at)["value"], at
    assert default_of("evaluate.epsilon") == {"where": "evaluate", "value": "0.09"}
    assert default_of("families.eagle3.test_time_steps")["where"] == "eagle3"
    assert default_of("train.training.learning_rate")["value"] == "0.001"
    with pytest.raises(AttributeError):
        default_of("train.training.speed")
    assert explained(glossary())["knobs"]["tree"]["default"][0]["value"] == "not set"


def test_a_field_of_a_form_knows_its_knob() -> None:
    assert FormField("drafter.draft_vocab", "whole", "Draft vocabulary").to_json()["knob"] == "draft_vocab"
    assert FormField("name", "text", "Name").to_json()["knob"] is None
    named = [field for one in glossary().knobs.values() for field in one.fields]
    assert len(named) == len(set(named))  # else the second card would never be seen


def row(**changes: Any) -> Any:
    from types import SimpleNamespace

    values: dict[str, Any] = {"contender": "a", "set": MEAN, "category": None, "temperature": 0.0, "batch": 1,
                              "num_prompts": 5, "acceptance_length": 2.0, "speedup": 1.5}  # fmt: skip
    return SimpleNamespace(**values | changes)


def test_an_evaluation_gives_each_familys_figures_with_their_conditions() -> None:
    setup = {
        "target": "mine", "device": "cpu",
        "contenders": {"plain": {"family": "none", "name": "plain"}, "a": {"family": "eagle3", "name": "heads"}},
    }  # fmt: skip
    rows = [row(temperature=1.0, acceptance_length=9.0), row(), row(set="one", acceptance_length=3.0),
            row(contender="plain"), row(category="math", acceptance_length=8.0)]  # fmt: skip
    (found,) = from_evaluation("j1", setup, rows)
    assert (found.family, found.acceptance_length, found.speedup) == ("eagle3", 2.0, 1.5)
    assert found.link == "/evaluate?job=j1" and found.conditions == "heads on mine, 5 prompts, T 0, batch 1, cpu"
    assert from_evaluation("j1", setup, [row(acceptance_length=None)]) == []


def test_the_projects_own_figures_are_those_of_its_files() -> None:
    path = ROOT / "benchmarks/results/speed-zen4.json"
    (found,) = from_speed_file(path.name, json.loads(path.read_text()))
    assert found.family == "medusa" and (round(found.acceptance_length, 2), round(found.speedup or 0, 2)) == (
        1.53,
        1.47,
    )
    assert "zen4" in found.conditions and "6 sets" in found.conditions
    other = ROOT / "benchmarks/results/speed-emerald-rapids.json"
    (found,) = from_speed_file(other.name, json.loads(other.read_text()))
    assert round(found.speedup or 0, 2) == 0.96  # the file's own mean is no seventh set
    equality = from_equality_file(json.loads((ROOT / "benchmarks/results/equality.json").read_text()))
    assert {one.family: round(one.acceptance_length, 2) for one in equality} == {"ngram": 1.46, "medusa": 1.48}


def test_what_was_not_measured_is_left_empty() -> None:
    made = [Measured("medusa", 1.0 + number, None, "here", "") for number in range(5)]
    shown = {one["key"]: one for one in guide_view(guide(), glossary(), made)["families"]}
    assert [one["acceptance_length"] for one in shown["medusa"]["measured"]] == [1.0, 2.0, 3.0]
    assert shown["hydra"]["measured"] == [] and shown["hydra"]["command"].startswith("./run train")


def test_the_choosers_figure_names_the_families() -> None:
    found = figure("choose", [("weights", "closed")])
    assert [one["name"] for one in found["families"]] == ["Plain decoding"]
    found = figure("choose", [("adapters", "many"), ("batch", "2")])
    assert found["families"][0]["family"] == "ngram" and found["families"][0]["reasons"][0]["link"].startswith("/")
    assert found["asked"]["batch"] == 2


def test_the_board_of_families_gives_each_its_tree_over_all_sets() -> None:
    def row(contender: str, place: str, temperature: float, length: float) -> dict[str, Any]:
        figures = {"temperature": temperature, "acceptance_length": length, "speedup": 1.2}
        return {"contender": contender, "set": place, **figures}

    rows = [row(one, MEAN, 0.0, 1.9) for one in ("plain", "builtin-eagle3|chain", "mine|grown")]
    rows += [row("builtin-eagle3|grown", place, t, 2 + t) for place in ("qa", MEAN) for t in (1.0, 0.0)]
    about = {"prompts": ["qa.jsonl", "sum.jsonl"], "limit": 3, "nodes": 16, "target": "smollm2-135m", "device": "cpu"}
    found = from_families_file({"conditions": about, "rows": rows})
    words = "builtin-eagle3 on smollm2-135m, 16 nodes, 3 prompts of each of 2 sets, T 0, cpu"
    assert found == [Measured("eagle3", 2.0, 1.2, words, "")]
