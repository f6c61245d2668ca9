"""A running server as who answers prompts of a distillation: many requests at once, token ids in, token ids out.

The conversation is rendered by Headway, so that answers of a server and of the decode loop stand in the same file.
Needs a server that returns token ids, which vLLM does. Knows no file.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from backend.errors import HeadwayError
from backend.serving.client import Completion, complete, http_client
from backend.training.config import DistillConfig
from backend.training.distill import Answerer

#: what a checkpoint's own defaults might change otherwise
NEUTRAL: Final = {"top_p": 1.0, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}
_LOOK_S: Final = 0.2

_Answered = tuple[int, Sequence[int], str]


def endpoint_answerer(url: str, model: str, end_tokens: Collection[int]) -> Answerer:
    """Answers by /v1/completions of the server at `url`, `config.batch` requests at a time.

    Raises ServerGone when it goes away, HeadwayError when it returns no token ids or refuses a prompt.
    """

    def answer(
        prompts: Mapping[int, list[int]], temperature: float, config: DistillConfig, cancelled: Callable[[], bool]
    ) -> Iterator[_Answered]:
        done: queue.Queue[_Answered | BaseException | None] = queue.Queue()
        stop = threading.Event()

        def work() -> None:
            try:
                asyncio.run(_ask_all(url, model, prompts, temperature, config, frozenset(end_tokens), done.put, stop))
                done.put(None)
            except BaseException as error:
                done.put(error)

        thread = threading.Thread(target=work, name="headway-endpoint", daemon=True)
        thread.start()
        try:
            while True:
                if cancelled():
                    return
                try:
                    found = done.get(timeout=_LOOK_S)
                except queue.Empty:
                    continue
                if found is None:
                    return
                if isinstance(found, BaseException):
                    raise found
                yield found
        finally:
            stop.set()
            thread.join()

    return answer


async def _ask_all(
    url: str,
    model: str,
    prompts: Mapping[int, list[int]],
    temperature: float,
    config: DistillConfig,
    end_tokens: frozenset[int],
    put: Callable[[_Answered], None],
    stop: threading.Event,
) -> None:
    waiting = iter(prompts.items())

    async def one_client(client: Any) -> None:
        for number, ids in waiting:
            if stop.is_set():
                return
            body = request_of(model, ids, temperature, config.max_new_tokens, config.seed + number)
            tokens, reason = taken(await complete(client, body), end_tokens, url)
            put((number, tokens, reason))

    async with http_client(url, config.batch + 4) as client:
        work = asyncio.gather(*(one_client(client) for _ in range(min(config.batch, len(prompts)))))
        while not work.done():
            await asyncio.wait({work}, timeout=_LOOK_S)
            if stop.is_set():
                work.cancel()
                break
        try:
            await work
        except asyncio.CancelledError:
            if not stop.is_set():
                raise


def request_of(model: str, ids: list[int], temperature: float, max_tokens: int, seed: int) -> dict[str, Any]:
    """The body of a request for one answer as token ids, with nothing left to the server's defaults."""
    sampled = {"seed": seed} if temperature > 0 else {}
    return {
        "model": model, "prompt": ids, "max_tokens": max_tokens, "temperature": temperature, "return_token_ids": True,
        **NEUTRAL, **sampled,
    }  # fmt: skip


def taken(answer: Completion, end_tokens: Collection[int], url: str) -> tuple[list[int], str]:
    """(tokens, finish reason eos, length or stop). Raises HeadwayError for a server that returns no token ids."""
    if answer.token_ids is None:
        raise HeadwayError(f"The server at {url} returns no token ids, which are needed here; use vLLM.")
    tokens = list(answer.token_ids)
    if answer.finish_reason == "length":
        return tokens, "length"
    return tokens, "eos" if tokens and tokens[-1] in end_tokens else "stop"
