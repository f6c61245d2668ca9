"""Medusa-2: heads and backbone learn together, and the backbone is held to what it was.

First the heads learn alone, then both, the backbone at a lower rate; of the target's own words the loss is the KL
divergence from the original (self-distillation) and, where wished, the cross-entropy of the answers (Medusa, arXiv
2401.10774, sections 2.2.2 and 2.3.2). What comes out is another target. Knows no files but its own state; what the
result is called, and how much worse it is, are others' business.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from backend.drafters.learning import IGNORE, FeatureBatch
from backend.drafters.medusa.train import MedusaLearner
from backend.errors import HeadwayError
from backend.targets.target import Target
from backend.training.features import TokenizedAnswer
from backend.training.joint_config import JointConfig
from backend.training.loop import Reporter
from backend.training.state import check_same_run, load_state, random_state, restore_random_state, save_state

CHUNK = 256  #: positions whose scores over the whole vocabulary exist at once


@dataclass(frozen=True)
class Backbone:
    """The causal model of transformers that is trained, low-rank additions inside where there are any."""

    model: Any

    @classmethod
    def of(cls, model: Any, config: JointConfig) -> Backbone:
        """Prepare a freshly loaded model. Raises HeadwayError when it can't be trained like this."""
        if getattr(model.config, "quantization_config", None) is not None:
            raise HeadwayError("A quantised target can't be trained together with heads; give the unquantised one.")
        if config.backbone == "full" and next(model.parameters()).dtype != torch.float32:
            raise HeadwayError("A target can be trained in full in float32 only; say --dtype float32, or use LoRA.")
        model.requires_grad_(config.backbone == "full")
        if config.backbone == "lora":
            _add_lora(model, config)
        return cls(model)

    def hidden(self, ids: Tensor, mask: Tensor) -> Tensor:
        """ids int64 [B, T], mask bool [B, T] -> last hidden states after the final norm, [B, T, H]."""
        out = self.model.base_model(input_ids=ids, attention_mask=mask.long(), use_cache=False)
        hidden: Tensor = out.last_hidden_state
        return hidden

    def trained(self) -> dict[str, nn.Parameter]:
        return {name: value for name, value in self.model.named_parameters() if value.requires_grad}

    def merged(self) -> Any:
        """The model with the low-rank additions folded into its matrices."""
        for name, module in list(self.model.named_modules()):
            if hasattr(module, "merge") and hasattr(module, "get_base_layer"):
                module.merge()
                parent, _, leaf = name.rpartition(".")
                setattr(self.model.get_submodule(parent), leaf, module.get_base_layer())
        return self.model


def _add_lora(model: Any, config: JointConfig) -> None:
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


def train_jointly(
    config: JointConfig,
    backbone: Backbone,
    learner: MedusaLearner,
    original: Target,
    answers: Sequence[TokenizedAnswer],
    reporter: Reporter,
    should_stop: Callable[[], bool],
    folder: Path,
) -> bool:
    """Train both in place; state lives in `folder`, from which an unfinished run goes on. False when asked to stop.

    Raises HeadwayError for too little data, another run's folder, a full disk, or a loss that is no number.
    """
    return _Run(config, backbone, learner, original, answers, reporter, folder).go(should_stop)


@dataclass(frozen=True)
class _Texts:
    """B texts, right-padded: tokens int64 [B, T], inside bool [B, T], places bool [B, T] whose next token is an
    answer's, following int64 [P, F] of those places.
    """

    tokens: Tensor
    inside: Tensor
    places: Tensor
    following: Tensor


