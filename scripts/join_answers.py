"""Join answer files of one target into one packed file: `join_answers.py OUT.npz ANSWERS...`.

A prompt that was answered in several of them, say at two temperatures, stays one prompt: what is held out is chosen by
the prompt's hash, so all its answers are learned from or none. Exit code 2 when a file cannot be read. Knows only
`backend/data/answers.py`.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from backend.data.answers import pack_answers, read_any
from backend.errors import HeadwayError


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("answers", type=Path, nargs="+")
    options = parser.parse_args()
    try:
        joined = [answer for path in options.answers for answer in read_any(path)]
        twice = [key for key, count in Counter(answer.key for answer in joined).items() if count > 1]
        if twice:
            raise HeadwayError(f"{len(twice)} answers stand in more than one of these files, say {twice[0]}.")
        pack_answers(joined, options.out)
    except HeadwayError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{len(joined)} answers, {sum(len(answer.answer_ids) for answer in joined):,} tokens: {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
