"""The options of the producers that write rows, the same where they are checked and where they are used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...config import ProducerConfig
from ..kafka_options import client_options

__all__ = ["BATCH_SIZE", "producer_options"]

BATCH_SIZE = 128 * 1024
"""``kafka.batch.size`` where it is not given: a task has its rows at hand, and larger batches cost less."""


def producer_options(options: Mapping[str, str]) -> dict[str, Any]:
    """Keyword arguments for a producer, without the bootstrap servers. Raises ValueError as `client_options` does."""
    given = client_options(options, ProducerConfig)
    given.setdefault("batch_size", min(BATCH_SIZE, given.get("batch_size_max", BATCH_SIZE)))
    return given
