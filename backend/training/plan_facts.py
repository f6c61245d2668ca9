"""What a plan has to know about a target and about answers, read from files without loading anything. Torch-free.

Facts of a target come from the header of its weight files; of answers, from their lengths and the split that training
makes. The speed of the machine is guessed from one small matrix product; it stands in until something was measured.
"""

from __future__ import annotations

import struct
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import psutil

from backend.data.answers import read_answers, unpack_answers
from backend.drafters.sizes import LayerWeights
from backend.errors import HeadwayError
from backend.targets.checkpoint import read_json, stored_tensors
from backend.targets.sources import SourceKind, TargetSource, resolve_source
from backend.training.captures import Wanted, answers_digest, serving, text_digests
from backend.training.known_targets import KnownTarget
from backend.training.plan_given import AnswerFacts, Planned, Speed, TargetFacts
from backend.training.planner import padded_tokens
from backend.training.split import split_held_out

FLOAT32: Final = 4
#: Part of a matrix product's speed that reading with a target and training heads reach; see benchmarks/planner.py.
READ_SHARE: Final = 0.45
LEARN_SHARE: Final = 0.45
#: All tiny random targets are about this size.
TINY: Final = TargetFacts("tiny", 64, 260, 3, 130_000, 100_000, FLOAT32, 1024, LayerWeights(36_864, 8_192))
_GGUF_SIZES: Final = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_GGUF_FORMATS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_GGUF_TEXT: Final = 8
_GGUF_LIST: Final = 9


def target_facts(text: str) -> TargetFacts:
    """Of whatever `text` names. Raises HeadwayError when it names nothing, or a hub model that was not fetched yet."""
    source = resolve_source(text)
    if source.kind is SourceKind.TINY:
        return replace(TINY, name=text)
    if source.kind is SourceKind.HUB:
        return folder_facts(text, _hub_folder(source))
    assert source.path is not None
    read = gguf_facts if source.kind is SourceKind.GGUF else folder_facts
    return replace(read(text, source.path), name=text)


def folder_facts(name: str, folder: Path, value_bytes: int = FLOAT32) -> TargetFacts:
    """Of a Hugging Face folder. Raises HeadwayError when it is damaged."""
    config = read_json(folder / "config.json")
    inner = config.get("text_config")
    text = inner if isinstance(inner, dict) else config
    tensors = stored_tensors(folder)
    hidden, vocab = int(text.get("hidden_size") or 0), int(text.get("vocab_size") or 0)
    num_weights = sum(tensor.numel for tensor in tensors)
    if not (hidden and vocab and num_weights):
        raise HeadwayError(f"{folder} does not tell its sizes, so nothing can be planned for {name}.")
    outer = sum(tensor.numel for tensor in tensors if tensor.shape == (vocab, hidden))
    return TargetFacts(
        name, hidden, vocab, int(text.get("num_hidden_layers") or 1), num_weights, num_weights - outer, value_bytes,
        int(text.get("max_position_embeddings") or 1 << 20),
        layer_weights(
            hidden, *(text.get(key) for key in (
                "num_attention_heads", "num_key_value_heads", "head_dim", "intermediate_size",
            ))
        ),
    )  # fmt: skip


