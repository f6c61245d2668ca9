"""What a page needs from outside, handed in as values. Reads no environment, starts nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from backend.engine.protocol import Engine
from backend.settings import Settings
from dashboard.access import AccessPolicy
from storage import Store


@dataclass(frozen=True)
class DashboardSettings:
    """What can be chosen about the pages.

    Args:
        default_target: what the target picker shows at first.
        demo_prompts: JSONL file with `category` and `turns`; the page offers their first turns. None: built-in ones.
        recent_limit: how many stored runs the page lists.
        heartbeat_s: a stream that has nothing to say says so this often, so that proxies keep it open.
    """

    default_target: str = "smollm2-135m"
    demo_prompts: Path | None = None
    recent_limit: int = 30
    heartbeat_s: float = 10.0


@dataclass(frozen=True)
class Services:
    """What the pages work with.

    Args:
        engine: owns the device.
        access: who may reach the pages.
        store: everything remembered; None keeps only the runs of this process, and there are no jobs.
        places: where files lie, for logs of jobs; None: there are none.
    """

    engine: Engine
    access: AccessPolicy
    store: Store | None = None
    settings: DashboardSettings = field(default_factory=DashboardSettings)
    places: Settings | None = None
