"""Tiny drafters exactly as others publish them: their file names, tensor names, shapes and config keys."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from tests.formats import made

H, V, INNER, HEADS, KV, HD = 64, 260, 128, 4, 2, 16
DRAFTED = 70
LLAMA = {
    "hidden_size": H, "intermediate_size": INNER, "num_attention_heads": HEADS, "num_key_value_heads": KV,
    "head_dim": HD, "num_hidden_layers": 1, "vocab_size": V, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    "rope_scaling": None, "hidden_act": "silu", "max_position_embeddings": 1024, "model_type": "llama",
}  # fmt: skip


class Draw:
    """Random tensors of any shape."""

    def __init__(self, seed: int = 0) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, *shape: int) -> Tensor:
        if len(shape) == 1:
            return 1 + 0.1 * torch.randn(shape, generator=self.generator)
        return torch.randn(shape, generator=self.generator) * shape[-1] ** -0.5

    def near(self, weight: Tensor) -> Tensor:
        return weight + 0.02 * torch.randn(weight.shape, generator=self.generator)


def layer(draw: Draw, prefix: str, reads: int) -> dict[str, Tensor]:
    return {
        f"{prefix}self_attn.q_proj.weight": draw(HEADS * HD, reads),
        f"{prefix}self_attn.k_proj.weight": draw(KV * HD, reads),
        f"{prefix}self_attn.v_proj.weight": draw(KV * HD, reads),
        f"{prefix}self_attn.o_proj.weight": draw(H, HEADS * HD),
        f"{prefix}mlp.gate_proj.weight": draw(INNER, H),
        f"{prefix}mlp.up_proj.weight": draw(INNER, H),
        f"{prefix}mlp.down_proj.weight": draw(H, INNER),
        f"{prefix}post_attention_layernorm.weight": draw(H),
    }


def write(folder: Path, config: dict[str, Any] | None, tensors: dict[str, Tensor], name: str) -> Path:
    folder.mkdir(parents=True)
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    tensors = {key: one.contiguous().clone() for key, one in tensors.items()}
    if name.endswith(".safetensors"):
        save_file(tensors, folder / name)
    else:
        torch.save(tensors, folder / name)
    return folder


def rest_of_target() -> dict[str, Tensor]:
    """Some of what stands beside a drafter inside its target's checkpoint; not to be read as the drafter's."""
    words, head = made.facts().embedding, made.facts().lm_head
    return {"model.embed_tokens.weight": words, "lm_head.weight": head, "model.layers.1.mlp.up_proj.weight": head}


# -- Medusa ------------------------------------------------------------------------------------------------------------


def medusa_tensors(draw: Draw, heads: int = 3, blocks: int = 1) -> dict[str, Tensor]:
    found = {}
    for head in range(heads):
        for block in range(blocks):
            found[f"{head}.{block}.linear.weight"] = 0.3 * draw(H, H)
            found[f"{head}.{block}.linear.bias"] = 0.1 * draw(1, H)[0]
    return found


def medusa_1(folder: Path) -> Path:
    draw = Draw(1)
    outputs = {f"{head}.1.weight": draw.near(made.facts().lm_head) for head in range(3)}
    config = {"medusa_num_heads": 3, "medusa_num_layers": 1, "base_model_name_or_path": "tiny"}
    return write(folder, config, medusa_tensors(draw) | outputs, "medusa_lm_head.pt")


def medusa_2(folder: Path) -> Path:
    config = {"medusa_num_heads": 3, "medusa_num_layers": 2, "base_model_name_or_path": "tiny", "version": "2"}
    return write(folder, config, medusa_tensors(Draw(2), blocks=2), "medusa_lm_head.safetensors")


def medusa_2_whole(folder: Path) -> Path:
    """A checkpoint of joint training: the heads beside the target's weights."""
    draw = Draw(3)
    heads = {f"medusa_head.{name}": one for name, one in medusa_tensors(draw).items()}
    outputs = {f"medusa_head.{head}.1.weight": draw.near(made.facts().lm_head) for head in range(3)}
    config = LLAMA | {"medusa_num_heads": 3, "medusa_num_layers": 1}
    return write(folder, config, heads | outputs | rest_of_target(), "model.safetensors")


