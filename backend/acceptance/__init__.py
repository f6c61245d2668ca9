"""Acceptance rules: which drafted tokens are committed. Functions of (tree, logits, draft distribution, chance)."""

from backend.acceptance.processors import SamplingSettings, mark_seen, process_logits, seen_by_node, seen_tokens
from backend.acceptance.result import Acceptance, DraftDistribution, Verdict
from backend.acceptance.rules import RULE_NAMES, Rule, RuleName, check, verify
from backend.acceptance.sampling import Chance, draw, sample_without_replacement, uniforms

__all__ = [
    "RULE_NAMES",
    "Acceptance",
    "Chance",
    "DraftDistribution",
    "Rule",
    "RuleName",
    "SamplingSettings",
    "Verdict",
    "check",
    "draw",
    "mark_seen",
    "process_logits",
    "sample_without_replacement",
    "seen_by_node",
    "seen_tokens",
    "uniforms",
    "verify",
]
