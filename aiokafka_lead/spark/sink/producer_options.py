"""The options of the producers that write rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...config import ProducerConfig
from ..kafka_options import client_options

BATCH_SIZE = 128 * 1024
"""Default of ``kafka.batch.size`` in bytes. A task need not wait for rows, and larger batches cost less."""


def producer_options(options: Mapping[str, str]) -> dict[str, Any]:
    """Return keyword arguments for a producer, without servers. Raises ValueError like `client_options`."""
    given = client_options(options, ProducerConfig)
    given.setdefault("batch_size", min(BATCH_SIZE, given.get("batch_size_max", BATCH_SIZE)))
    return given
