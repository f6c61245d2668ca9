"""Constrained decoding: which tokens a JSON schema allows after every node of a draft tree.

A grammar is a change to the target's law, like top-p: what it forbids gets probability 0, at each node according to the
node's own path. The acceptance rules stay as they are and stay exact: what comes out is what plain decoding under the
same grammar would give. Which tokens are allowed is llguidance's business; the path a node stands on is ours. Knows no
target and no rule.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from backend.errors import HeadwayError

BITS = 32  #: tokens in one number of a mask
#: (column, its mask int32 [words], its children's tokens, tokens that must follow) -> what its children become.
Choose = Callable[[int, Tensor, list[int], list[int]], list[int]]


class Grammar:
    """A schema made ready for one tokenizer.

    Raises HeadwayError when the schema is no JSON, when it asks for something that can't be constrained, or when the
    tokenizer is one that can't be read.
    """

    def __init__(self, schema: str, tokenizer: Any, vocab_size: int, end_tokens: Sequence[int]) -> None:
        """vocab_size: length of the target's logits; end_tokens: those that may stand where the text is complete."""
        self.schema, self.vocab_size = schema, vocab_size
        check_schema(schema)
        hf, matcher = _library()
        text = matcher.grammar_from_json_schema(schema)
        try:
            self._tokenizer = hf.from_tokenizer(tokenizer, n_vocab=vocab_size, eos_token=list(end_tokens))
        except ValueError as error:
            raise HeadwayError(f"This target's tokenizer can't be held to a schema ({error}).") from None
        problem = matcher.validate_grammar(text, self._tokenizer)
        if problem:
            first = str(problem).strip().splitlines()[0].rstrip(".")
            raise HeadwayError(f"The schema can't be followed ({first}); simplify it.")
        self._make: Callable[[], Any] = lambda: matcher(self._tokenizer, text)

    def start(self) -> GrammarRow:
        """At the beginning of an answer."""
        return GrammarRow(self._make(), self.vocab_size)


class GrammarRow:
    """Where one answer stands in the grammar."""

    def __init__(self, matcher: Any, vocab_size: int) -> None:
        self._matcher = matcher
        self._words = -(-vocab_size // BITS)

    def allowed(self, tokens: Sequence[int], parents: Sequence[int]) -> Tensor:
        """Bit masks int32 [M, ceil(V / 32)] of what may stand behind each column of a tree.

        Column 0 is the last written token, the answer as it stands; tokens and parents are those of the other columns
        (parents of smaller number; -1 pads). Columns on a forbidden path allow everything: nothing gets there, since
        the column above forbids it.
        """
        return self.held(tokens, parents, None)[1]

    def held(
        self, tokens: Sequence[int], parents: Sequence[int], choose: Choose | None
    ) -> tuple[list[int], Tensor]:
        """The tokens of the columns after `choose` has had its say at every parent, and the masks of `allowed`."""
        masks = torch.full((len(tokens), self._words), -1, dtype=torch.int32)
        children: dict[int, list[int]] = {}
        for column in range(1, len(tokens)):
            if parents[column] >= 0:
                children.setdefault(parents[column], []).append(column)
        kept = list(tokens)
        self._visit(0, kept, children, masks, choose)
        return kept, masks

    def _visit(
        self, column: int, tokens: list[int], children: dict[int, list[int]], masks: Tensor, choose: Choose | None
    ) -> None:
        """Depth first: the matcher stands behind `column`, and does so again at the end."""
        masks[column] = torch.frombuffer(bytearray(self._matcher.compute_bitmask()), dtype=torch.int32)[: self._words]
        under = children.get(column, [])
        if under and choose is not None:
            forced = self._matcher.compute_ff_tokens()
            chosen = choose(column, masks[column], [tokens[child] for child in under], forced)
            for child, token in zip(under, chosen, strict=True):
                tokens[child] = token
        for child in under:
            if self._matcher.validate_tokens([tokens[child]]) == 1:
                self._matcher.consume_token(tokens[child])
                self._visit(child, tokens, children, masks, choose)
                self._matcher.rollback(1)

    def write(self, tokens: Sequence[int]) -> None:
        """The answer goes on with these tokens. What stands behind its end does not matter."""
        self._matcher.try_consume_tokens(list(tokens))


def check_schema(schema: str) -> None:
    """What can be known without a tokenizer. Raises HeadwayError for a text that is no JSON object."""
    try:
        found = json.loads(schema)
    except ValueError as error:
        raise HeadwayError(f"The schema is no JSON ({error}); give a JSON schema or a file with one.") from None
    if not isinstance(found, dict):
        raise HeadwayError('A JSON schema is an object, such as {"type": "object"}; give one.')


def forbid(logits: Tensor, masks: Tensor) -> Tensor:
    """Logits float [..., V] with -inf where masks int32 [..., ceil(V / 32)] have no bit; a new tensor."""
    bits = torch.arange(BITS, device=masks.device, dtype=torch.int32)
    allowed = ((masks[..., None] >> bits) & 1).bool().flatten(-2)[..., : logits.shape[-1]]
    return logits.masked_fill(~allowed, -torch.inf)


def _library() -> tuple[Any, Any]:
    """(tokenizers from Hugging Face, matchers)."""
    try:
        import llguidance.hf
    except ImportError:
        raise HeadwayError(
            "Answers can't be held to a schema without the package llguidance; install the requirements again."
        ) from None
    return llguidance.hf, llguidance.LLMatcher
