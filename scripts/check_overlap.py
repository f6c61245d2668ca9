"""Say which prompts share a run of words with evaluation sets: `check_overlap.py PROMPTS EVALUATION_FILE...`.

Exit code 1 when something is shared, 2 when a file cannot be read. Knows only `backend/data/overlap.py`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from backend.data.overlap import find_overlap
from backend.data.prompts import read_prompts
from backend.errors import HeadwayError


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("prompts", type=Path)
    parser.add_argument("others", type=Path, nargs="+")
    parser.add_argument("--words", type=int, default=8, help="length of a run")
    options = parser.parse_args()
    try:
        prompts = read_prompts(options.prompts).prompts
        hits = find_overlap(prompts, {str(p): read_prompts(p).prompts for p in options.others}, options.words)
    except HeadwayError as error:
        print(error, file=sys.stderr)
        return 2
    for hit in hits:
        print(f"{hit.question_id} shares with {hit.other_id} of {hit.other_file}: {hit.words}")
    print(f"{len(hits)} overlaps of {options.words} words in {len(prompts)} prompts")
    return 1 if hits else 0


if __name__ == "__main__":
    sys.exit(main())
