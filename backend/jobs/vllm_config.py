"""What a server is told: which target and drafter, or which running server to watch. Torch-free."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from backend.jobs.configs import Text

Temperature = Annotated[float, Field(ge=0, le=5, allow_inf_nan=False)]

SAMPLING_ON_CPU = (
    "vLLM's CPU build writes garbage when it samples while it drafts, for greedy requests in the same batch too; "
    "use temperature 0, or no drafter"
)


class ServedConfig(BaseModel):
    """What is served and how; the same for a server that stays and for one that a measurement starts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    target: Text = Field("smollm2-135m", description="built-in name, folder, GGUF file or hub id")
    drafter: Text = Field(
        "none", description="none, builtin-medusa, ngram, draft:MODEL, a folder of heads or an export for vllm"
    )
    num_tokens: int | None = Field(
        None, ge=1, le=64, description="tokens drafted at a time; default: the depth of the drafter's tree"
    )
    max_model_len: int = Field(2048, ge=16, le=10_000_000, description="longest text, prompt and answer, in tokens")
    max_num_seqs: int = Field(16, ge=1, le=4096, description="most requests in a batch")
    cache_gb: int = Field(1, ge=1, le=4096, description="on a CPU: memory for keys and values, in GiB")
    dtype: Text | None = Field(None, description="of the target; default: float32 on a CPU, else the checkpoint's own")
    eager: bool | None = Field(None, description="start without compiling; default: yes on a CPU, no on CUDA")
    option: tuple[Text, ...] = Field((), description="one more word for vLLM's command line, as --option=--seed")
    startup_s: float = Field(900.0, gt=0, le=86_400, description="longest wait until the server is ready, in seconds")


class VllmJobConfig(ServedConfig):
    """A vLLM server that runs until it is stopped; or, with a URL, a running one that is watched."""

    url: Text | None = Field(None, description="watch this running server instead of starting one")
    host: Text = Field("127.0.0.1", description="address to listen at; 0.0.0.0 lets other machines in, without a key")
    port: int = Field(8000, ge=0, le=65_535, description="port to listen at; 0: any free one")
    temperature: Temperature = Field(0.0, description="for requests that name none")

    @model_validator(mode="after")
    def _watching_starts_nothing(self) -> VllmJobConfig:
        if self.url is not None and self.drafter != "none":
            raise ValueError("a server that runs already has its drafter; leave the drafter out")
        return self