class _Run:
    def __init__(
        self,
        config: JointConfig,
        backbone: Backbone,
        learner: MedusaLearner,
        original: Target,
        answers: Sequence[TokenizedAnswer],
        reporter: Reporter,
        folder: Path,
    ) -> None:
        self.config, self.backbone, self.learner, self.original = config, backbone, learner, original
        self.reporter, self.folder, self.device = reporter, folder, original.device
        longest = min(original.max_context, config.batch_tokens)
        self.answers = [a for a in answers if a.answer_ids and a.prompt_ids and _length(a) <= longest]
        if not self.answers:
            raise HeadwayError(f"None of the answers fits into {longest} tokens; raise batch_tokens.")
        self.total = config.steps or max(1, int(config.epochs * len(list(self._groups(0)))))
        self.alone = int(config.heads_alone * self.total)
        groups = [
            {"params": list(learner.model.parameters()), "peak": config.head_rate},
            {"params": list(backbone.trained().values()), "peak": config.backbone_rate},
        ]
        self.optimiser = torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.95), weight_decay=config.weight_decay)
        self.step = 0

    def go(self, should_stop: Callable[[], bool]) -> bool:
        torch.manual_seed(self.config.seed)
        self._resume()
        self.reporter.resumed(self.step)
        while self.step < self.total:
            epoch, place = self._place()
            for group in list(self._groups(epoch))[place:]:
                if should_stop():
                    self._save()
                    return False
                self._one_step([self.answers[number] for number in group])
                if self.step == self.total:
                    break
        return True

    def _place(self) -> tuple[int, int]:
        """(epoch, groups of it that are done) of the step."""
        epoch, left = 0, self.step
        while left >= (count := len(list(self._groups(epoch)))):
            epoch, left = epoch + 1, left - count
        return epoch, left

    def _groups(self, epoch: int) -> Iterator[list[int]]:
        """Numbers of the answers of each step of an epoch, in an order of its own."""
        generator = torch.Generator().manual_seed(self.config.seed * 1_000_003 + epoch)
        group: list[int] = []
        widest = 0
        for number in torch.randperm(len(self.answers), generator=generator).tolist():
            width = max(widest, _length(self.answers[number]))
            if group and (len(group) + 1) * width > self.config.batch_tokens:
                yield group
                group, width = [], _length(self.answers[number])
            group.append(number)
            widest = width
        yield group

    def _one_step(self, answers: Sequence[TokenizedAnswer]) -> None:
        texts, together = _texts(answers, self.learner.horizon, self.device), self.step >= self.alone
        factor = _factor(self.config, self.step, self.total)
        for group in self.optimiser.param_groups:
            group["lr"] = factor * group["peak"]
        self.optimiser.zero_grad(set_to_none=True)
        with torch.set_grad_enabled(together):
            hidden = self.backbone.hidden(texts.tokens, texts.inside)[texts.places].float()  # [P, H]
        metrics = self._backward(texts, hidden, together)
        parameters = [value for group in self.optimiser.param_groups for value in group["params"]]
        norm = float(torch.nn.utils.clip_grad_norm_(parameters, self.config.gradient_clip))
        if not math.isfinite(norm + sum(metrics.values())):
            raise HeadwayError(f"At step {self.step} the loss stopped being a number; lower the learning rates.")
        self.optimiser.step()
        self.step += 1
        if self.step == self.total or self.step % self.config.report_every == 0:
            self.reporter.report(self.step, self.total, metrics | {"gradient_norm": norm})
        if self.step == self.total or self.step % self.config.checkpoint_every == 0:
            self._save()

    def _backward(self, texts: _Texts, hidden: Tensor, together: bool) -> dict[str, float]:
        """Gradients of all losses. They meet in the hidden states and go through the backbone once."""
        leaf = hidden.detach().requires_grad_(together)
        heads, per_head = self.learner.loss(FeatureBatch(leaf, texts.following))
        (heads * (self.config.head_weight if together else 1.0)).backward()
        metrics = {f"loss_{number}": value for number, value in enumerate(per_head.tolist())}
        metrics |= {"loss": float(heads.detach())}
        if together:
            metrics |= self._own_words(texts, leaf)
            hidden.backward(leaf.grad)
        return metrics

    def _own_words(self, texts: _Texts, leaf: Tensor) -> dict[str, float]:
        """The target's own loss at the places, chunk by chunk."""
        config, count = self.config, len(leaf)
        before = self.original.hidden_states(texts.tokens, texts.inside)[texts.places].clone()
        head: Any = self.backbone.model.get_output_embeddings()
        kl_sum = label_sum = 0.0
        for start in range(0, count, CHUNK):
            here = slice(start, start + CHUNK)
            log_q = torch.log_softmax(self._scaled(head(leaf[here].to(head.weight.dtype))).float(), dim=-1)
            log_p = torch.log_softmax(self.original.logits(before[here]).clone().float(), dim=-1)
            divergence = (log_p.exp() * (log_p - log_q)).sum()
            entropy = -log_q.gather(1, texts.following[here, :1]).sum()
            part = (config.original_weight * divergence + config.label_weight * entropy) / count
            part.backward()
            kl_sum, label_sum = kl_sum + float(divergence.detach()), label_sum + float(entropy.detach())
        return {"kl_per_token": kl_sum / count, "label_loss": label_sum / count}

    def _scaled(self, logits: Tensor) -> Tensor:
        """As Target.logits does, with a gradient."""
        settings = self.original.config
        logits = logits * float(getattr(settings, "logit_scale", None) or 1.0)
        logits = logits / float(getattr(settings, "logits_scaling", None) or 1.0)
        cap = getattr(settings, "final_logit_softcapping", None)
        return logits if cap is None else cap * torch.tanh(logits / cap)

    # -- state ---------------------------------------------------------------------------------------------------------

    def _identity(self) -> dict[str, Any]:
        free = {"checkpoint_every", "report_every"}
        return {
            "settings": self.config.model_dump(exclude=free),
            "family's settings": self.learner.settings,
            "target": self.original.identity.weights_id,
            "answers": len(self.answers),
        }

    def _save(self) -> None:
        state = {
            "run": self._identity(),
            "step": self.step,
            "heads": self.learner.model.state_dict(),
            "backbone": {name: value.detach() for name, value in self.backbone.trained().items()},
            "optimiser": self.optimiser.state_dict(),
            "random": random_state(self.device),
        }
        save_state(self.folder, state)

    @torch.no_grad()
    def _resume(self) -> None:
        state = load_state(self.folder)
        if state is None:
            return
        check_same_run(state, self._identity(), self.folder)
        self.step = state["step"]
        self.learner.model.load_state_dict(state["heads"])
        for name, value in self.backbone.trained().items():
            value.copy_(state["backbone"][name])
        self.optimiser.load_state_dict(state["optimiser"])
        restore_random_state(state["random"], self.device)


