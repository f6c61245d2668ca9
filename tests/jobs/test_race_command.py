"""`race` on the command line: JSON of how it ended, a record for the page, one sentence for mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import app
from backend.settings import Settings
from storage import Store

TINY = ["race", "--target", "tiny-llama", "--max-new-tokens", "12"]
LANES = ["--lane", "none", "--lane", "ngram", "--lane", "ngram tree=chain-2"]


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("HEADWAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    return Settings(tmp_path / "home", tmp_path / "cache")


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = app.main(list(words))
    out, err = capsys.readouterr()
    return code, out, err


def test_a_race_is_printed_and_recorded(capsys: pytest.CaptureFixture[str], settings: Settings) -> None:
    code, out, err = run(capsys, *TINY, *LANES, "--prompt", "hello hello hello", "--json")
    assert code == 0 and err == ""
    told = json.loads(out)
    assert [lane["name"] for lane in told["lanes"]] == ["plain decoding", "n-gram lookup", "n-gram lookup · chain-2"]
    assert told["same"] is True and told["against"] == "A" and told["marks"] == {}
    assert sorted(lane["place"] for lane in told["lanes"]) == [1, 2, 3]
    assert len({lane["text"] for lane in told["lanes"]}) == 1 and {lane["num_tokens"] for lane in told["lanes"]} == {12}
    assert all(lane["clock_ms"] > 0 and lane["ratio"] > 0 for lane in told["lanes"])
    with Store.open(settings.database) as store:
        (race,) = store.list_races()
        assert (race.id, [one.run.id for one in race.lanes]) == (told["race"], [lane["run"] for lane in told["lanes"]])


def test_a_race_in_words_and_without_a_record(capsys: pytest.CaptureFixture[str], settings: Settings) -> None:
    words = (*TINY, "--lane", "ngram", "--lane", "ngram target=tiny-llama:1", "--prompt", "hello", "--no-store")
    code, out, err = run(capsys, *words)
    lines = out.splitlines()
    assert code == 0 and "Recorded" not in err and lines[0].startswith("A  n-gram lookup · tiny-llama")
    assert "finished first, after" in lines[2] and "they are different versions" in lines[3]
    assert not settings.database.exists()


@pytest.mark.parametrize(
    ("lanes", "sentence"),
    [
        ([], "A race has 2 to 4 lanes, but this one has 0; add"),
        (["none"], "but this one has 1; add 1."),
        (["none", "none tree=chain-2"], "Lanes A and B would do the same"),
        (["none", "tree=chain-2"], "Lane B: it begins with its drafter"),
        (["none", "ngram bush"], "Lane B: there is no setting 'bush'"),
        (["none", "ngram max_new_tokens=4"], "Lane B: there is no setting 'max_new_tokens=4'"),
        (["none", "ngram temperature=hot"], "Lane B: temperature has to be a number, not 'hot'."),
        (["none", "ngram max-depth=1.5"], "Lane B: max_depth has to be a whole number"),
        (["none", "ngram sampled=perhaps"], "Lane B: sampled is yes or no"),
        (["none", "ngram temperature=-1"], "Lane B: "),
        (["none", "ngram rule=best"], "Lane B: "),
        (["none", "ngram tree='"], "Lane B: "),
        (["none", "ngram tree=bush"], "Lane B: Unknown tree"),
        (["none", "nobody"], "Lane B: Unknown drafter"),
    ],
)
def test_mistakes_are_one_sentence(capsys: pytest.CaptureFixture[str], lanes: list[str], sentence: str) -> None:
    options = [word for lane in lanes for word in ("--lane", lane)]
    code, out, err = run(capsys, *TINY, *options, "--prompt", "hello", "--json")
    assert code == 2 and out == "" and sentence in err
    assert len(err.strip().splitlines()) == 1 and "Traceback" not in err


def test_an_empty_prompt_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, *TINY, *LANES, "--prompt", " ", "--json")
    assert (code, out, err) == (2, "", "The prompt is empty; write at least one character.\n")
