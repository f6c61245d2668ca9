"""Files of every kind read row by row: encodings, arrays in pieces, damage, binary files, very long rows."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.data import rows as module
from backend.data.rows import iter_rows
from backend.errors import HeadwayError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def written(path: Path, data: str | bytes) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


@given(st.lists(VALUES, max_size=6), st.sampled_from([None, 1]), st.integers(1, 40))
@settings(max_examples=60, deadline=None)
def test_an_array_read_in_pieces_gives_its_elements(
    tmp_path_factory: pytest.TempPathFactory, values: list[Any], indent: int | None, piece: int
) -> None:
    path = tmp_path_factory.mktemp("array") / "a.json"
    written(path, json.dumps(values, indent=indent, ensure_ascii=False))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_CHUNK", piece)
        rows = list(iter_rows(path))
    assert [row.value for row in rows] == values and all(row.problem is None for row in rows)
    assert [row.line for row in rows] == list(range(1, len(values) + 1))


def test_a_broken_element_costs_only_itself(tmp_path: Path) -> None:
    path = written(tmp_path / "a.json", '[{"a": 1}, {"a": }, {"b": "}]\\"["}, nonsense, [1, {"c": 2}], 5]')
    rows = list(iter_rows(path))
    assert [row.value for row in rows] == [{"a": 1}, None, {"b": '}]"['}, None, [1, {"c": 2}], 5]
    assert [row.line for row in rows if row.problem] == [2, 4]


@pytest.mark.parametrize(
    ("text", "good", "problem"),
    [
        ('[{"a": 1}, {"b": ', 1, "cut off"), ('[{"a": 1}', 1, "the file is cut off"),
        ('[{"a": 1}, {"b": "x', 1, "cut off"), ("[", 0, "the file is cut off"), ("[" * 5000, 0, "cut off"),
    ],
)  # fmt: skip
def test_a_cut_array_says_where(tmp_path: Path, text: str, good: int, problem: str) -> None:
    rows = list(iter_rows(written(tmp_path / "a.json", text)))
    assert sum(row.problem is None for row in rows) == good
    assert problem in (rows[-1].problem or "") and rows[-1].line == good + 1


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("array", [True, False])
def test_encodings_with_a_mark_are_read(tmp_path: Path, encoding: str, array: bool) -> None:
    values = [{"turns": ["Käse 😀"]}, {"turns": ["b"]}]
    lines = "\r\n".join(json.dumps(value, ensure_ascii=False) for value in values)
    text = json.dumps(values, ensure_ascii=False) if array else lines
    rows = list(iter_rows(written(tmp_path / "a", text.encode(encoding))))
    assert [row.value for row in rows] == values


def test_a_line_in_another_encoding_costs_only_itself(tmp_path: Path) -> None:
    path = written(tmp_path / "a", b'{"a": 1}\n{"b": "K\xe4se"}\n\n{"c": 3}')
    rows = list(iter_rows(path))
    assert [(row.line, row.value) for row in rows] == [(1, {"a": 1}), (2, None), (4, {"c": 3})]
    assert rows[1].problem == "is not UTF-8 text (byte 9 of the line)"


@pytest.mark.parametrize("array", [True, False])
def test_rows_without_an_end_are_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, array: bool) -> None:
    monkeypatch.setattr(module, "MAX_ROW_BYTES", 3000)
    monkeypatch.setattr(module, "_CHUNK", 512)
    long = json.dumps({"a": "x" * 9000})
    path = written(tmp_path / "a", f"[{long}, 2]" if array else f'{long}\n{{"b": 2}}\n')
    rows = list(iter_rows(path))
    assert rows[0].problem is not None and ("0 MB" in rows[0].problem)
    assert array or rows[1].value == {"b": 2}


@pytest.mark.parametrize(
    ("data", "kind"),
    [(b"PAR1\x00\x00", "a Parquet file"), (b"\x1f\x8b\x08abc", "a gzip archive"), (b"ab\0cd", "a binary file")],
)
def test_binary_files_are_one_sentence(tmp_path: Path, data: bytes, kind: str) -> None:
    path = written(tmp_path / "a", data)
    with pytest.raises(HeadwayError, match=f"is {kind}, not text; save the rows as UTF-8 JSONL"):
        list(iter_rows(path))
    with pytest.raises(HeadwayError, match="Is a directory"):
        list(iter_rows(tmp_path))


@pytest.mark.parametrize("text", ['{"a": 1}\n\n{"b": 2}\n', '[{"a": 1}, 2]\n \n', "[1] [2]" + " " * 999, "", "[1"])
def test_every_byte_is_fed_once_and_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(module, "_CHUNK", 16)
    path = written(tmp_path / "a", text)
    digest = hashlib.sha256()
    rows = list(iter_rows(path, digest.update))
    assert digest.hexdigest() == hashlib.sha256(text.encode()).hexdigest()
    assert any("behind the end" in (row.problem or "") for row in rows) == ("[2]" in text)
