"""The target: a causal language model that can read prompts, verify trees and be tapped.

Wraps a transformers model without changing its class. It knows how to run the model over a tree and what the model's
pieces are called; it does not know drafters, acceptance rules or sampling, nor where the model came from (see
loading.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from backend.errors import HeadwayError
from backend.targets import attention, tree_pass
from backend.targets.identity import VersionIdentity
from backend.targets.kv_cache import KVCache
from backend.targets.norms import shorten_norms
from backend.targets.packed_linear import PackedFrom, pack_model
from backend.targets.tree_pass import MaskInputs, PassOutput
from backend.trees import DraftTree

FINAL = -1  #: in a list of layers to read: the last hidden state, after the final norm
PREFILL_CHUNK = 512  #: prompt tokens a pass; bounds the memory of long prompts


@dataclass
class Taps:
    """Hidden states taken while a pass ran: layer number i -> [B, M, H], the state *entering* layer i.

    For i < num_layers that is transformers' hidden_states[i]. Number num_layers is the state leaving the last layer,
    before the final norm, while transformers' last entry is after it.
    """

    states: dict[int, Tensor] = field(default_factory=dict)


class Target:
    """One frozen model with its tokenizer.

    Attributes: model, tokenizer, config, device, dtype, identity, name, hidden_size, vocab_size, num_layers,
    num_parameters, eos_token_ids (frozenset), max_context (tokens a sequence may have, prompt included).
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        identity: VersionIdentity,
        name: str,
        pack: bool = True,
        packed_from: PackedFrom | None = None,
    ) -> None:
        """`pack`: make the model ready for few rows (matrices, norms); `packed_from`: see kernels.py."""
        self.model, self.tokenizer, self.identity, self.name = model.eval(), tokenizer, identity, name
        self.model.requires_grad_(False)
        self.config = model.config.get_text_config(decoder=True)
        self.device = next(model.parameters()).device
        self.dtype = next(model.parameters()).dtype
        self.attention = attention.install(model)
        self._head: nn.Module = model.get_output_embeddings()
        self._embedding: nn.Module = model.get_input_embeddings()
        self._head_weight: Tensor = self._head.weight.detach()
        self._base = model.base_model
        self.hidden_size = int(self._head_weight.shape[1])
        self.vocab_size = int(self._head_weight.shape[0])
        self._blocks = _decoder_layers(model, self.config)
        self.num_layers = len(self._blocks)
        self.eos_token_ids = _eos_ids(model, tokenizer)
        self.max_context = _max_context(self.config)
        self._windows = _layer_windows(self.config)
        self.num_parameters = sum(weight.numel() for weight in model.parameters())  # shared weights count once
        #: Columns that a pass of a single row has at least. More than 1 where a slightly wider pass is faster than the
        #: narrowest, as with oneDNN on some processors; see opening.py, which measures it.
        self.min_width = 1
        self.packed_from = packed_from  #: for drafters, whose matrices go through the same kernels
        if pack:
            pack_model(model, packed_from)
            shorten_norms(model)
            self._head = model.get_output_embeddings()

    # -- weights that drafters start from ------------------------------------------------------------------------------

    def lm_head_weight(self) -> Tensor:
        """[V, H], the unpacked weight of the output head."""
        return self._head_weight

    def embedding_weight(self) -> Tensor:
        """[V, H], the input embedding."""
        weight: Tensor = self._embedding.weight.detach()  # type: ignore[operator]
        return weight

    # -- running the model ---------------------------------------------------------------------------------------------

    def new_cache(self, rows: int, capacity: int) -> KVCache:
        """Room for `rows` sequences of at most `capacity` entries each, the columns of a tree in verification included.

        Positions are the caller's care: no token may stand at `max_context` or past it.
        """
        return KVCache(self.num_layers, rows, capacity + self.min_width - 1, self.device)

    @torch.inference_mode()
    def logits(self, hidden: Tensor) -> Tensor:
        """[..., H] after the final norm -> [..., V], with the family's scale and soft-cap."""
        logits: Tensor = self._head(hidden)
        if (scale := getattr(self.config, "logit_scale", None)) is not None:  # Cohere
            logits = logits * scale
        if (scaling := getattr(self.config, "logits_scaling", None)) is not None:  # Granite
            logits = logits / scaling
        if (cap := getattr(self.config, "final_logit_softcapping", None)) is not None:  # Gemma 2, 3
            logits = cap * torch.tanh(logits / cap)
        return logits

    @torch.inference_mode()
    def tree_pass(
        self, cache: KVCache, tree: DraftTree, rows: slice | None = None, layers: Sequence[int] = ()
    ) -> PassOutput:
        """Verify: run the N + 1 columns of every row's tree behind the row's committed part.

        The cache holds the columns' keys and values afterwards but does not count them; see `commit`. `layers`: whose
        states to give beside (see `tapped`; FINAL for the last hidden state).
        """
        rows = rows or slice(0, tree.batch)
        wide = tree.padded(self.min_width) if tree.batch == 1 else tree
        cache.open_window(rows, wide.width)
        inputs = tree_pass.mask_inputs(wide, cache.lengths_on_device(rows), cache.window.filled)
        hidden, states = self._run_tapped(wide.tokens, inputs, cache, layers)
        kept = None if states is None else states[:, : tree.width]
        return PassOutput(hidden[:, : tree.width], self.logits(hidden)[:, : tree.width], kept)

    @torch.inference_mode()
    def prefill(self, cache: KVCache, row: int, prompt: Sequence[int]) -> Tensor:
        """Read a prompt into an empty row, in chunks; returns the last position's hidden state [1, H]."""
        return self.prefill_with_states(cache, row, prompt, ())[0]

    @torch.inference_mode()
    def prefill_with_states(
        self, cache: KVCache, row: int, prompt: Sequence[int], layers: Sequence[int]
    ) -> tuple[Tensor, Tensor | None]:
        """`prefill`, and the states of `layers` at every position of the prompt: ([1, H], [P, F] or None)."""
        rows = slice(row, row + 1)
        ids = torch.tensor([list(prompt)], device=self.device)
        hidden, found = torch.empty(0), []
        for start in range(0, len(prompt), PREFILL_CHUNK):
            chunk = ids[:, start : start + PREFILL_CHUNK]
            cache.open_window(rows, chunk.shape[1])
            inputs = tree_pass.chunk_inputs(cache.lengths[row], chunk.shape[1], self.device)
            hidden, states = self._run_tapped(chunk, inputs, cache, layers)
            cache.advance(rows, [chunk.shape[1]])
            if states is not None:
                found.append(states[0])
        return hidden[:, -1], torch.cat(found) if found else None

    @torch.inference_mode()
    def hidden_states(self, ids: Tensor, mask: Tensor, layers: Sequence[int] = (FINAL,)) -> Tensor:
        """Teacher-forced pass over right-padded rows, nothing kept: ids int64 [B, T], mask bool [B, T] -> the states
        of `layers` side by side, [B, T, F]; by default the last hidden state, [B, T, H].
        """
        batch, width = ids.shape
        cache = KVCache(self.num_layers, batch, width, self.device)
        cache.open_window(slice(0, batch), width)
        inputs = tree_pass.chunk_inputs(0, width, self.device)
        _, states = self._run_tapped(ids, inputs, cache, layers)
        assert states is not None, "layers names at least one"
        return states * mask[..., None]

    @torch.inference_mode()
    def plain_logits(self, prompt: Sequence[int], tokens: Sequence[int]) -> Tensor:
        """[n, V]: what the model itself says of each of `tokens` after its prefix, in one plain pass over the whole
        text: no cache, tree or mask of ours, so that decoding can be held against it.
        """
        ids = torch.tensor([[*prompt, *tokens]], device=self.device)
        hidden = self._base(input_ids=ids, use_cache=False).last_hidden_state
        return self.logits(hidden[0, len(prompt) - 1 : -1])

    def _run_tapped(
        self, tokens: Tensor, inputs: MaskInputs, cache: KVCache, layers: Sequence[int]
    ) -> tuple[Tensor, Tensor | None]:
        """(last hidden state [B, M, H], the states of `layers` side by side [B, M, F] or None)."""
        if not layers:
            return self._run(tokens, inputs, cache), None
        with self.tapped([layer for layer in layers if layer != FINAL]) as taps:
            hidden = self._run(tokens, inputs, cache)
        return hidden, torch.cat([hidden if layer == FINAL else taps.states[layer] for layer in layers], dim=-1)

    def _run(self, tokens: Tensor, inputs: MaskInputs, cache: KVCache) -> Tensor:
        masks: dict[int | None, Tensor] = {}
        for window in set(self._windows.values()):
            masks[window] = tree_pass.additive(tree_pass.visible(inputs, window), self.dtype)
        by_kind = {kind: masks[window] for kind, window in self._windows.items()}
        mask = by_kind if len(by_kind) > 1 else next(iter(by_kind.values()))
        position_ids = tree_pass.positions(inputs).expand(tokens.shape)
        out = self._base(
            input_ids=tokens,
            attention_mask=mask,
            position_ids=position_ids,
            past_key_values=cache.for_model,
            use_cache=True,
        )
        return out.last_hidden_state  # type: ignore[no-any-return]

    # -- taps ----------------------------------------------------------------------------------------------------------

    @contextmanager
    def tapped(self, layers: Sequence[int]) -> Iterator[Taps]:
        """While open, every pass leaves the states entering these layers in the returned `Taps`; no others are kept.

        Layer numbers count from 0; num_layers stands for the output of the last layer, before the final norm.
        """
        for layer in layers:
            if not 0 <= layer <= self.num_layers:
                raise HeadwayError(f"Layer {layer} does not exist: {self.name} has layers 0 to {self.num_layers}.")
        taps = Taps()
        handles = [self._tap(layer, taps) for layer in layers]
        try:
            yield taps
        finally:
            for handle in handles:
                handle.remove()

    def _tap(self, layer: int, taps: Taps) -> Any:
        if layer == self.num_layers:

            def after(_module: nn.Module, _args: Any, output: Any) -> None:
                taps.states[layer] = output[0] if isinstance(output, tuple) else output

            return self._blocks[-1].register_forward_hook(after)

        def before(_module: nn.Module, args: Any, kwargs: Any) -> None:
            taps.states[layer] = args[0] if args else kwargs["hidden_states"]

        return self._blocks[layer].register_forward_pre_hook(before, with_kwargs=True)


