"""Common parts of the benchmarks: a broker that is never the bottleneck, workers for each client, and reports."""
