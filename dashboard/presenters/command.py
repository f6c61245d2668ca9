"""A decode request as the command line that runs it. Knows the flags of `python app.py decode`, runs nothing."""

from __future__ import annotations

import shlex

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
    ("seed", "--seed"),
)


def as_command(request: DecodeRequest) -> str:
    """Shell text that repeats the run exactly; values that the command line assumes anyway are left out.

    A command has one user turn: earlier turns of a chat cannot be written, which a comment line then says.
    """
    turns = list(request.messages)
    options = [("--target", request.target), ("--drafter", request.drafter)]
    if turns and turns[0].role == "system":
        options.append(("--system", turns.pop(0).content))
    prompt = request.raw_prompt if request.raw_prompt is not None else turns[-1].content if turns else ""
    options += [("--prompt", prompt), ("--max-new-tokens", str(request.max_new_tokens)), ("--rule", request.rule)]
    for name, flag in FLAGS:
        value = getattr(request, name)
        if value != DecodeRequest.model_fields[name].default:
            options.append((flag, str(value)))
    options += [("--ban", str(token)) for token in request.banned_tokens]
    options += [("--stop", text) for text in request.stop]
    switches = {"--raw": request.raw_prompt is not None, "--sampled": request.sampled, "--force": request.force}
    words = [
        "python app.py decode",
        *(_option(*option) for option in options),
        *(flag for flag, on in switches.items() if on),
    ]
    note = "# the earlier turns of this chat are not part of the command\n" if len(turns) > 1 else ""
    return note + " ".join(words)


def _option(flag: str, value: str) -> str:
    """Quoted for a POSIX shell; a value that starts with a dash is tied to its flag, or it would be read as one
    itself.
    """
    return f"{flag}{'=' if value.startswith('-') else ' '}{shlex.quote(value)}"
