"""Drafters in the layouts that others write and read: recognised, imported, exported, checked, run as they run.

Tensors and JSON only: no server, no store, and none of the engines has to be installed.
"""
