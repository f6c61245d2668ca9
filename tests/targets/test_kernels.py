"""Which layout of a matrix is used from how many rows on."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from backend.targets.kernels import CHOICES, Kernels, Times, choose, time_layouts
from backend.targets.packed_linear import NEVER, RowLinear, pack_linear

PACKED_ALWAYS: Times = {1: (3.0, 2.0), 2: (4.0, 2.0), 4: (5.0, 2.0), 8: (6.0, 3.0), 16: (8.0, 4.0)}
PLAIN_FIRST: Times = {1: (2.0, 3.0), 2: (2.0, 3.0), 4: (5.0, 3.0), 8: (6.0, 3.0), 16: (8.0, 4.0)}
PLAIN_ALWAYS: Times = {rows: (1.0, 2.0) for rows in (1, 2, 4, 8, 16)}


@pytest.mark.parametrize(("times", "expected"), [(PACKED_ALWAYS, 1), (PLAIN_FIRST, 4), (PLAIN_ALWAYS, NEVER)])
def test_the_threshold_follows_the_times(times: Times, expected: int) -> None:
    assert choose(times, CHOICES) == expected


def test_one_layout_where_two_gain_almost_nothing() -> None:
    almost = PACKED_ALWAYS | {1: (1.99, 2.0)}
    assert choose(almost, CHOICES) == 1
    assert choose(PLAIN_FIRST, (1, NEVER)) == 1  # memory for one layout only


def test_what_was_measured_is_remembered_and_damage_is_measured_again(tmp_path: Path) -> None:
    asked: list[tuple[int, int]] = []

    def measure(shape: tuple[int, int]) -> Times:
        asked.append(shape)
        return PLAIN_FIRST

    file, weight = tmp_path / "cache" / "kernels.json", torch.zeros(512, 256)
    assert Kernels(file, measure, lambda: False).packed_from(weight) == 4
    assert Kernels(file, measure, lambda: False).packed_from(weight) == 4
    assert Kernels(file, measure, lambda: False).packed_from(weight, two_layouts=False) == 1
    assert asked == [(512, 256)]
    file.write_text('{"a machine": {"512x256": "four"}}', encoding="utf-8")
    assert Kernels(file, measure, lambda: False).packed_from(weight) == 4
    assert len(asked) == 2
    assert (
        Kernels(tmp_path, measure, lambda: False).packed_from(weight) == 4
    )  # a folder in the file's place costs the memory only


def test_what_a_busy_machine_gave_is_not_remembered(tmp_path: Path) -> None:
    file, weight = tmp_path / "kernels.json", torch.zeros(512, 256)
    assert Kernels(file, lambda shape: PLAIN_FIRST, lambda: True).packed_from(weight) == 4
    assert not file.exists()
    assert Kernels(file, lambda shape: PACKED_ALWAYS, lambda: False).packed_from(weight) == 1
    assert file.exists()


def test_small_matrices_and_other_dtypes_are_not_measured() -> None:
    def never(shape: tuple[int, int]) -> Times:
        raise AssertionError

    kernels = Kernels(None, never)
    assert kernels.packed_from(torch.zeros(8, 8)) == 1
    assert kernels.packed_from(torch.zeros(512, 512, dtype=torch.bfloat16)) == 1


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch was built without oneDNN")
def test_both_layouts_give_the_same_product_and_only_what_is_used_is_kept() -> None:
    weight, bias = torch.randn(40, 24), torch.randn(40)
    mixed = pack_linear(weight, bias, lambda _: 4)
    assert isinstance(mixed, RowLinear) and mixed.plain is not None and mixed.packed is not None
    for rows in (1, 3, 4, 9):
        x = torch.randn(1, rows, 24)
        torch.testing.assert_close(mixed(x), torch.nn.functional.linear(x, weight, bias), atol=1e-5, rtol=1e-5)
    assert RowLinear(weight, None, 1).plain is None
    assert RowLinear(weight, None, NEVER).packed is None


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch was built without oneDNN")
def test_times_are_measured_for_every_row_count() -> None:
    times = time_layouts((96, 64))
    assert set(times) == {1, 2, 4, 8, 16}
    assert all(plain > 0 and packed > 0 for plain, packed in times.values())
