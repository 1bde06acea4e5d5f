"""Options of the producers of the sink."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...config import ProducerConfig
from ..kafka_options import client_options

BATCH_SIZE = 128 * 1024
"""Default of ``kafka.batch.size`` in bytes, larger than in a producer: all rows of a task are available at once."""


def producer_options(options: Mapping[str, str]) -> dict[str, Any]:
    """Return the keyword arguments for a producer, without ``bootstrap_servers``. Raises ValueError."""
    given = client_options(options, ProducerConfig)
    given.setdefault("batch_size", min(BATCH_SIZE, given.get("batch_size_max", BATCH_SIZE)))
    return given
