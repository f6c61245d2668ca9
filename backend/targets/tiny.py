"""Tiny random targets: a byte-level tokenizer and small causal language models of many families.

For tests and demonstrations. Every model has the architecture of its family at toy size (three layers, hidden size 64,
float32), built from a seed without any download. Knows nothing of trees, caches or drafters, and the models have
learned nothing: only their shapes are real. Their weights are larger than a training run would start from, and the
output layer is scaled so that next-token distributions are neither flat nor certain: a flat one would prove little.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerFast
from transformers.pytorch_utils import Conv1D

SPECIAL_TOKENS: Final = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>")  # ids 256 … 259
VOCAB_SIZE: Final = 256 + len(SPECIAL_TOKENS)
HIDDEN_SIZE: Final = 64
NUM_LAYERS: Final = 3
LOGIT_STD: Final = 2.5  # over 260 tokens this gives top-1 probabilities between about 0.1 and 0.6

CHAT_TEMPLATE: Final = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}{{ '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def _byte_symbols() -> list[str]:
    """The printable stand-in of each byte in byte-level BPE: printable Latin-1 as itself, the rest from U+0100 on."""
    plain = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    symbols, moved = [], 0
    for byte in range(256):
        symbols.append(chr(byte if byte in plain else 256 + moved))
        moved += byte not in plain
    return symbols


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level tokenizer of 260 tokens: token id = byte value, then the four special tokens; `<|im_end|>` ends.

    It adds no token of its own, gives back any UTF-8 text unchanged, and carries a ChatML template.
    """
    vocabulary = {symbol: byte for byte, symbol in enumerate(_byte_symbols())}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(list(SPECIAL_TOKENS))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token="<|endoftext|>",
        eos_token="<|im_end|>",
        pad_token="<|pad|>",
        additional_special_tokens=["<|im_start|>"],
        clean_up_tokenization_spaces=False,
        model_max_length=1024,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


_COMMON: Final[Mapping[str, Any]] = {
    "hidden_size": HIDDEN_SIZE,
    "intermediate_size": 128,
    "num_hidden_layers": NUM_LAYERS,
    "num_attention_heads": 4,
    "max_position_embeddings": 1024,
    "tie_word_embeddings": False,
}
_FEW_KEYS: Final[Mapping[str, Any]] = {
    **_COMMON,
    "num_key_value_heads": 2,
}  # grouped-query
_GROUPED: Final[Mapping[str, Any]] = {**_FEW_KEYS, "head_dim": 16}
_GEMMA: Final[Mapping[str, Any]] = {
    **_GROUPED,
    "tie_word_embeddings": True,
    "sliding_window": 8,
    "query_pre_attn_scalar": 16,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
}
_EXPERTS: Final[Mapping[str, Any]] = {"num_experts_per_tok": 2, "num_local_experts": 4}
_LATENT: Final[Mapping[str, Any]] = {
    **_COMMON,
    "num_key_value_heads": 4,
    "moe_intermediate_size": 64,
    "n_shared_experts": 1,
    "n_routed_experts": 4,
    "n_group": 2,
    "topk_group": 1,
    "num_experts_per_tok": 2,
    "first_k_dense_replace": 1,
    "kv_lora_rank": 16,
    "q_lora_rank": 32,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 16,
}
_ATTENTION_ALIBI: Final[Mapping[str, Any]] = {"hidden_size": HIDDEN_SIZE, "n_layer": NUM_LAYERS, "n_head": 4}

