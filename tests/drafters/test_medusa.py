"""Medusa heads: the arithmetic, how a tree is filled, sampling without replacement, and the folder they live in."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from backend.drafters.base import DraftContext
from backend.drafters.checkpoint import META, WEIGHTS, DrafterMeta
from backend.drafters.medusa.checkpoint import load_heads, save_heads
from backend.drafters.medusa.config import MedusaConfig
from backend.drafters.medusa.drafter import MedusaDrafter
from backend.drafters.medusa.model import HeadsForDrafting, MedusaHeads
from backend.errors import HeadwayError
from backend.trees import TreeShape, chain, product
from tests.acceptance.test_no_sync import NoSync

HIDDEN, VOCAB, DRAFT = 16, 40, 12


def heads(shared: bool = False, blocks: int = 2, draft_vocab: int | None = DRAFT) -> MedusaHeads:
    config = MedusaConfig(
        hidden_size=HIDDEN,
        vocab_size=VOCAB,
        num_heads=3,
        num_blocks=blocks,
        shared_output=shared,
        draft_vocab_size=draft_vocab,
    )
    made = MedusaHeads(config)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.4)
    if draft_vocab:
        made.token_map.copy_(torch.arange(draft_vocab) * 3)
    return made


def context(rows: int = 2, temperature: float = 0.0, max_depth: int = 8, seed: int = 0) -> DraftContext:
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(rows, HIDDEN, generator=torch.Generator().manual_seed(9))
    tokens = torch.arange(rows * 5).view(rows, 5) % VOCAB
    return DraftContext(tokens, torch.full((rows,), 5), hidden, temperature, generator, max_depth)


def slow_scores(made: MedusaHeads, hidden: Tensor) -> list[Tensor]:
    scores = []
    for head in range(made.config.num_heads):
        x = hidden
        for block in range(made.config.num_blocks):
            y = x @ made.block_weight[head, block].T + made.block_bias[head, block]
            x = x + y * torch.sigmoid(y)
        scores.append(x @ made.output[0 if made.config.shared_output else head].T)
    return scores


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])  # float64 is not packed: the batched path
def test_training_and_drafting_compute_what_the_formula_says(shared: bool, dtype: torch.dtype) -> None:
    made = heads(shared).to(dtype)
    hidden = context().hidden.to(dtype)
    slow = torch.stack(slow_scores(made, hidden))
    torch.testing.assert_close(made(hidden), slow, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(HeadsForDrafting(made)(hidden, 2), slow[:2], atol=1e-5, rtol=1e-5)


def test_untrained_heads_repeat_the_lm_head() -> None:
    made = MedusaHeads(MedusaConfig(hidden_size=HIDDEN, vocab_size=VOCAB, draft_vocab_size=5))
    lm_head = torch.randn(VOCAB, HIDDEN)
    tokens = torch.tensor([3, 7, 8, 20, 39])
    made.initialise(lm_head, tokens)
    hidden = torch.randn(4, HIDDEN)
    torch.testing.assert_close(made(hidden)[2], hidden @ lm_head[tokens].T)
    index = made.draft_index()
    assert index[7] == 1 and index[4] == -1 and int((index >= 0).sum()) == 5


def test_fills_a_static_tree_with_the_best_tokens_of_each_head() -> None:
    made = heads()
    shape = TreeShape(((0,), (2,), (0, 0), (0, 1), (2, 1), (0, 1, 0)))
    drafter = MedusaDrafter("heads", HeadsForDrafting(made), shape)
    given = context()
    draft = drafter.draft(given)
    scores = slow_scores(made, given.hidden)
    for row in range(2):
        assert draft.tree.tokens[row, 0] == given.roots[row]
        for column, path in enumerate(shape.paths, start=1):
            probs = torch.softmax(scores[len(path) - 1][row], 0)
            best = probs.sort(descending=True).indices[path[-1]]
            assert draft.tree.tokens[row, column] == made.token_map[best]
            assert draft.draft_prob[row, column].item() == pytest.approx(probs[best].item(), rel=1e-4)
    assert draft.distribution is None and draft.draft_prob[:, 0].isnan().all()


def test_context_cuts_the_depth() -> None:
    drafter = MedusaDrafter("heads", HeadsForDrafting(heads()), product([2, 2, 1]))
    assert drafter.draft(context(max_depth=2)).tree.width == 1 + 2 + 4
    assert drafter.draft(context(max_depth=0)).tree.width == 1


def test_trees_that_do_not_fit_the_heads_are_refused() -> None:
    drafter = MedusaDrafter("heads", HeadsForDrafting(heads()), chain(3))
    with pytest.raises(HeadwayError, match=r"4 deep.*3 heads"):
        drafter.with_shape(chain(4))
    with pytest.raises(HeadwayError, match="wider"):
        drafter.with_shape(product([DRAFT + 1]))


def test_sampled_siblings_are_different_draws_with_their_distribution() -> None:
    made = heads()
    # ranks with a gap: draws must be taken in order all the same
    shape = TreeShape(((0,), (3,), (0, 0), (3, 1), (3, 2)))
    drafter = MedusaDrafter("heads", HeadsForDrafting(made), shape).with_sampled(True)
    draft = drafter.draft(context(temperature=0.7, seed=4))
    q = draft.distribution
    assert q is not None and q.vocabulary is not None and q.of_column.tolist() == [0, 1, 1, 1, 1, 1]
    expected = torch.softmax(slow_scores(made, context().hidden)[1] / 0.7, -1)
    torch.testing.assert_close(q.rows(torch.tensor([1, 2]), VOCAB)[:, made.token_map], expected, atol=1e-5, rtol=1e-4)
    tokens = draft.tree.tokens
    assert (tokens[:, 1] != tokens[:, 2]).all()
    assert torch.equal(tokens[:, 3], tokens[:, 4])  # first child of either parent: the first draw of depth 2
    assert (tokens[:, 4] != tokens[:, 5]).all()
    again = drafter.draft(context(temperature=0.7, seed=4)).tree.tokens
    assert torch.equal(tokens, again)


def test_nothing_is_sampled_at_temperature_zero() -> None:
    drafter = MedusaDrafter("heads", HeadsForDrafting(heads()), chain(3), sampled=True)
    assert drafter.draft(context(temperature=0.0)).distribution is None


META_DATA = DrafterMeta(family="medusa", name="test heads", config={}, version={"weights_id": "a"}, tree=[[0], [0, 0]])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_folder_gives_back_what_was_saved(tmp_path: Path, dtype: torch.dtype) -> None:
    made = heads(shared=True)
    save_heads(tmp_path / "h", made, META_DATA, dtype)
    save_heads(tmp_path / "h", made, META_DATA, dtype)  # an older one is replaced
    meta, loaded = load_heads(tmp_path / "h")
    assert meta.tree == [[0], [0, 0]] and meta.version == {"weights_id": "a"} and loaded.config == made.config
    torch.testing.assert_close(loaded.output, made.output.to(dtype).float())
    assert torch.equal(loaded.token_map, made.token_map)
    assert [path.name for path in tmp_path.iterdir()] == ["h"]


def test_damaged_folders_are_refused_with_a_sentence(tmp_path: Path) -> None:
    folder = tmp_path / "h"
    with pytest.raises(HeadwayError, match="no drafter folder"):
        load_heads(folder)
    save_heads(folder, heads(), META_DATA)
    weights = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(weights[:-5] + b"\1\2\3\4\5")
    with pytest.raises(HeadwayError, match="damaged"):
        load_heads(folder)
    (folder / WEIGHTS).unlink()
    with pytest.raises(HeadwayError, match=WEIGHTS):
        load_heads(folder)
    (folder / WEIGHTS).write_bytes(weights)
    (folder / META).write_text((folder / META).read_text()[:-20])
    with pytest.raises(HeadwayError, match="damaged"):
        load_heads(folder)


def rewrite(folder: Path, **changes: object) -> None:
    meta = DrafterMeta.model_validate_json((folder / META).read_text())
    (folder / META).write_text(meta.model_copy(update={"config": meta.config | changes}).model_dump_json())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"num_heads": 4}, "block_bias"),
        ({"draft_vocab_size": None}, "output"),
        ({"num_heads": 0}, "num_heads"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_weights_are_checked_against_the_settings(tmp_path: Path, change: dict[str, object], words: str) -> None:
    save_heads(tmp_path / "h", heads(), META_DATA)
    rewrite(tmp_path / "h", **change)
    with pytest.raises(HeadwayError, match=words):
        load_heads(tmp_path / "h")


def test_numbers_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    broken = heads()
    with torch.no_grad():
        broken.output[0, 0, 0] = float("nan")
    with pytest.raises(HeadwayError, match="output"):
        save_heads(tmp_path / "h", broken, META_DATA)


def test_a_token_map_outside_the_vocabulary_is_refused(tmp_path: Path) -> None:
    broken = heads()
    broken.token_map[0] = VOCAB
    save_heads(tmp_path / "h", broken, META_DATA)
    with pytest.raises(HeadwayError, match="token map"):
        load_heads(tmp_path / "h")


def test_other_folders_are_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "h").mkdir()
    (tmp_path / "h" / "thesis.txt").write_text("two years of work")
    with pytest.raises(HeadwayError, match="nothing is overwritten"):
        save_heads(tmp_path / "h", heads(), META_DATA)
    assert (tmp_path / "h" / "thesis.txt").read_text() == "two years of work"


@pytest.mark.parametrize("sampled", [False, True])
def test_drafting_never_asks_the_device(sampled: bool) -> None:
    drafter = MedusaDrafter("heads", HeadsForDrafting(heads()), product([3, 2, 2]), sampled)
    given = context(temperature=1.0)
    drafter.draft(given)  # the plan is laid out once
    with NoSync():
        drafter.draft(given)