def layer_weights(hidden: int, heads: Any, kv_heads: Any, head_dim: Any, inner: Any) -> LayerWeights:
    """Numbers in the matrices of a layer of these sizes, with a gated feed-forward part; 0 where one is not told."""
    if not heads or not inner:
        return LayerWeights()
    width = int(head_dim or hidden // int(heads))
    wide, narrow = int(heads) * width, int(kv_heads or heads) * width
    qkv = hidden * (wide + 2 * narrow)
    return LayerWeights(qkv + hidden * wide + 3 * hidden * int(inner), qkv)


def gguf_facts(name: str, path: Path, value_bytes: int = FLOAT32) -> TargetFacts:
    """Of a GGUF file, which is loaded with its weights made whole again. Raises HeadwayError when it is damaged."""
    stamp = path.stat()
    return _gguf_facts(name, path, value_bytes, stamp.st_mtime_ns, stamp.st_size)


def answer_facts(path: Path, held_out: float, max_context: int) -> AnswerFacts:
    """Of a file of answers, split as training splits them. Raises HeadwayError when it can't be read."""
    try:
        stamp = path.stat()
    except OSError:
        raise HeadwayError(f"There is no file {path}; make answers with `distill` first.") from None
    return _answer_facts(path, held_out, max_context, stamp.st_mtime_ns, stamp.st_size)


def with_captures(
    answers: AnswerFacts, config: Planned, num_layers: int, parent: Path, known: KnownTarget | None
) -> AnswerFacts:
    """The same, with what was captured before below `parent` by a target that is known and serves this drafter."""
    if known is None:
        return answers
    settings = config.drafter
    layers, texts = settings.layers_read(num_layers), bool(settings.states_a_token)

    def there(digest: str, each: Sequence[str]) -> bool:
        return bool(serving(parent, Wanted(known.weights_id, digest, layers, texts, known.made_by, each)))

    return replace(
        answers,
        captured=there(answers.digest, answers.each),
        held_out_captured=there(answers.held_out_digest, answers.held_out_each),
    )


@lru_cache(maxsize=1)
def machine_speed() -> Speed:
    """Guessed from a product of two small matrices, which takes some 50 ms; asked once a process.

    Counted in processor time and not by the clock, so that other programs at work do not make the machine slow for
    good: it is the speed of all its processors when they are free.
    """
    size, times = 512, 10
    left = np.ones((size, size), np.float32)
    best = float("inf")
    for _ in range(times):  # the first one warms up
        started = time.process_time()
        left @ left
        best = min(best, max(time.process_time() - started, 1e-4))
    processors = (
        len(psutil.Process().cpu_affinity()) if sys.platform == "linux" else psutil.cpu_count(logical=False) or 1
    )
    product = 2.0 * size**3 / best * processors
    return Speed(read=product * READ_SHARE, learn=product * LEARN_SHARE)


@lru_cache(maxsize=32)
def _answer_facts(path: Path, held_out: float, max_context: int, changed: int, size: int) -> AnswerFacts:
    answers = unpack_answers(path) if path.suffix == ".npz" else read_answers(path).answers
    trained, held = (
        [a for a in part if a.answer_ids and a.prompt_ids and _length(a) <= max_context]
        for part in split_held_out(answers, held_out)
    )
    usable = [*trained, *held]
    return AnswerFacts(
        answers=len(usable),
        positions=sum(len(a.answer_ids) for a in trained),
        tokens=padded_tokens([_shape(a) for a in trained]),
        held_out_positions=sum(len(a.answer_ids) for a in held),
        held_out_tokens=padded_tokens([_shape(a) for a in held]),
        text_tokens=sum(map(_length, trained)),
        held_out_text_tokens=sum(map(_length, held)),
        digest=answers_digest(trained),
        held_out_digest=answers_digest(held),
        each=tuple(text_digests(trained)),
        held_out_each=tuple(text_digests(held)),
    )


def _hub_folder(source: TargetSource) -> Path:
    """Where the hub's own cache keeps the model; nothing is fetched for a plan."""
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(source.hub_id or "", "config.json", revision=source.revision)
    if not isinstance(found, str):
        raise HeadwayError(f"{source.name} is not on this machine yet; measuring fetches it and then plans.")
    return Path(found).parent


def _shape(answer: Any) -> tuple[int, int]:
    return len(answer.prompt_ids), len(answer.answer_ids)


def _length(answer: Any) -> int:
    return len(answer.prompt_ids) + len(answer.answer_ids)


@lru_cache(maxsize=16)
def _gguf_facts(name: str, path: Path, value_bytes: int, changed: int, size: int) -> TargetFacts:
    damaged = f"The GGUF file {path} is damaged or of an unknown version, so nothing can be planned for it."
    try:
        with path.open("rb") as file:
            if file.read(4) != b"GGUF" or _number(file, 4) not in (2, 3):
                raise HeadwayError(damaged)
            num_tensors, num_values = _number(file, 10), _number(file, 10)
            values = dict(_gguf_value(file) for _ in range(num_values))
            shapes = dict(_gguf_shape(file) for _ in range(num_tensors))
        kind = values["general.architecture"]
        embedding = shapes["token_embd.weight"]
        hidden, vocab = min(embedding), max(embedding)
        num_weights = sum(int(np.prod(shape)) for shape in shapes.values())
        outer = hidden * vocab * (2 if "output.weight" in shapes else 1)
        layers, context = int(values[f"{kind}.block_count"]), int(values.get(f"{kind}.context_length", 1 << 20))
    except OSError as error:
        raise HeadwayError(f"The GGUF file {path} cannot be read: {error.strerror or error}.") from error
    except (struct.error, KeyError, ValueError, OverflowError, MemoryError) as error:
        raise HeadwayError(damaged) from error
    layer = layer_weights(
        hidden,
        values.get(f"{kind}.attention.head_count"),
        values.get(f"{kind}.attention.head_count_kv"),
        values.get(f"{kind}.attention.key_length"),
        values.get(f"{kind}.feed_forward_length"),
    )
    return TargetFacts(name, hidden, vocab, layers, num_weights, num_weights - outer, value_bytes, context, layer)


def _number(file: BinaryIO, kind: int) -> Any:
    return struct.unpack(f"<{_GGUF_FORMATS[kind]}", file.read(_GGUF_SIZES[kind]))[0]


def _text(file: BinaryIO) -> str:
    return file.read(int(_number(file, 10))).decode("utf-8", "replace")


def _gguf_value(file: BinaryIO) -> tuple[str, Any]:
    """A key and its value; of a list only the length, since lists are vocabularies."""
    return _text(file), _gguf_payload(file, _number(file, 4))


def _gguf_payload(file: BinaryIO, kind: int) -> Any:
    if kind == _GGUF_TEXT:
        return _text(file)
    if kind != _GGUF_LIST:
        return _number(file, kind)
    inner, count = _number(file, 4), int(_number(file, 10))
    if inner in _GGUF_SIZES:
        file.seek(_GGUF_SIZES[inner] * count, 1)
        return count
    for _ in range(count):
        _gguf_payload(file, inner)
    return count


def _gguf_shape(file: BinaryIO) -> tuple[str, tuple[int, ...]]:
    name, dimensions = _text(file), int(_number(file, 4))
    shape = tuple(int(_number(file, 10)) for _ in range(dimensions))
    file.seek(_GGUF_SIZES[4] + _GGUF_SIZES[10], 1)  # storage type and offset
    return name, shape
