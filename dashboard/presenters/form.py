"""The form of the Live page as a value, and its meaning: a DecodeRequest, or one sentence that says what is wrong.

Knows no Gradio. What only the engine can judge (does the model exist, is the tree well formed) is left to
`Engine.submit`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from pydantic import ValidationError

from backend.engine.protocol import DecodeRequest, Message
from backend.errors import HeadwayError

OWN_TREE = "the drafter's own"
ALL_LEVELS = "all"
EXACT = "exact"
TYPICAL = "typical"
CHAT = "chat"
RAW = "raw"


@dataclass(frozen=True)
class FormValues:
    """What the form holds, in the order of its components."""

    prompt: str = ""
    system: str = ""
    mode: str = CHAT
    target: str = "smollm2-135m"
    drafter: str = "builtin-medusa"
    tree: str = OWN_TREE
    max_depth: str | float | None = ALL_LEVELS  # 0 drafts nothing
    temperature: float | None = 0.0
    rule: str = EXACT
    epsilon: float | None = 0.09
    delta: float | None = 0.3
    max_new_tokens: float | None = 128
    top_k: float | None = 0
    top_p: float | None = 1.0
    min_p: float | None = 0.0
    repetition_penalty: float | None = 1.0
    banned: str = ""
    sampled: bool = False
    seed: float | None = 0
    stop: str = ""
    json_schema: str = ""
    force: bool = False

    @classmethod
    def from_components(cls, values: Sequence[Any]) -> FormValues:
        names = [field.name for field in fields(cls)]
        if len(values) != len(names):
            raise ValueError(f"the form has {len(names)} fields, got {len(values)} values")
        return cls(**dict(zip(names, values, strict=True)))

    def to_components(self) -> list[Any]:
        return [getattr(self, field.name) for field in fields(self)]


LABELS = {
    "max_new_tokens": "Longest answer",
    "temperature": "Temperature",
    "top_k": "Top-k",
    "top_p": "Top-p",
    "min_p": "Min-p",
    "repetition_penalty": "Repetition penalty",
    "epsilon": "ε",
    "delta": "δ",
    "max_depth": "Depth",
    "seed": "Seed",
    "target": "Target",
    "drafter": "Drafter",
}


def to_request(form: FormValues, earlier: Sequence[dict[str, str]] = ()) -> DecodeRequest:
    """The request the form stands for; `earlier` are the turns of this chat before the prompt (no system turn).

    Raises HeadwayError with one sentence for anything that cannot be run.
    """
    if not (form.prompt or "").strip():
        raise HeadwayError("Type a prompt first.")
    if not (form.target or "").strip():
        raise HeadwayError("Choose a target model first.")
    if not (form.drafter or "").strip():
        raise HeadwayError("Choose a drafter first; “none” decodes without one.")
    values: dict[str, Any] = _numbers(form) | {
        "target": form.target.strip(),
        "drafter": form.drafter.strip(),
        "tree": _tree(form.tree),
        "rule": rule_for(form),
        "sampled": bool(form.sampled),
        "force": bool(form.force),
        "stop": stop_strings(form.stop),
        "banned_tokens": banned_tokens(form.banned),
        "json_schema": (form.json_schema or "").strip() or None,
    }
    if form.mode == RAW:
        values["raw_prompt"] = form.prompt
    else:
        values["messages"] = _messages(form, earlier)
    try:
        return DecodeRequest.model_validate(values)  # a number out of its bound says so itself
    except ValidationError as error:
        raise HeadwayError(_sentence(error)) from None


def rule_for(form: FormValues) -> str:
    """The rule's name: the exact one depends on the temperature, a person should not have to know that."""
    if form.rule == TYPICAL:
        return "typical"
    return "rejection" if (form.temperature or 0) > 0 else "greedy"


def stop_strings(text: str) -> tuple[str, ...]:
    r"""One stop string a line; \n and \t stand for line break and tab."""
    lines = (line.replace("\\n", "\n").replace("\\t", "\t") for line in (text or "").split("\n"))
    return tuple(line for line in lines if line)


