"""The rules never ask the device for a value: no read-back, no shape that depends on data, no branch on a tensor.

Two guards. The dispatch mode names operators that wait for a CUDA device. The meta device has shapes but no values, so
whatever reads a value (tolist and cpu too, which no dispatch mode sees) has nothing to read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from backend.acceptance import (
    Rule,
    SamplingSettings,
    mark_seen,
    sample_without_replacement,
    seen_by_node,
    seen_tokens,
    verify,
)
from backend.trees import DraftTree
from tests.acceptance.cases import VOCAB, random_case

SYNCHRONISING = {
    "_local_scalar_dense", "item", "is_nonzero", "equal", "nonzero", "nonzero_numpy", "argwhere", "masked_select",
    "unique", "_unique2", "unique_dim", "unique_consecutive", "repeat_interleave", "bincount", "histc",
}  # fmt: skip
EVERYTHING = SamplingSettings(0.7, top_k=6, top_p=0.9, min_p=0.05, repetition_penalty=1.2, banned_tokens=(1, 2))


class NoSync(TorchDispatchMode):
    """Fails on operators that make a CUDA device and its host wait for each other."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        assert name not in SYNCHRONISING, f"{name} synchronises"
        if name in {"index", "index_put", "index_put_", "_index_put_impl_"}:
            assert all(i is None or i.dtype != torch.bool for i in args[1]), "a boolean index synchronises"
        return func(*args, **(kwargs or {}))


SEEN_BY_DISPATCH = [
    lambda t: t.sum().item(),
    lambda t: t[t > 0],
    lambda t: t.nonzero(),
    lambda t: torch.where(t > 0),
    lambda t: t.masked_select(t > 0),
    lambda t: bool(t.any()),
    lambda t: t.clone().index_put_((t > 0,), torch.ones(()))
]  # fmt: skip
SEEN_BY_META = [lambda t: t.sum().item(), lambda t: t.tolist(), lambda t: t.cpu(), lambda t: bool(t.any())]


@pytest.mark.parametrize("ask", SEEN_BY_DISPATCH)
def test_the_dispatch_guard_catches_what_synchronises(ask: Any):
    values = torch.rand(4)
    with pytest.raises(AssertionError, match="synchronises"), NoSync():
        ask(values)


@pytest.mark.parametrize("ask", SEEN_BY_META)
def test_the_meta_device_catches_what_reads_values(ask: Any):
    with pytest.raises((RuntimeError, NotImplementedError)):
        ask(torch.rand(4, device="meta"))


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("settings", [SamplingSettings(), SamplingSettings(1.0), EVERYTHING], ids=["T0", "T1", "all"])
@pytest.mark.parametrize(
    ("rule", "sampled"), [("greedy", False), ("rejection", False), ("rejection", True), ("typical", False)]
)
def test_no_rule_synchronises(rule: str, sampled: bool, settings: SamplingSettings, device: str):
    if rule == "greedy" and not settings.greedy:
        settings = SamplingSettings(repetition_penalty=1.2, banned_tokens=(1, 2))
    case = random_case(1, batch=3, nodes=9)
    tree = DraftTree(
        *(t.to(device) for t in (case.tree.tokens, case.tree.parents, case.tree.num_nodes)), case.tree.max_depth
    )
    q = case.distribution
    q = replace(q, probs=q.probs.to(device), of_column=q.of_column.to(device))
    with NoSync():
        result = verify(
            Rule(rule),
            tree,
            case.logits.to(device),
            settings,
            generator=torch.Generator().manual_seed(0),
            distribution=q if sampled else None,
            seen=case.seen.to(device),
        )
    assert result.next_token.shape == (3,)


def test_no_helper_synchronises():
    case = random_case(1, batch=3, nodes=9)
    lengths = torch.tensor([1, 2, 3])
    with NoSync():
        seen = seen_tokens(case.tree.tokens, lengths, VOCAB)
        mark_seen(seen, case.tree.tokens)
        nodes = seen_by_node(seen, case.tree)
        drawn = sample_without_replacement(case.distribution.probs[:, 0], 3)
    assert nodes.shape == (3, 10, VOCAB) and drawn.shape == (3, 3)
