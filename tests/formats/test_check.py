"""The validator finds every planted fault with the right explanation, and says nothing of good exports."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from torch import Tensor

from backend.errors import HeadwayError
from backend.formats.check import check_folder, check_published
from backend.formats.findings import EXPLANATIONS
from backend.formats.folder import Published, read_published
from tests.formats import made
from tests.formats.faults import FAULTS, GOOD, SOURCES, good_export, planted


@pytest.fixture(scope="module")
def goods(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A good export by name, written once."""
    folder = tmp_path_factory.mktemp("good")
    return lambda name: folder / name if (folder / name).exists() else good_export(folder, name)


@pytest.mark.parametrize("name", GOOD)
def test_good_exports_have_no_findings(goods: Callable[[str], Path], name: str) -> None:
    engine = GOOD[name][2].engine
    for facts in (made.facts(), None):
        report = check_folder(goods(name), engine, facts)
        assert report.findings == () and report.num_tensors > 0 and report.family == GOOD[name][0]


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(goods: Callable[[str], Path], tmp_path: Path, name: str) -> None:
    fault = FAULTS[name]
    folder = planted(tmp_path / "bad", goods(fault.good), fault)
    report = check_folder(folder, SOURCES[fault.good][2].engine, made.facts())
    found = {one.id: one.effect for one in report.findings}
    assert found.get(fault.finding) == fault.effect, report.findings
    assert all(one.what and one.consequence and one.mend for one in report.findings)


def test_nearly_every_explanation_is_planted() -> None:
    assert len(FAULTS) >= 30
    left = set(EXPLANATIONS) - {fault.finding for fault in FAULTS.values()}
    assert left == {
        "engine-lacks-family", "config-missing", "other-version", "layer-ids-missing", "num-aux-missing",
        "embedding-missing", "speculators-sglang",
    }  # fmt: skip  # each has a test of its own below


def test_a_drafter_for_another_engine(goods: Callable[[str], Path], tmp_path: Path) -> None:
    assert [one.id for one in check_folder(goods("medusa"), "sglang", None).findings] == ["engine-lacks-family"]
    found = {one.id for one in check_folder(goods("eagle3"), "sglang", made.facts()).findings}
    assert found >= {"layer-ids-convention"}
    found = {one.id for one in check_folder(goods("eagle3-speculators"), "sglang", made.facts()).findings}
    assert found >= {"speculators-sglang", "midlayer-names"} and "tensor-missing" not in found
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare/model.safetensors").write_bytes((goods("eagle3") / "model.safetensors").read_bytes())
    assert [one.id for one in check_folder(tmp_path / "bare", "vllm", None).findings] == ["config-missing"]


def test_a_drafter_for_other_weights(goods: Callable[[str], Path]) -> None:
    other = replace(made.facts(), version=made.facts().version | {"weights_id": "another"})
    assert [one.id for one in check_folder(goods("medusa"), None, other).findings] == ["other-version"]


def test_layers_without_a_list(goods: Callable[[str], Path], tmp_path: Path) -> None:
    from tests.formats.faults import Fault, both, key, no_key

    none = both(no_key("eagle_aux_hidden_state_layer_ids"), no_key("eagle_config"))
    usual = planted(tmp_path / "usual", goods("eagle3"), Fault("eagle3", none, "", ""))
    assert check_folder(usual, "vllm", made.facts()).findings == ()  # it reads the usual layers anyway
    deeper = replace(made.facts(), num_layers=12)
    assert "layer-ids-missing" in {one.id for one in check_folder(usual, "vllm", deeper).findings}
    top = both(no_key("eagle_config"), no_key("num_aux_hidden_states"), key("eagle_aux_hidden_state_layer_ids", [2, 4]))
    short = planted(tmp_path / "short", goods("eagle3"), Fault("eagle3", top, "", ""))
    assert {"num-aux-missing", "layer-ids-count"} <= {one.id for one in check_folder(short, "vllm", None).findings}


def test_a_narrow_drafter_needs_an_embedding_of_its_own(goods: Callable[[str], Path], tmp_path: Path) -> None:
    from tests.formats.faults import Fault, key

    narrow = planted(tmp_path / "n", goods("eagle3"), Fault("eagle3", key("target_hidden_size", 96), "", ""))
    assert "embedding-missing" in {one.id for one in check_folder(narrow, "vllm", None).findings}


@pytest.mark.parametrize("name", GOOD)
def test_senseless_configs_are_findings_or_one_sentence(
    goods: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    source = goods(name)
    config = json.loads((source / "config.json").read_text())
    for place in (config, *(one for one in config.values() if isinstance(one, dict))):
        for key, before in list(place.items()):
            for value in (None, "x", -1, [], {}):
                place[key] = value
                found = Published(source, json.loads(json.dumps(config)), read(source), {})
                with suppress(HeadwayError):
                    check_published(found, GOOD[name][2].engine, made.facts())
            place[key] = before


@cache
def read(folder: Path) -> dict[str, Tensor]:
    return read_published(folder).tensors


def test_what_is_no_published_drafter_is_refused(tmp_path: Path) -> None:
    made.stored(tmp_path / "own", "medusa", made.medusa())
    with pytest.raises(HeadwayError, match="own format"):
        check_folder(tmp_path / "own", "vllm", None)
    with pytest.raises(HeadwayError, match="no file or folder"):
        check_folder(tmp_path / "none", "vllm", None)
