"""Producing without I/O: batches, and their order, retries and outcomes."""
