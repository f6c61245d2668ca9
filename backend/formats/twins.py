"""How each engine drafts, in plain torch: reads an exported folder as the engine does and nothing else of Headway's.

The slow reference that exports are held against. Every step runs the whole text again, without a cache. Knows the
engines' reading of config and tensors; knows no drafter of Headway.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from backend.formats.folder import read_published

DEFAULT_THETA = 10000.0  #: what a reader takes that finds no rope_theta


@dataclass(frozen=True)
class Text:
    """What is committed: tokens int64 [T], and the target's states at the T - 1 positions before the root.

    final: [T - 1, H], after the final norm. entering: layer -> its input, [T - 1, Ht]. num_layers: the target's.
    embedding, lm_head: [V, H], the target's.
    """

    tokens: Tensor
    final: Tensor
    entering: Callable[[int], Tensor]
    num_layers: int
    embedding: Tensor
    lm_head: Tensor


class Twin(Protocol):
    """One engine's drafting of one folder."""

    def chain(self, text: Text, depth: int) -> Tensor:
        """Scores of the tokens after the root, each step behind the likeliest token of the last: [depth, V], -inf for
        tokens that can't be drafted.
        """
        ...


def twin_of(folder: Path, engine: str) -> Twin:
    """The twin that reads `folder`."""
    found = read_published(folder)
    config, tensors = found.config, {name: one.float() for name, one in found.tensors.items()}
    names = tensors.keys()
    if "model.mtp_layers.0.input_proj.weight" in tensors:
        return Mimo(config, tensors, engine)
    if config.get("model_type") == "medusa":
        return _Medusa(config, tensors, found.tensors.get("token_map"))
    if any("hidden_norm" in name for name in names):
        return _Eagle3(config, tensors, engine)
    return _Eagle(config, tensors, engine)


class _Medusa:
    """vLLM's. All heads look at the state before the root, so later tokens do not depend on earlier ones."""

    def __init__(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor], token_map: Tensor | None) -> None:
        self.config, self.tensors, self.token_map = config, tensors, token_map

    def chain(self, text: Text, depth: int) -> Tensor:
        return torch.stack([self._scores(text.final[-1], head) for head in range(depth)])

    def _scores(self, state: Tensor, head: int) -> Tensor:
        biased = self.config.get("medusa_fc_bias", False)
        for block in range(self.config["num_hidden_layers"]):
            name = f"blocks.{head}.layers.{block}."
            product = self.tensors[name + "weight"] @ state
            state = state + functional.silu(product + self.tensors[name + "bias"] if biased else product)
        shared = self.config.get("original_lm_head", False)
        rows = self.tensors["lm_head.weight" if shared else f"lm_heads.{head}.weight"]
        whole = self.config["vocab_size"]
        if self.token_map is None or self.config.get("truncated_vocab_size", whole) >= whole:
            return rows @ state
        if len(rows) > len(self.token_map):
            rows = rows[self.token_map]
        return torch.full((whole,), float("-inf")).index_copy(0, self.token_map.long(), rows @ state)


