"""Tools, tool calls, tool outputs and new special tokens under templates of several styles."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.data.templates import answer_samples, encode_chat, loss_mask, mask_conversation
from backend.errors import HeadwayError
from backend.targets.tiny import SPECIAL_TOKENS, tiny_tokenizer
from tests.data.conftest import (
    LLAMA_TEMPLATE,
    PLAIN_TEMPLATE,
    QWEN_TEMPLATE,
    TEXT_ARGUMENTS_TEMPLATE,
    WEATHER,
    chat,
    tool_talk,
    with_template,
    with_tokens,
)

END = "<|im_end|>"
LLAMA, QWEN, AS_TEXT = map(with_template, (LLAMA_TEMPLATE, QWEN_TEMPLATE, TEXT_ARGUMENTS_TEMPLATE))
HOSTILE = st.lists(st.sampled_from([*SPECIAL_TOKENS, "x", "\n", '"', "é"]), max_size=3).map("".join)


def trained(tokenizer: Any, messages: list[dict[str, Any]], **options: Any) -> str:
    """What is trained, as text, with | where tokens that are not trained lie between."""
    ids, mask = loss_mask(tokenizer, messages, **options)
    runs: list[list[int]] = [[]]
    for token, yes in zip(ids, mask, strict=True):
        if yes:
            runs[-1].append(token)
        elif runs[-1]:
            runs.append([])
    return "|".join(tokenizer.decode(run) for run in runs if run)


@pytest.mark.parametrize(
    ("tokenizer", "expected"),
    [
        (LLAMA, '{"name": "weather", "parameters": {"city": "Bonn"}}<|im_end|>|It rains.<|im_end|>'),
        (QWEN, '<think>\n\n</think>\n\n<tool_call>\n{"name": "weather", "arguments": {"city": "Bonn"}}\n</tool_call>'
               "<|im_end|>|<think>\n\n</think>\n\nIt rains.<|im_end|>"),
        (AS_TEXT, 'C:weather {"city": "Bonn"}<|im_end|>|It rains.<|im_end|>'),
    ],
    ids=["llama", "qwen", "text"],
)  # fmt: skip
def test_calls_are_trained_and_outputs_are_not(tokenizer: Any, expected: str) -> None:
    messages = tool_talk({"city": "Bonn"})
    if tokenizer is AS_TEXT:  # it opens an answer with `assistant:`, a call with `C:`
        tokenizer = with_template(TEXT_ARGUMENTS_TEMPLATE.replace("%}assistant:{%", "%}{%").replace(
            "{{ m.role }}:{{ m.content }}", "{% if m.role != 'assistant' %}{{ m.role }}:{% endif %}{{ m.content }}"))
    assert trained(tokenizer, messages, tools=[WEATHER]) == expected
    ids = encode_chat(tokenizer, messages, add_generation_prompt=False, tools=[WEATHER])
    assert list(loss_mask(tokenizer, messages, tools=[WEATHER])[0]) == ids
    assert "weather" in tokenizer.decode(encode_chat(tokenizer, messages[:1], tools=[WEATHER]))


@given(HOSTILE.filter(str.strip), HOSTILE, HOSTILE)
@settings(max_examples=40, deadline=None)
def test_arguments_outputs_and_schemas_forge_no_turn(question: str, argument: str, output: str) -> None:
    messages = [{"role": "user", "content": question}, *tool_talk({"city": argument}, output=output)[1:]]
    schema = {"type": "function", "function": {"name": "weather", "description": argument + output}}
    for tokenizer, turns in ((LLAMA, 5), (QWEN, 5)):
        ids = encode_chat(tokenizer, messages, add_generation_prompt=False, tools=[schema])
        assert ids.count(257) == ids.count(258) == turns
        text = tokenizer.decode(ids)
        assert json.dumps({"city": argument}, ensure_ascii=False) in text


def test_ordinary_tool_talk_is_encoded_as_transformers_does() -> None:
    for tokenizer in (LLAMA, QWEN):
        messages = tool_talk({"city": "Köln"})
        made = tokenizer.apply_chat_template(messages, tools=[WEATHER], tokenize=True, return_dict=True)
        assert encode_chat(tokenizer, messages, False, tools=[WEATHER]) == list(made["input_ids"])


def test_thinking_that_the_template_drops_is_not_trained_on_where_it_is_missing() -> None:
    talk = [*tool_talk({"city": "A"}, {"city": "B"}), {"role": "user", "content": "And now?"},
            {"role": "assistant", "content": "Dry.", "reasoning_content": "look"}]  # fmt: skip
    found = mask_conversation(QWEN, talk, tools=[WEATHER])
    assert (found.num_answers, found.num_trained_answers) == (3, 1)
    assert trained(QWEN, talk, tools=[WEATHER]) == "<think>\nlook\n</think>\n\nDry.<|im_end|>"
    answers = [QWEN.decode(answer) for _, answer in answer_samples(QWEN, talk, tools=[WEATHER])]
    assert len(answers) == 3 and answers[0].count("<tool_call>") == 2 and answers[2].endswith("Dry.<|im_end|>")
    for prompt, _ in answer_samples(QWEN, talk, tools=[WEATHER]):
        assert QWEN.decode(prompt).endswith("<|im_start|>assistant\n")


@pytest.mark.parametrize(
    ("template", "messages", "sentence"),
    [
        (tiny_tokenizer().chat_template, chat("a", "b"), "leaves out the tools' schemas; choose a target"),
        (PLAIN_TEMPLATE, tool_talk({"city": "x"}), "leaves out the tools' schemas and tool calls"),
        (LLAMA_TEMPLATE, tool_talk({"city": "x"}, {"city": "y"}), "refuses the conversation: only single tool-calls"),
        (None, tool_talk({"city": "x"}), "no chat template, so it cannot be shown tools"),
    ],
)  # fmt: skip
def test_templates_without_tools_are_one_sentence(template: Any, messages: Any, sentence: str) -> None:
    with pytest.raises(HeadwayError, match=sentence):
        loss_mask(with_template(template), messages, tools=[WEATHER])


def test_announced_tokens_are_one_token_in_answers_and_text_elsewhere() -> None:
    tokenizer = with_tokens(tiny_tokenizer().chat_template, "<call>", "</call>")
    talk = chat("use <call>", 'ok <call>{"a": 1}</call>')
    ids, mask = loss_mask(tokenizer, talk, special_tokens=["<call>", "</call>"])
    assert ids.count(260) == ids.count(261) == 1 and mask[ids.index(260)] and mask[ids.index(261)]
    assert trained(tokenizer, talk, special_tokens=["<call>", "</call>"]) == f'ok <call>{{"a": 1}}</call>{END}'
    assert 260 not in loss_mask(tokenizer, talk)[0]  # not announced: text


def test_an_announced_token_does_not_end_an_answer_without_end_token() -> None:
    tokenizer = with_tokens(PLAIN_TEMPLATE.replace(END, "\n"), "<call>")
    assert trained(tokenizer, chat("a", "x <call> y"), special_tokens=["<call>"]) == "x <call> y\n"


def test_turn_marks_cannot_be_announced() -> None:
    ids = encode_chat(tiny_tokenizer(), chat("a", f"b{END}c"), False, special_tokens=[END])
    assert ids.count(258) == 2


def test_unknown_special_tokens_are_one_sentence() -> None:
    with pytest.raises(HeadwayError, match=r"does not know <call> \(6 tokens\), <end> \(5 tokens\) as tokens of their"):
        loss_mask(tiny_tokenizer(), chat("a", "b"), special_tokens=["<call>", "<end>"])
