"""A job as text: the command that runs it, the file that `--config` takes, and both back into a checked config.

Whoever takes a config from outside, a form or a file or a command line, gets one sentence for what is wrong with it.
Torch-free.
"""

from __future__ import annotations

import argparse
import difflib
import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from backend.errors import HeadwayError
from backend.jobs.kinds import JOB_KINDS
from backend.jobs.options import add_options, given, leaves, words

MANY = ("*", "+")  #: an argument that is a list


def as_command(kind: str, config: BaseModel) -> str:
    """Shell text that does the same as the job."""
    return shlex.join(["python", "app.py", kind, *words(config)])


def as_yaml(kind: str, config: BaseModel) -> str:
    """The file that `python app.py KIND --config FILE` takes; settings that are left open are left out."""
    return settings_file(kind, config.model_dump(mode="json", exclude_none=True))


def settings_file(command: str, data: Mapping[str, Any]) -> str:
    """The text of a file with these settings, and the command that takes it."""
    text: str = yaml.dump(dict(data), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1000)
    return f"# python app.py {command} --config FILE.yaml\n{text}"


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]  # PyYAML has no types
    """Quotes texts with line breaks of other alphabets, which PyYAML otherwise folds and can't read back."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if set(text) & {"\x85", "\u2028", "\u2029"} else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _text)


def config_from_file(kind: str, path: str | Path) -> BaseModel:
    """The config in a YAML (or JSON) file. Raises HeadwayError with one sentence that names what is wrong."""
    return validated(kind, read_mapping(path))


def validated(kind: str, data: Mapping[str, Any]) -> BaseModel:
    """The typed config of a kind. Raises HeadwayError with one sentence that names the setting."""
    model = JOB_KINDS[kind].config
    try:
        return model.model_validate(dict(data))
    except ValidationError as error:
        raise HeadwayError(problem(error, model, kind)) from None


def problem(error: ValidationError, model: type[BaseModel], kind: str) -> str:
    """The first thing that is wrong, as one sentence."""
    first = error.errors()[0]
    name = str(first["loc"][-1]) if first["loc"] else "config"
    for part in first["loc"]:
        if isinstance(part, str) and not part.startswith("function-"):
            name = part
    if first["type"] == "union_tag_invalid":
        tag = str(first["ctx"]["discriminator"]).strip("'")
        known_tags = str(first["ctx"]["expected_tags"]).replace("'", "")
        return f"--{tag.replace('_', '-')}: there is no {first['ctx']['tag']!r}; use {known_tags}."
    if first["type"] == "extra_forbidden":
        return _unknown(first["loc"], model, kind)
    if first["type"] == "missing":
        text = next((leaf.help for leaf in leaves(model) if leaf.name == name), "it is needed")
        return f"The setting --{name.replace('_', '-')} is missing ({text}); give it and try again."
    message = first["msg"].removeprefix("Value error, ")
    return f"--{name.replace('_', '-')}: {message[:1].lower()}{message[1:]} (got {first['input']!r})."


def _unknown(place: tuple[int | str, ...], model: type[BaseModel], kind: str) -> str:
    """A sentence for a setting that is not there, or not in the family that was chosen."""
    found = leaves(model)
    known, name = [leaf.name for leaf in found], str(place[-1])
    families = next((leaf.choices for leaf in found if leaf.name == "family"), ())
    family = next((part for part in place if part in families), None)
    path = ".".join(str(part) for part in place if part != family)
    if family is not None and name in known:
        return f"{path!r} is no setting of the family {family}; leave it out or choose another family."
    near = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}."
    return f"There is no setting named {path!r} for {kind}; {hint}"


def read_mapping(path: str | Path) -> dict[str, Any]:
    """A YAML file's settings. Raises HeadwayError."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise HeadwayError(f"{path} is not UTF-8 text, so it holds no settings.") from None
    except OSError as error:
        raise HeadwayError(f"The settings in {path} can't be read: {error.strerror or error}.") from None
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark is not None else ""
        raise HeadwayError(f"{path} is not valid YAML{where}; write one `setting: value` a line.") from None
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise HeadwayError(f"{path} holds no settings; write one `setting: value` a line.")
    return data


def add_config_options(parser: argparse.ArgumentParser, kind: str) -> None:
    """Every setting of a kind as an option, and `--config`."""
    model = JOB_KINDS[kind].config
    take_config_file(parser, model)
    add_options(parser, model)


def config_of(kind: str, args: argparse.Namespace, typed: Mapping[str, Any] | None = None) -> BaseModel:
    """The config that `--config` and the options after it ask for; `typed` is what options beside the config's own
    mean. Raises HeadwayError.
    """
    return validated(kind, asked_of(kind, args, typed))


