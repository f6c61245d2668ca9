"""A small OpenAI-compatible server that counts drafts as vLLM does: real HTTP, real streams, real Prometheus text.

    python -m tests.serving.fake_server --port 8000 --speculative-config '{"num_speculative_tokens": 3}'

It takes vLLM's options (those it does not know are ignored), so it can stand in for vLLM's own module. Its "target" is
a function of the text so far, and how many of a step's drafts are accepted is another: with drafts and without the text
is the same. Knows nothing of Headway.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

VOCABULARY = 251
END = 2


def next_token(ids: Sequence[int]) -> int:
    """What the "target" says after `ids`; never the end token in the first few tokens."""
    return (7 + 31 * ids[-1] + 3 * len(ids)) % (VOCABULARY - 3) + 3


def accepted_at(length: int, depth: int) -> int:
    """How many of `depth` drafted tokens are accepted after a text of `length` tokens."""
    return min(depth, (length * 5 // 3) % (depth + 2))


class Fake:
    """`plain_http`: only what every OpenAI-compatible server has. `step_s`: time of one step."""

    def __init__(
        self, model: str, depth: int, step_s: float = 0.0, plain_http: bool = False, max_len: int = 512
    ) -> None:
        self.model, self.depth, self.step_s, self.plain_http, self.max_len = model, depth, step_s, plain_http, max_len
        self.generated = self.prompted = self.drafts = 0
        self.by_position = [0] * depth
        self.running = 0
        self.bodies: list[dict[str, Any]] = []

    def app(self) -> Starlette:
        routes = [
            Route("/v1/models", self.models),
            Route("/v1/completions", self.completions, methods=["POST"]),
            Route("/v1/chat/completions", self.chat, methods=["POST"]),
        ]
        if not self.plain_http:
            routes += [Route("/health", self.health), Route("/metrics", self.metrics), Route("/version", self.version)]
        return Starlette(routes=routes)

    async def models(self, request: Request) -> Response:
        row: dict[str, Any] = {"id": self.model, "object": "model"}
        return JSONResponse(
            {"object": "list", "data": [row if self.plain_http else row | {"max_model_len": self.max_len}]}
        )

    async def health(self, request: Request) -> Response:
        return Response()

    async def version(self, request: Request) -> Response:
        return JSONResponse({"version": "0.0.0-fake"})

    async def metrics(self, request: Request) -> Response:
        return PlainTextResponse(metrics_page(self.model, self))

    async def chat(self, request: Request) -> Response:
        body = await request.json()
        text = "\n".join(message["content"] for message in body["messages"])
        return await self._answer(body, [3 + byte % (VOCABULARY - 3) for byte in text.encode()], chat=True)

    async def completions(self, request: Request) -> Response:
        body = await request.json()
        prompt = body["prompt"]
        ids = prompt if isinstance(prompt, list) else [3 + byte % (VOCABULARY - 3) for byte in prompt.encode()]
        return await self._answer(body, ids, chat=False)

    async def _answer(self, body: dict[str, Any], prompt: list[int], chat: bool) -> Response:
        self.bodies.append(body)
        if len(prompt) + body["max_tokens"] > self.max_len:
            error = {"message": f"This model's maximum context length is {self.max_len} tokens.", "code": 400}
            return JSONResponse({"error": error}, 400)
        if body.get("stream"):
            return StreamingResponse(self._stream(body, prompt, chat), media_type="text/event-stream")
        tokens: list[int] = []
        histogram = [0] * (self.depth + 1)
        async for piece in self._steps(prompt, body["max_tokens"], histogram):
            tokens += piece
        choice: dict[str, Any] = {"index": 0, "text": words(tokens), "finish_reason": "length", "stop_reason": None}
        if body.get("return_token_ids"):
            choice |= {"token_ids": tokens, "prompt_token_ids": prompt}
        usage = {"prompt_tokens": len(prompt), "completion_tokens": len(tokens)}
        answer: dict[str, Any] = {"object": "text_completion", "model": self.model, "choices": [choice], "usage": usage}
        if self.depth:
            answer["metrics"] = {
                "speculative_decoding": {"num_spec_steps": sum(histogram), "acceptance_histogram": histogram}
            }
        return JSONResponse(answer)

    async def _stream(self, body: dict[str, Any], prompt: list[int], chat: bool) -> AsyncIterator[str]:
        count = 0
        async for piece in self._steps(prompt, body["max_tokens"], [0] * (self.depth + 1)):
            count += len(piece)
            ended = "length" if count >= body["max_tokens"] else None
            part = {"delta": {"content": words(piece)}} if chat else {"text": words(piece)}
            yield event({"model": self.model, "choices": [{"index": 0, "finish_reason": ended, **part}]})
        if (body.get("stream_options") or {}).get("include_usage"):
            usage = {"prompt_tokens": len(prompt), "completion_tokens": count}
            yield event({"model": self.model, "choices": [], "usage": usage})
        yield "data: [DONE]\n\n"

    async def _steps(self, prompt: list[int], limit: int, histogram: list[int]) -> AsyncIterator[list[int]]:
        """The tokens of each step, the first of the prompt; what is accepted is counted before the cut."""
        ids, made = list(prompt), 0
        self.prompted += len(prompt)
        self.running += 1
        try:
            while made < limit:
                await asyncio.sleep(self.step_s)
                accepted = accepted_at(len(ids), self.depth) if made and self.depth else 0
                if made and self.depth:
                    self.drafts += 1
                    histogram[accepted] += 1
                    for place in range(accepted):
                        self.by_position[place] += 1
                piece: list[int] = []
                for _ in range(min(accepted + 1, limit - made)):
                    piece.append(next_token(ids))
                    ids.append(piece[-1])
                made += len(piece)
                self.generated += len(piece)
                yield piece
        finally:
            self.running -= 1


def words(tokens: Sequence[int]) -> str:
    return "".join(f" w{token}" for token in tokens)


def event(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data)}\n\n"


def metrics_page(model: str, fake: Fake) -> str:
    """As vLLM writes it; without drafts it has no counters of them."""
    label = f'engine="0",model_name="{model}"'
    lines = gauge("vllm:num_requests_running", "Number of requests in model execution batches.", label, fake.running)
    lines += gauge("vllm:num_requests_waiting", "Number of requests waiting to be processed.", label, 0)
    lines += counter("vllm:prompt_tokens", "Number of prefill tokens processed.", label, fake.prompted)
    lines += counter("vllm:generation_tokens", "Number of generation tokens processed.", label, fake.generated)
    if fake.depth:
        drafted, accepted = fake.drafts * fake.depth, sum(fake.by_position)
        lines += counter("vllm:spec_decode_num_drafts", "Number of spec decoding drafts.", label, fake.drafts)
        lines += counter("vllm:spec_decode_num_draft_tokens", "Number of draft tokens.", label, drafted)
        lines += counter("vllm:spec_decode_num_accepted_tokens", "Number of accepted tokens.", label, accepted)
        name = "vllm:spec_decode_num_accepted_tokens_per_pos"
        for place, count in enumerate(fake.by_position):
            more = counter(name, "Accepted tokens per draft position.", f'{label},position="{place}"', count)
            lines += more if place == 0 else [line for line in more if not line.startswith("#")]
    return "\n".join([*lines, ""])


def counter(name: str, text: str, label: str, value: float) -> list[str]:
    return [
        f"# HELP {name}_total {text}",
        f"# TYPE {name}_total counter",
        f"{name}_total{{{label}}} {float(value)}",
    ]


def gauge(name: str, text: str, label: str, value: float) -> list[str]:
    return [f"# HELP {name} {text}", f"# TYPE {name} gauge", f"{name}{{{label}}} {float(value)}"]


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--model", default="")
    parser.add_argument("--served-model-name", default="toy")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--speculative-config", type=json.loads, default={})
    parser.add_argument("--step-s", type=float, default=0.0)
    parser.add_argument("--plain-http", action="store_true")
    args, _ = parser.parse_known_args(argv)
    print("INFO 01-01 00:00:00 [api_server.py:1] vLLM API server version 0.0.0-fake", flush=True)
    print("arguments", json.dumps(list(argv)), flush=True)
    crash = Path(args.model) / "crash.txt"
    if args.model and crash.is_file():
        print(crash.read_text(), flush=True)
        return 1
    depth = int(args.speculative_config.get("num_speculative_tokens", 0))
    fake = Fake(args.served_model_name, depth, args.step_s, args.plain_http)
    uvicorn.run(fake.app(), host=args.host, port=args.port, log_level="warning")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
