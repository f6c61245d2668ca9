"""Prompt lookup: continue the way the text went on the last time these words stood there."""
