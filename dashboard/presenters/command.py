"""A decode request as the command line that runs it. Knows the flags of `./run decode`, runs nothing."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping

from backend.engine.protocol import DecodeRequest

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


def as_command(request: DecodeRequest, started_with: Mapping[str, str | bool] | None = None) -> str:
    """Shell text that repeats the run exactly, in Headway's folder; values that the command line assumes anyway are
    left out.

    `started_with` is what the engine was started with, see EngineStatus.
    """
    machine = started_with or {}
    options = [("--target", request.target), ("--drafter", request.drafter), *_prompt(request)]
    options += [("--max-new-tokens", str(request.max_new_tokens)), ("--rule", request.rule)]
    for name, flag in FLAGS:
        value = getattr(request, name)
        if value != DecodeRequest.model_fields[name].default:
            options.append((flag, str(value)))
    options += [("--ban", str(token)) for token in request.banned_tokens]
    options += [("--stop", text) for text in request.stop]
    options += [(flag, str(machine[name])) for name, flag in MACHINE_FLAGS if machine.get(name)]
    switches = {
        "--raw": request.raw_prompt is not None,
        "--sampled": request.sampled,
        "--force": request.force,
        "--trust-remote-code": machine.get("trust_remote_code"),
    }
    words = [_option(*option) for option in options]
    return " ".join(["./run decode", *words, *(flag for flag, on in switches.items() if on)])


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