def medusa_vllm(folder: Path) -> Path:
    """A token map beside output rows of the whole vocabulary, and no biases."""
    draw = Draw(4)
    tensors = {f"medusa_heads.blocks.{head}.layers.0.weight": 0.3 * draw(H, H) for head in range(2)}
    tensors["lm_head.weight"] = draw.near(made.facts().lm_head)
    tensors["token_map"] = made.some_tokens(DRAFTED).sort().values
    config = {
        "model_type": "medusa", "architectures": ["MedusaModel"], "hidden_size": H, "vocab_size": V, "num_heads": 2,
        "num_hidden_layers": 1, "original_lm_head": True, "truncated_vocab_size": DRAFTED,
    }  # fmt: skip
    return write(folder, config, tensors, "model.safetensors")


# -- EAGLE -------------------------------------------------------------------------------------------------------------


def eagle_1(folder: Path) -> Path:
    draw = Draw(5)
    tensors = {"fc.weight": draw(H, 2 * H), "fc.bias": 0.1 * draw(1, H)[0], **layer(draw, "layers.0.", H)}
    tensors["embed_tokens.weight"] = made.facts().embedding
    return write(folder, LLAMA | {"architectures": ["LlamaForCausalLM"], "bias": True}, tensors, "pytorch_model.bin")


def eagle_no_bias(folder: Path) -> Path:
    draw = Draw(6)
    tensors = {"fc.weight": draw(H, 2 * H), **layer(draw, "layers.0.", H)}
    return write(folder, LLAMA | {"bias": False}, tensors, "model.safetensors")


def eagle3_tensors(draw: Draw, prefix: str, drafted: int | None = DRAFTED) -> dict[str, Tensor]:
    rows = V if drafted is None else drafted
    tensors = {"fc.weight": draw(H, 3 * H), **layer(draw, prefix, 2 * H), "norm.weight": draw(H)}
    tensors |= {f"{prefix}input_layernorm.weight": draw(H), f"{prefix}hidden_norm.weight": draw(H)}
    tensors["lm_head.weight"] = draw(rows, H)
    if drafted is not None:
        tokens = made.some_tokens(drafted).sort().values
        tensors["d2t"] = tokens - torch.arange(drafted)
        tensors["t2d"] = torch.zeros(V, dtype=torch.bool).index_fill(0, tokens, True)
    return tensors


def eagle3_safeai(folder: Path) -> Path:
    config = LLAMA | {"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": DRAFTED}
    tensors = eagle3_tensors(Draw(7), "midlayer.")
    return write(folder, config, tensors, "pytorch_model.bin")


def eagle3_specforge(folder: Path) -> Path:
    tensors = eagle3_tensors(Draw(8), "midlayer.") | {"embed_tokens.weight": made.facts().embedding}
    inner = {"eagle_aux_hidden_state_layer_ids": [1, 3, 4], "use_aux_hidden_state": True}
    config = LLAMA | {"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": DRAFTED, "eagle_config": inner}
    return write(folder, config, tensors, "model.safetensors")


def eagle3_speculators(folder: Path) -> Path:
    """As a trainer leaves it: the best one in a folder of its own."""
    config = {
        "architectures": ["Eagle3Speculator"], "speculators_model_type": "eagle3", "speculators_version": "0.9.0",
        "draft_vocab_size": DRAFTED, "target_hidden_size": None, "norm_before_residual": True,
        "eagle_aux_hidden_state_layer_ids": [1, 4, 6], "transformer_layer_config": LLAMA,
        "speculators_config": {
            "algorithm": "eagle3", "default_proposal_method": "greedy",
            "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 3}],
            "verifier": {"name_or_path": "tiny", "architectures": ["LlamaForCausalLM"]},
        },
    }  # fmt: skip
    tensors = eagle3_tensors(Draw(9), "layers.0.") | {"embed_tokens.weight": made.facts().embedding}
    write(folder / "checkpoint_best", config, tensors, "model.safetensors")
    return folder


def eagle3_modelopt(folder: Path) -> Path:
    """Its list comes out of a set, in any order; the states are captured from low to high."""
    inner = {
        "eagle_aux_hidden_state_layer_ids": [3, 1, 4], "use_aux_hidden_state": True,
        "use_input_layernorm_in_first_layer": True, "use_last_layernorm": True, "use_mtp_layernorm": False,
        "next_layer_regular": True, "parallel_draft_step": 1,
    }  # fmt: skip
    config = LLAMA | {"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": V, "eagle_config": inner}
    return write(folder, config, eagle3_tensors(Draw(10), "layers.0.", None), "model.safetensors")


# -- Hydra and MTP -----------------------------------------------------------------------------------------------------


