"""Sweeps: which settings to try, what is wanted of them, who proposes the next one, and what the results say.

Functions of values and numbers. Nothing here remembers, starts a process or draws a page; only `scoring` runs a model.
"""
