"""What a producer counts as it goes.

Hot: this module is compiled through ``counters.pxd`` where a compiler is, and runs as it is elsewhere.
"""

from __future__ import annotations

from ..leadership.moves import LeaderMoveCounters

__all__ = ["COUNTED", "ProducerCounters"]

COUNTED = (
    "batches_acked",
    "batches_failed",
    "batches_sent",
    "batches_split",
    "buffer_waits",
    "bytes_sent",
    "catch_up_waits",
    "free_retries",
    "records_acked",
    "records_expired",
    "records_failed",
    "records_sent",
    "requests",
    "retries",
)
"""The counts that `ProducerMetrics` has under the same names."""


class ProducerCounters:
    """Counts since the producer was made; `ProducerMetrics` tells what they mean."""

    __slots__ = (*COUNTED, "moves")

    def __init__(self) -> None:
        self.batches_acked = 0
        self.batches_failed = 0
        self.batches_sent = 0
        self.batches_split = 0
        self.buffer_waits = 0
        self.bytes_sent = 0
        self.catch_up_waits = 0
        self.free_retries = 0
        self.records_acked = 0
        self.records_expired = 0
        self.records_failed = 0
        self.records_sent = 0
        self.requests = 0
        self.retries = 0
        self.moves = LeaderMoveCounters()
