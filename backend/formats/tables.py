"""What each engine looks for in a drafter's folder, as data: tensors, config keys, and what a fault in them does.

Export, import and check all read these tables. A tensor's shape is a function of `Sizes`, which come from a config.
Knows no files and no engine's code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Sizes:
    """Numbers that shapes follow from.

    Args:
        width: H, the drafter's hidden size; target_width: Ht, the target's.
        vocabulary: V; draft_vocabulary: Vd, tokens that can be drafted.
        states: how many of the target's states are joined.
        heads, blocks: of Medusa and Hydra.
        flags: options that are on: fc_bias, bias, qk_norm, attention_bias, input_norm, fc_norm, shared, map, no_fc,
            prefix.
    """

    width: int
    vocabulary: int
    draft_vocabulary: int = 0
    target_width: int = 0
    states: int = 1
    inner: int = 0
    query_heads: int = 1
    kv_heads: int = 1
    head_dim: int = 1
    heads: int = 0
    blocks: int = 0
    flags: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Row:
    """One tensor of a layout.

    Args:
        name: in the file. aliases: other names that mean the same.
        own: its name in Headway's model, "" where a family makes it from something else.
        needed: whether the engine can't draft rightly without it.
        dtype: float, int64 or bool.
        shared: whether the same numbers may stand under another name too.
    """

    name: str
    shape: tuple[int, ...]
    own: str = ""
    needed: bool = True
    dtype: str = "float"
    aliases: tuple[str, ...] = ()
    shared: bool = False


@dataclass(frozen=True)
class Layout:
    """How one engine reads one family.

    Args:
        rows: all tensors it knows, for these sizes.
        keys: config keys it must find, dotted.
        architectures: names it knows the family by; () where it does not look.
        missing, unknown: what happens to a tensor that is missing or unknown: "load" (an error at load) or "silent".
        refused: part of a tensor's name -> id of the finding that explains why it must not be there.
    """

    engine: str
    family: str
    rows: Callable[[Sizes], tuple[Row, ...]]
    keys: tuple[str, ...]
    architectures: tuple[str, ...] = ()
    missing: str = "silent"
    unknown: str = "silent"
    refused: Mapping[str, str] | None = None


LLAMA_KEYS: Final = (
    "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "rms_norm_eps", "vocab_size",
)  # fmt: skip
HYDRA_PREFIX: Final = "prefix_embeding_layer."  #: spelt so by the reference
_BLOCKS: Final = ("q_proj", "k_proj", "v_proj", "o_proj")


def layer_rows(prefix: str, own: str, sizes: Sizes, reads: int, aliases: tuple[str, ...] = ()) -> tuple[Row, ...]:
    """A Llama layer's tensors without the norm in front; `reads`: width of what is projected to queries and keys.

    aliases: other prefixes that mean the same.
    """
    wide, narrow = sizes.query_heads * sizes.head_dim, sizes.kv_heads * sizes.head_dim
    width, inner = sizes.width, sizes.inner
    shapes: dict[str, tuple[int, ...]] = {
        "self_attn.q_proj.weight": (wide, reads),
        "self_attn.k_proj.weight": (narrow, reads),
        "self_attn.v_proj.weight": (narrow, reads),
        "self_attn.o_proj.weight": (width, wide),
        "mlp.gate_proj.weight": (inner, width),
        "mlp.up_proj.weight": (inner, width),
        "mlp.down_proj.weight": (width, inner),
        "post_attention_layernorm.weight": (width,),
    }
    if "attention_bias" in sizes.flags:
        shapes |= {f"self_attn.{one}.bias": (wide if one[0] == "q" else narrow,) for one in _BLOCKS[:3]}
    if "qk_norm" in sizes.flags:
        shapes |= {f"self_attn.{one}_norm.weight": (sizes.head_dim,) for one in "qk"}
    return tuple(
        Row(prefix + name, shape, own + _bare(name), aliases=tuple(other + name for other in aliases))
        for name, shape in shapes.items()
    )


def _bare(name: str) -> str:
    """Headway's layer has its matrices side by side, not in two modules."""
    return name.removeprefix("self_attn.").removeprefix("mlp.")


