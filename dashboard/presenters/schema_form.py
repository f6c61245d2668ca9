"""A pydantic model as the fields of a form, what was typed as its values, and what is wrong as a sentence a field.

Everything a field shows comes from the model: label, help, bounds, default, choices. Knows no page and no model of its
own; a type that a form cannot show is an error when the page is built, not a field that is quietly missing.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from backend.glossary import glossary

WHOLE: Final = "whole"
NUMBER: Final = "number"
SWITCH: Final = "switch"
CHOICE: Final = "choice"
TEXT: Final = "text"
NUMBERS: Final = "numbers"  # a list, typed with commas
TEXTS: Final = "texts"  # a list, one a line
_PLAIN: Final[Mapping[str, str]] = {"integer": WHOLE, "number": NUMBER, "boolean": SWITCH, "string": TEXT}
_LISTS: Final[Mapping[str, str]] = {"integer": NUMBERS, "number": NUMBERS, "string": TEXTS}


@dataclass(frozen=True)
class FormField:
    """One field. `path` is where its value stands in the config, with dots.

    `low` and `high` are bounds, excluded where `above` or `below` says so. `choices` are (label, value); with `other`
    another value may be typed. `optional`: left empty it is None. `required`: there is no default.
    """

    path: str
    kind: str
    label: str
    help: str = ""
    group: str = ""
    default: Any = None
    required: bool = False
    optional: bool = False
    low: float | None = None
    high: float | None = None
    above: bool = False
    below: bool = False
    choices: tuple[tuple[str, Any], ...] = ()
    other: bool = False
    main: bool = True

    @property
    def bounds(self) -> str:
        """ "1 to 16", "above 0", "at least 1", or nothing."""
        low = None if self.low is None else f"{'above ' if self.above else ''}{_grouped(self.low)}"
        high = None if self.high is None else f"{'below ' if self.below else ''}{_grouped(self.high)}"
        if low is not None and high is not None:
            return f"{low} to {high}"
        if low is not None:
            return low if self.above else f"at least {low}"
        return "" if high is None else (high if self.below else f"at most {high}")

    def to_json(self) -> dict[str, Any]:
        """For the browser. The path is called `field`, since Gradio takes anything with a `path` for a file; `knob` is
        the glossary's card about it, if there is one.
        """
        shown = asdict(self) | {"field": self.path, "bounds": self.bounds, "default": as_text(self, self.default)}
        shown["knob"] = glossary().knob_of(self.path.rpartition(".")[2])
        del shown["path"]
        return shown


def form_fields(
    model: type[BaseModel],
    *,
    groups: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    hidden: Iterable[str] = (),
    more: Iterable[str] = (),
    branch: Mapping[str, str] | None = None,
) -> tuple[FormField, ...]:
    """The fields of `model`, in its order; the fields of a model inside it form a group under that field's name.

    `groups` names the group of a path (or of the model inside at that path), `labels` its label where the model's own
    would not do; `hidden` paths are left out; `more` are shown only to those who look for them. Where a field can be
    one of several models, told apart by a tag, `branch` says which by path. Raises ValueError for a type that no field
    can show.
    """
    schema = model.model_json_schema()
    found = _Walk(schema.get("$defs", {}), branch or {}).fields(schema, "", "")
    left_out, folded = set(hidden), set(more)
    return tuple(
        replace(
            field,
            group=_named(field.path, groups or {}) or field.group,
            label=(labels or {}).get(field.path, field.label),
            main=field.required or field.path not in folded,
        )
        for field in found
        if not _covered(field.path, left_out)
    )


def with_choices(
    fields: Sequence[FormField], path: str, choices: Iterable[tuple[str, Any]], other: bool = False
) -> tuple[FormField, ...]:
    """The same fields, one of them offering these choices. Raises ValueError for a path that is not there."""
    if all(field.path != path for field in fields):
        raise ValueError(f"the form has no field {path!r}")
    offered = tuple(choices)
    return tuple(
        replace(field, kind=CHOICE, choices=offered, other=other) if field.path == path else field for field in fields
    )


def job_form(
    name: str,
    start: str,
    groups: Iterable[tuple[str, str]],
    fields: Sequence[FormField],
    typed: Mapping[str, Any],
    problems: Mapping[str, str],
    fill: int,
) -> dict[str, Any]:
    """What the view schema_form takes for a job: `start` is on its button, beside those for the command and the file.

    A new `fill` writes `typed` into the fields.
    """
    return {
        "name": name,
        "fields": [field.to_json() for field in fields],
        "groups": [list(group) for group in groups],
        "typed": dict(typed),
        "problems": dict(problems),
        "fill": fill,
        "buttons": [
            {"action": "start", "label": start, "primary": True},
            {"action": "command", "label": "Copy as command", "primary": False},
            {"action": "yaml", "label": "As YAML", "primary": False},
        ],
    }


def config_from(fields: Sequence[FormField], typed: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """(nested config, {path: sentence} for what cannot be read). Fields that were not typed keep their default."""
    config: dict[str, Any] = {}
    problems: dict[str, str] = {}
    for field in fields:
        try:
            value = _read(field, typed[field.path]) if field.path in typed else field.default
        except ValueError as error:
            problems[field.path] = str(error)
            continue
        if value is None and not field.optional and not field.required:
            continue
        _put(config, field.path.split("."), value)
    return config, problems


def typed_from(fields: Sequence[FormField], config: Mapping[str, Any]) -> dict[str, Any]:
    """What the form shows for a config; values it does not know keep their default."""
    typed = {}
    for field in fields:
        value: Any = config
        for part in field.path.split("."):
            value = value.get(part, _MISSING) if isinstance(value, Mapping) else _MISSING
        typed[field.path] = as_text(field, field.default if value is _MISSING else value)
    return typed


def problems_of(error: ValidationError, fields: Sequence[FormField]) -> dict[str, str]:
    """{path: sentence}, the first problem of each field; a problem of no field in particular has the path ""."""
    by_path = {field.path: field for field in fields}
    problems: dict[str, str] = {}
    for one in error.errors():
        parts = [str(part) for part in one["loc"]]
        path = _place(parts, by_path)
        label = by_path[path].label if path else (_label(parts[-1]) if parts else "")
        problems.setdefault(path, _sentence(label, one))
    return problems


def as_text(field: FormField, value: Any) -> Any:
    """A value as the field shows it: switches stay truth values, everything else is text."""
    if field.kind == SWITCH:
        return bool(value)
    if value is None:
        return ""
    if field.kind in (NUMBERS, TEXTS):
        texts = [_plain(one) if field.kind == NUMBERS else str(one) for one in value]
        return (", " if field.kind == NUMBERS else "\n").join(texts)
    return _plain(value) if field.kind in (WHOLE, NUMBER) else str(value)


_MISSING: Final = object()


@dataclass(frozen=True)
class _Walk:
    """Through a JSON schema with its definitions; `branch` chooses between models at a path."""

    defs: Mapping[str, Any]
    branch: Mapping[str, str]

    def fields(self, schema: Mapping[str, Any], before: str, group: str) -> list[FormField]:
        found: list[FormField] = []
        required = set(schema.get("required", ()))
        for name, own in schema.get("properties", {}).items():
            path = f"{before}{name}"
            if "discriminator" in own:
                found += self._branches(own, path, name)
                continue
            inner, optional = self.resolved(own)
            if inner.get("type") == "object" and "properties" in inner and not optional:
                found += self.fields(inner, f"{path}.", name)
            else:
                found.append(_field(path, name, group, inner, optional, name in required))
        return found

    def resolved(self, schema: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        """(the schema without references and without "or null", whether null is allowed)."""
        inner = dict(schema)
        if "$ref" in inner:
            inner = {**self.defs[str(inner.pop("$ref")).rpartition("/")[2]], **inner}
        options = inner.get("anyOf", ())
        rest = [option for option in options if option.get("type") != "null"]
        if options and len(rest) == 1:
            outer = {key: value for key, value in inner.items() if key != "anyOf"}
            return {**self.resolved(rest[0])[0], **outer}, len(rest) < len(options)
        return inner, False

    def _branches(self, own: Mapping[str, Any], path: str, name: str) -> list[FormField]:
        """The fields of the chosen model; the field with the tag offers all of them."""
        tag, models = str(own["discriminator"]["propertyName"]), own["discriminator"]["mapping"]
        usual = (own.get("default") or {}).get(tag)
        chosen = self.branch.get(path, usual)
        chosen = chosen if chosen in models else next(iter(models))
        inner, _ = self.resolved({"$ref": models[chosen]})
        tagged = f"{path}.{tag}"
        choices = tuple((value, value) for value in models)
        return [
            replace(field, kind=CHOICE, choices=choices, default=chosen) if field.path == tagged else field
            for field in self.fields(inner, f"{path}.", name)
        ]


def _field(path: str, name: str, group: str, schema: Mapping[str, Any], optional: bool, required: bool) -> FormField:
    kind, choices = _kind(path, schema)
    low, above = _bound(schema, "minimum", "exclusiveMinimum")
    high, below = _bound(schema, "maximum", "exclusiveMaximum")
    return FormField(
        path=path, kind=kind, label=_title(name, schema), help=_help(str(schema.get("description", ""))),
        group=str(schema.get("group", group)), default=schema.get("default"), required=required, optional=optional,
        low=low, high=high, above=above, below=below, choices=choices,
    )  # fmt: skip


def _kind(path: str, schema: Mapping[str, Any]) -> tuple[str, tuple[tuple[str, Any], ...]]:
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if values is not None:
        return CHOICE, tuple((str(value), value) for value in values)
    kind = str(schema.get("type"))
    if kind in _PLAIN:
        return _PLAIN[kind], ()
    items = schema.get("items") if kind == "array" else None
    if isinstance(items, Mapping) and items.get("type") in _LISTS:
        return _LISTS[str(items["type"])], ()
    raise ValueError(f"the form can't show {path}, whose type is {schema.get('type') or sorted(schema)}")


def _bound(schema: Mapping[str, Any], closed: str, opened: str) -> tuple[float | None, bool]:
    return (schema[opened], True) if opened in schema else (schema.get(closed), False)


def _title(name: str, schema: Mapping[str, Any]) -> str:
    """The model's own title where it gave one; pydantic's made-up one has capitals everywhere."""
    title = str(schema.get("title", ""))
    return title if title and title != name.replace("_", " ").title() else _label(name)


def _label(name: str) -> str:
    words = name.replace("_", " ")
    return words[:1].upper() + words[1:]


def _help(description: str) -> str:
    text = " ".join(description.split())
    if not text:
        return ""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def _read(field: FormField, typed: Any) -> Any:
    """Raises ValueError with the sentence that stands beside the field."""
    if field.kind == SWITCH:
        return bool(typed)
    text = "" if typed is None else str(typed).strip()
    if not text:
        if field.optional:
            return None
        if field.kind in (NUMBERS, TEXTS):
            return []
        if field.kind == TEXT and not field.required:
            return ""
        what = {WHOLE: "a number", NUMBER: "a number", CHOICE: "a choice"}.get(field.kind, "a value")
        raise ValueError(f"{field.label} needs {what}.")
    if field.kind in (WHOLE, NUMBER):
        return _number(field, text)
    if field.kind == NUMBERS:
        return [_number(field, part) for part in text.replace(",", " ").split()]
    if field.kind == TEXTS:
        return [line for line in str(typed).splitlines() if line.strip()]
    if field.kind == CHOICE and not field.other:
        return next((value for _, value in field.choices if str(value) == text), text)
    return text


def _number(field: FormField, text: str) -> float | int:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{field.label} needs a number, and “{text[:40]}” is none.") from None
    if not math.isfinite(value):
        raise ValueError(f"{field.label} needs a finite number.")
    return int(value) if value == int(value) and field.kind != NUMBER else value


def _put(config: dict[str, Any], parts: Sequence[str], value: Any) -> None:
    for part in parts[:-1]:
        config = config.setdefault(part, {})
    config[parts[-1]] = value


def _covered(path: str, paths: set[str]) -> bool:
    parts = path.split(".")
    return any(".".join(parts[:end]) in paths for end in range(1, len(parts) + 1))


def _named(path: str, names: Mapping[str, str]) -> str | None:
    parts = path.split(".")
    return next((names[p] for end in range(len(parts), 0, -1) if (p := ".".join(parts[:end])) in names), None)


def _place(parts: Sequence[str], known: Collection[str]) -> str:
    """The longest known path that `parts` begin with, without which of several models it is."""
    for end in range(len(parts), 0, -1):
        ways = [parts[:end], *([*parts[:out], *parts[out + 1 : end]] for out in range(end))]
        for way in ways:
            if ".".join(way) in known:
                return ".".join(way)
    return ""


def _sentence(label: str, problem: Mapping[str, Any]) -> str:
    message = str(problem["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ").rstrip(".")
    if problem["type"] == "missing":
        return f"{label} is missing; give it."
    if problem["type"] == "extra_forbidden":
        return f"There is no setting named {label}; leave it out."
    if not message.startswith("Input should be "):
        return f"{message[:1].upper()}{message[1:]}." if " " in message else f"{label}: {message}."
    got = repr(problem.get("input"))
    note = f", not {got}" if len(got) <= 40 else ""
    return f"{label} has to be {message.removeprefix('Input should be ')}{note}."


def _grouped(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else _plain(value)


def _plain(value: Any) -> str:
    """A number as a person writes it: 1024, 0.001, 1e-05."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return (
        str(int(value))
        if value == int(value) and abs(value) < 1e15
        else f"{value:g}"
        if value == float(f"{value:g}")
        else repr(value)
    )
