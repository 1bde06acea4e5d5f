"""Gathers what a producer's health is judged by. Asks nobody, and costs little."""

from __future__ import annotations

import time

from ..._core.producer.accumulator import Accumulator
from ..._core.producer.health import ProducerFacts, ProducerHealth, judge_producer
from ..client import Client

__all__ = ["health_of"]


def health_of(
    client: Client, accumulator: Accumulator, *, started_at: float | None, stopped: bool, patience_s: float
) -> ProducerHealth:
    """How things are now; records may wait for ``patience_s`` without any acknowledgement."""
    now = time.monotonic()
    unusable = None
    if client.fatal is not None:
        unusable = f"the producer has failed: {client.fatal}"
    elif stopped:
        unusable = "the producer has been stopped"
    elif started_at is None:
        unusable = "the producer has not been started"
    oldest = min(
        (
            queue.batches[0].created_at
            for topic in list(accumulator.topics.values())
            for queue in list(topic.pending)
            if queue.batches
        ),
        default=None,
    )
    acked_at = accumulator.counters.acked_at
    memory = accumulator.memory
    facts = ProducerFacts(
        unusable=unusable,
        connected=any(node_id >= 0 for node_id in client.metadata.snapshot.brokers),
        since_start_s=0.0 if started_at is None else now - started_at,
        pending_s=None if oldest is None else now - oldest,
        since_ack_s=now - acked_at if acked_at else None,
        buffer_used=memory.used / memory.limit,
        sends_waiting=len(memory.waiting),
        reachable=client.brokers.reachable,
    )
    return judge_producer(facts, patience_s)