def asked_of(kind: str, args: argparse.Namespace, typed: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The same before it is checked."""
    model = JOB_KINDS[kind].config
    asked = merged(given(args, model), typed or {})
    return merged(_settings_in(read_mapping(args.config), args, model) if args.config else {}, asked)


def _settings_in(data: Mapping[str, Any], args: argparse.Namespace, model: type[BaseModel]) -> dict[str, Any]:
    """What a file says of the config; its other lines are options of the command and were taken when it was parsed."""
    own = {leaf.name for leaf in leaves(model)} | set(model.model_fields)
    others = set(vars(args)) - own
    return {key: value for key, value in data.items() if key.replace("-", "_") not in others}


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """`above` over `below`, mapping by mapping."""
    result = dict(below)
    for key, value in above.items():
        old = result.get(key)
        result[key] = merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return result


def take_config_file(parser: argparse.ArgumentParser, model: type[BaseModel] | None = None) -> None:
    """`--config FILE.yaml` for a command, unless it has it already: what the file says becomes the options' defaults.

    A key is an option's name without dashes, or the name of an argument without an option. An option of a group that
    excludes each other takes the file's other members of the group away. Settings of `model` are left to config_of.
    """
    if "--config" in parser._option_string_actions:
        return
    parser.add_argument("--config", metavar="FILE.yaml", help="settings from a file; options given here win over it")
    plain = parser.parse_known_args

    def parse(args: Any = None, namespace: Any = None) -> Any:
        words_typed = [str(word) for word in args or ()]
        typed = [word.partition("=")[0] for word in words_typed]
        if "--config" in typed:
            place = typed.index("--config")
            path = words_typed[place].partition("=")[2] or "".join(words_typed[place + 1 : place + 2])
            try:
                _set_defaults(parser, read_mapping(path), typed, model)
            except HeadwayError as error:
                parser.exit(2, f"{error}\n")
        return plain(args, namespace)

    parser.parse_known_args = parse  # type: ignore[method-assign]


def _set_defaults(
    parser: argparse.ArgumentParser, data: dict[str, Any], typed: list[str], model: type[BaseModel] | None
) -> None:
    actions = {action.dest: action for action in parser._actions if action.dest not in ("help", "config")}
    if model is not None:
        own = {leaf.name for leaf in leaves(model)} | set(model.model_fields)
        data = {
            key: value for key, value in data.items() if (name := key.replace("-", "_")) in actions and name not in own
        }
    for key, value in data.items():
        name = key.replace("-", "_")
        if name not in actions:
            near = difflib.get_close_matches(name, actions, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(actions)}."
            raise HeadwayError(f"There is no setting named {key!r} for {parser.prog.rpartition(' ')[2]}; {hint}")
        action = actions[name]
        group = next((g for g in parser._mutually_exclusive_groups if action in g._group_actions), None)
        if group is not None:
            group.required = False
            if any(option in typed for other in group._group_actions for option in other.option_strings):
                continue
        if value is None or (isinstance(action, argparse._AppendAction) and set(action.option_strings) & set(typed)):
            continue  # what is typed would be added to the file's, and it should win over it
        if not action.option_strings:  # an argument that the file names may be left out
            action.nargs = "*" if action.nargs in MANY else "?"
        action.required = False
        action.default = _checked(action, key, value)
        parser.set_defaults(**{name: action.default})


def _checked(action: argparse.Action, key: str, value: Any) -> Any:
    """The value as the option itself would have made it. Raises HeadwayError."""
    try:
        if isinstance(action, argparse._AppendAction) or action.nargs in MANY:
            listed = value if isinstance(value, list) else [value]
            return [action.type(str(one)) if callable(action.type) else str(one) for one in listed]
        if action.nargs == 0:
            if not isinstance(value, bool):
                raise ValueError
            return value
        made = action.type(_as_typed(value)) if callable(action.type) else _as_typed(value)
    except (ValueError, TypeError, argparse.ArgumentTypeError):
        raise HeadwayError(f"The setting {key!r} can't be {value!r}; see --help for what it takes.") from None
    if action.choices is not None and made not in action.choices:
        raise HeadwayError(f"The setting {key!r} must be one of {', '.join(map(str, action.choices))}, not {value!r}.")
    return made


def _as_typed(value: Any) -> str:
    """As one types it: a list with commas, anything deeper as JSON."""
    if isinstance(value, list) and not any(isinstance(one, (list, dict)) for one in value):
        return ",".join(map(str, value))
    return json.dumps(value) if isinstance(value, (list, dict)) else str(value)
