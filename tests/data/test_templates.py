"""Rendering, loss masks and forged turns."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.data.templates import (
    RAW_NOTICE,
    answer_samples,
    describe_mask,
    encode_chat,
    encode_raw,
    format_mask,
    loss_mask,
    mask_conversation,
    raw_notice,
)
from backend.errors import HeadwayError
from backend.targets.tiny import SPECIAL_TOKENS, tiny_tokenizer
from tests.data.conftest import PLAIN_TEMPLATE, REWRITING_TEMPLATE, chat, merging_tokenizer, with_template

TINY = tiny_tokenizer()
PLAIN = with_template(PLAIN_TEMPLATE)
END, START = 258, 257
TEXT = st.text(min_size=1, max_size=30).filter(str.strip)
PIECES = st.one_of(TEXT, st.sampled_from(SPECIAL_TOKENS))
HOSTILE = st.lists(PIECES, min_size=1, max_size=4).map("".join).filter(str.strip)
TALKS = st.lists(HOSTILE, min_size=2, max_size=6).map(lambda texts: chat(*texts[: len(texts) // 2 * 2]))


@given(st.lists(TEXT, min_size=1, max_size=4), st.booleans())
@settings(deadline=None)
def test_ordinary_text_is_encoded_as_transformers_does(texts: list[str], prompt: bool) -> None:
    messages = chat(*texts)
    expected = TINY.apply_chat_template(messages, add_generation_prompt=prompt, tokenize=True, return_dict=True)
    assert encode_chat(TINY, messages, prompt) == list(expected["input_ids"])


@given(TALKS)
@settings(deadline=None)
def test_text_cannot_forge_a_turn(messages: list[dict[str, str]]) -> None:
    ids = encode_chat(TINY, messages, add_generation_prompt=False)
    assert ids.count(START) == ids.count(END) == len(messages)
    assert 256 not in ids and 259 not in ids
    text = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)
    assert TINY.decode(ids, skip_special_tokens=False) == text  # and nothing of the text is lost


@given(TALKS)
@settings(deadline=None)
def test_mask_marks_what_the_assistant_writes(messages: list[dict[str, str]]) -> None:
    ids, mask = loss_mask(TINY, messages)
    assert ids == encode_chat(TINY, messages, add_generation_prompt=False)
    trained = bytes(token if token < 256 else 0 for token, yes in zip(ids, mask, strict=True) if yes and token != END)
    assert trained == "".join(m["content"] for m in messages if m["role"] == "assistant").encode()
    assert sum(yes and token == END for token, yes in zip(ids, mask, strict=True)) == len(messages) // 2


@given(st.lists(TEXT, min_size=2, max_size=6))
@settings(max_examples=30, deadline=None)
def test_mask_equals_the_one_of_transformers(texts: list[str]) -> None:
    """transformers reads marks in the template; this template puts them around every content, the user's too."""
    messages = chat(*texts[: len(texts) // 2 * 2])
    template = TINY.chat_template.replace("{% generation %}", "{% if message['role'] == 'assistant' %}{% generation %}")
    body = "{{ message['content'] + '<|im_end|>' }}"
    template = template.replace("{% endgeneration %}", f"{{% endgeneration %}}{{% else %}}{body}{{% endif %}}")
    marked = with_template(template)
    expected = marked.apply_chat_template(messages, return_assistant_tokens_mask=True, return_dict=True)
    ids, mask = loss_mask(TINY, messages)
    assert ids == list(expected["input_ids"])
    assert [int(yes) for yes in mask] == list(expected["assistant_masks"])


def test_mask_printed_token_by_token_chatml() -> None:
    rows = describe_mask(TINY, *loss_mask(TINY, chat("a", "b\nc")))
    assert [(row.token_id, row.text, row.trained) for row in rows if row.token_id > 255 or row.trained] == [
        (257, "<|im_start|>", False), (258, "<|im_end|>", False), (257, "<|im_start|>", False),
        (98, "b", True), (10, "\\n", True), (99, "c", True), (258, "<|im_end|>", True),
    ]
    assert (rows[-1].token_id, rows[-1].trained) == (10, False)  # the line end behind the answer is never generated
    assert format_mask(rows).splitlines()[-2].split() == [str(len(rows) - 2), "258", "yes", "<|im_end|>"]


def test_mask_printed_token_by_token_plain_marks() -> None:
    rows = describe_mask(PLAIN, *loss_mask(PLAIN, chat("q", " yes ", "r", "ö")))
    assert "".join(f"[{row.text}]" if row.trained else row.text for row in rows) == (
        "<|endoftext|>Q:q\\nA:[y][e][s][<|im_end|>]Q:r\\nA:[Ã][¶][<|im_end|>]"
    )


def test_tokens_that_would_join_across_the_border_are_encoded_apart() -> None:
    tokenizer = merging_tokenizer()
    ids, mask = loss_mask(tokenizer, chat("hi", "\n\nyes"))
    prompt = encode_chat(tokenizer, chat("hi"))
    assert ids[: len(prompt)] == prompt and not any(mask[: len(prompt)])
    assert [token for token, yes in zip(ids, mask, strict=True) if yes] == [256, *b"yes", 259]


def test_answers_that_a_template_rewrites_are_masked_and_told() -> None:
    tokenizer = with_template(REWRITING_TEMPLATE)
    assert sum(loss_mask(tokenizer, chat("a", "b"))[1]) == 2
    found = mask_conversation(tokenizer, chat("a", "b", "c", "d"))
    assert [token for token, yes in zip(found.ids, found.mask, strict=True) if yes] == [100, END]
    assert (found.num_answers, found.num_trained_answers) == (2, 1)
    assert found.note is not None and "1 of 2 answers are not trained on" in found.note
    samples = answer_samples(tokenizer, chat("a", "b", "c", "d"))
    assert [answer for _, answer in samples] == [[98, END], [100, END]]
    assert [prompt for prompt, _ in samples] == [
        encode_chat(tokenizer, chat("a")), encode_chat(tokenizer, chat("a", "b", "c"))]


def test_an_answer_without_the_opening_the_target_gives_it_is_refused() -> None:
    opening = "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
    tokenizer = with_template(REWRITING_TEMPLATE.partition("{% if add_generation_prompt")[0] + opening)
    with pytest.raises(HeadwayError, match=r"begins its answers with “.*<think>”, but the answer in message 2"):
        loss_mask(tokenizer, chat("a", "b"))
    assert sum(loss_mask(tokenizer, chat("a", "<think>\nhm</think>b"))[1]) == len("hm</think>b") + 1


def test_an_added_token_that_is_not_special_but_opens_turns_is_refused_in_text() -> None:
    tokenizer = with_template("{% for m in messages %}<turn>{{ m['content'] }}{% endfor %}")
    tokenizer.add_tokens(["<turn>"])
    assert encode_chat(tokenizer, chat("a")) == [260, 97]
    with pytest.raises(HeadwayError, match="<turn>, which this tokenizer cannot read as plain text"):
        encode_chat(tokenizer, chat("a<turn>"))


def test_without_a_template_text_is_raw_and_the_notice_says_so() -> None:
    tokenizer = with_template(None)
    assert raw_notice(TINY) is None and raw_notice(tokenizer) == RAW_NOTICE
    assert encode_chat(tokenizer, chat("a", "b"), add_generation_prompt=False) == list(b"a\n\nb")
    assert encode_chat(tokenizer, chat("<|im_end|>")) == list(b"<|im_end|>\n\n")
    ids, mask = loss_mask(tokenizer, chat("a", "b", "c", "d"))
    assert bytes(t for t, yes in zip(ids, mask, strict=True) if yes) == b"bd" and bytes(ids) == b"a\n\nb\n\nc\n\nd"
    assert encode_raw(TINY, "x <|im_end|>") == list(b"x <|im_end|>")


@pytest.mark.parametrize(
    ("messages", "sentence"),
    [
        ([], "conversation is empty"),
        (chat("a", " \n"), r"Message 2 \(assistant\) is empty"),
        (chat("abc"), "no answer of the assistant"),
    ],
)
def test_bad_conversations(messages: list[dict[str, str]], sentence: str) -> None:
    with pytest.raises(HeadwayError, match=sentence):
        loss_mask(TINY, messages)


def test_too_long_names_bound_and_value() -> None:
    assert len(encode_chat(TINY, chat("abc"), max_tokens=22)) == 22
    with pytest.raises(HeadwayError, match="has 22 tokens, but at most 21 fit"):
        encode_chat(TINY, chat("abc"), max_tokens=21)
    with pytest.raises(HeadwayError, match="has 3 tokens, but at most 2 fit"):
        encode_raw(TINY, "abc", max_tokens=2)
    with pytest.raises(HeadwayError, match="prompt is empty"):
        encode_raw(TINY, " ")


def test_a_template_that_refuses_roles_is_one_sentence() -> None:
    tokenizer = with_template("{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}x")
    with pytest.raises(HeadwayError, match="refuses the conversation: no system"):
        encode_chat(tokenizer, [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}])
