"""Tokenizers with different chat templates, built from the tiny byte-level one."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer
from transformers import PreTrainedTokenizerFast

from backend.data.answers import Answer
from backend.targets.tiny import SPECIAL_TOKENS, tiny_tokenizer

# Turn marks in ordinary text, a first token, the end token right behind the answer, answers trimmed.
PLAIN_TEMPLATE = (
    "<|endoftext|>{% for m in messages %}"
    "{% if m['role'] == 'assistant' %}A:{{ m['content'] | trim }}<|im_end|>{% else %}Q:{{ m['content'] }}\n{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}A:{% endif %}"
)
# Keeps the latest answer only, as templates do that drop the reasoning of earlier turns.
REWRITING_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if m['role'] == 'user' or loop.last %}{{ m['content'] }}{% else %}...{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# Turns as Llama 3 marks them, tools in the system turn, calls as JSON, outputs in a turn of their own, answers trimmed.
LLAMA_TEMPLATE = (
    "<|endoftext|>{% if tools %}<|im_start|>system<|pad|>\n\nTools:\n{% for t in tools %}{{ t | tojson }}\n{% endfor %}"
    "<|im_end|>{% endif %}{% for m in messages %}{% if 'tool_calls' in m %}"
    "{% if m.tool_calls | length != 1 %}{{ raise_exception('only single tool-calls') }}{% endif %}"
    "<|im_start|>assistant<|pad|>\n\n"
    '{"name": "{{ m.tool_calls[0].function.name }}", "parameters": {{ m.tool_calls[0].function.arguments | tojson }}}'
    "<|im_end|>{% elif m.role == 'tool' %}<|im_start|>ipython<|pad|>\n\n{{ m.content | tojson }}<|im_end|>"
    "{% else %}<|im_start|>{{ m.role }}<|pad|>\n\n{{ m.content | trim }}<|im_end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant<|pad|>\n\n{% endif %}"
)
# As Qwen does: outputs are merged into one user turn, thinking is dropped from answers before the latest question, the
# latest answer always opens with a thinking part.
QWEN_TEMPLATE = (
    "{% if tools %}<|im_start|>system\n<tools>{% for t in tools %}\n{{ t | tojson }}{% endfor %}\n</tools><|im_end|>\n"
    "{% endif %}{% set ns = namespace(last=0) %}{% for m in messages %}{% if m.role == 'user' %}"
    "{% set ns.last = loop.index0 %}{% endif %}{% endfor %}"
    "{% for m in messages %}{% if m.role == 'tool' %}"
    "{% if loop.first or messages[loop.index0 - 1].role != 'tool' %}<|im_start|>user{% endif %}"
    "\n<tool_response>\n{{ m.content }}\n</tool_response>"
    "{% if loop.last or messages[loop.index0 + 1].role != 'tool' %}<|im_end|>\n{% endif %}"
    "{% elif m.role == 'assistant' %}<|im_start|>assistant\n"
    "{% if loop.index0 > ns.last %}<think>\n{{ m.reasoning_content or '' }}\n</think>\n\n{% endif %}{{ m.content }}"
    "{% for c in m.tool_calls or [] %}{% if not loop.first or m.content %}\n{% endif %}<tool_call>\n"
    '{"name": "{{ c.function.name }}", "arguments": '
    "{% if c.function.arguments is string %}{{ c.function.arguments }}{% else %}{{ c.function.arguments | tojson }}"
    "{% endif %}}\n</tool_call>{% endfor %}<|im_end|>\n"
    "{% else %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# Takes arguments as JSON text only, and wants ids of nine letters or digits, as some templates do.
TEXT_ARGUMENTS_TEMPLATE = (
    "{% for t in tools or [] %}T:{{ t.function.name }}\n{% endfor %}{% for m in messages %}{% if m.tool_calls %}"
    "{% for c in m.tool_calls %}{% if c.id | length != 9 %}{{ raise_exception('ids of nine') }}{% endif %}"
    "C:{{ c.function.name + ' ' + c.function.arguments }}<|im_end|>{% endfor %}"
    "{% else %}{{ m.role }}:{{ m.content }}<|im_end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)
WEATHER = {"type": "function", "function": {"name": "weather", "description": "Look it up.", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}}}}  # fmt: skip


def with_template(template: str | None) -> PreTrainedTokenizerFast:
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = template
    return tokenizer


def with_tokens(template: str, *tokens: str, special: bool = True) -> PreTrainedTokenizerFast:
    """The tiny tokenizer under a template, with tokens added behind its own (from 260 on)."""
    tokenizer = with_template(template)
    tokenizer.add_tokens([AddedToken(token, special=special, normalized=False) for token in tokens])
    return tokenizer


def tool_talk(*arguments: dict[str, Any], output: str = "rain", answer: str = "It rains.") -> list[dict[str, Any]]:
    """A question, one call for each of `arguments`, as many outputs, and an answer."""
    calls = [
        {"type": "function", "id": f"call{n:05d}", "function": {"name": "weather", "arguments": one}}
        for n, one in enumerate(arguments, 1)
    ]
    outputs = [{"role": "tool", "name": "weather", "tool_call_id": call["id"], "content": output} for call in calls]
    return [
        {"role": "user", "content": "Weather?"}, {"role": "assistant", "content": "", "tool_calls": calls},
        *outputs, {"role": "assistant", "content": answer},
    ]  # fmt: skip


def merging_tokenizer() -> PreTrainedTokenizerFast:
    """The tiny tokenizer with one merge: two line ends are token 256, so tokens can join across a turn's border."""
    tokenizer = tiny_tokenizer()
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    state["model"]["vocab"]["ĊĊ"] = 256
    state["model"]["merges"] = [["Ċ", "Ċ"]]
    state["added_tokens"] = []
    backend = Tokenizer.from_str(json.dumps(state))
    backend.add_special_tokens(list(SPECIAL_TOKENS))  # from 257 on
    merged = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|im_end|>")
    merged.chat_template = tokenizer.chat_template
    return merged


def chat(*contents: str) -> list[dict[str, str]]:
    """User and assistant in turn."""
    roles = ("user", "assistant")
    return [{"role": roles[number % 2], "content": content} for number, content in enumerate(contents)]


def answer(number: int, **changes: Any) -> Answer:
    fields: dict[str, Any] = {
        "question_id": f"q{number}", "category": "code", "prompt_ids": (1, 2, number), "answer_ids": (number, 65535),
        "temperature": 0.7, "seed": 5, "finish_reason": "eos", "truncated": False,
    }
    return Answer(**{**fields, **changes})


@pytest.fixture
def write_rows(tmp_path: Path) -> Callable[[Sequence[Any]], Path]:
    """Write rows as JSONL (a str is written as it stands) and give the path."""

    def write(rows: Sequence[Any]) -> Path:
        path = tmp_path / "rows.jsonl"
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        path.write_text("\n".join(lines), encoding="utf-8")
        return path

    return write
