"""`race`: one prompt, two to four lanes, their steps taken in turns; the same race that the Race page shows.

It is recorded in the store, so the page replays it. Knows the engine's interface and what a lane's words mean.
"""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from pydantic import ValidationError

from backend.engine.protocol import LANES, DecodeRequest, Race, RaceRequest
from backend.engine.race_reading import lane_names, read_standing
from backend.engine.service import LocalEngine
from backend.errors import HeadwayError
from backend.jobs.console import loading_bar, say
from backend.jobs.decode_command import NUMBERS, add_machine_arguments, read_messages, request_of
from backend.settings import Settings
from backend.targets.sources import PARTS_HELP
from storage import Store

#: words of a lane that stand for a setting of a request
OWN = ("target", "tree", "max_depth", "rule", "sampled", "force", *NUMBERS)
SHARED = {"max_new_tokens"}  #: settings that all lanes have in common


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("what")
    what.add_argument(
        "--lane", action="append", default=[], metavar="DRAFTER [SETTING=VALUE ...]",
        help='a lane: its drafter, then what it has of its own, as in "builtin-medusa tree=chain-4 temperature=0.7"; '
        f"settings are {', '.join(OWN)}; repeat for two to four lanes",
    )  # fmt: skip
    what.add_argument("--target", default="smollm2-135m", help=f"of lanes that name none; {PARTS_HELP}")
    prompt = what.add_mutually_exclusive_group(required=True)
    prompt.add_argument("--prompt", help="what all lanes answer")
    prompt.add_argument(
        "--messages", metavar="FILE|JSON", help="a whole chat: a JSON list of {role, content}, or its file"
    )
    what.add_argument("--system", help="system prompt instead of the template's own")
    what.add_argument("--raw", action="store_true", help="continue the text as it stands, without the chat template")
    how = parser.add_argument_group("how", "for lanes that do not say so themselves")
    for name in NUMBERS:
        field, default = DecodeRequest.model_fields[name], DecodeRequest.model_fields[name].default
        option = f"--{name.replace('_', '-')}"
        how.add_argument(option, type=type(default), default=default, help=f"{field.description} (default {default})")
    how.add_argument(
        "--rule", choices=("greedy", "rejection", "typical"), help="default: greedy at T = 0, rejection above"
    )
    how.add_argument("--stop", action="append", default=[], metavar="TEXT", help="end before this text; repeatable")
    how.add_argument("--ban", type=int, action="append", default=[], metavar="ID", help="token id that never comes")
    how.add_argument("--json-schema", metavar="FILE|JSON", help="JSON schema that every answer follows, or its file")
    add_machine_arguments(parser)
    parser.add_argument("--no-store", action="store_true", help="do not record the race")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout, nothing else")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Race and print how it ended. Raises HeadwayError or StoreError for anything the person can mend."""
    request = race_of(args)
    with ExitStack() as stack:
        store = None if args.no_store else stack.enter_context(Store.open(settings.database))
        engine = LocalEngine(settings, store, args.device, args.dtype, args.trust_remote_code)
        stack.callback(engine.close)
        race = engine.race(request)
        _follow(engine, race, args.json)
        standing = read_standing(engine, dict(zip(LANES, race.runs, strict=False)))
        assert standing is not None, "every lane was followed to its end"
        texts = [_text_of(engine, run_id) for run_id in race.runs]
    _print(request, race, standing, texts, args)
    return 0


def race_of(args: argparse.Namespace) -> RaceRequest:
    """What the options ask for. Raises HeadwayError."""
    messages = read_messages(args.messages) if args.messages is not None else [{"role": "user", "content": args.prompt}]
    lanes = []
    for place, words in enumerate(args.lane):
        try:
            lanes.append(request_of(_lane_args(words, args), messages))
        except (HeadwayError, ValidationError) as error:
            told = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
            raise HeadwayError(f"Lane {LANES[place : place + 1] or place + 1}: {told}") from None
    return RaceRequest(lanes=tuple(lanes))


