"""Metrics that clusters ask clients for (KIP-714): the task that pushes them."""