def medusa_rows(sizes: Sizes) -> tuple[Row, ...]:
    """vLLM's names first, the reference's beside them."""
    rows = []
    width, outputs = sizes.width, 1 if "shared" in sizes.flags else sizes.heads
    for head in range(sizes.heads):
        for block in range(sizes.blocks):
            names, other = f"blocks.{head}.layers.{block}.", f"{head}.{block}.linear."
            rows.append(Row(names + "weight", (width, width), aliases=(other + "weight",)))
            if "bias" in sizes.flags:
                rows.append(Row(names + "bias", (width,), aliases=(other + "bias",)))
    for head in range(outputs):
        name = "lm_head.weight" if "shared" in sizes.flags else f"lm_heads.{head}.weight"
        aliases: tuple[str, ...] = (f"{head}.{sizes.blocks}.weight",)
        if "shared" in sizes.flags:
            aliases = ("lm_heads.0.weight", *aliases)
        rows.append(Row(name, (sizes.draft_vocabulary, width), aliases=aliases))
    if "map" in sizes.flags:
        rows.append(Row("token_map", (sizes.draft_vocabulary,), "token_map", dtype="int64"))
    return tuple(rows)


def eagle_rows(sizes: Sizes) -> tuple[Row, ...]:
    rows = [Row("fc.weight", (sizes.width, 2 * sizes.width), "fc.weight")]
    if "fc_bias" in sizes.flags:
        rows.append(Row("fc.bias", (sizes.width,), "fc.bias"))
    rows += layer_rows("layers.0.", "layer.", sizes, sizes.width)
    rows.append(Row("embed_tokens.weight", (sizes.vocabulary, sizes.width), needed=False))
    return tuple(rows)


def eagle3_rows(sizes: Sizes, prefix: str = "midlayer.", aliases: tuple[str, ...] = ("layers.0.",)) -> tuple[Row, ...]:
    width, joined = sizes.width, sizes.states * sizes.target_width
    rows = [] if "no_fc" in sizes.flags else [Row("fc.weight", (width, joined), "fc.weight")]
    rows += layer_rows(prefix, "layer.", sizes, 2 * width, aliases)
    for norm in ("input_layernorm", "hidden_norm"):
        own = f"{norm}.weight"
        rows.append(Row(prefix + own, (width,), own, aliases=tuple(other + own for other in aliases)))
    rows.append(Row("norm.weight", (width,), "norm.weight"))
    reduced = sizes.draft_vocabulary != sizes.vocabulary
    rows.append(Row("lm_head.weight", (sizes.draft_vocabulary, width), "lm_head.weight"))
    if reduced:
        rows.append(Row("d2t", (sizes.draft_vocabulary,), dtype="int64"))
        rows.append(Row("t2d", (sizes.vocabulary,), needed=False, dtype="bool"))
    own_words = width != sizes.target_width
    rows.append(Row("embed_tokens.weight", (sizes.vocabulary, width), needed=own_words))
    if "input_norm" in sizes.flags:
        rows.append(Row("input_norm.weight", (joined,), "input_norm.weight"))
    if "fc_norm" in sizes.flags:
        names = (f"fc_norm.{i}.weight" for i in range(sizes.states))
        rows += [Row(name, (sizes.target_width,), name) for name in names]
    return tuple(rows)


def sglang_eagle3_rows(sizes: Sizes) -> tuple[Row, ...]:
    """SGLang takes the first layer's names as `midlayer.` only."""
    return eagle3_rows(sizes, "midlayer.", ())


def hydra_rows(sizes: Sizes) -> tuple[Row, ...]:
    """The reference's `mlp` heads, or with the flag `prefix` its `prefix-mlp` ones, which count the dropout in front of
    every layer as a layer. Blocks behind the first are one module there, under several numbers.
    """
    rows: list[Row] = []
    width, prefixed = sizes.width, "prefix" in sizes.flags
    for head in range(sizes.heads):
        joined = (head + 2) * width
        for part in ("linear", "res_connection"):
            name = f"hydra_mlp.{head}.{hydra_place(0, prefixed)}.{part}."
            rows += [Row(name + "weight", (width, joined)), Row(name + "bias", (width,))]
        for block in range(1, sizes.blocks):
            name = f"hydra_mlp.{head}.{hydra_place(block, prefixed)}.linear."
            rows += [Row(name + "weight", (width, width), shared=True), Row(name + "bias", (width,))]
        name = f"hydra_lm_head.{head}.1." if prefixed else f"hydra_lm_head.{head}."
        rows.append(Row(name + "weight", (sizes.vocabulary, width)))
        rows.append(Row(name + "bias", (sizes.vocabulary,), needed=False))
    rows.append(Row("input_embed_fn.weight", (sizes.vocabulary, width), needed=False))
    return (*rows, *_prefix_rows(sizes)) if prefixed else tuple(rows)


