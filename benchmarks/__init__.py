"""Benchmarks, mostly comparisons with other clients: ``python -m benchmarks NAME``.

Compare the ratios within one run, not absolute figures of different runs.
"""
