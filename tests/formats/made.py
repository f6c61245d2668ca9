"""Drafters with random weights in every number, and what they draft; for export, import and check."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from backend.drafters.base import DraftContext
from backend.drafters.checkpoint import DrafterMeta, write_model
from backend.drafters.eagle.config import EagleConfig
from backend.drafters.eagle.model import EagleHead
from backend.drafters.eagle3.config import Eagle3Config
from backend.drafters.eagle3.model import Eagle3Head
from backend.drafters.hydra.config import HydraConfig
from backend.drafters.hydra.model import HydraHeads
from backend.drafters.layer.drafting import PairDrafter, _Growth
from backend.drafters.layer.pair_model import PairModel
from backend.drafters.layer.starting import layer_like
from backend.drafters.medusa.config import MedusaConfig
from backend.drafters.medusa.model import MedusaHeads
from backend.drafters.mtp.config import MtpConfig
from backend.drafters.mtp.model import MtpModel
from backend.formats.facts import TargetFacts, facts_of
from backend.formats.own import Own, read_own
from backend.formats.twins import Text
from backend.targets.loading import LoadedModel
from backend.targets.memory import estimate_model
from backend.targets.sources import SourceKind, TargetSource
from backend.targets.target import FINAL, Target
from backend.targets.tiny import tiny_model, tiny_tokenizer
from backend.trees import chain, product
from tests.drafters.stand_ins import tiny_target

LAYERS = 8  #: enough that the usual layers 2, L // 2 and L - 3 differ
DRAFTED = 60


@cache
def target() -> Target:
    return tiny_target("llama", 5, num_hidden_layers=LAYERS)


@cache
def facts() -> TargetFacts:
    return facts_of(target())


def some_tokens(count: int = DRAFTED, seed: int = 1) -> Tensor:
    """Tokens in no order, as a map by frequency is."""
    return torch.randperm(target().vocab_size, generator=torch.Generator().manual_seed(seed))[:count]


@torch.no_grad()
def scattered(model: nn.Module, seed: int = 3) -> nn.Module:
    """Every parameter random; norms near one."""
    generator = torch.Generator().manual_seed(seed)
    for name, weight in sorted(model.named_parameters()):
        drawn = torch.randn(weight.shape, generator=generator)
        is_norm = weight.dim() == 1 and "norm" in name
        small = 0.2 * drawn if weight.dim() == 1 else drawn * weight.shape[-1] ** -0.5
        weight.copy_(1 + small if is_norm else small)
    return model


def medusa(shared: bool = True, vocabulary: int | None = DRAFTED, heads: int = 3, blocks: int = 2) -> MedusaHeads:
    size = target().vocab_size
    model = MedusaHeads(
        MedusaConfig(
            hidden_size=64, vocab_size=size, num_heads=heads, num_blocks=blocks, shared_output=shared,
            draft_vocab_size=vocabulary,
        )
    )  # fmt: skip
    scattered(model)
    if vocabulary is not None:
        model.token_map.copy_(some_tokens(vocabulary))
    return model


def eagle(vocabulary: int | None = DRAFTED, fc_bias: bool = False) -> EagleHead:
    layer, size = layer_like(target()), target().vocab_size
    config = EagleConfig(layer=layer, vocab_size=size, draft_vocab_size=vocabulary, fc_bias=fc_bias)
    model = EagleHead(config)
    scattered(model)
    if vocabulary is not None:
        model.token_map.copy_(some_tokens(vocabulary))
    return model


def eagle3(vocabulary: int = DRAFTED, reads: tuple[int, ...] = (2, 4, 5), **norms: bool) -> Eagle3Head:
    config = Eagle3Config(
        layer=layer_like(target()), target_hidden_size=64, vocab_size=target().vocab_size,
        draft_vocab_size=vocabulary, reads=reads, **norms,
    )  # fmt: skip
    model = Eagle3Head(config)
    scattered(model)
    model.token_map.copy_(some_tokens(vocabulary))
    if not (config.fc_norm or config.norm_before_fc):
        model.state_scale.copy_(torch.tensor([0.5, 0.25, 0.125, 2.0][: len(reads)]))
    return model


def hydra(shared: bool = True, vocabulary: int | None = DRAFTED, blocks: int = 1, prefixed: bool = False) -> HydraHeads:
    config = HydraConfig(
        hidden_size=64, vocab_size=target().vocab_size, num_heads=3, num_blocks=blocks, shared_output=shared,
        draft_vocab_size=vocabulary, prefix=layer_like(target()) if prefixed else None,
    )  # fmt: skip
    model = HydraHeads(config)
    scattered(model)
    if vocabulary is not None:
        model.token_map.copy_(some_tokens(vocabulary))
    return model


def mtp(vocabulary: int | None = None, order: str = "embedding_first", recycle_normed: bool = True) -> MtpModel:
    config = MtpConfig(
        layer=layer_like(target()), vocab_size=target().vocab_size, draft_vocab_size=vocabulary, order=order,
        recycle_normed=recycle_normed,
    )  # fmt: skip
    model = MtpModel(config)
    scattered(model)
    return model


def loaded() -> LoadedModel:
    """The target as it is loaded, with weights that are not packed."""
    model = tiny_model("llama", 5, num_hidden_layers=LAYERS)
    source = TargetSource("tiny", SourceKind.TINY)
    memory = estimate_model(model, model.config, torch.float32)
    return LoadedModel(model, tiny_tokenizer(), source, torch.device("cpu"), torch.float32, None, memory)


def stored(folder: Path, family: str, model: Any, tree: list[list[int]] | None = None) -> Path:
    """Write the drafter as training does."""
    version = target().identity.to_dict()
    shape = product([2, 2, 1]).to_json() if tree is None else tree
    meta = DrafterMeta(family=family, name=f"my {family}", config={}, version=version, tree=shape)
    write_model(folder, family, model.config, model, meta, torch.float32)
    return folder


def heads_for(folder: Path, opened: Target) -> Path:
    """Two Medusa heads with random weights for this target, as training leaves them."""
    heads = MedusaHeads(
        MedusaConfig(hidden_size=opened.hidden_size, vocab_size=opened.vocab_size, num_heads=2, draft_vocab_size=None)
    )
    scattered(heads)
    meta = DrafterMeta(family="medusa", name="m", config={}, version=opened.identity.to_dict(), tree=[[0], [0, 0]])
    write_model(folder, "medusa", heads.config, heads, meta, torch.float32)
    return folder


def own(folder: Path, family: str, model: Any) -> Own:
    return read_own(stored(folder, family, model))


@cache
def text(length: int = 12, seed: int = 2) -> Text:
    """Random tokens with the target's states at all positions but the last."""
    tokens = torch.randint(0, 250, (length,), generator=torch.Generator().manual_seed(seed))
    ids = tokens[None]
    mask = torch.ones_like(ids, dtype=torch.bool)
    layers = tuple(range(LAYERS + 1))
    states = target().hidden_states(ids, mask, layers)[0].clone().unflatten(-1, (len(layers), -1))
    final = target().hidden_states(ids, mask, (FINAL,))[0].clone()
    return Text(tokens, final[:-1], lambda layer: states[:-1, layer], LAYERS, facts().embedding, facts().lm_head)


