"""Sink of Spark queries: the writers for batch and streaming queries, and their tasks."""
