"""The form's meaning: exact requests, one sentence for what cannot be, and back again."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from backend.errors import HeadwayError
from dashboard.presenters.form import OWN_TREE, RAW, TYPICAL, FormValues, form_from_request, to_request

NASTY = [
    "${alert(1)}",
    "<script>alert('x')</script>",
    "emoji 😀 and é",
    "quotes ' \" `",
    "two\nlines\n",
    "--flag",
    "{{value}}",
]
FORM = FormValues(prompt="Hello")


@pytest.mark.parametrize("text", NASTY)
def test_the_prompt_is_passed_on_unchanged(text: str) -> None:
    assert to_request(replace(FORM, prompt=text)).messages[-1].content == text
    raw = to_request(replace(FORM, prompt=text, mode=RAW))
    assert raw.raw_prompt == text and raw.messages == ()


@pytest.mark.parametrize(
    ("rule", "temperature", "name"),
    [("exact", 0.0, "greedy"), ("exact", 0.7, "rejection"), (TYPICAL, 0.7, "typical"), (TYPICAL, 0.0, "typical")],
)
def test_the_exact_rule_follows_the_temperature(rule: str, temperature: float, name: str) -> None:
    assert to_request(replace(FORM, rule=rule, temperature=temperature)).rule == name


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"prompt": " \n "}, "Type a prompt"),
        ({"target": ""}, "Choose a target"),
        ({"drafter": None}, "Choose a drafter"),
        ({"temperature": None}, "Temperature needs a number"),
        ({"temperature": -0.5}, "Temperature has to be greater than or equal to 0"),
        ({"temperature": math.nan}, "Temperature needs a number"),
        ({"top_p": 0.0}, "Top-p has to be greater than 0"),
        ({"top_p": 1.5}, "Top-p has to be less than or equal to 1"),
        ({"min_p": 1.0}, "Min-p has to be less than 1"),
        ({"top_k": 2.5}, "Top-k has to be a whole number, not 2.5"),
        ({"epsilon": 1.0}, "ε has to be less than 1"),
        ({"delta": 0.0}, "δ has to be greater than 0"),
        ({"max_new_tokens": 0}, "Longest answer has to be greater than or equal to 1"),
        ({"seed": True}, "Seed needs a number"),
        ({"banned": "13, x<b>"}, "“x<b>” is not a number"),
    ],
)
def test_what_cannot_be_is_one_sentence(change: dict[str, object], words: str) -> None:
    with pytest.raises(HeadwayError, match=r"\.$") as error:
        to_request(replace(FORM, **change))
    sentence = str(error.value)
    assert words in sentence and "\n" not in sentence and sentence.endswith(".") and "pydantic" not in sentence


def test_lists_and_empty_fields() -> None:
    request = to_request(
        replace(FORM, stop="END\n\\n\\n\n", banned="13, 198 2", tree=OWN_TREE, max_depth=0, system=" ")
    )
    assert request.stop == ("END", "\n\n") and request.banned_tokens == (13, 198, 2)
    assert request.tree is None and request.max_depth is None and [turn.role for turn in request.messages] == ["user"]


def test_earlier_turns_stand_between_system_and_prompt() -> None:
    earlier = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    request = to_request(replace(FORM, system="Be brief"), earlier)
    assert [turn.content for turn in request.messages] == ["Be brief", "a", "b", "Hello"]
    with pytest.raises(HeadwayError, match="start a new chat"):
        to_request(FORM, [{"role": "wizard", "content": "?"}])


@pytest.mark.parametrize(
    "form",
    [
        replace(
            FORM, system="S", tree="3x2x1", max_depth=2, temperature=0.7, rule=TYPICAL, epsilon=0.2, top_k=5, seed=3
        ),
        replace(
            FORM, prompt=NASTY[4], mode=RAW, stop="a\\nb\nEND", banned="1 2", sampled=True, force=True, temperature=1.0
        ),
    ],
)
def test_a_request_gives_its_form_back(form: FormValues) -> None:
    assert form_from_request(to_request(form)) == (form, [])


def test_component_values_have_to_fit() -> None:
    assert FormValues.from_components(FORM.to_components()) == FORM
    with pytest.raises(ValueError, match="21 fields, got 2"):
        FormValues.from_components([1, 2])
