"""Draft trees as values: which drafted token hangs under which. Knows no model and no probabilities."""

from backend.trees.shapes import TreeShape, chain, product
from backend.trees.tree import DraftTree

__all__ = ["DraftTree", "TreeShape", "chain", "product"]
