"""Producing without I/O: batches, their order, their retries and their outcomes."""
