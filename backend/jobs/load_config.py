"""What a load test is told. Torch-free."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from backend.jobs.configs import Name, Text
from backend.jobs.vllm_config import ServedConfig, Temperature

Clients = Annotated[int, Field(ge=1, le=1024)]
Rate = Annotated[float, Field(gt=0, le=10_000, allow_inf_nan=False)]


class LoadJobConfig(ServedConfig):
    """A server under load, with its drafter and without. With a URL a running server of any make is measured; without,
    vLLM is started for it.
    """

    url: Text | None = Field(None, description="a running OpenAI-compatible server; default: vLLM is started")
    plain_url: Text | None = Field(None, description="with a URL: a second server, the same target without a drafter")
    prompts: tuple[Text, ...] = Field(min_length=1, description="prompt file: JSONL with turns, ShareGPT or Alpaca")
    limit: int | None = Field(None, ge=1, description="only the first N prompts of each file")
    clients: tuple[Clients, ...] = Field((1, 2, 4, 8), description="clients of the closed loop, with commas")
    rates: tuple[Rate, ...] = Field((), description="arrivals a second of the open loop (Poisson), with commas")
    seconds: float = Field(30.0, gt=0, le=86_400, description="how long each load lasts")
    rounds: int = Field(2, ge=1, le=100, description="how often everything is measured, in alternating order")
    max_new_tokens: int = Field(128, ge=1, le=100_000, description="longest answer, in tokens")
    max_requests: int | None = Field(None, ge=1, description="end a load after this many requests")
    temperature: Temperature = Field(0.0, description="of all requests")
    ignore_eos: bool = Field(False, description="answers go on to the limit; only vLLM and SGLang can")
    seed: int = Field(0, ge=0, description="same seed, same arrivals")
    api: Literal["chat", "completions"] = Field("chat", description="which route of the server is asked")
    out: Text | None = Field(None, description="also write the results to this file")
    name: Name | None = Field(None, description="name of the test; default: made of drafter and target")

    @model_validator(mode="after")
    def _fits(self) -> LoadJobConfig:
        if not self.clients and not self.rates:
            raise ValueError("name at least one number of clients or one rate")
        if self.plain_url is not None and self.url is None:
            raise ValueError("a server without a drafter is compared with another one; give its URL too")
        if self.max_new_tokens >= self.max_model_len:
            raise ValueError("max_new_tokens must leave room for a prompt in max_model_len")
        return self
