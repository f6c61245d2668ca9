"""A decode request, or a race, as a command line and as the file it takes. Knows the flags of `./run decode` and of
`./run race`, runs nothing.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from backend.engine.protocol import DecodeRequest, RaceRequest
from backend.jobs.as_text import settings_file

FLAGS = (
    ("temperature", "--temperature"),
    ("top_k", "--top-k"),
    ("top_p", "--top-p"),
    ("min_p", "--min-p"),
    ("repetition_penalty", "--repetition-penalty"),
    ("epsilon", "--epsilon"),
    ("delta", "--delta"),
    ("tree", "--tree"),
    ("max_depth", "--max-depth"),
    ("json_schema", "--json-schema"),
    ("seed", "--seed"),
)
MACHINE_FLAGS = (("device", "--device"), ("dtype", "--dtype"))


Started = Mapping[str, str | bool]  #: what the engine was started with, see EngineStatus


def as_command(request: DecodeRequest, started_with: Started | None = None) -> str:
    """Shell text that repeats the run exactly, in Headway's folder; values that the command line assumes anyway are
    left out.
    """
    return _command("decode", _options(request, started_with or {}))


def as_yaml(request: DecodeRequest, started_with: Started | None = None) -> str:
    """The file that `decode --config` takes for the same."""
    return _file("decode", _options(request, started_with or {}))


def race_as_command(request: RaceRequest, started_with: Started | None = None) -> str:
    """Shell text that runs the race again; see `as_command`."""
    return _command("race", _race_options(request, started_with or {}))


def race_as_yaml(request: RaceRequest, started_with: Started | None = None) -> str:
    """The file that `race --config` takes for the same."""
    return _file("race", _race_options(request, started_with or {}))


def _race_options(request: RaceRequest, machine: Started) -> list[tuple[str, Any]]:
    """What the lanes share as options, what each has of its own as its words."""
    first = request.lanes[0]
    options: list[tuple[str, Any]] = [*_prompt(first), ("--lane", [_lane(lane) for lane in request.lanes])]
    options += [("--max-new-tokens", first.max_new_tokens), ("--seed", first.seed)]
    options += [(flag, machine[name]) for name, flag in MACHINE_FLAGS if machine.get(name)]
    return [*options, *([("--trust-remote-code", True)] if machine.get("trust_remote_code") else [])]


def _lane(request: DecodeRequest) -> str:
    words = [request.drafter, f"target={request.target}"]
    words += [
        f"{name}={value}"
        for name in ("tree", "max_depth", "temperature")
        if (value := getattr(request, name)) != DecodeRequest.model_fields[name].default
    ]
    words += ["rule=typical"] if request.rule == "typical" else []
    return shlex.join(words)


def _command(name: str, options: list[tuple[str, Any]]) -> str:
    words = []
    for flag, value in options:
        words += [flag] if value is True else [_option(flag, str(one)) for one in _listed(value)]
    return " ".join([f"./run {name}", *words])


def _file(name: str, options: list[tuple[str, Any]]) -> str:
    return settings_file(name, {flag.removeprefix("--").replace("-", "_"): value for flag, value in options})


def _options(request: DecodeRequest, machine: Started) -> list[tuple[str, Any]]:
    """(flag, value); True for a switch, a list for an option that is repeated."""
    options: list[tuple[str, Any]] = [("--target", request.target), ("--drafter", request.drafter), *_prompt(request)]
    options += [("--max-new-tokens", request.max_new_tokens), ("--rule", request.rule)]
    for name, flag in FLAGS:
        value = getattr(request, name)
        if value != DecodeRequest.model_fields[name].default:
            options.append((flag, value))
    options += [
        (flag, list(given)) for flag, given in (("--ban", request.banned_tokens), ("--stop", request.stop)) if given
    ]
    options += [(flag, machine[name]) for name, flag in MACHINE_FLAGS if machine.get(name)]
    switches = {
        "--raw": request.raw_prompt is not None,
        "--sampled": request.sampled,
        "--force": request.force,
        "--trust-remote-code": machine.get("trust_remote_code"),
    }
    return [*options, *((flag, True) for flag, on in switches.items() if on)]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _prompt(request: DecodeRequest) -> list[tuple[str, str]]:
    """A single question as --prompt (and --system), a whole chat as --messages."""
    if request.raw_prompt is not None:
        return [("--prompt", request.raw_prompt)]
    turns = [(message.role, message.content) for message in request.messages]
    match turns:
        case [("user", prompt)]:
            return [("--prompt", prompt)]
        case [("system", system), ("user", prompt)]:
            return [("--system", system), ("--prompt", prompt)]
    messages = [message.model_dump() for message in request.messages]
    return [("--messages", json.dumps(messages, ensure_ascii=False))]


def _option(flag: str, value: str) -> str:
    """Quoted for a POSIX shell; a value that starts with a dash is tied to its flag, or it would be read as one
    itself.
    """
    return f"{flag}{'=' if value.startswith('-') else ' '}{shlex.quote(value)}"
