"""Shared parts of the benchmarks: a broker that is never the limit, workers for each client, rounds, and reports."""