def commit(cache: KVCache, rows: slice, path: Tensor) -> Callable[[Sequence[int]], None]:
    """Keep the root and the accepted columns `path` [B, D] of the last pass; everything else of it is forgotten.

    Moves the entries at once (no host copy needed) and returns a function that counts them, to be called with the
    number of kept columns of every row, root included, when the host has learned it.
    """
    cache.move(rows, path)
    return lambda counts: cache.advance(rows, counts)


def _decoder_layers(model: Any, config: Any) -> nn.ModuleList:
    count = config.num_hidden_layers
    for module in model.base_model.modules():
        if isinstance(module, nn.ModuleList) and len(module) == count:
            return module
    raise HeadwayError(f"The {count} decoder layers of {type(model).__name__} were not found, so it can't be tapped.")


def _eos_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    found: set[int] = set()
    generation = getattr(model, "generation_config", None)
    for value in (getattr(generation, "eos_token_id", None), tokenizer.eos_token_id):
        if isinstance(value, int):
            found.add(value)
        elif value is not None:
            found.update(value)
    return frozenset(found)


def _max_context(config: Any) -> int:
    rope = getattr(config, "rope_parameters", None) or {}
    kinds = rope.values() if rope and all(isinstance(part, dict) for part in rope.values()) else [rope]
    limit = int(getattr(config, "max_position_embeddings", 0) or getattr(config, "n_positions", 0) or 1 << 20)
    for part in kinds:
        if part.get("rope_type") == "longrope":
            # Past this length the model switches its rotary factors for the whole text, so cached keys would be wrong.
            limit = min(limit, int(part.get("original_max_position_embeddings") or limit))
    if "chunked_attention" in (getattr(config, "layer_types", None) or []):
        limit = min(limit, int(config.attention_chunk_size))  # within the first chunk it is ordinary attention
    return limit


def _layer_windows(config: Any) -> dict[str, int | None]:
    """Kinds of attention layer -> sliding window in positions (None: sees everything).

    Models that mix kinds (`layer_types`) are handed a dictionary of masks, the others a single one.
    """
    window = getattr(config, "sliding_window", None)
    kinds = sorted(set(getattr(config, "layer_types", None) or []))
    if kinds:
        return {kind: window if kind == "sliding_attention" else None for kind in kinds}
    return {"all": window if getattr(config, "use_sliding_window", True) else None}
