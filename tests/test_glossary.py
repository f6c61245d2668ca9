"""Every number that a page names has an entry in the glossary, and every entry has all its parts."""

from __future__ import annotations

import re

import pytest
import yaml
from pydantic import ValidationError

from backend.glossary import FILE, Glossary, glossary
from backend.sweeps.objectives import OBJECTIVES
from dashboard.components.assets import assets
from dashboard.presenters import comparing, run_table, sweep

NAMED = re.compile(r'(?:\bterm|\btermMark)\("(\w+)"|\bmetric: "(\w+)"')
CALLED = re.compile(r"\b(?:term|termMark)\(([^\"\n]{1,12})")
#: what a call may be given instead of a key written out: names from a table in the same file, or from a presenter below
FROM_TABLES = {"metric, ", "column.metri", "one.metric, ", "one[2].metri", "line.metric,", "settings.met"}


def scripts() -> dict[str, str]:
    return {name: content.decode() for name, content in assets().items() if name.endswith(".js")}


def named() -> set[str]:
    """All keys that scripts and presenters write out."""
    found = {key for text in scripts().values() for keys in NAMED.findall(text) for key in keys if key}
    figures = {sweep.METRICS.get(name, name) for name in sweep.FIGURES}
    figures |= {comparing.METRICS.get(name, name) for name in comparing.FIGURES}
    return found | figures | set(run_table.METRICS.values())


def test_every_number_that_a_page_names_is_explained() -> None:
    known = set(glossary().metrics)
    assert len(named()) > 25
    assert named() <= known, f"not in the glossary: {sorted(named() - known)}"
    assert {sweep.METRICS.get(name, name) for name in OBJECTIVES} <= known


def test_names_come_from_tables_that_this_test_knows() -> None:
    for name, text in scripts().items():
        for argument in CALLED.findall(text):
            if name != "js/terms.js":
                assert any(argument.startswith(one[:12]) for one in FROM_TABLES), f"{name}: term({argument}"


def test_an_entry_that_lacks_a_part_is_refused() -> None:
    whole = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    for part in ("definition", "formula", "conditions", "vllm", "eagle", "medusa", "sglang"):
        broken = {"metrics": {"speedup": {**whole["metrics"]["speedup"], part: " "}}}
        with pytest.raises(ValidationError, match=part):
            Glossary.model_validate(broken)
    with pytest.raises(ValidationError, match="tgi"):
        Glossary.model_validate({"metrics": {"speedup": {**whole["metrics"]["speedup"], "tgi": "Not counted."}}})


def test_entries_are_sentences_and_names_are_not_used_twice() -> None:
    names: list[str] = []
    for key, one in glossary().metrics.items():
        names.append(one.name)
        for sentence in (one.definition, one.conditions, one.vllm, one.eagle, one.medusa, one.sglang):
            assert sentence.endswith("."), f"{key}: {sentence}"
        assert not one.formula.endswith("."), key
    assert len(names) == len(set(names))