def _length(answer: TokenizedAnswer) -> int:
    return len(answer.prompt_ids) + len(answer.answer_ids)


def _texts(answers: Sequence[TokenizedAnswer], horizon: int, device: torch.device) -> _Texts:
    width = max(map(_length, answers))
    tokens = torch.zeros(len(answers), width, dtype=torch.int64)
    inside, places = torch.zeros_like(tokens, dtype=torch.bool), torch.zeros_like(tokens, dtype=torch.bool)
    following = []
    for row, answer in enumerate(answers):
        end, first = _length(answer), len(answer.prompt_ids) - 1
        tokens[row, :end] = torch.tensor([*answer.prompt_ids, *answer.answer_ids])
        inside[row, :end] = True
        places[row, first : end - 1] = True
        padded = torch.tensor([*answer.answer_ids, *([IGNORE] * horizon)])
        following.append(padded.unfold(0, horizon, 1)[: len(answer.answer_ids)])
    return _Texts(tokens.to(device), inside.to(device), places.to(device), torch.cat(following).to(device))


def _factor(config: JointConfig, step: int, total: int) -> float:
    """Part of the peak rates: a rise, then a cosine to zero."""
    rise = max(1, round(config.warmup_fraction * total))
    if step < rise:
        return (step + 1) / rise
    return 0.5 * (1 + math.cos(math.pi * (step - rise) / max(1, total - rise)))
