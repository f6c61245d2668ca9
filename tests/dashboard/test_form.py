"""The form's meaning: exact requests, one sentence for what cannot be, and back again."""

from __future__ import annotations

import argparse
import math
from dataclasses import replace

import pytest

from backend.acceptance import Rule, SamplingSettings
from backend.errors import HeadwayError
from backend.jobs import decode_command
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
        ({"temperature": -0.5}, "The temperature must be 0 (greedy) or 0.001 to 100, but it is -0.5."),
        ({"temperature": math.nan}, "Temperature needs a number"),
        ({"top_p": 0.0}, "Top-p must be above 0 and at most 1 (off), but it is 0.0."),
        ({"top_p": 1.5}, "Top-p must be above 0"),
        ({"min_p": 1.1}, "Min-p must be 0 (off) to 1, but it is 1.1."),
        ({"top_k": 2.5}, "Top-k has to be a whole number, not 2.5"),
        ({"epsilon": 1.5}, "The threshold ε (epsilon) must be 0 to 1, but it is 1.5."),
        ({"delta": -0.1}, "The threshold δ (delta) must be 0 to 1"),
        ({"max_new_tokens": 0}, "The longest answer must be 1 to 8192 tokens, but it is 0."),
        ({"max_depth": "-1"}, "The depth must be 0 (nothing is drafted) or more"),
        ({"max_depth": "two"}, "Depth is “all” or a whole number of levels, not “two”."),
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
        replace(FORM, stop="END\n\\n\\n\n", banned="13, 198 2", tree=OWN_TREE, max_depth="", system=" ")
    )
    assert request.stop == ("END", "\n\n") and request.banned_tokens == (13, 198, 2)
    assert request.tree is None and request.max_depth is None and [turn.role for turn in request.messages] == ["user"]


@pytest.mark.parametrize(("shown", "depth"), [("all", None), (None, None), ("", None), ("0", 0), (3, 3), (" 12 ", 12)])
def test_no_depth_means_all_levels_and_zero_means_that_nothing_is_drafted(shown: object, depth: int | None) -> None:
    request = to_request(replace(FORM, max_depth=shown))
    assert request.max_depth == depth
    assert form_from_request(request)[0].max_depth == ("all" if depth is None else str(depth))


OUT_OF_BOUNDS = {
    "temperature": (-0.5, 1e-9, 101.0),
    "top_k": (-1,),
    "top_p": (0.0, 1.5),
    "min_p": (-0.1, 1.1),
    "repetition_penalty": (0.0, 101.0),
    "epsilon": (-0.1, 1.5),
    "delta": (-0.1, 1.5),
    "max_new_tokens": (0, 9000),
    "max_depth": (-1,),
    "seed": (-1,),
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in OUT_OF_BOUNDS for value in OUT_OF_BOUNDS[name]])
def test_page_command_line_and_rules_refuse_a_number_with_the_same_sentence(name: str, value: float) -> None:
    with pytest.raises(HeadwayError) as page:
        to_request(replace(FORM, **{name: value}))
    parser = argparse.ArgumentParser()
    decode_command.add_arguments(parser)
    args = parser.parse_args(["--prompt", "Hello", f"--{name.replace('_', '-')}={value}"])
    with pytest.raises(HeadwayError) as command:
        decode_command.request_of(args, [{"role": "user", "content": "Hello"}])
    assert str(page.value) == str(command.value)
    if name in Rule.__dataclass_fields__ or name in SamplingSettings.__dataclass_fields__:
        kind = Rule if name in Rule.__dataclass_fields__ else SamplingSettings
        with pytest.raises(HeadwayError) as rule:
            kind(**{name: value})
        assert str(rule.value) == str(page.value)


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
            FORM, system="S", tree="3x2x1", max_depth="2", temperature=0.7, rule=TYPICAL, epsilon=0.2, top_k=5, seed=3
        ),
        replace(
            FORM,
            prompt=NASTY[4],
            mode=RAW,
            stop="a\\nb\nEND",
            banned="1 2",
            sampled=True,
            force=True,
            temperature=1.0,
            json_schema='{"type": "object"}',
        ),
    ],
)
def test_a_request_gives_its_form_back(form: FormValues) -> None:
    assert form_from_request(to_request(form)) == (form, [])


def test_component_values_have_to_fit() -> None:
    assert FormValues.from_components(FORM.to_components()) == FORM
    with pytest.raises(ValueError, match="22 fields, got 2"):
        FormValues.from_components([1, 2])
