"""Which tokens are drafted, and which answers are held out."""

import pytest

from backend.data.answers import Answer
from backend.errors import HeadwayError
from backend.training.split import split_held_out
from backend.training.token_map import choose_tokens
from tests.training.test_features import Pair


def test_frequent_tokens_first_then_prompts_then_low_numbers() -> None:
    answers = [Pair((8, 8, 9), (5, 5, 5, 2)), Pair((9, 9, 9), (2, 7))]
    chosen, covered = choose_tokens(answers, vocab_size=12, size=6, always=[11])
    assert chosen.tolist() == [2, 5, 7, 8, 9, 11] and covered == 1.0
    chosen, covered = choose_tokens(answers, vocab_size=12, size=2)
    assert chosen.tolist() == [2, 5] and covered == pytest.approx(5 / 6)
    assert choose_tokens([], vocab_size=12, size=3)[0].tolist() == [0, 1, 2]
    assert choose_tokens(answers, vocab_size=12, size=12)[0].tolist() == list(range(12))


@pytest.mark.parametrize("size", [0, 13])
def test_sizes_outside_the_vocabulary_are_refused(size: int) -> None:
    with pytest.raises(HeadwayError, match="1 to 12"):
        choose_tokens([], vocab_size=12, size=size)


def test_a_prompt_is_on_one_side_only_and_stays_there() -> None:
    answers = [Answer(f"q{i}", "none", (i, i + 1), (j,), 0.0, j, "eos", False) for i in range(200) for j in range(2)]
    train, held = split_held_out(answers, 0.2)
    assert len(train) + len(held) == 400 and 40 < len(held) < 120
    assert not {a.prompt_ids for a in train} & {a.prompt_ids for a in held}
    fewer_train, fewer_held = split_held_out(answers[:100], 0.2)
    assert set(fewer_train) <= set(train) and set(fewer_held) <= set(held)
    with pytest.raises(ValueError, match="fraction"):
        split_held_out(answers, 1.0)


def test_later_turns_stand_beside_the_first_one() -> None:
    first = [Answer(f"q{i}", "none", (i,), (1,), heat, 0, "eos", False) for i in range(50) for heat in (0.0, 1.0)]
    later = [Answer(a.question_id, "none", (*a.prompt_ids, 9, i), (1,), a.temperature, 0, "eos", False, turn=1)
             for i, a in enumerate(first)]  # fmt: skip
    train, held = split_held_out([*later, *first], 0.3)
    assert len(train) + len(held) == 200 and 20 < len(held) < 120
    assert not {a.question_id for a in train} & {a.question_id for a in held}
