"""The whole recipe on a tiny random target: heads that overfit prove that labels, states and drafting agree about
positions.
"""

from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch

from backend.drafters.base import DraftContext
from backend.drafters.checkpoint import read_meta
from backend.drafters.learning import IGNORE
from backend.drafters.registry import load_drafter
from backend.errors import HeadwayError
from backend.targets.target import Target
from backend.training.config import TrainConfig
from backend.training.recipe import TrainRequest, train_drafter
from backend.training.split import split_held_out
from backend.trees import chain
from tests.drafters.stand_ins import tiny_target
from tests.training.stand_ins import Recorder
from tests.training.test_features import Pair


@dataclass
class Told(Recorder):
    """A recorder that also hears of captured features."""

    captures: list[tuple[int, int]] = field(default_factory=list)

    def captured(self, done: int, total: int) -> None:
        self.captures.append((done, total))


def greedy_answer(target: Target, prompt: list[int], count: int) -> Pair:
    text = list(prompt)
    for _ in range(count):
        ids = torch.tensor([text])
        hidden = target.hidden_states(ids, torch.ones_like(ids, dtype=torch.bool))
        text.append(int(target.logits(hidden[0, -1]).argmax()))
    return Pair(tuple(prompt), tuple(text[len(prompt) :]))


@pytest.fixture(scope="module")
def target() -> Target:
    return tiny_target("qwen3", 2)


@pytest.fixture(scope="module")
def answers(target: Target) -> list[Pair]:
    generator = torch.Generator().manual_seed(1)
    made: list[Pair] = []
    while len(made) < 8 or not split_held_out(made, 0.1)[1]:
        made.append(greedy_answer(target, torch.randint(0, 256, (6,), generator=generator).tolist(), 20))
    return made


REQUEST = TrainRequest(
    name="tiny heads",
    num_heads=3,
    draft_vocab_size=200,
    held_out_fraction=0.1,
    loop=TrainConfig(steps=250, batch_tokens=64, learning_rate=5e-3, checkpoint_every=50, evaluate_every=1000),
)


def test_overfitted_heads_draft_the_answers_they_learned(target: Target, answers: list[Pair], tmp_path: Path) -> None:
    reporter = Told()
    result = train_drafter(REQUEST, target, answers, tmp_path / "work", tmp_path / "heads", reporter)
    assert result.finish_reason == "done" and reporter.captures[0][0] == 0 and reporter.last("loss") < 1
    drafter = load_drafter(str(tmp_path / "heads"), target, chain(3))[0]
    right, all_of_them = torch.zeros(3), torch.zeros(3)
    for answer in split_held_out(answers, 0.1)[0]:
        ids = torch.tensor([[*answer.prompt_ids, *answer.answer_ids]])
        hidden = target.hidden_states(ids, torch.ones_like(ids, dtype=torch.bool))[0]
        for length in range(len(answer.prompt_ids) + 1, ids.shape[1]):  # the root is the last of `length` tokens
            lengths = torch.tensor([length])
            context = DraftContext(ids, lengths, hidden[length - 2 : length - 1], 0.0, torch.Generator(), 3)
            drafted = drafter.draft(context).tree.tokens[0, 1:]
            truth = torch.nn.functional.pad(ids[0, length : length + 3], (0, 3), value=IGNORE)[:3]
            right += drafted == truth
            all_of_them += truth != IGNORE
    assert (right / all_of_them >= 0.9).all(), right / all_of_them


def test_the_folder_says_where_it_came_from_and_what_it_reached(
    target: Target, answers: list[Pair], tmp_path: Path
) -> None:
    request = REQUEST.model_copy(update={"loop": REQUEST.loop.model_copy(update={"steps": 20}), "tree_nodes": 5})
    stop_now = iter([False] * 12)
    work = tmp_path / "work"
    stopped = train_drafter(request, target, answers, work, tmp_path / "h", Told(), lambda: next(stop_now, True))
    assert stopped.finish_reason == "stopped" and not (tmp_path / "h").exists()
    result = train_drafter(request, target, answers, work, tmp_path / "h", Told(), lineage={"note": "from a test"})
    meta = read_meta(tmp_path / "h")
    assert meta.version == target.identity.to_dict() and meta.lineage["note"] == "from a test"
    assert meta.numbers["steps"] == 20 and result.evaluation is not None
    assert meta.numbers["held_out_hits"] == result.evaluation.hits.tolist()
    assert 1.0 <= meta.numbers["expected_acceptance_length"] <= 4.0
    drafter, warnings = load_drafter(str(tmp_path / "h"), target)
    assert warnings == [] and drafter.shape.to_json() == (meta.tree or [[0], [0, 0], [0, 0, 0]])


def test_requests_that_can_not_work_are_refused(target: Target, answers: list[Pair], tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match="medusa"):
        train_drafter(REQUEST.model_copy(update={"family": "x"}), target, answers, tmp_path, tmp_path / "h", Told())
    with pytest.raises(HeadwayError, match="too few"):
        train_drafter(REQUEST, target, answers[:1], tmp_path, tmp_path / "h", Told())
