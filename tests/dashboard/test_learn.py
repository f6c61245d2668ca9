"""What the Learn page is told: the formulas' numbers, and one sentence for what can't be."""

from __future__ import annotations

import pytest

from backend.errors import HeadwayError
from dashboard.learn import figure, toy


def test_the_defaults_of_every_figure_are_shown() -> None:
    gain = figure("gain", [])
    assert len(gain["points"]) == 7 and gain["points"][0]["speedup"] == 1.0
    best = gain["points"][gain["best"]]
    parts = gain["parts"]
    assert best["speedup"] == pytest.approx(best["acceptance_length"] / sum(parts.values()))
    examples = figure("examples", [])
    assert (round(examples["chain"], 2), round(examples["product"], 2), examples["nodes"]) == (1.91, 2.37, 15)
    roofline = figure("roofline", [])
    gains = [one["speedup"] for one in roofline["curve"]]
    assert gains == sorted(gains, reverse=True) and gains[0] > 1 > gains[-1]
    assert 1 <= roofline["paying_batch"] < 512 and roofline["asked"]["device"] in roofline["devices"]
    assert figure("typical", [])["curve"][0] == [0.0, 0.09]


def test_a_measured_machine_takes_the_place_of_a_data_sheet() -> None:
    seen = [("bandwidth", "2e10"), ("operations", "1e11"), ("parameters", "1e8"), ("bytes_per_weight", "4")]
    sizes = [("cache_values", "100"), ("attention_width", "100"), ("context", "0"), ("device", "cpu of mine")]
    found = figure("roofline", seen + sizes)
    assert found["plain_ms"] == pytest.approx(1000 * 4 * 1e8 / 2e10) and found["balance"] == 5.0
    assert found["computing_ms"] == pytest.approx(1000 * 2 * 1e8 / 1e11)


def test_what_a_person_sets_is_what_is_computed() -> None:
    assert figure("gain", [("rates", "0.5"), ("draft", "2"), ("per_row", "0"), ("overhead", "0")])["best"] == 0
    assert figure("examples", [("chain", " 1, 1 ")])["chain"] == 3.0


@pytest.mark.parametrize(
    ("name", "query", "problem"),
    [
        ("gain", [("rates", "1.5")], "less than or equal to 1"),
        ("gain", [("rates", "many")], "valid number"),
        ("gain", [("rates", "")], "at least 1"),
        ("gain", [("speed", "1")], "no setting named"),
        ("examples", [("widths", "3,2")], "as many widths as rates"),
        ("roofline", [("device", "abacus")], "No device is called 'abacus'"),
        ("nothing", [], "no figure"),
    ],
)
def test_what_cannot_be_is_one_sentence(name: str, query: list[tuple[str, str]], problem: str) -> None:
    with pytest.raises(HeadwayError) as caught:
        figure(name, query)
    assert problem in str(caught.value) and "\n" not in str(caught.value)


def test_the_toy_world_comes_from_the_command() -> None:
    rows = toy(2)["rows"]
    assert len(rows) == 6 and rows[-1]["tokens_per_step"] == 5.0
    with pytest.raises(HeadwayError, match="seed"):
        toy(-1)
