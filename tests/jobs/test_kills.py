"""SIGKILL at random moments: what comes out is what an undisturbed run leaves. A few kills here; benchmarks/kills.py
does a hundred.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from backend.settings import Settings
from benchmarks.kills import Kills


def test_killed_jobs_leave_what_undisturbed_ones_leave(tmp_path: Path) -> None:
    asked = argparse.Namespace(
        kills=6, kinds=["distill", "train", "evaluate"], target="tiny-llama", workers=2, seed=3, small=True
    )  # fmt: skip
    settings = Settings(home=tmp_path / "home", cache=tmp_path / "cache")
    settings.home.mkdir()
    report = Kills(asked, settings, tmp_path).run()
    assert report["faults"] == [] and report["kills"] >= 6
    assert report["reads_by_two_readers"] > 0
