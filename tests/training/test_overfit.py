"""From a tiny target's answers to drafting: heads that overfit prove that labels, states and drafting agree on
positions.
"""

from pathlib import Path

import pytest
import torch

from backend.drafters.base import DraftContext
from backend.drafters.checkpoint import DrafterMeta
from backend.drafters.learning import IGNORE
from backend.drafters.medusa.checkpoint import save_heads
from backend.drafters.medusa.config import MedusaConfig
from backend.drafters.medusa.model import MedusaHeads
from backend.drafters.medusa.train import MedusaLearner
from backend.drafters.registry import load_drafter
from backend.targets.target import Target
from backend.training.config import TrainConfig
from backend.training.features import capture
from backend.training.loop import train
from backend.training.token_map import choose_tokens
from backend.trees import chain
from tests.drafters.stand_ins import tiny_target
from tests.training.stand_ins import Recorder, never
from tests.training.test_features import Pair

HEADS = 3
CONFIG = TrainConfig(steps=250, batch_tokens=64, learning_rate=5e-3, checkpoint_every=1000, evaluate_every=1000)


def greedy_answer(target: Target, prompt: list[int], count: int) -> Pair:
    text = list(prompt)
    for _ in range(count):
        ids = torch.tensor([text])
        hidden = target.hidden_states(ids, torch.ones_like(ids, dtype=torch.bool))
        text.append(int(target.logits(hidden[0, -1]).argmax()))
    return Pair(tuple(prompt), tuple(text[len(prompt) :]))


def hits_when_drafting(target: Target, folder: Path, answers: list[Pair]) -> torch.Tensor:
    """Share of positions at which each head's best token is the one that the answer has there: float [HEADS]."""
    drafter = load_drafter(str(folder), target, chain(HEADS))[0]
    right, all_of_them = torch.zeros(HEADS), torch.zeros(HEADS)
    for answer in answers:
        ids = torch.tensor([[*answer.prompt_ids, *answer.answer_ids]])
        hidden = target.hidden_states(ids, torch.ones_like(ids, dtype=torch.bool))[0]
        for length in range(len(answer.prompt_ids) + 1, ids.shape[1]):  # the root is the last of `length` tokens
            state = hidden[length - 2 : length - 1]
            context = DraftContext(ids, torch.tensor([length]), state, 0.0, torch.Generator(), HEADS)
            drafted = drafter.draft(context).tree.tokens[0, 1:]
            truth = torch.nn.functional.pad(ids[0, length : length + HEADS], (0, HEADS), value=IGNORE)[:HEADS]
            right += drafted == truth
            all_of_them += truth != IGNORE
    return right / all_of_them


@pytest.mark.parametrize("shared", [False, True])
def test_overfitted_heads_draft_the_answers_they_learned(tmp_path: Path, shared: bool) -> None:
    target = tiny_target("qwen3", 2)
    prompts = torch.randint(0, 256, (8, 6), generator=torch.Generator().manual_seed(1)).tolist()
    answers = [greedy_answer(target, prompt, 20) for prompt in prompts]
    tokens, covered = choose_tokens(answers, target.vocab_size, 200)
    assert covered == 1.0
    heads = MedusaHeads(
        MedusaConfig(hidden_size=64, vocab_size=260, num_heads=HEADS, draft_vocab_size=200, shared_output=shared)
    )
    heads.initialise(target.lm_head_weight(), tokens)
    features = capture(target, answers, tmp_path / "features")
    result = train(CONFIG, MedusaLearner(heads), features, features, Recorder(), never, tmp_path / "run")
    assert result.evaluation is not None
    in_training = [rates[0] for rates in result.evaluation.hit_rates()]
    assert min(in_training) >= 0.9, in_training
    meta = DrafterMeta(family="medusa", name="overfitted", config={}, version=target.identity.to_dict())
    save_heads(tmp_path / "heads", heads, meta, torch.float16)
    drafted = hits_when_drafting(target, tmp_path / "heads", answers)
    assert (drafted >= 0.9).all(), drafted
