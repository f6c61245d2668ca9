"""Draft trees as values: which drafted token hangs under which. Knows no model and no probabilities."""

from backend.trees.adaptive import AdaptiveShape
from backend.trees.dynamic import DynamicShape, Tree, parse_any_tree
from backend.trees.shapes import TreeShape, chain, product
from backend.trees.tree import DraftTree

__all__ = ["AdaptiveShape", "DraftTree", "DynamicShape", "Tree", "TreeShape", "chain", "parse_any_tree", "product"]
