"""The device lease: one holder at a time, whose name everybody can read, and which a dead process does not keep."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from backend.engine.lease import device_lease, hold_device, holder_of
from backend.errors import Cancelled, HeadwayError

ROOT = Path(__file__).resolve().parent.parent.parent


def test_a_holder_is_named_while_it_holds_and_no_longer(tmp_path: Path) -> None:
    with hold_device(tmp_path, "cuda", "training heads", kind="job", job="j1") as hold:
        assert hold.alone
        found = holder_of(tmp_path, "cuda:0")
        assert found is not None and (found.who, found.kind, found.job) == ("training heads", "job", "j1")
        hold.describe("training heads, 2 min left")
        again = holder_of(tmp_path, "cuda")
        assert again is not None and again.who == "training heads, 2 min left" and again.since == found.since
        assert holder_of(tmp_path, "cpu") is None
        with device_lease(tmp_path, "cuda") as alone, device_lease(tmp_path, "cpu") as elsewhere:
            assert (alone, elsewhere) == (False, True)
    assert holder_of(tmp_path, "cuda") is None
    with device_lease(tmp_path, "cuda") as alone:
        assert alone


def test_waiting_names_the_holder_and_ends_by_time_by_wish_or_with_the_device(tmp_path: Path) -> None:
    told: list[str] = []
    with hold_device(tmp_path, "cpu", "training heads"):
        with (
            pytest.raises(HeadwayError, match="The device cpu is busy: training heads; wait"),
            hold_device(tmp_path, "cpu", "b", wait=0.0),
        ):
            pass
        with (
            pytest.raises(Cancelled, match="training heads"),
            hold_device(tmp_path, "cpu", "b", cancelled=lambda: bool(told), waiting=told.append),
        ):
            pass
        got = threading.Event()

        def wait_for_it() -> None:
            with hold_device(tmp_path, "cpu", "the next one"):
                got.set()

        waiting = threading.Thread(target=wait_for_it)
        waiting.start()
        assert not got.wait(0.05)
    assert got.wait(10) and told == ["training heads"]
    waiting.join(10)


def test_several_devices_are_all_held_or_none(tmp_path: Path) -> None:
    with hold_device(tmp_path, "cuda:1", "x"):
        with pytest.raises(HeadwayError, match="cuda:1"), hold_device(tmp_path, ["cuda:1", "cuda:0"], "y", wait=0.0):
            pass
        assert holder_of(tmp_path, "cuda:0") is None
    with hold_device(tmp_path, ["cuda:1", "cuda:0"], "y"):
        first, second = holder_of(tmp_path, "cuda:0"), holder_of(tmp_path, "cuda:1")
        assert first is not None and second is not None and first.who == second.who == "y"


def test_a_killed_holder_keeps_nothing(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from backend.engine.lease import hold_device\n"
        "with hold_device(Path(sys.argv[1]), 'cpu', 'measuring'):\n    print('held', flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"held\n"
        found = holder_of(tmp_path, "cpu")
        assert found is not None and (found.who, found.pid) == ("measuring", process.pid)
        process.kill()
    assert holder_of(tmp_path, "cpu") is None
    with hold_device(tmp_path, "cpu", "me", wait=0.0) as hold:
        assert hold.alone


def test_where_nothing_can_be_locked_nothing_is_promised(tmp_path: Path) -> None:
    (tmp_path / "leases").write_text("a file where the folder should be")
    with hold_device(tmp_path, "cpu", "x") as hold, device_lease(tmp_path, "cpu") as alone:
        assert not hold.alone and not alone
