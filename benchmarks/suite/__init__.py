"""What the benchmarks share: a broker that costs nothing, workers for each client, rounds, and reports."""
