"""Options of a member, and its journal."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

HEARTBEAT_MS = 600
"""Heartbeat interval of the classic protocol. It is short for any session, because heartbeats report rebalances."""


class Options(TypedDict):
    """Kind of a member."""

    client: str
    """"lead" (this client), "aiokafka" or "confluent"."""
    bootstrap: str
    group: str
    topic: str
    protocol: str
    assignor: str
    instance: str | None
    session_ms: int
    """Session timeout of the classic protocol; in the new one the broker sets it."""
    batch: int
    """Maximum number of records between commits."""
    pause_ms: int
    """Time to handle a batch."""


class Journal:
    """Events on standard output, timed by the machine's monotonic clock, which all processes share."""

    def __init__(self) -> None:
        self.stopping = False
        signal.signal(signal.SIGTERM, self._stop)

    def _stop(self, *_: object) -> None:
        self.stopping = True

    def write(self, event: str, **fields: Any) -> None:
        line = json.dumps({"at": time.monotonic(), "event": event, **fields}) + "\n"
        os.write(1, line.encode())

    def moved(self, event: str, partitions: Iterable[Any]) -> None:
        self.write(event, partitions=sorted(each.partition for each in partitions))

    def read(self, ranges: Mapping[int, tuple[int, int]]) -> None:
        """Report the first offset read in each partition, and the offset after the last."""
        self.write("read", ranges={str(partition): offsets for partition, offsets in ranges.items()})

    def committed(self, offsets: Mapping[int, int]) -> None:
        self.write("committed", offsets={str(partition): offset for partition, offset in offsets.items()})
