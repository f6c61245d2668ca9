"""Stored decode runs for tests of pages, with numbers that agree with each other. Knows no test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from storage import RunResult, Store


def settings_of(drafter: str, tree: str | None, temperature: float) -> dict[str, Any]:
    """The conditions of a run, as the engine writes them, a few of them."""
    request = {
        "target": "tiny", "drafter": drafter, "messages": [], "raw_prompt": None, "tree": tree,
        "temperature": temperature, "rule": "rejection" if temperature else "greedy", "seed": 0,
    }  # fmt: skip
    return {"request": request, "drafter_name": drafter, "device": "cpu", "packages": {"torch": "2.13"}}


def add_run(
    store: Store,
    *,
    prompt: str = "a prompt",
    drafter: str = "heads",
    tree: str | None = None,
    temperature: float = 0.0,
    tokens: int = 31,
    tags: Sequence[str] = (),
    failed: bool = False,
    version_id: str | None = None,
    steps: Sequence[dict[str, Any]] = ({"step": 1},),
) -> str:
    """A finished (or failed) run with one recorded step; its id."""
    run_id = store.create_run(
        prompt=prompt,
        drafter_name=drafter,
        settings=settings_of(drafter, tree, temperature),
        messages=[{"role": "user", "content": prompt}],
        tags=tags,
        version_id=version_id,
    )
    store.start_run(run_id)
    store.append_steps(run_id, 0, list(steps))
    if failed:
        store.fail_run(run_id, "The machine ran out of memory.")
    else:
        store.finish_run(run_id, result(tokens))
    return run_id


def result(tokens: int) -> RunResult:
    """Two steps give three tokens: one drafted token is accepted every other step."""
    steps = max(1, (tokens - 1) * 2 // 3)
    return RunResult(
        text="An answer.",
        tokens=tuple(range(tokens)),
        finish_reason="length",
        prompt_tokens=7,
        num_tokens=tokens,
        num_steps=steps,
        num_drafted=4 * steps,
        num_accepted=tokens - 1 - steps,
        num_cut=0,
        accepted_per_depth=(tokens - 1 - steps,),
        drafted_per_depth=(steps,),
        prefill_ms=10.0,
        draft_ms=2.0 * steps,
        verify_ms=20.0 * steps,
        commit_ms=0.5 * steps,
        overhead_ms=0.5 * steps,
        wall_ms=24.0 * steps,
    )
