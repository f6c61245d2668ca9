"""`decode`: answer prompts on the command line, one JSON object a prompt.

The same request, settings and loop as the Live page, without a store: what it prints is all it leaves.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from backend.analysis.token_classes import ClassCounts, class_counts, classifier
from backend.data.prompts import read_prompts
from backend.decoding.loop import decode
from backend.decoding.records import DecodeResult, Detail, StepTrace
from backend.engine.conditions import check_request, decode_settings, encode_request
from backend.engine.protocol import DecodeRequest, Message
from backend.engine.workbench import Workbench
from backend.errors import HeadwayError
from backend.jobs.console import counting_bar, loading_bar, say
from backend.settings import Settings
from backend.targets.sources import PARTS_HELP

CHAT: TypeAdapter[list[Message]] = TypeAdapter(Annotated[list[Message], Field(min_length=1)])
#: Numbers of a request that are options of their own, in this order.
NUMBERS = (
    "max_new_tokens",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repetition_penalty",
    "epsilon",
    "delta",
    "seed",
)
#: Keys of the JSON object that is printed for each prompt; scripts depend on them.
PRINTED = (
    "prompt_tokens",
    "tokens",
    "text",
    "num_steps",
    "num_drafted",
    "num_accepted",
    "num_cut",
    "acceptance_length",
    "accepted_per_depth",
    "drafted_per_depth",
    "tried_by_class",
    "accepted_by_class",
    "tokens_per_s",
    "end_to_end_tokens_per_s",
    "prefill_ms",
    "draft_ms",
    "verify_ms",
    "commit_ms",
    "overhead_ms",
    "finish_reason",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("what")
    what.add_argument(
        "--target", default="smollm2-135m", help=f"built-in name, folder, GGUF file or hub id; {PARTS_HELP}"
    )
    what.add_argument(
        "--drafter", default="builtin-medusa", help="builtin-medusa, none, ngram, draft:MODEL or a folder of heads"
    )
    prompt = what.add_mutually_exclusive_group(required=True)
    prompt.add_argument("--prompt", help="one prompt")
    prompt.add_argument("--prompts", metavar="FILE", help="JSONL with turns, ShareGPT, Alpaca or messages")
    prompt.add_argument(
        "--messages", metavar="FILE|JSON", help="a whole chat as it stands: a JSON list of {role, content}, or its file"
    )
    what.add_argument("--limit", type=int, metavar="N", help="only the first N prompts of the file")
    what.add_argument("--system", help="system prompt instead of the template's own")
    what.add_argument("--raw", action="store_true", help="continue the text as it stands, without the chat template")
    how = parser.add_argument_group("how")
    fields = DecodeRequest.model_fields
    for name in NUMBERS:
        field, default = fields[name], fields[name].default
        option = f"--{name.replace('_', '-')}"
        how.add_argument(option, type=type(default), default=default, help=f"{field.description} (default {default})")
    how.add_argument(
        "--rule", choices=("greedy", "rejection", "typical"), help="default: greedy at T = 0, rejection above"
    )
    how.add_argument(
        "--tree", help="chain-4, 3x2x1, medusa-63, eagle2 or JSON; default: the tree stored with the drafter"
    )
    how.add_argument("--max-depth", type=int, help="levels of the tree to keep; default: all, 0 drafts nothing")
    how.add_argument("--sampled", action="store_true", help="draw siblings at random instead of taking the best ones")
    how.add_argument(
        "--ban", type=int, action="append", default=[], metavar="ID", help="token id that is never emitted; repeatable"
    )
    how.add_argument(
        "--stop", action="append", default=[], metavar="TEXT", help="end the answer before this text; repeatable"
    )
    how.add_argument("--json-schema", metavar="FILE|JSON", help=f"{fields['json_schema'].description}, or its file")
    how.add_argument("--batch", type=int, default=1, help="prompts decoded at the same time")
    how.add_argument("--force", action="store_true", help="use heads of another version all the same")
    add_machine_arguments(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object a prompt on stdout, nothing else")


def add_machine_arguments(parser: argparse.ArgumentParser) -> None:
    """Where and in which numbers the target runs."""
    machine = parser.add_argument_group("machine")
    machine.add_argument("--device", help="cuda, mps or cpu; default: the best there is")
    machine.add_argument("--dtype", help="float32, bfloat16 or float16; default: bfloat16 on CUDA, else float32")
    machine.add_argument("--trust-remote-code", action="store_true", help="run Python code that comes with a model")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Decode every prompt; raises HeadwayError for anything the person can mend."""
    if args.batch < 1:
        raise HeadwayError(f"--batch must be at least 1, but it is {args.batch}.")
    requests = requests_of(args)
    bench = Workbench(settings, args.device, args.dtype, args.trust_remote_code)
    target = bench.target(args.target, loading_bar(args.json))
    drafter, warnings = bench.drafter(requests[0], target)
    for warning in warnings:
        say(warning)
    prompts = [encode_request(request, target) for request in requests]
    # Counted in tokens, each answer for as many as it may have: a single long answer has time left too.
    loop_settings = decode_settings(requests[0], Detail.COUNTS, target)
    report, close = counting_bar(len(prompts) * args.max_new_tokens, "token", args.json)
    results: dict[int, DecodeResult] = {}
    steps: dict[int, list[StepTrace]] = defaultdict(list)
    classify = classifier(target.tokenizer)
    printed = written = 0
    for record in decode(target, drafter, prompts, loop_settings, args.batch):
        if isinstance(record, StepTrace):
            written += len(record.tokens)
            steps[record.row].append(record)
            report(written, f"{len(results)} of {len(prompts)} answers")
        if isinstance(record, DecodeResult):
            results[record.row] = record
            written += args.max_new_tokens - len(record.tokens) + 1  # what it may have had, and its first token
            report(written, f"{len(results)} of {len(prompts)} answers")
            while printed in results:  # in the order of the prompts, whatever order they ended in
                ended = results[printed]
                _print(ended, class_counts(steps.pop(printed, []), classify(ended.tokens)), args.json)
                printed += 1
    close()
    return 0


