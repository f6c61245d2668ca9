"""No number without its conditions: what has to be written beside every measurement of a decode run.

Turns a request into the settings of the loop, and settings into plain JSON. Knows what determines a run; runs nothing.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from backend.acceptance import Rule, SamplingSettings, check
from backend.data.templates import encode_chat, encode_raw
from backend.decoding.grammar import Grammar, check_schema
from backend.decoding.loop import DecodeSettings
from backend.decoding.records import Detail
from backend.drafters.base import Drafter
from backend.drafters.checkpoint import read_meta
from backend.drafters.registry import folder_of, tree_of
from backend.engine.protocol import DecodeRequest
from backend.errors import HeadwayError
from backend.targets.kernels import cpu_name
from backend.targets.target import Target
from backend.trees import AdaptiveShape, Tree, TreeShape, parse_any_tree

CHARACTERS_A_TOKEN = 3  #: on the low side for most languages and tokenizers
PACKAGES = ("torch", "transformers")


def check_request(request: DecodeRequest) -> None:
    """Raise HeadwayError for what can be known to be wrong before anything is loaded."""
    decode_settings(request, Detail.COUNTS)
    wanted_tree(request)
    if request.json_schema is not None:
        check_schema(request.json_schema)
    check_prompt(request)


def check_prompt(request: DecodeRequest) -> None:
    """Raise HeadwayError when there is nothing to answer, or two things."""
    if request.raw_prompt is not None and request.messages:
        raise HeadwayError("Give either a conversation or a raw prompt, not both.")
    text = request.raw_prompt if request.raw_prompt is not None else "".join(m.content for m in request.messages[-1:])
    if not text.strip():
        raise HeadwayError("The prompt is empty; write at least one character.")


def decode_settings(request: DecodeRequest, detail: Detail, target: Target | None = None) -> DecodeSettings:
    """The loop's settings. At T = 0 every rule is greedy; the greedy rule above 0 is refused.

    A schema is made ready for `target`; without one the settings hold no grammar. Raises HeadwayError.
    """
    sampling = SamplingSettings(
        temperature=request.temperature,
        top_k=request.top_k,
        top_p=request.top_p,
        min_p=request.min_p,
        repetition_penalty=request.repetition_penalty,
        banned_tokens=request.banned_tokens,
    )
    rule = Rule(request.rule, epsilon=request.epsilon, delta=request.delta)
    check(rule, sampling)
    grammar = None
    if request.json_schema is not None and target is not None:
        grammar = Grammar(request.json_schema, target.tokenizer, target.vocab_size, sorted(target.eos_token_ids))
    return DecodeSettings(request.max_new_tokens, rule, sampling, request.stop, request.seed, detail, grammar=grammar)


def wanted_tree(request: DecodeRequest) -> Tree | None:
    """The tree that was asked for; None means the drafter's own."""
    return parse_any_tree(request.tree) if request.tree else None


def tree_conditions(drafter: Drafter) -> dict[str, Any]:
    """The tree as it was drafted: its paths, or how far it grows; and its size."""
    tree = tree_of(drafter)
    if isinstance(tree, TreeShape):
        shown: dict[str, Any] = {"tree_paths": tree.to_json()}
    else:
        shown = {"tree_paths": tree.shape.to_json() if isinstance(tree, AdaptiveShape) else [], **tree.to_json()}
    return shown | {"num_nodes": drafter.shape.num_nodes, "max_depth": drafter.shape.max_depth}


def context_of(request: DecodeRequest) -> int:
    """About how many tokens the text will have in the end, before a tokenizer is there to count: for memory."""
    text = request.raw_prompt or "".join(message.content for message in request.messages)
    return len(text) // CHARACTERS_A_TOKEN + request.max_new_tokens


def encode_request(request: DecodeRequest, target: Target) -> list[int]:
    """The prompt as token ids, through the target's own template unless it is raw."""
    if request.raw_prompt is not None:
        return encode_raw(target.tokenizer, request.raw_prompt)
    return encode_chat(target.tokenizer, [message.model_dump() for message in request.messages])


def conditions(request: DecodeRequest, target: Target, drafter: Drafter) -> dict[str, Any]:
    """Everything a reader needs to repeat the run: request, version, tree as it was drafted, machine and packages."""
    return (
        asked(request)
        | tree_conditions(drafter)
        | {
            "drafter_name": drafter.name,
            "family": drafter.family,
            "batch": 1,
        }
        | measured_on(target)
    )


def measured_on(target: Target) -> dict[str, Any]:
    """Version, machine and packages: what every number of a target stands on."""
    return {
        "version": target.identity.to_dict(),
        "attention": target.attention,
        "device": device_name(target.device),
        "dtype": str(target.dtype).removeprefix("torch."),
        "threads": torch.get_num_threads(),
        "min_width": target.min_width,
        "packages": packages(),
    }


def drafted_with(spec: str, drafter: Drafter) -> dict[str, Any]:
    """Which drafter, by the word that asked for it and by the hash of its weights where it has a folder."""
    folder = folder_of(spec)
    weights = read_meta(folder).weights_sha256 if folder is not None else None
    return {"spec": spec, "name": drafter.name, "family": drafter.family, "weights": weights}


def asked(request: DecodeRequest) -> dict[str, Any]:
    """The part of the conditions that is known before anything is loaded: the request itself, word for word."""
    return {"request": request.model_dump(mode="json")}


def device_name(device: torch.device) -> str:
    """cuda: the card's name; cpu: the processor's own name for itself."""
    if device.type == "cuda":
        return f"{device} ({torch.cuda.get_device_name(device)})"
    return f"{device} ({cpu_name()})"


def packages() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
