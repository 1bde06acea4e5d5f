"""Measurements against other clients: ``python -m benchmarks NAME``. Ratios of one run count, not absolute figures."""
