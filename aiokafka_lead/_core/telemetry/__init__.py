"""Metrics that clusters ask clients for (KIP-714), without I/O."""
