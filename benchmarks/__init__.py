"""Comparisons with other clients: ``python -m benchmarks NAME``. Compare ratios of one run, not absolute figures."""
