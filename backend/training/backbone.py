"""The causal model that is trained itself: in full, or by low-rank additions merged at the end; and its new tokens.

Knows transformers' models and peft; no data, no loss and no file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from backend.errors import HeadwayError


class BackboneSettings(Protocol):
    """What is trained. backbone: "lora" or "full"."""

    @property
    def backbone(self) -> str: ...
    @property
    def lora_rank(self) -> int: ...
    @property
    def lora_alpha(self) -> float: ...


@dataclass(frozen=True)
class NewRows:
    """Rows of embedding and output head that a tokenizer's new tokens were given, the only ones of these that learn.

    Both matrices are tied or neither is: `head` is `embedding` itself where they are. first: id of the first new token.
    embedding, head: [new tokens, H].
    """

    first: int
    embedding: nn.Parameter
    head: nn.Parameter

    def embedded(self, ids: Tensor, module: nn.Module) -> Tensor:
        """ids int64 [B, T] -> what the embedding gives, with the rows as they are now. [B, T, H]."""
        known: Tensor = module(ids.clamp(max=self.first - 1))
        scale = getattr(module, "embed_scale", 1.0)  # Gemma multiplies inside the module
        new = nn.functional.embedding((ids - self.first).clamp(min=0), self.embedding) * scale
        return torch.where((ids >= self.first)[..., None], new.to(known.dtype), known)

    def scores(self, hidden: Tensor, logits: Tensor) -> Tensor:
        """hidden [P, H], logits [P, V] -> the logits with the new rows' as they are now."""
        new = hidden.float() @ self.head.T
        return torch.cat([logits[:, : self.first], new.to(logits.dtype)], dim=1)


@dataclass(frozen=True)
class Backbone:
    """The causal model of transformers that is trained, low-rank additions inside where there are any."""

    model: Any
    new: NewRows | None = None

    @classmethod
    def of(cls, model: Any, config: BackboneSettings, new_tokens: int = 0) -> Backbone:
        """Prepare a freshly loaded model; its last `new_tokens` rows learn too. Raises HeadwayError when it can't be
        trained like this.
        """
        if getattr(model.config, "quantization_config", None) is not None:
            raise HeadwayError("A quantised target can't be trained; give the unquantised one.")
        if config.backbone == "full" and next(model.parameters()).dtype != torch.float32:
            raise HeadwayError("A target can be trained in full in float32 only; say --dtype float32, or use LoRA.")
        model.requires_grad_(config.backbone == "full")
        new = _new_rows(model, new_tokens) if new_tokens and config.backbone == "lora" else None
        if config.backbone == "lora":
            _add_lora(model, config)
        return cls(model, new)

    def hidden(self, ids: Tensor, mask: Tensor) -> Tensor:
        """ids int64 [B, T], mask bool [B, T] -> last hidden states after the final norm, [B, T, H]."""
        given = {"input_ids": ids}
        if self.new is not None:
            given = {"inputs_embeds": self.new.embedded(ids, self.model.get_input_embeddings())}
        out = self.model.base_model(**given, attention_mask=mask.long(), use_cache=False)
        hidden: Tensor = out.last_hidden_state
        return hidden

    def logits(self, hidden: Tensor) -> Tensor:
        """[P, H] -> [P, V], scaled and capped as the model does it."""
        head: Any = self.model.get_output_embeddings()
        logits = head(hidden.to(head.weight.dtype))
        if self.new is not None:
            logits = self.new.scores(hidden, logits)
        return scaled(logits, self.model.config)

    def trained(self) -> dict[str, nn.Parameter]:
        found = {name: value for name, value in self.model.named_parameters() if value.requires_grad}
        if self.new is not None:
            found["new_rows.embedding"] = self.new.embedding
            if self.new.head is not self.new.embedding:
                found["new_rows.head"] = self.new.head
        return found

    def merged(self) -> Any:
        """The model with the low-rank additions folded into its matrices, and the new rows in their places."""
        for name, module in list(self.model.named_modules()):
            if hasattr(module, "merge") and hasattr(module, "get_base_layer"):
                module.merge()
                parent, _, leaf = name.rpartition(".")
                setattr(self.model.get_submodule(parent), leaf, module.get_base_layer())
        if self.new is not None:
            with torch.no_grad():
                for module, rows in (
                    (self.model.get_input_embeddings(), self.new.embedding),
                    (self.model.get_output_embeddings(), self.new.head),
                ):
                    module.weight[self.new.first :] = rows.to(module.weight.dtype)
        return self.model


def scaled(logits: Tensor, settings: Any) -> Tensor:
    """Logits as Target.logits gives them, with a gradient. `settings`: of the model."""
    logits = logits * float(getattr(settings, "logit_scale", None) or 1.0)
    logits = logits / float(getattr(settings, "logits_scaling", None) or 1.0)
    cap = getattr(settings, "final_logit_softcapping", None)
    return logits if cap is None else cap * torch.tanh(logits / cap)


def scaled_head(model: Any) -> Tensor:
    """Rows of the output head [V, H], scaled so that hidden states times these are the logits before a cap."""
    rows: Tensor = model.get_output_embeddings().weight
    scale = float(getattr(model.config, "logit_scale", None) or 1.0)
    return rows * (scale / float(getattr(model.config, "logits_scaling", None) or 1.0))


def give_room(model: Any, tokenizer: Any, tokens: Sequence[str]) -> int:
    """Make the tokenizer know these special tokens and the model have a row for each; how many rows learn.

    New rows start as the mean of all others: what nothing is known of is least surprising there. Raises HeadwayError
    where the tokenizer takes none.
    """
    missing = [token for token in dict.fromkeys(tokens) if token not in tokenizer.get_vocab()]
    if not missing:
        return 0
    if tokenizer.add_tokens(missing, special_tokens=True) != len(missing):
        raise HeadwayError(f"This target's tokenizer can't take new tokens ({', '.join(missing)}); leave them out.")
    rows = model.get_input_embeddings().weight.shape[0]
    first: int = min(tokenizer.convert_tokens_to_ids(missing))
    if len(tokenizer) > rows:
        model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    with torch.no_grad():
        for module in {model.get_input_embeddings(), model.get_output_embeddings()}:
            weight = module.weight
            weight[first:] = weight[:first].float().mean(dim=0).to(weight.dtype)
    return int(model.get_input_embeddings().weight.shape[0]) - first


def _new_rows(model: Any, count: int) -> NewRows:
    embedding, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    first = embedding.shape[0] - count
    learned = nn.Parameter(embedding[first:].detach().float().clone())
    tied = head.data_ptr() == embedding.data_ptr()
    return NewRows(first, learned, learned if tied else nn.Parameter(head[first:].detach().float().clone()))


def _add_lora(model: Any, config: BackboneSettings) -> None:
    """Low-rank additions to every linear layer but the output head, in place."""
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError:
        raise HeadwayError(
            "Training with LoRA needs the package peft; install it, or train the backbone in full."
        ) from None
    head = model.get_output_embeddings()
    names = sorted({name for name, one in model.named_modules() if isinstance(one, nn.Linear) and one is not head})
    if not names:
        raise HeadwayError("This target has no linear layers that LoRA could add to; train the backbone in full.")
    lora = LoraConfig(r=config.lora_rank, lora_alpha=config.lora_alpha, target_modules=names, lora_dropout=0.0)  # type: ignore[arg-type]
    inject_adapter_in_model(lora, model)
    for value in model.parameters():
        if value.requires_grad:
            value.data = value.data.float()  # small steps get lost in half precision