def hydra_tensors(draw: Draw, heads: int = 3, prefixed: bool = False) -> dict[str, Tensor]:
    """With a prefix layer dropout stands in front of every layer, and is counted as one."""
    tensors = {"input_embed_fn.weight": made.facts().embedding}
    first, others, outer = (1, (3, 5), ".1") if prefixed else (0, (1, 2), "")
    for head in range(heads):
        for part in ("linear", "res_connection"):
            tensors[f"hydra_mlp.{head}.{first}.{part}.weight"] = draw(H, (head + 2) * H)
            tensors[f"hydra_mlp.{head}.{first}.{part}.bias"] = 0.1 * draw(1, H)[0]
        weight, bias = 0.3 * draw(H, H), 0.1 * draw(1, H)[0]
        for block in others:  # one module under two numbers
            tensors[f"hydra_mlp.{head}.{block}.linear.weight"] = weight
            tensors[f"hydra_mlp.{head}.{block}.linear.bias"] = bias
        tensors[f"hydra_lm_head.{head}{outer}.weight"] = draw.near(made.facts().lm_head)
        tensors[f"hydra_lm_head.{head}{outer}.bias"] = 0.1 * draw(1, V)[0]
    return tensors


def hydra(folder: Path) -> Path:
    config = {
        "hydra_num_heads": 3, "hydra_num_layers": 3, "hydra_head_arch": "mlp", "grounded_heads": True,
        "hidden_state_offset": 0, "base_model_name_or_path": "tiny",
    }  # fmt: skip
    return write(folder, config, hydra_tensors(Draw(11)), "hydra_lm_head.pt")


def hydra_plus(folder: Path) -> Path:
    config = {
        "hydra_num_heads": 3, "hydra_num_layers": 3, "hydra_head_arch": "prefix-mlp", "grounded_heads": True,
        "hidden_state_offset": 0, "base_model_name_or_path": "tiny",
    }  # fmt: skip
    draw, inner = Draw(14), "prefix_embeding_layer.layers.0."
    prefix = layer(draw, inner, H) | {f"{inner}input_layernorm.weight": draw(H)}
    prefix |= {"prefix_embeding_layer.norm.weight": draw(H), "prefix_embeding_layer.embed_tokens.weight": draw(V, H)}
    return write(folder, config, hydra_tensors(draw, prefixed=True) | prefix, "hydra_lm_head.pt")


def mtp_mimo(folder: Path) -> Path:
    draw, prefix = Draw(12), "model.mtp_layers.0."
    tensors = layer(draw, prefix, H) | {f"{prefix}input_proj.weight": draw(H, 2 * H)}
    for norm in ("token_layernorm", "hidden_layernorm", "final_layernorm", "input_layernorm"):
        tensors[f"{prefix}{norm}.weight"] = draw(H)
    tensors |= rest_of_target()
    return write(folder, LLAMA | {"num_nextn_predict_layers": 1}, tensors, "model.safetensors")


def mtp_qwen(folder: Path) -> Path:
    draw, inner = Draw(13), "mtp.layers.0."
    tensors = layer(draw, inner, H) | {"mtp.fc.weight": draw(H, 2 * H), f"{inner}input_layernorm.weight": draw(H) - 1}
    for norm in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"):
        tensors[f"mtp.{norm}.weight"] = draw(H) - 1
    tensors[f"{inner}post_attention_layernorm.weight"] -= 1
    tensors |= rest_of_target()
    return write(folder, LLAMA | {"mtp_num_hidden_layers": 1}, tensors, "model.safetensors")


PUBLISHED: dict[str, tuple[str, Callable[[Path], Path]]] = {
    "medusa-1": ("medusa", medusa_1),
    "medusa-2": ("medusa", medusa_2),
    "medusa-2-whole": ("medusa", medusa_2_whole),
    "medusa-vllm": ("medusa", medusa_vllm),
    "eagle-1": ("eagle", eagle_1),
    "eagle-no-bias": ("eagle", eagle_no_bias),
    "eagle3-safeai": ("eagle3", eagle3_safeai),
    "eagle3-specforge": ("eagle3", eagle3_specforge),
    "eagle3-speculators": ("eagle3", eagle3_speculators),
    "eagle3-modelopt": ("eagle3", eagle3_modelopt),
    "hydra": ("hydra", hydra),
    "hydra-plus": ("hydra", hydra_plus),
    "mtp-mimo": ("mtp", mtp_mimo),
    "mtp-qwen": ("mtp", mtp_qwen),
}
