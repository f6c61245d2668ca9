"""Measurements, each a command: `python -m benchmarks.NAME --help`. Ratios within one run, interleaved; never part
of the tests.
"""
