"""EAGLE: a decoder layer that continues the target's own last hidden states (arXiv 2401.15077); with the dynamic tree
of EAGLE-2 (arXiv 2406.16858) or a static one.
"""
