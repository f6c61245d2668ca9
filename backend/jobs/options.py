"""A config as options of a command line, and back: one table for both directions, made from the config class.

Every leaf of the config is one option: `training.learning_rate` is `--learning-rate`. Leaf names are therefore unique
within a kind. Torch-free; knows no kind of job.
"""

from __future__ import annotations

import argparse
import json
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo


@dataclass(frozen=True)
class Leaf:
    """One setting. `path`: where it stands in the config; `shape`: flag, int, float, str, list (repeatable), numbers
    (with commas) or json.
    """

    path: tuple[str, ...]
    shape: str
    default: Any
    required: bool
    help: str
    choices: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.path[-1]

    @property
    def option(self) -> str:
        return "--" + self.name.replace("_", "-")


def leaves(model: type[BaseModel], path: tuple[str, ...] = ()) -> list[Leaf]:
    """All settings of a config class in order; of a choice between classes (families) those of all, each once."""
    found: dict[tuple[str, ...], Leaf] = {}
    for name, field in model.model_fields.items():
        place = (*path, name)
        inner = _models(field.annotation)
        for one in inner:
            for leaf in leaves(one, place):
                found[leaf.path] = _joined(found[leaf.path], leaf) if leaf.path in found else leaf
        if not inner:
            found[place] = _leaf(place, field)
    return list(found.values())


def leaves_of(config: BaseModel, path: tuple[str, ...] = ()) -> list[Leaf]:
    """The settings that this config has: of a choice between classes those of the class it chose.

    A default is what the setting would be if it were not given, so the tag of a class that is not the usual one has
    another default than its value.
    """
    found = []
    for name, field in type(config).model_fields.items():
        value, choices = getattr(config, name), _models(field.annotation)
        if not isinstance(value, BaseModel) or not choices:
            found += [] if choices else [_leaf((*path, name), field)]
            continue
        usual = field.get_default(call_default_factory=True)
        for leaf in leaves_of(value, (*path, name)):
            tags = len(choices) > 1 and len(leaf.choices) == 1 and usual is not None
            found.append(replace(leaf, default=getattr(usual, leaf.name)) if tags else leaf)
    return found


def _joined(first: Leaf, other: Leaf) -> Leaf:
    """One option for a setting that several families have."""
    choices = tuple(dict.fromkeys((*first.choices, *other.choices)))
    same = first.default == other.default and first.choices == other.choices
    return replace(first, choices=choices, default=first.default if same else None)


def add_options(parser: argparse.ArgumentParser, model: type[BaseModel]) -> None:
    """Every leaf as an option without a default of its own, so that `given` sees what was typed."""
    groups: dict[tuple[str, ...], Any] = {}
    for leaf in leaves(model):
        group = groups.setdefault(leaf.path[:-1], parser.add_argument_group(leaf.path[-2] if leaf.path[1:] else "what"))
        text = leaf.help.replace("%", "%%")
        if leaf.default not in (None, ()) and not isinstance(leaf.default, bool):
            text += f" (default {_typed(leaf, leaf.default)})"
        if leaf.shape == "flag":
            group.add_argument(leaf.option, action=argparse.BooleanOptionalAction, default=None, help=text)
        elif leaf.shape == "list":
            group.add_argument(leaf.option, action="append", metavar=_metavar(leaf), help=f"{text}; repeatable")
        else:
            kind = {"int": int, "float": float, "numbers": _numbers, "json": _json}.get(leaf.shape, str)
            group.add_argument(leaf.option, type=kind, choices=leaf.choices or None, help=text, metavar=_metavar(leaf))


def given(args: argparse.Namespace, model: type[BaseModel]) -> dict[str, Any]:
    """What was typed, nested as in the config."""
    data: dict[str, Any] = {}
    for leaf in leaves(model):
        value = getattr(args, leaf.name, None)
        if value is not None:
            inner = data
            for key in leaf.path[:-1]:
                inner = inner.setdefault(key, {})
            inner[leaf.name] = value
    return data


def words(config: BaseModel) -> list[str]:
    """The options that give this config; values that are the default anyway are left out."""
    data = config.model_dump(mode="json")
    typed: list[str] = []
    for leaf in leaves_of(config):
        value: Any = data
        for key in leaf.path:
            value = value.get(key) if isinstance(value, Mapping) else None
        if value is None or value == _plain(leaf.default):
            continue
        if leaf.shape == "flag":
            typed.append(leaf.option if value else leaf.option.replace("--", "--no-", 1))
        elif leaf.shape == "list":
            typed += [word for one in value for word in _pair(leaf.option, str(one))]
        else:
            typed += _pair(leaf.option, _typed(leaf, value))
    return typed


def _pair(option: str, value: str) -> list[str]:
    # A value that starts with a dash would be read as an option, so it is tied to its own.
    return [f"{option}={value}"] if value.startswith("-") else [option, value]


def _leaf(path: tuple[str, ...], field: FieldInfo) -> Leaf:
    shape, choices = _shape(field.annotation)
    default = None if field.is_required() else field.get_default(call_default_factory=True)
    return Leaf(path, shape, default, field.is_required(), field.description or path[-1], choices)


def _shape(annotation: Any) -> tuple[str, tuple[str, ...]]:
    options = [part for part in _alternatives(annotation) if part is not type(None)]
    one = options[0] if len(options) == 1 else None
    if one in (bool, int, float, str):
        return {bool: "flag", int: "int", float: "float", str: "str"}[one], ()
    if get_origin(one) is Literal:
        return "str", tuple(str(value) for value in get_args(one))
    if get_origin(one) in (tuple, list, Sequence) and get_args(one):
        inner = _shape(get_args(one)[0])[0]
        return {"str": "list", "float": "numbers", "int": "numbers"}.get(inner, "json"), ()
    return "json", ()


def _models(annotation: Any) -> list[type[BaseModel]]:
    return [part for part in _alternatives(annotation) if isinstance(part, type) and issubclass(part, BaseModel)]


def _alternatives(annotation: Any) -> list[Any]:
    """The members of a union, without what Annotated adds."""
    if hasattr(annotation, "__metadata__"):
        return _alternatives(annotation.__origin__)
    if get_origin(annotation) in (Union, types.UnionType):
        return [one for part in get_args(annotation) for one in _alternatives(part)]
    return [annotation]


def _typed(leaf: Leaf, value: Any) -> str:
    """As it is typed on a command line."""
    if leaf.shape == "list":
        return ", ".join(map(str, value))
    if leaf.shape == "numbers":
        return ",".join(f"{number:g}" for number in value)
    if leaf.shape == "json":
        return json.dumps(_plain(value), ensure_ascii=False)
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def _plain(value: Any) -> Any:
    """As it stands in JSON."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"takes numbers with commas, like 0,1, not {text!r}") from None


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"takes JSON, not {text!r}") from None


def _metavar(leaf: Leaf) -> str | None:
    if leaf.choices:
        return None
    if leaf.name in ("prompts", "answers"):
        return "FILE"
    return {"int": "N", "float": "X", "numbers": "X,X", "json": "JSON"}.get(leaf.shape, "TEXT")
