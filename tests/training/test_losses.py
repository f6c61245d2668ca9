"""Medusa's loss and counts against their obvious versions."""

import pytest
import torch
from torch.nn import functional

from backend.drafters.fused_loss import linear_cross_entropy
from backend.drafters.learning import IGNORE, MAX_RANKS, FeatureBatch
from backend.drafters.medusa.config import MedusaConfig, MedusaTrainConfig
from backend.drafters.medusa.model import MedusaHeads
from backend.drafters.medusa.train import MedusaLearner

HEADS, T, H, VD = 3, 37, 8, 11


@pytest.mark.parametrize("layers", [1, HEADS])
def test_fused_loss_and_gradients_equal_torch(layers: int) -> None:
    generator = torch.Generator().manual_seed(layers)
    states = torch.randn(HEADS, T, H, generator=generator).requires_grad_()
    output = torch.randn(layers, VD, H, generator=generator).requires_grad_()
    labels = torch.randint(0, VD, (HEADS, T), generator=generator)
    labels[torch.rand(HEADS, T, generator=generator) < 0.3] = IGNORE
    weight = torch.tensor([0.5, 0.3, 0.1])
    sums = linear_cross_entropy(states, output, labels, weight)
    (2 * sums.sum()).backward()
    fused = [states.grad, output.grad]
    states.grad = output.grad = None
    plain = torch.stack([
        weight[k]
        * functional.cross_entropy(
            states[k] @ output[k if layers > 1 else 0].T, labels[k], ignore_index=IGNORE, reduction="sum"
        )
        for k in range(HEADS)
    ])  # fmt: skip
    (2 * plain.sum()).backward()
    torch.testing.assert_close(sums, plain)
    torch.testing.assert_close(fused, [states.grad, output.grad], atol=1e-5, rtol=1e-4)


def test_bfloat16_products_come_close() -> None:
    generator = torch.Generator().manual_seed(4)
    states = torch.randn(HEADS, T, H, generator=generator).requires_grad_()
    output = torch.randn(HEADS, VD, H, generator=generator).requires_grad_()
    labels = torch.randint(0, VD, (HEADS, T), generator=generator)
    exact = linear_cross_entropy(states, output, labels, torch.ones(HEADS) / T)
    (slope,) = torch.autograd.grad(exact.sum(), output)
    coarse = linear_cross_entropy(states, output, labels, torch.ones(HEADS) / T, torch.bfloat16)
    (coarse_slope,) = torch.autograd.grad(coarse.sum(), output)
    torch.testing.assert_close(coarse, exact, atol=0.05, rtol=0.05)
    assert torch.cosine_similarity(slope.flatten(), coarse_slope.flatten(), dim=0) > 0.999


def learner(decay: float = 0.8, shared: bool = False) -> MedusaLearner:
    config = MedusaConfig(hidden_size=H, vocab_size=20, num_heads=HEADS, draft_vocab_size=VD, shared_output=shared)
    heads = MedusaHeads(config)
    heads.initialise(torch.randn(20, H, generator=torch.Generator().manual_seed(5)), torch.arange(VD) + 4)
    return MedusaLearner(heads, MedusaTrainConfig(decay=decay))


def batch() -> FeatureBatch:
    generator = torch.Generator().manual_seed(8)
    following = torch.randint(0, 20, (T, HEADS + 1), generator=generator)
    following[-1, 1:] = IGNORE
    following[-2, 2:] = IGNORE
    return FeatureBatch(torch.randn(T, H, generator=generator), following)


def test_head_k_learns_the_token_two_and_k_places_on() -> None:
    made = learner()
    following = torch.tensor(
        [[5, 6, 7, 3]]
    )  # tokens t+1 .. t+4; the map begins at token 4, so token 3 can't be drafted
    labels, present = made.labels(FeatureBatch(torch.zeros(1, H), following))
    assert labels[:, 0].tolist() == [2, 3, IGNORE]
    assert present[:, 0].tolist() == [True, True, True]


@pytest.mark.parametrize("shared", [False, True])
def test_loss_is_the_decayed_sum_of_mean_cross_entropies(shared: bool) -> None:
    made, given = learner(0.5, shared), batch()
    labels, _ = made.labels(given)
    scores = made.heads(given.hidden)
    means = torch.stack([functional.cross_entropy(scores[k], labels[k], ignore_index=IGNORE) for k in range(HEADS)])
    loss, per_head = made.loss(given)
    torch.testing.assert_close(per_head, means)
    torch.testing.assert_close(loss, means[0] + 0.5 * means[1] + 0.25 * means[2])


def test_a_batch_without_any_label_has_no_loss() -> None:
    loss, per_head = learner().loss(FeatureBatch(torch.zeros(2, H), torch.full((2, HEADS + 1), IGNORE)))
    assert loss.item() == 0.0 and per_head.tolist() == [0.0] * HEADS


def test_counts_of_hits_misses_and_positions() -> None:
    made, given = learner(), batch()
    counts, ranks = made.evaluate(given)
    labels, present = made.labels(given)
    scores = made.heads(given.hidden)
    for k in range(HEADS):
        hits = [0] * MAX_RANKS
        for t in range(T):
            label = int(labels[k, t])
            if label == IGNORE:
                assert ranks[t, k] == (MAX_RANKS if present[k, t] else IGNORE)
                continue
            rank = scores[k, t].sort(descending=True).indices.tolist().index(label)
            assert ranks[t, k] == min(rank, MAX_RANKS)
            if rank < MAX_RANKS:
                hits[rank] += 1
        assert counts.hits[k].tolist() == hits
    assert counts.positions.tolist() == [T - 1, T - 2, T - 2]
    assert counts.scored.tolist() == (labels != IGNORE).sum(1).tolist()
    metrics = counts.as_metrics()
    expected = functional.cross_entropy(scores[1], labels[1], ignore_index=IGNORE)
    assert metrics["loss_1"] == pytest.approx(expected.item(), rel=1e-5)
    assert metrics["top3_0"] == pytest.approx(counts.hits[0, :3].sum().item() / (T - 1))
    assert metrics["top1_0"] <= metrics["top2_0"] <= metrics["top3_0"] <= metrics["top4_0"] <= metrics["top5_0"]


def test_counts_add_up_over_batches() -> None:
    made, given = learner(), batch()
    whole, _ = made.evaluate(given)
    parts = [made.evaluate(FeatureBatch(given.hidden[s], given.following[s]))[0] for s in (slice(0, 10), slice(10, T))]
    both = parts[0] + parts[1]
    assert torch.equal(both.hits, whole.hits) and torch.equal(both.positions, whole.positions)
    torch.testing.assert_close(both.loss_sum, whole.loss_sum)
