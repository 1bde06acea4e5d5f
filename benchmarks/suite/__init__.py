"""Shared parts of the benchmarks: a broker that costs nothing, workers for each client, rounds, and reports."""
