"""Topics with the times of all records and leader moves of a benchmark.

``python -m benchmarks spark_traces`` and ``spark_moves`` read them with Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from aiokafka_lead import AdminClient, Producer
from aiokafka_lead.admin import NewTopic

TRACES, MOVES = "traces", "moves"
"""Names of the topics."""
SCHEMA = "run string, client string, phase string, record bigint, sent_us bigint, acked_us bigint, consumed_us bigint"
"""Fields of a trace as a schema of Spark SQL. Values in the topic are JSON objects with these fields."""
MOVE_SCHEMA = (
    "run string, client string, condition string, backoff_ms bigint, at_us bigint, until_us bigint, "
    "leaderless_us bigint, stopped_us bigint, started_us bigint, at_once_us bigint"
)
"""Fields of a move's trace as a schema of Spark SQL."""
_AT_ONCE = 5_000
_PARTITIONS = 6


class Trace(NamedTuple):
    """Times of a record in microseconds of the same clock, or None for a step that never happened."""

    run: str
    client: str
    """Name of the record's client, such as ``lead`` or ``lead-no-hints``."""
    phase: str
    """Phase of the benchmark, such as ``steady`` or ``leaders move``."""
    record: int
    sent_us: int
    acked_us: int | None = None
    consumed_us: int | None = None


class MoveTrace(NamedTuple):
    """Leader move of the only partition of a run, with times in microseconds of the same clock as its records."""

    run: str
    client: str
    condition: str
    """Condition of the brokers, such as ``idle brokers``."""
    backoff_ms: int
    at_us: int
    until_us: int
    """Time of the next move."""
    leaderless_us: int | None
    """Time from which no broker led the partition; None if not seen."""
    stopped_us: int | None
    """Time of the old leader's last acknowledgement to a prober; None if not seen."""
    started_us: int | None
    """Time of the new leader's first acknowledgement."""
    at_once_us: int | None
    """Time of the first acknowledgement to an ideal client, which learns of the move at once; None if not seen."""


async def prepare_topic(bootstrap: str, topic: str) -> None:
    """Create the topic if it does not exist. Call this before a measurement, whose results could otherwise be lost."""
    async with AdminClient(bootstrap) as admin:
        if topic not in await admin.list_topics():
            await admin.create_topics([NewTopic(topic, _PARTITIONS)])


async def write_traces(bootstrap: str, topic: str, traces: Iterable[Trace | MoveTrace]) -> int:
    """Append traces to the topic in chunks, because they may not fit in memory. Return their number."""
    written = 0
    left = iter(traces)
    async with Producer(bootstrap, compression_type="zstd") as producer:
        while some := list(islice(left, _AT_ONCE)):
            batch = await producer.send_many(topic, [json.dumps(trace._asdict()).encode() for trace in some])
            for outcome in await batch:
                if isinstance(outcome, Exception):
                    raise outcome
            written += len(some)
    return written
