"""LoRA adapters with random numbers for tiny targets, as peft writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model

from backend.targets.tiny import tiny_model

ATTENTION = ("q_proj", "v_proj", "down_proj")


def tiny_adapter(
    folder: Path, kind: str = "llama", seed: int = 0, base: str | None = None, modules: Any = ATTENTION, **options: Any
) -> Path:
    """Writes an adapter whose additions are large enough to change what is written. `base`: the name it says it was
    trained for.
    """
    model = tiny_model(kind)
    config = LoraConfig(r=4, lora_alpha=8, target_modules=list(modules), task_type="CAUSAL_LM", **options)
    wrapped: Any = get_peft_model(model, config)  # type: ignore[arg-type]  # transformers' own class is what it takes
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in wrapped.named_parameters():
            drawn = torch.randn(value.shape, generator=generator) if value.requires_grad else None
            if drawn is not None and any(part in name for part in ("lora_A", "lora_B", "lora_embedding")):
                value.copy_(0.15 * drawn)  # peft draws its own start anew each time
            elif drawn is not None:
                value.add_(0.02 * drawn)
    wrapped.peft_config["default"].base_model_name_or_path = base
    wrapped.save_pretrained(folder, save_embedding_layers=False)
    return folder
