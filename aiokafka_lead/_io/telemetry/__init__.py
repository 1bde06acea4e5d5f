"""Metrics requested from clients by clusters (KIP-714): the task that pushes them."""