def hold(model: PairModel) -> PairModel:
    """With what a drafter takes from the target."""
    if isinstance(model, EagleHead | MtpModel):
        model.hold_target(target())
    else:
        model.hold_embedding(facts().embedding)
    return model


@torch.no_grad()
def pair_chain(family: str, model: PairModel, said: Text, depth: int) -> Tensor:
    """What Headway's own drafting scores along its likeliest chain: [depth, V], -inf for what it can't draft."""
    drafter = PairDrafter(family, family, hold(model), chain(depth))
    ids, length = said.tokens[None], len(said.tokens)
    read = [said.final if layer == FINAL else said.entering(layer) for layer in drafter.reads]
    states = torch.cat(read, dim=-1)
    drafter.start(1, length + depth + 4)
    drafter.read_prompt(0, ids[0], states)
    context = DraftContext(
        ids, torch.tensor([length]), said.final[-1:], 0.0, torch.Generator(), depth, [length], states[None, -1:],
        torch.tensor([1]),
    )  # fmt: skip
    growth = _Growth(drafter.model, *drafter._read_fresh(context))
    found = [spread(drafter.model.scores(growth.outputs)[0, 0], model.token_map)]
    for step in range(depth - 1):
        token = found[-1].argmax()[None, None]
        found.append(spread(growth.extend(token, torch.tensor([[step]]))[0, 0], model.token_map))
    return torch.stack(found)


def spread(scores: Tensor, token_map: Tensor) -> Tensor:
    """Scores of draft tokens [.., Vd] by target token [.., V]."""
    whole = torch.full((*scores.shape[:-1], target().vocab_size), float("-inf"))
    return whole.index_copy(-1, token_map, scores)
