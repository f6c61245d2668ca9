"""What vLLM counts of drafts, read from its Prometheus page, and what follows from two readings. Pure.

The names are those of vLLM's `vllm:spec_decode_*` counters. Accepted tokens are counted before an answer is cut at its
end token or limit, and the token that comes out of the prompt is in no draft.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families

from backend.errors import HeadwayError

_PREFIX: Final = "vllm:spec_decode_num_"
_WHOLE: Final = {
    f"{_PREFIX}drafts_total": "drafts",
    f"{_PREFIX}draft_tokens_total": "draft_tokens",
    f"{_PREFIX}accepted_tokens_total": "accepted",
    "vllm:generation_tokens_total": "generated",
    "vllm:prompt_tokens_total": "prompt_tokens",
    "vllm:num_requests_running": "running",
    "vllm:num_requests_waiting": "waiting",
}
_BY_POSITION: Final = f"{_PREFIX}accepted_tokens_per_pos_total"


@dataclass(frozen=True)
class DraftCounters:
    """Counts since the server started, or between two readings.

    Args:
        drafts: how often something was drafted, once a request and step.
        draft_tokens, accepted: tokens drafted, and of these accepted.
        by_position: entry i counts the drafts whose token i (from 0) was accepted.
        generated, prompt_tokens: tokens written and read.
        running, waiting: requests at this moment; not a difference.
        counts_drafts: whether the server counts drafts at all.
    """

    drafts: int = 0
    draft_tokens: int = 0
    accepted: int = 0
    by_position: tuple[int, ...] = ()
    generated: int = 0
    prompt_tokens: int = 0
    running: int = 0
    waiting: int = 0
    counts_drafts: bool = False

    def since(self, before: DraftCounters) -> DraftCounters:
        """What was counted after `before`. Counts that went back (the server was started anew) count from zero."""
        if any(getattr(self, name) < getattr(before, name) for name in ("drafts", "generated")):
            return self
        width = max(len(self.by_position), len(before.by_position))
        positions = zip(_filled(self.by_position, width), _filled(before.by_position, width), strict=True)
        return DraftCounters(
            self.drafts - before.drafts,
            self.draft_tokens - before.draft_tokens,
            self.accepted - before.accepted,
            tuple(now - then for now, then in positions),
            self.generated - before.generated,
            self.prompt_tokens - before.prompt_tokens,
            self.running,
            self.waiting,
            self.counts_drafts,
        )

    @property
    def rates(self) -> list[float]:
        """Acceptance at each position (marginal): the share of drafts whose token there was accepted."""
        return [count / self.drafts for count in self.by_position] if self.drafts else []

    @property
    def acceptance_length(self) -> float | None:
        """Accepted tokens a draft, plus the target's own; None without drafts."""
        return 1 + self.accepted / self.drafts if self.drafts else None

    def to_dict(self) -> dict[str, Any]:
        """Counts and what follows from them."""
        return {
            "drafts": self.drafts, "draft_tokens": self.draft_tokens, "accepted": self.accepted,
            "by_position": list(self.by_position), "generated": self.generated, "rates": self.rates,
            "acceptance_length": self.acceptance_length,
        }  # fmt: skip


def read_counters(page: str) -> DraftCounters | None:
    """Counts of all engines of a server together; None for a page without vLLM's figures.

    Raises HeadwayError for text that is no Prometheus page.
    """
    found: dict[str, float] = {}
    positions: dict[int, float] = {}
    try:
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                if sample.name == _BY_POSITION:
                    place = int(sample.labels["position"])
                    positions[place] = positions.get(place, 0) + sample.value
                elif sample.name in _WHOLE:
                    name = _WHOLE[sample.name]
                    found[name] = found.get(name, 0) + sample.value
    except (ValueError, KeyError):
        raise HeadwayError("The server's page /metrics is no Prometheus text, so drafts can't be counted.") from None
    if "generated" not in found and "drafts" not in found:
        return None
    row = tuple(int(positions.get(place, 0)) for place in range(max(positions, default=-1) + 1))
    whole = {name: int(value) for name, value in found.items()}
    return DraftCounters(by_position=row, counts_drafts="drafts" in found, **whole)


def _filled(values: tuple[int, ...], width: int) -> tuple[int, ...]:
    return (*values, *(0,) * (width - len(values)))
