"""`distill`: the target answers a prompt file itself; a killed run goes on where it stopped."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from backend.data.answers import pack_answers, read_answers
from backend.data.prompts import Prompt, read_prompts
from backend.data.templates import describe_mask, format_mask
from backend.errors import HeadwayError
from backend.jobs.console import counting_bar, loading_bar, say
from backend.jobs.decode_command import add_machine_arguments
from backend.settings import Settings
from backend.targets.opening import open_target
from backend.training.distill import DistillConfig, DistillProgress, distill, num_answers


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", default="smollm2-135m", help="built-in name, folder, GGUF file or hub id")
    parser.add_argument("--prompts", required=True, metavar="FILE", action="append", help="prompt file; repeatable")
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N prompts of each file")
    parser.add_argument("--out", required=True, metavar="FILE", help="JSONL that grows; an existing one is continued")
    parser.add_argument(
        "--pack", metavar="FILE.npz", help="also write all answers into one small packed file at the end"
    )
    fields = DistillConfig.model_fields
    for name in ("max_new_tokens", "batch", "seed"):
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=int, default=fields[name].default, help=fields[name].description
        )
    parser.add_argument(
        "--temperatures", default="0,1", metavar="T,T", help="every prompt is answered once at each (default 0,1)"
    )
    parser.add_argument("--turns", type=int, metavar="N", help=fields["turns"].description)
    parser.add_argument("--system", help="system prompt instead of the template's own")
    parser.add_argument(
        "--show-mask", type=int, metavar="N", help="print the first N answers token by token with the loss mask"
    )
    add_machine_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end and no progress")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Distil all prompts; raises HeadwayError for anything the person can mend."""
    config = DistillConfig(
        max_new_tokens=args.max_new_tokens,
        temperatures=_temperatures(args.temperatures),
        batch=args.batch,
        seed=args.seed,
        system=args.system,
        turns=args.turns,
    )
    prompts = _prompts(args)
    target = open_target(args.target, settings, args.device, args.dtype, args.trust_remote_code, loading_bar(args.json))
    report, close = counting_bar(num_answers(prompts, config), "answer", args.json)
    out = Path(args.out)

    def progressed(progress: DistillProgress) -> None:
        report(progress.answers, f"{progress.tokens:,} tokens")

    done = distill(target, prompts, config, out, progressed)
    close()
    answers = read_answers(out).answers
    if args.pack:
        pack_answers(answers, args.pack)
    for answer in answers[: args.show_mask or 0]:
        ids = [*answer.prompt_ids, *answer.answer_ids]
        mask = [False] * len(answer.prompt_ids) + [True] * len(answer.answer_ids)
        print(format_mask(describe_mask(target.tokenizer, ids, mask)))
    truncated = sum(answer.truncated for answer in answers)
    if args.json:
        print(json.dumps({"out": str(out), "answers": done.answers, "tokens": done.tokens, "truncated": truncated}))
    else:
        say(
            f"{done.answers} answers with {done.tokens:,} tokens in {out}; "
            f"{truncated} were cut at {args.max_new_tokens} tokens."
        )
    return 0


def _prompts(args: argparse.Namespace) -> list[Prompt]:
    prompts: list[Prompt] = []
    seen: set[str] = set()
    for path in args.prompts:
        file = read_prompts(path, limit=args.limit)
        for line, reason in file.broken:
            say(f"{path}, line {line}: {reason}; the row is left out.")
        for prompt in file.prompts:
            if prompt.question_id in seen:
                raise HeadwayError(
                    f"The question id {prompt.question_id!r} occurs twice; ids tell answers apart, so make them unique."
                )
            seen.add(prompt.question_id)
            prompts.append(prompt)
    return prompts


def _temperatures(text: str) -> tuple[float, ...]:
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise HeadwayError(f"--temperatures takes numbers with commas, like 0,1, not {text!r}.") from None
    return values
