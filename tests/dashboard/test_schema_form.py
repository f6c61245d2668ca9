"""Forms made from a config's schema: nothing of the model is lost on the way to the fields and back."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from backend.jobs.configs import DistillJobConfig, TrainJobConfig
from dashboard.presenters.schema_form import (
    config_from,
    form_fields,
    problems_of,
    typed_from,
    with_choices,
)


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")

    rate: float = Field(1e-3, gt=0, le=1, description="how fast")
    names: tuple[str, ...] = ()


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid")

    count: int = Field(4, ge=1, le=16, description="how many")
    name: str = Field(description="a name")
    kind: Literal["a", "b"] = "a"
    share: float | None = Field(None, ge=0, lt=1)
    fast: bool = False
    levels: tuple[float, ...] = (0.0, 1.0)
    inner: Inner = Inner()


class Round(BaseModel):
    shape: Literal["round"] = "round"
    radius: float = 1.0


class Square(BaseModel):
    shape: Literal["square"] = "square"
    side: float = 2.0


class Drawing(BaseModel):
    body: Annotated[Round | Square, Field(discriminator="shape")] = Round()


def by_path(model: type[BaseModel], **options: Any) -> dict[str, Any]:
    return {field.path: field for field in form_fields(model, **options)}


def test_a_field_carries_what_the_model_says() -> None:
    fields = by_path(Outer)
    assert list(fields) == [
        "count", "name", "kind", "share", "fast", "levels", "inner.rate", "inner.names",
    ]  # fmt: skip
    count = fields["count"]
    assert (count.kind, count.label, count.help, count.bounds, count.default) == (
        "whole", "Count", "How many.", "1 to 16", 4,
    )  # fmt: skip
    assert fields["name"].required and fields["share"].optional
    assert fields["share"].bounds == "0 to below 1" and fields["inner.rate"].bounds == "above 0 to 1"
    assert fields["kind"].choices == (("a", "a"), ("b", "b"))
    assert fields["inner.rate"].group == "inner" and fields["count"].group == ""
    assert fields["levels"].to_json()["default"] == "0, 1"


def test_groups_labels_and_what_is_left_out() -> None:
    options: dict[str, Any] = {
        "groups": {"inner": "deep", "count": "top"},
        "labels": {"inner.rate": "Speed"},
        "hidden": ["kind"],
        "more": ["fast", "name"],
    }
    fields = by_path(Outer, **options)
    assert "kind" not in fields and fields["inner.rate"].group == "deep" and fields["count"].group == "top"
    assert fields["inner.rate"].label == "Speed"
    assert not fields["fast"].main and fields["name"].main  # what is required is never folded away


def test_what_is_typed_becomes_the_config_and_back() -> None:
    fields = form_fields(Outer)
    typed = {
        "count": " 7 ", "name": "x", "kind": "b", "share": "", "fast": True, "levels": "0, 0.7 1", "inner.rate": "5e-4",
        "inner.names": "one\n\ntwo",
    }  # fmt: skip
    config, problems = config_from(fields, typed)
    assert problems == {}
    made = Outer.model_validate(config)
    assert made == Outer(
        count=7, name="x", kind="b", fast=True, levels=(0, 0.7, 1), inner=Inner(rate=5e-4, names=("one", "two"))
    )
    again, _ = config_from(fields, typed_from(fields, made.model_dump(mode="json")))
    assert Outer.model_validate(again) == made


def test_an_untouched_form_is_the_model_s_default() -> None:
    fields = form_fields(TrainJobConfig)
    config, problems = config_from(fields, {"answers": "answers.npz"})
    assert problems == {} and TrainJobConfig.model_validate(config) == TrainJobConfig(answers="answers.npz")
    shown, _ = config_from(fields, typed_from(fields, config))
    assert TrainJobConfig.model_validate(shown) == TrainJobConfig(answers="answers.npz")


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ({"count": "many"}, "Count needs a number, and “many” is none."),
        ({"count": ""}, "Count needs a number."),
        ({"inner.rate": "inf"}, "Rate needs a finite number."),
        ({"name": " "}, "Name needs a value."),
    ],
)
def test_what_cannot_be_read_is_said_beside_the_field(typed: dict[str, str], sentence: str) -> None:
    _, problems = config_from(form_fields(Outer), {"name": "x"} | typed)
    assert problems == {next(iter(typed)): sentence}


def test_what_the_model_refuses_is_said_beside_the_field() -> None:
    fields = form_fields(Outer)
    config, _ = config_from(fields, {"count": "99", "name": "x", "inner.rate": "2", "kind": "c", "levels": "1 2"})
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate(config | {"surplus": 1})
    problems = problems_of(caught.value, fields)
    assert problems["count"] == "Count has to be less than or equal to 16, not 99."
    assert problems["inner.rate"] == "Rate has to be less than or equal to 1, not 2.0."
    assert problems["kind"] == "Kind has to be 'a' or 'b', not 'c'."
    assert problems[""] == "There is no setting named Surplus; leave it out."
    config, _ = config_from(form_fields(DistillJobConfig), {"temperatures": "9", "prompts": "a.jsonl"})
    with pytest.raises(ValidationError) as caught:
        DistillJobConfig.model_validate(config)
    assert problems_of(caught.value, form_fields(DistillJobConfig)) == {
        "temperatures": "Temperatures must lie between 0 and 5."
    }


def test_a_tag_chooses_between_models() -> None:
    assert list(by_path(Drawing)) == ["body.shape", "body.radius"]
    fields = form_fields(Drawing, branch={"body": "square"})
    assert [field.path for field in fields] == ["body.shape", "body.side"]
    assert fields[0].choices == (("round", "round"), ("square", "square"))
    config, _ = config_from(fields, {"body.side": "3"})
    assert Drawing.model_validate(config).body == Square(side=3)


def test_choices_may_leave_room_for_another() -> None:
    fields = with_choices(form_fields(Outer), "name", [("The first", "one")], other=True)
    config, _ = config_from(fields, {"name": "something else"})
    assert config["name"] == "something else"
    with pytest.raises(ValueError, match="no field"):
        with_choices(fields, "nome", [])


def test_a_type_that_no_field_can_show_fails_loudly() -> None:
    class Odd(BaseModel):
        table: dict[str, int] = {}

    with pytest.raises(ValueError, match="can't show table"):
        form_fields(Odd)
