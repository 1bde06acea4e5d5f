"""Task of a worker, which is passed to its process as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Self

LINGER_MS = 5
WINDOW = 100_000
"""Maximum number of records in flight if deliveries are awaited. At this number, the older half is awaited.

It equals the number of records that confluent-kafka buffers.
"""


@dataclass(frozen=True, slots=True)
class Workload:
    """Measurement of a client. Each kind of work uses some of the fields."""

    work: str
    """``produce``, ``consume``, ``latency``, ``steady``, ``transactions``, ``share``, ``share_moves``, ``idle`` or
    ``buffered``."""
    client: str
    """Module of `benchmarks.suite.clients`."""
    bootstrap: str
    topic: str
    method: str = "send"
    """Method of the client. The docstring of its module lists the methods."""
    loop: str = "asyncio"
    """``asyncio``, ``uvloop`` or ``trio``."""
    pure: bool = False
    """True to ignore the compiled modules of this client."""
    records: int = 100_000
    size: int = 100
    compression: str = "none"
    keyed: bool = False
    acks: str = "all"
    partitions: int = 6
    spread: bool = False
    """True to send records to the partitions in turn, `run` records to each; False to let the client choose."""
    run: int = 20
    transaction: int = 1
    """Number of records in each transaction."""
    group: str = ""
    """Share group that takes records."""
    seconds: float = 0.0
    """Duration in seconds, if the number of records does not determine it."""
    rate: int = 0
    """Records per second, for a steady rate."""
    clients: int = 1
    """Number of clients in the process."""
    ticks: bool = False
    """True to measure pauses of the event loop, which takes CPU time."""

    def to_json(self) -> str:
        """Return the workload as JSON, for a worker's command line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse the output of `to_json`."""
        return cls(**json.loads(text))
