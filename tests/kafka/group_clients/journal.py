"""What a member is to be, and what it tells."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

HEARTBEAT_MS = 600
"""Of the classic protocol, however long sessions are: with it members hear of rebalances."""


class Options(TypedDict):
    """What kind of member it is to be."""

    client: str
    """"lead" (this client), "aiokafka" or "confluent"."""
    bootstrap: str
    group: str
    topic: str
    protocol: str
    assignor: str
    instance: str | None
    session_ms: int
    """Of the classic protocol; in the new one it is the broker's."""
    batch: int
    """At most so many records between commits."""
    pause_ms: int
    """How long a batch takes to handle."""


class Journal:
    """What happened, on standard output; the clock is the machine's monotonic one, the same in all processes."""

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
        """The first offset that was read in each partition, and the one after the last."""
        self.write("read", ranges={str(partition): offsets for partition, offsets in ranges.items()})

    def committed(self, offsets: Mapping[int, int]) -> None:
        self.write("committed", offsets={str(partition): offset for partition, offset in offsets.items()})
