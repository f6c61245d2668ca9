"""Small things to store."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from storage import RunResult, Store, VersionIdentity, VersionRecord

IDENTITY = VersionIdentity(weights_id="w1", tokenizer_id="t1", template_id="c1")
SETTINGS = {"rule": "greedy", "temperature": 0.0, "seed": 1, "device": "cpu", "packages": {"torch": "2.13"}}
NASTY = (
    "${alert(1)} `x` <script>alert('é')</script> 🦙👩\u200d👧 עִבְרִית \u202e \u00ad \r\n\t %_/\\ '\" "
    "\x00 mid \x10 \x10\x10 0 \x100 \ud83d \udc00 \x10d83d"
)
RESULT = RunResult(
    text="a b c",
    tokens=(5, 6, 7),
    finish_reason="stop",
    prompt_tokens=4,
    num_tokens=9,
    num_steps=4,
    num_drafted=12,
    num_accepted=5,
    num_cut=1,
    accepted_per_depth=(3, 2),
    drafted_per_depth=(4, 4),
    prefill_ms=1.5,
    draft_ms=2.0,
    verify_ms=3.25,
    commit_ms=0.5,
    overhead_ms=0.125,
    wall_ms=7.375,
)


def register(store: Store, **changes: Any) -> VersionRecord:
    """A version, with parts of its identity changed."""
    return store.register_version(
        replace(IDENTITY, **changes), label="base", source="./model", model_type="llama", num_parameters=7_000_000_000
    )


def new_run(store: Store, prompt: str = "Hello", *, drafter_name: str = "none", start: bool = False) -> str:
    """A run with few details."""
    run_id = store.create_run(prompt=prompt, drafter_name=drafter_name, settings=SETTINGS)
    if start:
        store.start_run(run_id)
    return run_id


def steps(first: int, count: int) -> list[dict[str, Any]]:
    """Distinct step dictionaries numbered from `first`."""
    return [{"step": first + i, "tokens": [first + i, 2], "q": [0.25, -1.5e-9], "text": "é🦙"} for i in range(count)]
