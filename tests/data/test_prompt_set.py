"""The project's own prompts: made by the committed script, varied enough, and disjoint from evaluation sets."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from backend.data.overlap import find_overlap
from backend.data.prompts import read_prompts

ROOT = Path(__file__).resolve().parents[2]
FILES = ("train.jsonl", "heldout.jsonl", "demo.jsonl")
EVALUATION = "HEADWAY_EVAL_SETS"  # environment variable: a folder of .jsonl files that were never trained on
BESIDE = ROOT.parent / "shared" / "data" / "eagle_bench"  # where they may lie beside the repository


def test_the_script_writes_the_committed_files(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "scripts/make_prompts.py", "--out", tmp_path], check=True, timeout=60)
    for name in FILES:
        assert (tmp_path / name).read_bytes() == (ROOT / "prompts" / name).read_bytes()


def test_size_categories_and_repetition() -> None:
    file = read_prompts(ROOT / "prompts/train.jsonl")
    assert file.broken == () and len(file.prompts) >= 2000
    assert (ROOT / "prompts/train.jsonl").stat().st_size < 1.5e6
    counts = Counter(prompt.category for prompt in file.prompts)
    assert set(counts) == {
        "code",
        "math",
        "qa",
        "instruction",
        "summary",
        "dialogue",
        "writing",
        "reasoning",
        "extraction",
    }
    assert min(counts.values()) >= 60
    assert sum(len(prompt.turns) == 2 for prompt in file.prompts) >= 150
    held_out = read_prompts(ROOT / "prompts/heldout.jsonl").prompts
    everything = [prompt.turns for prompt in (*file.prompts, *held_out)]
    assert len(set(everything)) == len(everything)


def test_held_out_functions_are_never_trained_on() -> None:
    names = []
    for name in FILES[:2]:
        code = [p.turns[0] for p in read_prompts(ROOT / "prompts" / name).prompts if p.category == "code"]
        names.append({found for turn in code for found in re.findall(r"def (\w+)\(", turn)})
    assert len(names[0]) > 100 and len(names[1]) >= 5 and not names[0] & names[1]


@pytest.mark.parametrize("name", FILES)
def test_no_evaluation_prompt_shares_eight_words(name: str) -> None:
    folder = os.environ.get(EVALUATION) or (BESIDE if BESIDE.is_dir() else None)
    if not folder:
        pytest.skip(f"set {EVALUATION} to a folder of evaluation sets to compare the prompts with them")
    others = {path.name: read_prompts(path).prompts for path in sorted(Path(folder).glob("*.jsonl"))}
    assert others, f"there are no .jsonl files in {folder}"
    assert find_overlap(read_prompts(ROOT / "prompts" / name).prompts, others) == []


def test_the_overlap_command(tmp_path: Path) -> None:
    command = [sys.executable, ROOT / "scripts/check_overlap.py", ROOT / "prompts/demo.jsonl"]
    found = subprocess.run([*command, ROOT / "prompts/demo.jsonl"], capture_output=True, text=True, timeout=60)
    assert found.returncode == 1 and "demo-code shares with demo-code" in found.stdout
    missing = subprocess.run([*command, tmp_path / "none"], capture_output=True, text=True, timeout=60)
    assert missing.returncode == 2 and missing.stderr.count("\n") == 1
