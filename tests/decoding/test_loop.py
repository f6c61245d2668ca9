"""The loop as a whole: rows that come and go, counts, cancel, seeds, and what it refuses."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from functools import cache

import pytest

from backend.acceptance import Rule, SamplingSettings, Verdict
from backend.decoding.loop import DecodeSettings, Record, decode
from backend.decoding.records import DecodeResult, Detail, PrefillTrace, StepTrace, step_from_dict
from backend.drafters.base import Drafter
from backend.drafters.draft_model.drafter import DraftModelDrafter
from backend.drafters.ngram.config import NgramConfig
from backend.drafters.ngram.drafter import NgramDrafter
from backend.drafters.plain.drafter import PlainDrafter
from backend.errors import HeadwayError
from backend.targets.tiny import tiny_model
from backend.trees import chain, product
from tests.support.drafters import OracleDrafter, random_medusa
from tests.support.targets import plain_logits, random_text, reference_of, target_of, wrap

PROMPTS = [random_text(20 + i, length) for i, length in enumerate((4, 19, 1, 9, 30, 2, 12))]
SAMPLING = SamplingSettings(temperature=1.0, top_p=0.95)


def settings_of(new: int = 16, **options: object) -> DecodeSettings:
    return DecodeSettings(max_new_tokens=new, **options)


def results(records: list[Record]) -> list[DecodeResult]:
    return sorted((record for record in records if isinstance(record, DecodeResult)), key=lambda record: record.row)


@cache
def plain_texts(new: int = 40) -> list[list[int]]:
    """Prompts with their greedy answers."""
    records = list(decode(target_of("llama"), PlainDrafter(), PROMPTS, settings_of(new, ignore_eos=True), 4))
    return [prompt + result.tokens for prompt, result in zip(PROMPTS, results(records), strict=True)]


def oracle(ragged: bool = True, hit: float = 0.8) -> OracleDrafter:
    return OracleDrafter(plain_texts(), product([3, 2, 2]), hit, ragged)


def alone(drafter: Drafter, settings: DecodeSettings) -> list[DecodeResult]:
    target = target_of("llama")
    return [
        results(list(decode(target, drafter, [prompt], settings, numbers=[number])))[0]
        for number, prompt in enumerate(PROMPTS)
    ]


@pytest.mark.parametrize("sampling", [SamplingSettings(), SAMPLING], ids=["greedy", "sampled"])
@pytest.mark.parametrize("name", ["oracle", "ngram", "draft", "plain"])
def test_seven_prompts_through_three_slots_equal_each_prompt_alone(name: str, sampling: SamplingSettings) -> None:
    target = target_of("llama")
    drafter: Drafter = {
        "oracle": lambda: oracle(ragged=False, hit=1.0),
        "ngram": lambda: NgramDrafter(NgramConfig()),
        "draft": lambda: DraftModelDrafter(target_of("llama", 9), target.vocab_size, product([3, 2])),
        "plain": PlainDrafter,
    }[name]()
    settings = settings_of(sampling=sampling, seed=3, stop=tuple("abcdefghijklmnopqrst"))
    together = results(list(decode(target, drafter, PROMPTS, settings, batch=3)))
    assert [result.row for result in together] == list(range(7))
    for got, expected in zip(together, alone(drafter, settings), strict=True):
        assert got.tokens == expected.tokens and got.finish_reason == expected.finish_reason
    lengths = {len(result.tokens) for result in together}
    assert len(lengths) > 2, "rows that end together would not test replacement"


def test_records_of_a_batch_are_in_order_and_add_up() -> None:
    target, open_rows, most = target_of("llama"), set(), 0
    steps: dict[int, list[StepTrace]] = defaultdict(list)
    text: dict[int, str] = defaultdict(str)
    tokens: dict[int, list[int]] = defaultdict(list)
    for record in decode(target, oracle(), PROMPTS, settings_of(detail=Detail.FULL), batch=3):
        if isinstance(record, PrefillTrace):
            open_rows.add(record.row)
            most = max(most, len(open_rows))
            assert record.prompt_tokens == len(PROMPTS[record.row])
            tokens[record.row].append(record.token)
            text[record.row] += record.text
        elif isinstance(record, StepTrace):
            assert record.row in open_rows and record.step == len(steps[record.row]) + 1
            steps[record.row].append(record)
            tokens[record.row] += record.tokens
            text[record.row] += record.text
        else:
            open_rows.remove(record.row)
            check_result(record, steps[record.row], tokens[record.row], text[record.row])
    assert most == 3 and not open_rows and len(steps) == 7


def check_result(result: DecodeResult, steps: list[StepTrace], tokens: list[int], text: str) -> None:
    assert result.tokens == tokens and result.text == text
    assert len(tokens) == 1 + result.num_steps + result.num_accepted - result.num_cut
    assert result.num_steps == len(steps) > 0
    for name in ("num_drafted", "num_accepted", "num_cut"):
        assert getattr(result, name) == sum(getattr(step, name) for step in steps), name
    for depth, (accepted, drafted) in enumerate(
        zip(result.accepted_per_depth, result.drafted_per_depth, strict=True), start=1
    ):
        assert accepted == sum(step.num_accepted >= depth for step in steps)
        assert drafted == sum(step.num_tried >= depth for step in steps)
    for step in steps:
        assert step.tree is not None and step.path is not None
        assert len(step.path) == step.num_accepted and len(step.tree.tokens) == 1 + step.num_drafted
        last = step.path[-1] if step.path else 0
        assert step.num_tried == step.num_accepted + (last in step.tree.parents[1:])
        assert len(step.tokens) == step.num_accepted + 1 - step.num_cut
        assert step.step_ms >= step.draft_ms + step.verify_ms + step.commit_ms > 0


def test_numbers_keep_draws_where_they_were() -> None:
    target, settings = target_of("llama"), settings_of(8, sampling=SAMPLING, seed=5)
    whole = results(list(decode(target, PlainDrafter(), PROMPTS, settings, batch=2)))
    rest = results(list(decode(target, PlainDrafter(), PROMPTS[4:], settings, batch=3, numbers=[4, 5, 6])))
    assert [r.row for r in rest] == [4, 5, 6] and [r.tokens for r in rest] == [r.tokens for r in whole[4:]]
    renumbered = results(list(decode(target, PlainDrafter(), PROMPTS[4:], settings, batch=3)))
    assert [r.tokens for r in renumbered] != [r.tokens for r in rest]
    reseeded = settings_of(8, sampling=SAMPLING, seed=6)
    assert results(list(decode(target, PlainDrafter(), PROMPTS, reseeded)))[0].tokens != whole[0].tokens
    with pytest.raises(ValueError):
        list(decode(target, PlainDrafter(), PROMPTS, settings, numbers=[1]))


def test_the_same_prompt_twice_draws_differently() -> None:
    same = [PROMPTS[0]] * 3
    answers = results(list(decode(target_of("llama"), PlainDrafter(), same, settings_of(8, sampling=SAMPLING), 3)))
    assert len({tuple(answer.tokens) for answer in answers}) == 3


@pytest.mark.parametrize("after", [0, 1, 5])
def test_cancel_stops_within_one_step(after: int) -> None:
    seen: list[Record] = []
    records = decode(
        target_of("llama"), oracle(hit=0.0), PROMPTS, settings_of(30), 2, lambda: count(seen)["step"] >= 2 * after
    )
    for record in records:
        seen.append(record)
    done = results(seen)
    assert count(seen)["step"] == 2 * after
    assert all(result.finish_reason == "cancelled" for result in done)
    assert len(done) == (2 if after else 0) and all(len(result.tokens) >= 1 + after for result in done)


def count(records: list[Record]) -> Counter[str]:
    return Counter(record.kind for record in records)


def test_closing_the_generator_early_leaves_the_target_usable() -> None:
    target = target_of("llama")
    first = decode(target, oracle(), PROMPTS, settings_of(), batch=3)
    for _ in range(8):
        next(first)
    first.close()
    again = results(list(decode(target, PlainDrafter(), PROMPTS[:1], settings_of(10, ignore_eos=True))))
    assert again[0].tokens == plain_texts()[0][len(PROMPTS[0]) :][:10]


def test_end_tokens_stop_strings_and_the_limit() -> None:
    target = target_of("llama")
    answer = plain_texts()[1][len(PROMPTS[1]) :]
    whole = results(list(decode(target, oracle(hit=1.0), [PROMPTS[1]], settings_of(9, ignore_eos=True))))[0]
    assert whole.finish_reason == "length" and whole.tokens == answer[:9]
    eos_target = wrap(tiny_model("llama"))
    eos_target.eos_token_ids = frozenset({answer[5]})
    ended = results(list(decode(eos_target, oracle(hit=1.0), [PROMPTS[1]], settings_of(30))))[0]
    assert ended.finish_reason == "eos" and ended.tokens == answer[: answer.index(answer[5]) + 1]
    printable = next(i for i, token in enumerate(answer) if i > 2 and 33 <= token < 127 and token not in answer[:i])
    stopped = results(
        list(decode(target, oracle(hit=1.0), [PROMPTS[1]], settings_of(40, stop=(chr(answer[printable]),))))
    )[0]
    assert stopped.finish_reason == "stop" and stopped.tokens == answer[: printable + 1]
    assert chr(answer[printable]) not in stopped.text


def test_full_detail_says_what_plain_passes_say() -> None:
    target, model, prompt = target_of("llama"), reference_of("llama"), PROMPTS[3]
    sampling = SamplingSettings(temperature=0.8)
    settings = settings_of(14, rule=Rule("rejection"), sampling=sampling, detail=Detail.FULL, seed=1)
    shape = product([4, 2])
    committed = list(prompt)
    verdicts: Counter[int] = Counter()
    for record in decode(target, random_medusa(target, shape), [prompt], settings):
        if isinstance(record, PrefillTrace):
            committed.append(record.token)
        if not isinstance(record, StepTrace):
            continue
        tree, path = record.tree, record.path
        assert tree is not None and path is not None and tree.tokens[0] == committed[-1]
        on_path = {0, *path}
        for node, (token, parent) in enumerate(zip(tree.tokens, tree.parents, strict=True)):
            line = [] if node == 0 else ancestors(tree.parents, node)
            after = plain_logits(model, committed + [tree.tokens[i] for i in line])[-1].div(0.8).softmax(-1)
            assert tree.best_tokens[node] == int(after.argmax())
            assert tree.best_probs[node] == pytest.approx(float(after.max()), abs=1e-4)
            if node:
                before = plain_logits(model, committed + [tree.tokens[i] for i in line[:-1]])[-1].div(0.8).softmax(-1)
                assert tree.target_probs[node] == pytest.approx(float(before[token]), abs=1e-4)
            looked_at = node in on_path or parent in on_path
            wanted = Verdict.ACCEPTED if node in on_path else Verdict.REJECTED if looked_at else Verdict.NOT_REACHED
            assert tree.verdicts[node] == wanted
            assert (tree.scores[node] is not None) == (looked_at and node > 0)
            verdicts[tree.verdicts[node]] += 1
        assert tree.target_probs[0] is None and tree.draft_probs[0] is None
        assert all(prob is not None and 0 < prob <= 1 for prob in tree.draft_probs[1:])
        assert record.tokens[: len(path)] == [tree.tokens[node] for node in path][: len(record.tokens)]
        committed += record.tokens
    assert all(verdicts[verdict] for verdict in (Verdict.ACCEPTED, Verdict.REJECTED, Verdict.NOT_REACHED))


def ancestors(parents: list[int], node: int) -> list[int]:
    return [] if node == 0 else [*ancestors(parents, parents[node]), node]


@pytest.mark.parametrize("detail", list(Detail))
@pytest.mark.parametrize("banned", [(), tuple(range(0, 250, 2))])
def test_records_survive_json(detail: Detail, banned: tuple[int, ...]) -> None:
    settings = settings_of(8, detail=detail, sampling=SamplingSettings(banned_tokens=banned))
    records = list(decode(target_of("llama"), oracle(), PROMPTS[:2], settings, batch=2))
    for record in records:
        data = json.loads(json.dumps(record.to_dict(), allow_nan=False))  # no infinity, which JSON does not know
        if isinstance(record, StepTrace):
            assert step_from_dict(data) == record and step_from_dict({**data, "newer": 1}) == record
            assert (record.path is None) == (detail is Detail.COUNTS)
            assert (record.tree is None) == (detail is not Detail.FULL)
        if isinstance(record, DecodeResult):
            assert data["acceptance_length"] == record.acceptance_length and data["tokens_per_s"] > 0
            assert data["kind"] == "result"


@pytest.mark.parametrize(
    ("prompts", "settings", "says"),
    [
        ([[]], settings_of(), "The prompt is empty"),
        ([[1], []], settings_of(), "The prompt is empty"),
        ([[1] * 1020], settings_of(), "1020 tokens and 16 new ones are asked for; tiny-llama-0 has room for 1021"),
        ([[1]], settings_of(0), "must be at least 1, but it is 0"),
        ([[1]], settings_of(rule=Rule("greedy"), sampling=SAMPLING), "exact at temperature 0 only"),
        ([[1]], settings_of(sampling=SamplingSettings(banned_tokens=(260,))), "not in the vocabulary"),
    ],
)
def test_what_is_refused_with_one_sentence(prompts: list[list[int]], settings: DecodeSettings, says: str) -> None:
    with pytest.raises(HeadwayError, match=says) as caught:
        list(decode(target_of("llama"), oracle(), prompts, settings))
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)


def test_no_rows_at_once_is_refused_and_no_prompts_are_no_work() -> None:
    with pytest.raises(HeadwayError, match="at least 1, but it is 0"):
        list(decode(target_of("llama"), PlainDrafter(), [[1]], settings_of(), batch=0))
    assert list(decode(target_of("llama"), PlainDrafter(), [], settings_of())) == []


def test_the_longest_text_that_fits_is_decoded() -> None:
    target = wrap(tiny_model("llama", max_position_embeddings=24))
    drafter = OracleDrafter([], chain(3))
    result = results(list(decode(target, drafter, [[7] * 11], settings_of(10, ignore_eos=True))))[0]
    assert len(result.tokens) == 10
    with pytest.raises(HeadwayError, match="room for 21"):
        list(decode(target, drafter, [[7] * 12], settings_of(10)))


def test_one_new_token_needs_no_step() -> None:
    records = list(decode(target_of("llama"), oracle(), PROMPTS, settings_of(1), batch=2))
    assert count(records) == {"prefill": 7, "result": 7}
    assert [r.tokens for r in results(records)] == [
        t[len(p) :][:1] for t, p in zip(plain_texts(), PROMPTS, strict=True)
    ]
