"""Tokenizers with different chat templates, built from the tiny byte-level one."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer
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


def with_template(template: str | None) -> PreTrainedTokenizerFast:
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = template
    return tokenizer


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