def requests_of(args: argparse.Namespace) -> list[DecodeRequest]:
    """One request a prompt, checked as far as that goes before anything is loaded; HeadwayError for mistakes."""
    if args.prompt is not None:
        conversations: list[list[dict[str, str]]] = [[{"role": "user", "content": args.prompt}]]
    elif args.messages is not None:
        conversations = [read_messages(args.messages)]
    else:
        file = read_prompts(args.prompts, limit=args.limit)
        for line, reason in file.broken:
            say(f"{args.prompts}, line {line}: {reason}; the row is left out.")
        conversations = [prompt.question(0) for prompt in file.prompts]
    requests = [request_of(args, messages) for messages in conversations]
    for request in requests:
        check_request(request)
    return requests


def read_messages(text: str) -> list[dict[str, str]]:
    """The turns of a chat, from JSON or the name of a file with it. Raises HeadwayError for anything else."""
    source = text
    if not text.lstrip().startswith("["):
        try:
            source = Path(text).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise HeadwayError(f"--messages is neither a JSON list nor a readable file: {text[:80]!r}.") from error
    try:
        return [message.model_dump() for message in CHAT.validate_json(source)]
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        problem = error.errors()[0]["msg"] + (f" at {where}" if where else "")
        raise HeadwayError(
            f'--messages must be a JSON list like [{{"role": "user", "content": "Hello"}}] with the roles system, user '
            f"and assistant, and at least one turn ({problem})."
        ) from error


def read_schema(text: str) -> str:
    """A JSON schema as it stands, or the content of the file it names. Raises HeadwayError."""
    if text.lstrip().startswith("{"):
        return text
    try:
        return Path(text).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise HeadwayError(f"--json-schema is neither JSON nor a readable file: {text[:80]!r}.") from error


def request_of(args: argparse.Namespace, messages: list[dict[str, str]]) -> DecodeRequest:
    """What the options ask for, with the conversation `messages` (or its last text, when raw)."""
    names = (*NUMBERS, "target", "drafter", "tree", "max_depth", "sampled", "force")
    values: dict[str, Any] = {name: getattr(args, name) for name in names}
    values["rule"] = args.rule or ("greedy" if args.temperature == 0 else "rejection")
    values["stop"], values["banned_tokens"] = tuple(args.stop), tuple(args.ban)
    if args.json_schema is not None:
        values["json_schema"] = read_schema(args.json_schema)
    if args.raw:
        return DecodeRequest(raw_prompt=messages[-1]["content"], **values)
    listed = [Message.model_validate(message) for message in messages]
    if args.system is not None:
        listed = [Message(role="system", content=args.system), *(m for m in listed if m.role != "system")]
    return DecodeRequest(messages=tuple(listed), **values)


def _print(result: DecodeResult, by_class: ClassCounts, as_json: bool) -> None:
    data = result.to_dict() | by_class.to_dict()
    if as_json:
        print(json.dumps({name: data[name] for name in PRINTED}, ensure_ascii=False), flush=True)
        return
    length, speed = result.acceptance_length, result.tokens_per_s
    print(result.text)
    figures = f"{len(result.tokens)} tokens in {result.num_steps} steps"
    if length is not None and speed is not None:
        figures += f", acceptance length {length:.2f}, {speed:.1f} tokens/s"
    print(f"[{figures}, ended by {result.finish_reason}]", file=sys.stderr)