# kind -> (model_type of transformers, settings)
_FAMILIES: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "llama": ("llama", _GROUPED),
    "qwen2": ("qwen2", _FEW_KEYS),
    "qwen3": ("qwen3", _GROUPED),
    "mistral": ("mistral", {**_GROUPED, "sliding_window": 8}),
    "gemma2": ("gemma2", _GEMMA),
    "gemma3": ("gemma3_text", _GEMMA),
    "gpt_neox": ("gpt_neox", _COMMON),
    "phi": ("phi", {**_COMMON, "num_key_value_heads": 4}),
    "phi3": ("phi3", _FEW_KEYS),
    "mixtral": ("mixtral", {**_GROUPED, **_EXPERTS}),
    "olmo2": ("olmo2", _FEW_KEYS),
    "gpt2": (
        "gpt2",
        {
            "n_embd": HIDDEN_SIZE,
            "n_layer": NUM_LAYERS,
            "n_head": 4,
            "n_positions": 1024,
            "resid_pdrop": 0.0,
            "embd_pdrop": 0.0,
            "attn_pdrop": 0.0,
        },
    ),
    "falcon": ("falcon", {**_COMMON, "tie_word_embeddings": True, "num_kv_heads": 2, "new_decoder_architecture": True}),
    "starcoder2": ("starcoder2", _FEW_KEYS),
    "granite": (
        "granite",
        {
            **_FEW_KEYS,
            "attention_multiplier": 0.25,
            "embedding_multiplier": 2.0,
            "residual_multiplier": 0.5,
            "logits_scaling": 2.0,
        },
    ),
    "cohere": ("cohere", {**_FEW_KEYS, "tie_word_embeddings": True, "logit_scale": 0.5}),
    "deepseek_v3": ("deepseek_v3", _LATENT),
    "bloom": ("bloom", _ATTENTION_ALIBI),
    "mpt": ("mpt", {"d_model": HIDDEN_SIZE, "n_layers": NUM_LAYERS, "n_heads": 4, "max_seq_len": 1024}),
    "mamba": (
        "mamba",
        {
            "hidden_size": HIDDEN_SIZE,
            "intermediate_size": 128,
            "num_hidden_layers": NUM_LAYERS,
            "state_size": 8,
            "time_step_rank": 4,
        },
    ),
}

KINDS: Final[tuple[str, ...]] = tuple(_FAMILIES)


def tiny_model(kind: str, seed: int = 0, vocab_size: int | None = None, **overrides: Any) -> PreTrainedModel:
    """A random causal language model of the family `kind` (one of `KINDS`), float32, in evaluation mode.

    The same seed gives the same weights. `vocab_size` defaults to the tiny tokenizer's, whose end and padding tokens
    the model then has; with another size it has no end token. `overrides` go into the model's configuration. Raises
    ValueError for an unknown kind. torch's global random state is left as it was.
    """
    if kind not in _FAMILIES:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}; got {kind!r}")
    model_type, settings = _FAMILIES[kind]
    own_vocabulary = vocab_size is None
    ids = (256, 258, 259) if own_vocabulary else (None, None, 0)
    tokens = dict(zip(("bos_token_id", "eos_token_id", "pad_token_id"), ids, strict=True))
    size = VOCAB_SIZE if own_vocabulary else vocab_size
    config = AutoConfig.for_model(model_type, **{"vocab_size": size, **tokens, **settings, **overrides})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
        _scatter_weights(model, torch.Generator().manual_seed(seed))
    return model


@torch.no_grad()
def _scatter_weights(model: PreTrainedModel, generator: torch.Generator) -> None:
    """Gives matrices std 1.5 / √fan-in, moves biases and norms off their initial values, scales the output layer."""
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if parameter.dim() == 1 and name in ("weight", "bias"):
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
            elif isinstance(module, nn.Embedding):
                parameter.normal_(0.0, 0.5, generator=generator)
            elif isinstance(module, (nn.Linear, Conv1D)) or (
                parameter.dim() == 3 and not isinstance(module, nn.Conv1d)
            ):
                fan_in = parameter.shape[0] if isinstance(module, Conv1D) else parameter.shape[-1]
                parameter.normal_(0.0, 1.5 / fan_in**0.5, generator=generator)
    model.tie_weights()
    head = model.get_output_embeddings()
    assert head is not None, "every causal model has an output layer"
    tied = head.weight is model.get_input_embeddings().weight
    if tied:  # turn every second axis round, else the model would only repeat the token it has just read
        norms = [p for name, p in model.named_parameters() if p.dim() == 1 and name.endswith("weight")]
        norms[-1][1::2] -= 2.0  # the final norm; its scale is near 1 (Gemma stores scale - 1), so this turns the sign
    tokens = torch.randint(0, model.config.vocab_size, (4, 16), generator=generator)  # [4, 16]
    for _ in range(3):  # a tied head or a soft cap makes the logits' scale not quite linear in the weights
        logits: Tensor = model(input_ids=tokens, use_cache=False).logits  # [4, 16, V]
        head.weight.mul_(LOGIT_STD / logits.std(dim=-1).mean())


def tiny_checkpoint(directory: str | Path, kind: str = "llama", seed: int = 0, **overrides: Any) -> Path:
    """Writes a tiny model and the tiny tokenizer as a Hugging Face folder and returns its path."""
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    tiny_model(kind, seed, **overrides).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder
