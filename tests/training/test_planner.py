"""What a training is said to take: counts that can be held against the real thing, and honesty about the rest."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from backend.data.answers import Answer, pack_answers
from backend.drafters.eagle.config import EagleSettings
from backend.drafters.eagle3.config import Eagle3Settings
from backend.drafters.layer.config import PairSettings
from backend.drafters.learning import FeatureBatch
from backend.drafters.medusa.config import MedusaConfig, MedusaSettings
from backend.drafters.medusa.model import MedusaHeads
from backend.drafters.medusa.train import MedusaLearner
from backend.drafters.recipe import recipe_of
from backend.drafters.sizes import sizes_of
from backend.errors import HeadwayError
from backend.jobs.configs import TrainJobConfig
from backend.targets.tiny import tiny_checkpoint
from backend.training.config import TrainConfig
from backend.training.features import _groups, _plan, capture
from backend.training.kept import weights_file
from backend.training.loop import train
from backend.training.plan_facts import answer_facts, folder_facts, target_facts
from backend.training.plan_given import AnswerFacts, Probe, Speed, TargetFacts
from backend.training.planner import BATCH_TOKENS, SHARD_POSITIONS, decides, feature_bytes, padded_tokens, plan
from backend.training.split import split_held_out
from backend.training.state import STATE
from backend.training.text_features import capture_texts
from tests.drafters.stand_ins import tiny_target
from tests.training.stand_ins import HIDDEN, VOCAB, MadeUpFeatures, Recorder, never

TARGET = TargetFacts("small", 64, 300, 3, 1_000_000, 900_000, 4, 1024)
ANSWERS = AnswerFacts(answers=500, positions=50_000, tokens=90_000, held_out_positions=2_500, held_out_tokens=4_000)
SPEED = Speed(read=1e9, learn=1e9)


def made_up(count: int, seed: int = 0, longest: int = 60) -> list[Answer]:
    rng = random.Random(seed)
    return [
        Answer(
            f"q{number}", "talk", tuple(rng.randrange(256) for _ in range(rng.randint(1, longest))),
            tuple(rng.randrange(256) for _ in range(rng.randint(1, longest))), 0.0, 0, "eos", False,
        )
        for number in range(count)
    ]  # fmt: skip


def config(**changes: object) -> TrainJobConfig:
    return TrainJobConfig.model_validate({"answers": "a.npz", "target": "small"} | changes)


def probed(made: TrainJobConfig, **changes: object) -> Probe:
    whole = Probe(
        target="small", device="cpu", settings=decides(made), hidden_size=64, vocab_size=300, load_s=2.0,
        capture_tokens_per_s=1000.0, step_s=0.5, evaluate_positions_per_s=5000.0, judge_step_s=0.02, draft_step_s=0.01,
        save_s=0.1, checkpoint_bytes=12_000_000, load_peak_bytes=9_000_000, target_bytes=8_000_000,
        capture_peak_bytes=50_000_000, train_peak_bytes=100_000_000,
    )  # fmt: skip
    return replace(whole, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "settings",
    [
        MedusaSettings(family="medusa", draft_vocab=0),
        MedusaSettings(family="medusa", num_heads=3, num_blocks=2, draft_vocab=20),
        MedusaSettings(family="medusa", shared_output=True, draft_vocab=500),
    ],
)
def test_parameters_are_counted_as_they_are(settings: MedusaSettings) -> None:
    vocab = min(settings.draft_vocab, VOCAB) or None
    heads = MedusaHeads(
        MedusaConfig(
            hidden_size=HIDDEN, vocab_size=VOCAB, num_heads=settings.num_heads, num_blocks=settings.num_blocks,
            shared_output=settings.shared_output, draft_vocab_size=vocab,
        )
    )  # fmt: skip
    assert sizes_of(settings, HIDDEN, VOCAB).parameters == sum(weight.numel() for weight in heads.parameters())


@pytest.mark.parametrize(
    "settings",
    [
        EagleSettings(draft_vocab=0),
        EagleSettings(draft_vocab=50),
        Eagle3Settings(draft_vocab=100),
        Eagle3Settings(draft_vocab=100, reads=(0, 1, 2), fc_norm=True),
    ],
)
def test_so_are_those_of_drafters_with_a_layer(settings: PairSettings) -> None:
    target = tiny_target()
    tokens = torch.arange(settings.draft_vocab) if settings.draft_vocab else None
    model = recipe_of(settings.family).new_learner(settings, target, tokens, None).model
    layer = target_facts("tiny-llama").layer
    counted = sizes_of(settings, target.hidden_size, target.vocab_size, layer).parameters
    if isinstance(settings, Eagle3Settings) and settings.reads is None:
        counted -= (3 - 2) * target.hidden_size**2  # so shallow a target has only two of the three layers to read
    assert counted == sum(weight.numel() for weight in model.parameters())


def test_whole_texts_take_the_bytes_and_steps_that_are_foretold(tmp_path: Path) -> None:
    target, answers = tiny_target(), made_up(60)
    store = capture_texts(target, answers, (1, 2), tmp_path / "features")
    written = sum(file.stat().st_size for file in (tmp_path / "features").iterdir())
    tokens = sum(len(a.prompt_ids) + len(a.answer_ids) for a in answers)
    facts = AnswerFacts(60, len(store), 0, 0, 0, tokens)
    settings = Eagle3Settings(reads=(1, 2))
    foretold = feature_bytes(replace(TARGET, hidden_size=target.hidden_size), facts, settings.states_a_token)
    assert foretold / 1.1 < written < foretold * 1.1
    seen, _ = facts.seen(settings)
    assert seen // 512 == pytest.approx(store.per_epoch(512), rel=0.35)


def test_a_family_without_sizes_is_said_so() -> None:
    with pytest.raises(ValueError, match="says nothing about its sizes"):
        sizes_of(MedusaSettings.model_construct(family="none"), 8, 8)


@pytest.mark.parametrize(("count", "longest"), [(40, 30), (900, 60)])
def test_padding_is_counted_as_a_capture_pads(count: int, longest: int) -> None:
    answers = made_up(count, longest=longest)
    real = 0
    for shard in _plan(answers, SHARD_POSITIONS):
        for group in _groups(shard, BATCH_TOKENS):
            longest_here = max(len(shard[i].prompt_ids) + len(shard[i].answer_ids) for i in group)
            real += len(group) * (longest_here - 1)
    assert padded_tokens([(len(a.prompt_ids), len(a.answer_ids)) for a in answers]) == real


def test_features_and_checkpoints_take_the_bytes_that_are_foretold(tmp_path: Path) -> None:
    target = tiny_target()
    answers = made_up(60)
    capture(target, answers, tmp_path / "features")
    written = sum(file.stat().st_size for file in (tmp_path / "features").iterdir())
    positions = sum(len(a.answer_ids) for a in answers)
    facts = replace(TARGET, hidden_size=target.hidden_size)
    foretold = feature_bytes(facts, AnswerFacts(60, positions, 0, 0, 0))
    assert foretold / 1.1 < written < foretold * 1.1

    settings = MedusaSettings(family="medusa", num_heads=2, draft_vocab=0)
    heads = MedusaHeads(MedusaConfig(hidden_size=200, vocab_size=VOCAB, num_heads=2, draft_vocab_size=None))
    features = _Wide(40)
    training = TrainConfig(steps=2, batch_tokens=8, decode_prompts=0)
    train(training, _Flat(heads), features, MadeUpFeatures(0), Recorder(), never, tmp_path / "run")
    made = config(drafter=settings.model_dump(), training=training.model_dump())
    said = plan(made, replace(TARGET, hidden_size=200, vocab_size=VOCAB), ANSWERS, None, SPEED).bytes_checkpoints
    written = sum(file.stat().st_size for file in (tmp_path / "run").iterdir())
    assert said / 1.1 < written < said * 1.1 and (tmp_path / "run" / weights_file(2)).is_file()
    lean = config(drafter=settings.model_dump(), training=training.model_dump() | {"kept_checkpoints": 0})
    said = plan(lean, replace(TARGET, hidden_size=200, vocab_size=VOCAB), ANSWERS, None, SPEED).bytes_checkpoints
    assert said / 1.1 < (tmp_path / "run" / STATE).stat().st_size < said * 1.1


class _Wide(MadeUpFeatures):
    """States of width 200 and nothing to learn from them; only sizes matter here."""

    def batch(self, positions: Tensor, horizon: int) -> FeatureBatch:
        return FeatureBatch(torch.ones(len(positions), 200), torch.zeros(len(positions), horizon, dtype=torch.int64))


class _Flat(MedusaLearner):
    def loss(self, batch):  # type: ignore[no-untyped-def]
        states = self.heads(batch.hidden)
        loss = (states**2).mean()
        return loss, loss.detach().expand(len(states))


def test_without_a_probe_all_is_an_estimate_and_said_so() -> None:
    found = plan(config(), TARGET, ANSWERS, None, SPEED)
    assert not found.measured and not any(phase.measured for phase in found.phases)
    assert "estimate" in found.notes[0] and found.minutes > 0 and found.peak_memory_bytes > 4_000_000
    twice = plan(config(training={"epochs": 4.0}), TARGET, ANSWERS, None, SPEED)
    learn = {phase.name: phase.seconds for phase in found.phases}["learn"]
    assert twice.steps == 2 * found.steps
    assert {phase.name: phase.seconds for phase in twice.phases}["learn"] == pytest.approx(2 * learn)


def test_a_probe_of_the_same_settings_is_taken_as_it_is() -> None:
    made = config()
    found = plan(made, TARGET, ANSWERS, probed(made), SPEED)
    parts = {phase.name: phase.seconds for phase in found.phases}
    assert found.measured and all(phase.measured for phase in found.phases) and found.notes == ()
    assert parts["load the target"] == 2 and parts["read the answers"] == 94.0
    assert parts["learn"] == pytest.approx(0.5 * found.steps)
    assert found.minutes == pytest.approx(sum(parts.values()) / 60)
    mapped = feature_bytes(TARGET, ANSWERS)
    assert probed(made).capture_peak_bytes > BATCH_TOKENS * 4 * (2 * 3 + 20) * 64  # what was measured counts
    assert found.peak_memory_bytes == max(
        9_000_000, 58_000_000 + 2 * 2 * SHARD_POSITIONS * 64, 8_000_000 + 100_000_000 + mapped
    )
    assert found.bytes_checkpoints == 12_000_000 + 2 * 4 * found.parameters  # the best weights, and one checkpoint's


def test_a_probe_of_other_settings_is_scaled_by_the_work_of_a_step() -> None:
    made = config()
    other = config(training={"batch_tokens": 2048})
    found = plan(other, TARGET, ANSWERS, probed(made), SPEED)
    assert not found.measured and "scaled" in found.notes[0]
    parts = {phase.name: (phase.seconds, phase.measured) for phase in found.phases}
    assert parts["learn"] == (pytest.approx(2 * 0.5 * found.steps), False)
    assert parts["read the answers"] == (94.0, True)
    elsewhere = plan(made, replace(TARGET, name="other"), ANSWERS, probed(made), SPEED)
    assert not any(phase.measured for phase in elsewhere.phases)


def test_what_would_not_work_is_said() -> None:
    few = replace(ANSWERS, positions=100, held_out_positions=0)
    notes = " ".join(plan(config(), TARGET, few, None, SPEED).notes)
    assert "it would not start" in notes and "nothing will be measured" in notes


def test_a_given_tree_costs_no_time_and_none_decoded_no_evaluation() -> None:
    names = [phase.name for phase in plan(config(tree_nodes=4), TARGET, ANSWERS, None, SPEED).phases]
    assert "choose the tree" not in names
    without = config(training={"decode_prompts": 0})
    assert plan(without, TARGET, ANSWERS, None, SPEED).minutes < plan(config(), TARGET, ANSWERS, None, SPEED).minutes


def test_a_probe_keeps_in_json_and_of_another_version_it_is_refused() -> None:
    found = probed(config())
    assert Probe.from_json(found.to_json()) == found
    with pytest.raises(ValueError, match="not a probe"):
        Probe.from_json({"step_s": 1.0})


def test_facts_of_answers_follow_the_split(tmp_path: Path) -> None:
    answers = made_up(80)
    pack_answers(answers, tmp_path / "a.npz")
    facts = answer_facts(tmp_path / "a.npz", 0.2, 10_000)
    trained, held = split_held_out(answers, 0.2)
    assert facts.positions == sum(len(a.answer_ids) for a in trained)
    assert facts.held_out_positions == sum(len(a.answer_ids) for a in held)
    assert facts.tokens >= facts.positions and facts.answers == 80
    assert answer_facts(tmp_path / "a.npz", 0.2, 30).answers < 80
    with pytest.raises(HeadwayError, match="There is no file"):
        answer_facts(tmp_path / "gone.npz", 0.2, 30)


def test_facts_of_targets_come_from_their_headers(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "llama")
    facts = folder_facts("llama", folder)
    assert (facts.hidden_size, facts.vocab_size, facts.num_layers, facts.max_context) == (64, 260, 3, 1024)
    assert facts.read_weights == facts.num_weights - 2 * 64 * 260
    assert target_facts(str(folder)) == replace(facts, name=str(folder))
    assert target_facts("tiny-llama").hidden_size == 64
    (tmp_path / "broken.gguf").write_bytes(b"GGUF\x03\x00\x00\x00and no more")
    with pytest.raises(HeadwayError, match="damaged"):
        target_facts(str(tmp_path / "broken.gguf"))
