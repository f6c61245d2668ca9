"""EAGLE-3: a decoder layer that reads a low, a middle and a high layer of the target (arXiv 2503.01840)."""