def _lane_args(text: str, args: argparse.Namespace) -> argparse.Namespace:
    """The options of one lane: those of the race, and over them what its own words say."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise HeadwayError(f"{text!r} can't be split into words ({error}); close its quotation marks.") from None
    if not words or "=" in words[0].replace("://", ""):
        raise HeadwayError('it begins with its drafter, as in "builtin-medusa tree=chain-4"; "none" is plain decoding.')
    own: dict[str, Any] = {"drafter": words[0], "tree": None, "max_depth": None, "sampled": False, "force": False}
    for word in words[1:]:
        name, found, value = word.partition("=")
        name = name.replace("-", "_")
        if not found or name not in OWN or name in SHARED:
            known = ", ".join(one for one in OWN if one not in SHARED)
            raise HeadwayError(f"there is no setting {word!r} for a lane; write SETTING=VALUE with one of {known}.")
        own[name] = _value(name, value)
    return argparse.Namespace(**(vars(args) | own))


def _value(name: str, value: str) -> Any:
    if name in ("sampled", "force"):
        if value not in ("yes", "no"):
            raise HeadwayError(f"{name} is yes or no, not {value!r}.")
        return value == "yes"
    kind: type[int] | type[float] | None = None
    if name in NUMBERS:
        kind = type(DecodeRequest.model_fields[name].default)
    elif name == "max_depth":
        kind = int
    if kind is None:
        return value
    try:
        return kind(value)
    except ValueError:
        what = "a whole number" if kind is int else "a number"
        raise HeadwayError(f"{name} has to be {what}, not {value!r}.") from None


def _follow(engine: LocalEngine, race: Race, quiet: bool) -> None:
    """Until all lanes are over, saying what the race waits for. Raises HeadwayError when a lane failed."""
    problems = []
    for run_id in race.runs:
        report = loading_bar(quiet)
        for event in engine.events(run_id):
            if event.kind == "loading":
                report(event.data["fraction"], event.data["sentence"])
            elif event.kind == "queued" and event.data["holder"]:
                say(f"Waiting for the device, which is busy: {event.data['holder']}.")
            elif event.kind == "started":
                for warning in event.data["warnings"]:
                    say(warning)
            elif event.kind == "failed":
                problems.append(str(event.data["error"]))
    if problems:
        raise HeadwayError(problems[0])


def _text_of(engine: LocalEngine, run_id: str) -> str:
    *_, last = engine.events(run_id, timeout_s=0.1)
    return str(last.data.get("text", ""))


def _print(
    request: RaceRequest, race: Race, standing: dict[str, Any], texts: Sequence[str], args: argparse.Namespace
) -> None:
    names = lane_names([lane.model_dump(mode="json") for lane in request.lanes])
    rows = [
        row | {"name": name, "run": run_id, "text": text}
        for row, name, run_id, text in zip(standing["lanes"], names, race.runs, texts, strict=True)
    ]
    stored = None if args.no_store else race.id
    if args.json:
        print(json.dumps({"race": stored} | standing | {"lanes": rows}, ensure_ascii=False))
        return
    width = max(len(name) for name in names)
    for row in rows:
        print(f"{row['letter']}  {row['name']:<{width}}  {_figures(row, standing['against'])}")
    for sentence in (standing["speed"], *standing["texts"]):
        print(sentence)
    if stored:
        say(f"Recorded: /race?race={stored} on the dashboard replays it.")


def _figures(row: dict[str, Any], against: str | None) -> str:
    if row["tokens_per_s"] is None:
        return f"{row['ended']}, {row['num_tokens']} tokens"
    told = f"{row['num_tokens']} tokens in {row['num_steps']} steps, {row['clock_ms'] / 1000:.2f} s, "
    told += f"{row['tokens_per_s']:.1f} tokens/s, acceptance length {row['acceptance_length']:.2f}"
    return told if row["ratio"] is None or row["letter"] == against else f"{told}, {row['ratio']:.2f} times {against}"
