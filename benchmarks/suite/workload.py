"""What a worker is asked to do. Travels to its process as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Self

LINGER_MS = 5
WINDOW = 100_000
"""Records that are on their way at most, where deliveries are awaited: the number that confluent-kafka takes,
whose callbacks nobody waits for. The older half is awaited when there are that many."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One measurement of one client. Not every field means something to every kind of work."""

    work: str
    """``produce``, ``consume``, ``latency``, ``steady``, ``transactions``, ``share``, ``share_moves``, ``idle`` or
    ``buffered``."""
    client: str
    """A module of `benchmarks.suite.clients`."""
    bootstrap: str
    topic: str
    method: str = "send"
    """How the client is called: see its module."""
    loop: str = "asyncio"
    """``asyncio``, ``uvloop`` or ``trio``."""
    pure: bool = False
    """Whether compiled modules of this client are left aside."""
    records: int = 100_000
    size: int = 100
    compression: str = "none"
    keyed: bool = False
    acks: str = "all"
    partitions: int = 6
    spread: bool = False
    """Whether the records go to all partitions in turn, a run of `run` to each, and not where the client wants."""
    run: int = 20
    transaction: int = 1
    """Records of each transaction."""
    group: str = ""
    """The share group that takes records."""
    seconds: float = 0.0
    """How long, where that is not a matter of records."""
    rate: int = 0
    """Records a second, where they come at a steady rate."""
    clients: int = 1
    """How many clients in the process."""
    ticks: bool = False
    """Whether the event loop's pauses are measured, which costs CPU."""

    def to_json(self) -> str:
        """For the command line of a worker."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The reverse."""
        return cls(**json.loads(text))
