"""What a watch for stale heads is told. Torch-free."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from backend.analysis.watch import FEWEST, WatchRules
from backend.jobs.configs import Name, Text


class WatchJobConfig(BaseModel):
    """Acceptance of request after request, held against what each drafter accepted at first."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    requests: Text | None = Field(
        None, description="JSON lines, a request each; default: what is posted to the dashboard of this home folder"
    )
    follow: bool = Field(False, description="wait for more requests until it is stopped, instead of ending")
    runs: bool = Field(False, description="also watch the decode runs that are stored here")
    baseline: int = Field(2 * FEWEST, ge=FEWEST, le=100_000, description="first requests of a drafter that it is held "
                          "against afterwards")  # fmt: skip
    max_drop: float = Field(0.1, gt=0, lt=1, description="part of the baseline that may be lost")
    floor: float | None = Field(None, ge=1, description="acceptance length below which it is too low whatever it was")
    window: int = Field(200, ge=2, le=100_000, description="last requests that drop and floor look at")
    webhook: Text | None = Field(None, description="URL that every alarm is posted to, as JSON")
    alarm_command: Text | None = Field(None, description="command that every alarm is given to, as JSON on its input")
    patience: float = Field(10.0, gt=0, le=600, description="seconds that a webhook or a command may take")
    name: Name | None = Field(None, description="name of the watch")

    @property
    def device(self) -> str:
        """Where it is worked on: a watch needs no more than a processor."""
        return "cpu"

    def rules(self) -> WatchRules:
        return WatchRules(max_drop=self.max_drop, floor=self.floor, window=self.window)
