"""What a draft vocabulary covers of a file of answers, split as training splits them: the numbers beside a form.

Torch-free. The counting is analysis/draft_vocab.py's; here it is done once for a file and kept.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from backend.analysis.draft_vocab import CurvePoint, VocabularyCurve, token_order
from backend.data.answers import read_answers, unpack_answers
from backend.errors import HeadwayError
from backend.training.split import split_held_out

WANTED = 0.99  #: share of the target's own tokens that a vocabulary should cover


def vocabulary_facts(
    path: Path, held_out: float, vocab_size: int, size: int, depth: int
) -> tuple[CurvePoint, int] | None:
    """(what a vocabulary of `size` tokens covers of the held-out answers, with the ceiling for chains of `depth`; the
    size that covers 99 %). None when nothing is held out. Raises HeadwayError when the file can't be read.
    """
    try:
        stamp = path.stat()
    except OSError:
        raise HeadwayError(f"There is no file {path}; make answers with `distill` first.") from None
    curve = _curve(path, held_out, vocab_size, stamp.st_mtime_ns, stamp.st_size)
    if curve is None:
        return None
    return curve.point(min(size, vocab_size), depths=(depth,)), curve.size_for(WANTED)


@lru_cache(maxsize=8)
def _curve(path: Path, held_out: float, vocab_size: int, changed: int, size: int) -> VocabularyCurve | None:
    answers = unpack_answers(path) if path.suffix == ".npz" else read_answers(path).answers
    training, held = split_held_out([a for a in answers if a.answer_ids], held_out)
    if not training or not held or max(max(a.prompt_ids + a.answer_ids) for a in answers) >= vocab_size:
        return None
    ends = {a.answer_ids[-1] for a in answers if a.finish_reason == "eos" and a.answer_ids}
    return VocabularyCurve(token_order(training, vocab_size, ends), held)
