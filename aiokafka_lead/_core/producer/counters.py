"""What a producer counts as it goes.

Hot: this module is compiled through ``counters.pxd`` where a compiler is, and runs as it is elsewhere.
"""

from __future__ import annotations

from ..leadership.moves import LeaderMoveCounters

__all__ = ["ProducerCounters"]


class ProducerCounters:
    """Counts since the producer was made; `ProducerMetrics` has all under the same names, and says what they count."""

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
