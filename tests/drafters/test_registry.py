"""From the word a person typed to a drafter, and every way in which that word can be wrong."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from backend.drafters.base import Drafter
from backend.drafters.checkpoint import META, DrafterMeta
from backend.drafters.medusa.checkpoint import save_heads
from backend.drafters.medusa.config import MedusaConfig
from backend.drafters.medusa.model import MedusaHeads
from backend.drafters.registry import load_drafter
from backend.errors import HeadwayError, MismatchError
from backend.targets.target import Target
from backend.trees import TreeShape, chain, product
from tests.drafters.stand_ins import context_of, tiny_target


@pytest.fixture(scope="module")
def target() -> Target:
    return tiny_target()


@pytest.fixture
def folder(target: Target, tmp_path: Path) -> Path:
    return write_heads(target, tmp_path / "heads")


def write_heads(target: Target, folder: Path, hidden_size: int = 64, tree: tuple[tuple[int, ...], ...] = ()) -> Path:
    heads = MedusaHeads(MedusaConfig(hidden_size=hidden_size, vocab_size=260, num_heads=3, draft_vocab_size=50))
    version = target.identity.to_dict()
    meta = DrafterMeta(family="medusa", name="my heads", config={}, version=version, tree=[list(path) for path in tree])
    save_heads(folder, heads, meta)
    return folder


def test_names_of_drafters_that_need_no_training(target: Target) -> None:
    assert load_drafter("none", target)[0].family == "none"
    assert load_drafter(" ngram ", target, chain(5))[0].shape == chain(5)
    with pytest.raises(HeadwayError, match="no tree"):
        load_drafter("none", target, chain(2))


def test_a_draft_model_is_opened_by_whoever_owns_the_device(target: Target) -> None:
    asked: list[str] = []

    def opener(name: str) -> Target:
        asked.append(name)
        return tiny_target(seed=4)

    drafter, _ = load_drafter("draft:small one", target, product([2, 2]), open_target=opener, sampled=True)
    assert asked == ["small one"] and drafter.shape == product([2, 2]) and drafter.sampled
    with pytest.raises(HeadwayError, match="Name the draft model"):
        load_drafter("draft: ", target, open_target=opener)


def test_heads_load_with_their_own_tree_or_another(target: Target, tmp_path: Path, folder: Path) -> None:
    drafter, warnings = load_drafter(str(folder), target)
    assert (drafter.name, drafter.shape, warnings) == ("my heads", chain(3), [])
    stored = ((0,), (1,), (1, 0))
    own, _ = load_drafter(str(write_heads(target, tmp_path / "other", tree=stored)), target)
    assert own.shape == TreeShape(stored)
    assert load_drafter(str(folder), target, product([4, 2]))[0].shape == product([4, 2])


@pytest.mark.parametrize("spec", ["", "medusa", "/no/such/folder"])
def test_unknown_words_are_refused_with_what_is_known(target: Target, spec: str) -> None:
    with pytest.raises(HeadwayError, match="builtin-medusa"):
        load_drafter(spec, target)


def test_heads_of_another_version_are_refused_unless_forced(target: Target, folder: Path) -> None:
    other = tiny_target()
    other.identity = replace(target.identity, weights_id="fine-tuned", name="my fine-tune")
    with pytest.raises(MismatchError, match=r"tiny-llama-0.*my fine-tune.*weights"):
        load_drafter(str(folder), other)
    drafter, warnings = load_drafter(str(folder), other, force=True)
    assert drafter.family == "medusa" and len(warnings) == 1


def test_heads_of_another_size_are_refused_even_when_forced(target: Target, tmp_path: Path) -> None:
    folder = write_heads(target, tmp_path / "wide", hidden_size=32)
    with pytest.raises(MismatchError, match="hidden size 32"):
        load_drafter(str(folder), target, force=True)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"family": "oracle"}, "oracle"),
        ({"version": {"weights_id": "a"}}, "which target"),
        ({"format": 2}, "another version"),
    ],
)
def test_foreign_folders_are_refused(target: Target, folder: Path, change: dict[str, object], words: str) -> None:
    meta = DrafterMeta.model_validate_json((folder / META).read_text())
    (folder / META).write_text(meta.model_copy(update=change).model_dump_json())
    with pytest.raises(HeadwayError, match=words):
        load_drafter(str(folder), target)


BUILDERS: dict[str, Callable[[Target, Path], Drafter]] = {
    "none": lambda target, folder: load_drafter("none", target)[0],
    "ngram": lambda target, folder: load_drafter("ngram", target)[0],
    "medusa": lambda target, folder: load_drafter(str(folder), target)[0],
    "draft_model": lambda target, folder: load_drafter("draft:x", target, open_target=lambda *_: tiny_target(seed=3))[
        0
    ],
}


@pytest.mark.parametrize("family", BUILDERS)
def test_every_drafter_keeps_the_contract(family: str, target: Target, folder: Path) -> None:
    drafter = BUILDERS[family](target, folder)
    assert drafter.family == family
    drafter.start(3, 40)
    drafter.replace_rows([0, 1, 2])
    texts = [[1, 2, 1, 2, 1], [3], [4, 5, 6]]
    for depth in (0, 1, 8):
        draft = drafter.draft(context_of(texts, max_depth=depth))
        tree = draft.tree
        assert tree.tokens[:, 0].tolist() == [text[-1] for text in texts]
        assert tree.max_depth <= min(depth, drafter.shape.max_depth)
        assert draft.draft_prob.shape == tree.tokens.shape and draft.draft_prob[:, 0].isnan().all()
        assert int(tree.tokens.min()) >= 0 and int(tree.tokens.max()) < target.vocab_size
        columns = torch.arange(tree.width)
        parents = tree.parents.expand(tree.batch, -1)
        assert (parents < columns).all() and ((parents >= 0) == (tree.real & (columns > 0))).all()
