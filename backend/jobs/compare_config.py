"""What a comparison of Headway's decoding and a server's is told. Torch-free."""

from __future__ import annotations

from pydantic import Field, model_validator

from backend.jobs.configs import Name, Text
from backend.jobs.vllm_config import ServedConfig


class CompareServingConfig(ServedConfig):
    """The same greedy answers from Headway's chain decoding and from vLLM, with its acceptance at each position."""

    drafter: Text = Field("builtin-medusa", description="builtin-medusa or a folder of heads in Headway's format")
    url: Text | None = Field(None, description="a running vLLM with this drafter; default: one is started")
    plain_url: Text | None = Field(
        None, description="a running vLLM without it; default: one is started, with a URL none"
    )
    prompts: tuple[Text, ...] = Field(min_length=1, description="prompt file: JSONL with turns, ShareGPT or Alpaca")
    limit: int | None = Field(None, ge=1, description="only the first N prompts of each file")
    max_new_tokens: int = Field(64, ge=2, le=8192, description="longest answer, in tokens")
    batch: int = Field(4, ge=1, le=256, description="prompts answered at once, on both sides")
    out: Text | None = Field(None, description="also write the comparison to this file")
    name: Name | None = Field(None, description="name of the comparison; default: made of drafter and target")

    @model_validator(mode="after")
    def _drafts(self) -> CompareServingConfig:
        if self.drafter in ("none", "ngram") or self.drafter.startswith("draft:"):
            raise ValueError("only trained heads are compared; give builtin-medusa or a folder of heads")
        if self.max_new_tokens >= self.max_model_len:
            raise ValueError("max_new_tokens must leave room for a prompt in max_model_len")
        return self
