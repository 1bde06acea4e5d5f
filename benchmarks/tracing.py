"""Cost of tracing and metrics in CPU time per record: off, not sampled, sampled at 1%, and always sampled.

``python -m benchmarks tracing [--records 50000] [--rounds 7]`` uses a broker that is never the bottleneck. A request is
a span of the application with ten records. Spans are not exported, because the cost would depend on the exporter. The
cases take turns. The figure of a case is the minimum of its rounds in microseconds, followed by the difference from the
first case.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased, Sampler, TraceIdRatioBased

from aiokafka_lead import Consumer, Producer
from aiokafka_lead.otel import instrument, uninstrument

from .suite.brokers import sink
from .suite.sink import SinkTopic

PER_REQUEST = 10
VALUE = b"x" * 100


class Case(NamedTuple):
    """Way to trace records."""

    name: str
    sampler: Sampler | None
    """Sampler, or None without tracing."""
    requests: bool
    """True to send the records within requests."""
    metrics: bool = False


CASES = [
    Case("off", None, False),
    Case("requests not sampled", ParentBased(ALWAYS_OFF), True),
    Case("no request, nothing sampled", ParentBased(ALWAYS_OFF), False),
    Case("requests sampled at 1 %", ParentBased(TraceIdRatioBased(0.01)), True),
    Case("no request, sampled at 1 %", ParentBased(TraceIdRatioBased(0.01)), False),
    Case("requests sampled", ParentBased(ALWAYS_ON), True),
    Case("metrics, nothing sampled", ParentBased(ALWAYS_OFF), False, metrics=True),
]

Way = Callable[[Producer, str, int], Awaitable[None]]


async def by_send(producer: Producer, topic: str, count: int) -> None:
    for _ in range(count):
        await producer.send(topic, VALUE)


async def by_send_nowait(producer: Producer, topic: str, count: int) -> None:
    for _ in range(count):
        producer.send_nowait(topic, VALUE)


async def by_send_many(producer: Producer, topic: str, count: int) -> None:
    await producer.send_many(topic, [VALUE] * count)


async def produce(servers: str, case: Case, way: Way, records: int) -> float:
    """Return the microseconds per sent record."""
    tracer = TracerProvider(sampler=case.sampler or ALWAYS_OFF).get_tracer("benchmark")
    topic = SinkTopic(6).name
    async with Producer(servers, acks=1, enable_idempotence=False) as producer:
        await producer.send_and_wait(topic, VALUE)
        took = 0.0
        for _ in range(records // PER_REQUEST):
            # The request's span is not counted.
            with tracer.start_as_current_span("request") if case.requests else nullcontext():
                began = time.process_time()
                await way(producer, topic, PER_REQUEST)
                took += time.process_time() - began
            if producer.metrics().batches_pending > 100:
                await producer.flush()
        began = time.process_time()
        await producer.flush()
        took += time.process_time() - began
    return 1e6 * took / records


async def consume(servers: str, case: Case, records: int) -> float:
    """Return the microseconds per read record. The records have no trace context."""
    topic = SinkTopic(1, records).name
    async with Consumer(topic, bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        left = records
        began = time.process_time()
        async for _ in consumer:
            left -= 1
            if not left:
                break
        return 1e6 * (time.process_time() - began) / records


WAYS: dict[str, Way] = {"send": by_send, "send_nowait": by_send_nowait, "send_many": by_send_many}


async def measure(servers: str, case: Case, what: str, records: int) -> float:
    if case.sampler is not None:
        meters: Any = MeterProvider([InMemoryMetricReader()]) if case.metrics else None
        instrument(tracer_provider=TracerProvider(sampler=case.sampler), meter_provider=meters)
    gc.collect()
    try:
        if what == "async for":
            return await consume(servers, case, records)
        return await produce(servers, case, WAYS[what], records)
    finally:
        uninstrument()


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser("benchmarks tracing", description=__doc__)
    parser.add_argument("--records", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args(arguments)
    columns = [*WAYS, "async for"]
    found: dict[tuple[str, str], list[float]] = {}
    with sink() as brokers:
        for _ in range(options.rounds):
            for case in CASES:
                for what in columns:
                    if what != "async for" or not case.requests:
                        took = asyncio.run(measure(brokers.bootstrap, case, what, options.records))
                        found.setdefault((case.name, what), []).append(took)
    print(f"| us per record, and difference from off | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    for case in CASES:
        cells = []
        for what in columns:
            samples = found.get((case.name, what))
            least = min(samples) if samples else None
            off = min(found["off", what])
            cells.append("" if least is None else f"{least:.3f} ({least - off:+.3f})")
        print(f"| {case.name} | {' | '.join(cells)} |")