def hydra_place(block: int, prefixed: bool) -> int:
    """Number of a head's block in the reference's list of layers."""
    return 2 * block + 1 if prefixed else block


def _prefix_rows(sizes: Sizes) -> tuple[Row, ...]:
    """A whole Llama of one layer; its embedding is made and never looked at."""
    inner = f"{HYDRA_PREFIX}layers.0."
    norms = {f"{inner}input_layernorm.weight": "input_layernorm", f"{HYDRA_PREFIX}norm.weight": "norm"}
    rows = [Row(name, (sizes.width,), f"prefix.{own}.weight") for name, own in norms.items()]
    words = Row(f"{HYDRA_PREFIX}embed_tokens.weight", (sizes.vocabulary, sizes.width), needed=False)
    return (*rows, *layer_rows(inner, "prefix.layer.", sizes, sizes.width), words)


def mimo_rows(sizes: Sizes) -> tuple[Row, ...]:
    """One MTP module in MiMo's layout, beside the target's own tensors."""
    prefix, own = "model.mtp_layers.0.", "layers.0."
    width = sizes.width
    names = {"token_layernorm": "embed_norm", "hidden_layernorm": "hidden_norm", "final_layernorm": "norm",
             "input_layernorm": "input_layernorm"}  # fmt: skip
    rows = [Row(f"{prefix}{name}.weight", (width,), f"{own}{ours}.weight") for name, ours in names.items()]
    rows.append(Row(f"{prefix}input_proj.weight", (width, 2 * width), f"{own}proj.weight"))
    return (*rows, *layer_rows(prefix, f"{own}layer.", sizes, width))


_EAGLE3_NAMES: Final = ("LlamaForCausalLMEagle3", "Eagle3LlamaForCausalLM")
LAYOUTS: Final[Mapping[tuple[str, str], Layout]] = {
    (one.engine, one.family): one
    for one in (
        Layout("vllm", "medusa", medusa_rows, ("hidden_size", "vocab_size"), ("MedusaModel",), missing="load"),
        Layout(
            "vllm", "eagle", eagle_rows, LLAMA_KEYS, ("LlamaForCausalLM", "EagleLlamaForCausalLM"), unknown="load",
            refused={
                "fc.bias": "eagle-bias-vllm", "lm_head.": "eagle-head", "norm.weight": "eagle-head",
                "layers.0.input_layernorm.": "eagle-input-norm",
            },
        ),
        Layout("vllm", "eagle3", eagle3_rows, (*LLAMA_KEYS, "draft_vocab_size"), _EAGLE3_NAMES, unknown="load"),
        Layout(
            "sglang", "eagle", eagle_rows, (*LLAMA_KEYS, "tie_word_embeddings"), ("LlamaForCausalLMEagle",),
            refused={"layers.0.input_layernorm.": "eagle-input-norm", "norm.weight": "eagle-head"},
        ),
        Layout(
            "sglang", "eagle3", sglang_eagle3_rows, (*LLAMA_KEYS, "draft_vocab_size", "tie_word_embeddings"),
            _EAGLE3_NAMES[:1],
        ),
        Layout(
            "vllm", "mtp", mimo_rows, (*LLAMA_KEYS, "num_nextn_predict_layers"), ("MiMoForCausalLM",), unknown="load"
        ),
        Layout("hydra", "hydra", hydra_rows, ("hydra_num_heads", "hydra_num_layers"), missing="silent"),
    )
}  # fmt: skip


def layout_of(engine: str, family: str) -> Layout | None:
    """None where the engine has no format for the family."""
    return LAYOUTS.get((engine, family))
