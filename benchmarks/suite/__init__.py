"""Shared parts of the benchmarks: a broker that is never the limit, a worker for each client, rounds, and reports."""
