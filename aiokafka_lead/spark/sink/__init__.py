"""Sink of Spark queries: the writers for batch and streaming queries, and their tasks."""

from __future__ import annotations

from .writers import batch_writer, stream_writer

__all__ = ["batch_writer", "stream_writer"]
