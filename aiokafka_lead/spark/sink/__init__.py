"""The sink: the batch writer, the stream writer and their tasks."""

from __future__ import annotations

from .writers import batch_writer, stream_writer

__all__ = ["batch_writer", "stream_writer"]