class _Layered:
    """What EAGLE and EAGLE-3 share: pairs of a state and the token behind it go through one decoder layer."""

    prefix = "layers.0."

    def __init__(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor], engine: str) -> None:
        self.config, self.tensors, self.engine = config, tensors, engine

    def features(self, text: Text) -> Tensor:
        raise NotImplementedError

    def joined(self, words: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        raise NotImplementedError

    def scored(self, output: Tensor, text: Text) -> tuple[Tensor, Tensor]:
        """(scores over the vocabulary, the state that is handed on)."""
        raise NotImplementedError

    def chain(self, text: Text, depth: int) -> Tensor:
        words = self.tensors.get("embed_tokens.weight", text.embedding)
        features, tokens, found = self.features(text), text.tokens[1:], []
        for _ in range(depth):
            inputs, residual = self.joined(words[tokens], features)
            output = llama_layer(self.config, self.layer(), inputs, residual)[-1]
            scores, state = self.scored(output, text)
            found.append(scores)
            features = torch.cat([features, state[None]])
            tokens = torch.cat([tokens, scores.argmax()[None]])
        return torch.stack(found)

    def layer(self) -> dict[str, Tensor]:
        return {name.removeprefix(self.prefix): one for name, one in self.tensors.items() if self.prefix in name}


class _Eagle(_Layered):
    def features(self, text: Text) -> Tensor:
        return text.final

    def joined(self, words: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        bias = self.tensors["fc.bias"] if self.engine == "sglang" else None  # vLLM's fc has none
        state = functional.linear(torch.cat([words, features], dim=-1), self.tensors["fc.weight"], bias)
        return state, state

    def scored(self, output: Tensor, text: Text) -> tuple[Tensor, Tensor]:
        return text.lm_head @ output, output


class _Eagle3(_Layered):
    def __init__(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor], engine: str) -> None:
        layer = config.get("transformer_layer_config")
        self.speculators = layer is not None
        merged = {**config, **layer} if isinstance(layer, Mapping) else config
        super().__init__(merged, tensors, engine)
        self.prefix = "midlayer." if any(name.startswith("midlayer.") for name in tensors) else "layers.0."
        if engine == "sglang" and self.prefix != "midlayer.":
            raise KeyError("midlayer.")

    def option(self, name: str) -> bool:
        if self.engine == "sglang":
            return False  # the model file knows none of them
        usual = self.speculators and name == "norm_before_residual"
        return bool(self.config.get(name, usual))

    def layers_read(self, num_layers: int) -> list[int]:
        """Numbers of the layers whose input is captured."""
        inner = (self.config.get("eagle_config") or {}).get("eagle_aux_hidden_state_layer_ids")
        top = self.config.get("eagle_aux_hidden_state_layer_ids")
        usual = [2, num_layers // 2, num_layers - 3]
        if self.engine == "sglang":
            return [layer + 1 for layer in inner] if inner else usual
        return sorted(set(top or inner or usual))

    def features(self, text: Text) -> Tensor:
        parts = [text.entering(layer) for layer in self.layers_read(text.num_layers)]
        if self.option("fc_norm"):
            eps = self.config["rms_norm_eps"]
            parts = [norm(one, self.tensors[f"fc_norm.{i}.weight"], eps) for i, one in enumerate(parts)]
        states = torch.cat(parts, dim=-1)
        if self.option("norm_before_fc"):
            states = norm(states, self.tensors["input_norm.weight"], self.config["rms_norm_eps"])
        return states @ self.tensors["fc.weight"].T

    def joined(self, words: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        eps = self.config["rms_norm_eps"]
        normed = norm(features, self.tensors[self.prefix + "hidden_norm.weight"], eps)
        entered = norm(words, self.tensors[self.prefix + "input_layernorm.weight"], eps)
        return torch.cat([entered, normed], dim=-1), normed if self.option("norm_before_residual") else features

    def scored(self, output: Tensor, text: Text) -> tuple[Tensor, Tensor]:
        normed = norm(output, self.tensors["norm.weight"], self.config["rms_norm_eps"])
        scores = self.tensors["lm_head.weight"] @ normed
        if len(scores) < len(text.embedding):
            offsets = self.tensors["d2t"].long() if "d2t" in self.tensors else torch.zeros(len(scores)).long()
            ids = torch.arange(len(scores)) + offsets
            scores = torch.full((len(text.embedding),), float("-inf")).index_copy(0, ids, scores)
        return scores, normed if self.option("norm_output") else output


class Mimo(_Layered):
    """vLLM's MTP module of MiMo. `blank`: leave the token of the first place out, as vLLM does."""

    prefix = "model.mtp_layers.0."
    blank = True

    def features(self, text: Text) -> Tensor:
        return text.final

    def joined(self, words: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        eps = self.config["rms_norm_eps"]
        if self.blank:
            words = torch.cat([torch.zeros_like(words[:1]), words[1:]])
        parts = [
            norm(one, self.tensors[f"{self.prefix}{name}_layernorm.weight"], eps)
            for one, name in ((features, "hidden"), (words, "token"))
        ]
        state = torch.cat(parts, dim=-1) @ self.tensors[f"{self.prefix}input_proj.weight"].T
        return norm(state, self.tensors[f"{self.prefix}input_layernorm.weight"], eps), state

    def scored(self, output: Tensor, text: Text) -> tuple[Tensor, Tensor]:
        normed = norm(output, self.tensors[f"{self.prefix}final_layernorm.weight"], self.config["rms_norm_eps"])
        return text.lm_head @ normed, normed


def norm(values: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Root-mean-square norm."""
    return weight * values / (values.square().mean(-1, keepdim=True) + eps).sqrt()


def llama_layer(config: Mapping[str, Any], weights: Mapping[str, Tensor], inputs: Tensor, residual: Tensor) -> Tensor:
    """inputs [T, W] (already normed or joined), residual [T, H] -> [T, H]; causal, rotary positions from 0."""
    theta = config.get("rope_theta", DEFAULT_THETA)
    heads, kv = config["num_attention_heads"], config["num_key_value_heads"]

    def project(name: str, count: int) -> Tensor:
        made = inputs @ weights[f"self_attn.{name}_proj.weight"].T
        bias = weights.get(f"self_attn.{name}_proj.bias")
        return (made if bias is None else made + bias).view(len(inputs), count, -1).transpose(0, 1)  # [n, T, hd]

    query, key = rope(project("q", heads), theta), rope(project("k", kv), theta)
    value = project("v", kv).repeat_interleave(heads // kv, dim=0)
    scores = query @ key.repeat_interleave(heads // kv, dim=0).transpose(1, 2) / query.shape[-1] ** 0.5
    future = torch.ones(len(inputs), len(inputs), dtype=torch.bool).triu(1)
    mixed = scores.masked_fill(future, float("-inf")).softmax(-1) @ value
    state = residual + mixed.transpose(0, 1).flatten(1) @ weights["self_attn.o_proj.weight"].T
    inner = norm(state, weights["post_attention_layernorm.weight"], config["rms_norm_eps"])
    gate = functional.silu(inner @ weights["mlp.gate_proj.weight"].T)
    out: Tensor = state + (gate * (inner @ weights["mlp.up_proj.weight"].T)) @ weights["mlp.down_proj.weight"].T
    return out


def rope(heads: Tensor, theta: float) -> Tensor:
    """heads [n, T, hd] at positions 0.. -> rotated by halves."""
    half = heads.shape[-1] // 2
    angles = torch.arange(heads.shape[1])[:, None] * theta ** (-torch.arange(half) / half)  # [T, hd / 2]
    first, second = heads.split(half, dim=-1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)