def banned_tokens(text: str) -> tuple[int, ...]:
    words = (text or "").replace(",", " ").split()
    wrong = [word for word in words if not (word.isascii() and word.isdigit())]
    if wrong:
        raise HeadwayError(f"Banned tokens are token ids such as 13 or 198, but “{wrong[0][:40]}” is not a number.")
    return tuple(int(word) for word in words)


def form_from_request(request: DecodeRequest) -> tuple[FormValues, list[dict[str, str]]]:
    """The form that would make this request, and the earlier turns of its chat."""
    turns = [message.model_dump() for message in request.messages]
    system = ""
    if turns and turns[0]["role"] == "system":
        system = turns.pop(0)["content"]
    prompt = turns.pop()["content"] if turns else (request.raw_prompt or "")
    form = FormValues(
        prompt=prompt,
        system=system,
        mode=CHAT if request.raw_prompt is None else RAW,
        tree=request.tree or OWN_TREE,
        rule=TYPICAL if request.rule == "typical" else EXACT,
        max_depth=ALL_LEVELS if request.max_depth is None else str(request.max_depth),
        json_schema=request.json_schema or "",
        banned=" ".join(map(str, request.banned_tokens)),
        stop="\n".join(text.replace("\n", "\\n").replace("\t", "\\t") for text in request.stop),
    )
    same = ("target", "drafter", "temperature", "epsilon", "delta", "max_new_tokens", "top_k", "top_p", "min_p",
            "repetition_penalty", "sampled", "seed", "force")  # fmt: skip
    return replace(form, **{name: getattr(request, name) for name in same}), turns


def _messages(form: FormValues, earlier: Sequence[dict[str, str]]) -> tuple[Message, ...]:
    turns = [Message(role="system", content=form.system)] if (form.system or "").strip() else []
    for turn in earlier:
        try:
            turns.append(Message.model_validate(turn))
        except ValidationError:
            raise HeadwayError("The earlier turns of this chat are damaged; start a new chat.") from None
    return (*turns, Message(role="user", content=form.prompt))


def _tree(text: str | None) -> str | None:
    plain = (text or "").strip()
    return None if plain in ("", OWN_TREE) else plain


def _numbers(form: FormValues) -> dict[str, float | int | None]:
    """The number fields; an emptied field is named instead of guessed."""
    whole = ("max_new_tokens", "top_k", "seed")
    broken = ("temperature", "top_p", "min_p", "repetition_penalty", "epsilon", "delta")
    values: dict[str, float | int | None] = {name: _number(form, name, whole=True) for name in whole}
    values |= {name: _number(form, name, whole=False) for name in broken}
    values["max_depth"] = _depth(form.max_depth)
    return values


def _depth(value: str | float | None) -> int | None:
    """How many levels of the tree to keep: None for all of them, 0 for a run that drafts nothing."""
    text = str(value if value is not None else "").strip().lower()
    if text in ("", ALL_LEVELS):
        return None
    if not (text.removeprefix("-").isascii() and text.removeprefix("-").isdigit()):
        raise HeadwayError(f"{LABELS['max_depth']} is “all” or a whole number of levels, not “{text[:40]}”.")
    return int(text)


def _number(form: FormValues, name: str, whole: bool) -> float | int:
    value = getattr(form, name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise HeadwayError(f"{LABELS[name]} needs a number.")
    if whole and value != int(value):
        raise HeadwayError(f"{LABELS[name]} has to be a whole number, not {value:g}.")
    return int(value) if whole else float(value)


def _sentence(error: ValidationError) -> str:
    first = error.errors()[0]
    name = str(first["loc"][0]) if first["loc"] else ""
    label = LABELS.get(name, name.replace("_", " ").capitalize())
    problem = str(first["msg"]).removeprefix("Input should be ").removeprefix("Value error, ")
    return f"{label} has to be {problem}."
