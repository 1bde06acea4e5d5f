"""Libraries written for aiokafka, on `aiokafka_lead.compat`, as users run them:

    python -m tests.compat.libraries [--python PYTHON]

PYTHON is an interpreter that has them (this one by default): faststream, taskiq-aio-kafka, kstreams, ddtrace,
opentelemetry-instrumentation-aiokafka with opentelemetry-sdk. Each of the programs below runs on aiokafka, then on
`compat`, against an embedded cluster, and has to print the same. Programs whose library is missing are listed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from aiokafka_lead.testing import ClusterThread, EmbeddedCluster

TASKIQ = """
import asyncio
from taskiq.receiver import Receiver
from taskiq_aio_kafka import AioKafkaBroker

broker = AioKafkaBroker(SERVERS, kafka_topic=TOPIC)
broker.configure_consumer(group_id=TOPIC, auto_offset_reset="earliest")
done = asyncio.Event()
seen = []

@broker.task(task_name="add")
async def add(left: int, right: int) -> int:
    seen.append(left + right)
    if len(seen) == 3:
        done.set()
    return left + right

async def main():
    broker.is_worker_process = True
    await broker.startup()
    working = asyncio.create_task(Receiver(broker, run_startup=False).listen(asyncio.Event()))
    for number in range(3):
        await add.kiq(number, right=10)
    await asyncio.wait_for(done.wait(), 60)
    working.cancel()
    await asyncio.wait([working])
    await broker.shutdown()
    print(sorted(seen))
"""

FASTSTREAM = """
import asyncio
from faststream import FastStream
from faststream.kafka import KafkaBroker

broker = KafkaBroker(SERVERS, logger=None)
done = asyncio.Event()
seen = []

@broker.subscriber(TOPIC, group_id=TOPIC, auto_offset_reset="earliest")
@broker.publisher("doubled")
async def double(number: int) -> int:
    return 2 * number

@broker.subscriber("doubled", auto_offset_reset="earliest")
async def collect(number: int):
    seen.append(number)
    if len(seen) == 3:
        done.set()

async def main():
    app = FastStream(broker)
    await app.start()
    for number in range(3):
        await broker.publish(number, TOPIC)
    await asyncio.wait_for(done.wait(), 60)
    await app.stop()
    print(sorted(seen))
"""

KSTREAMS = """
import asyncio
from kstreams import ConsumerRecord, Stream, create_engine
from kstreams.backends.kafka import Kafka

engine = create_engine(title="orders", backend=Kafka(bootstrap_servers=SERVERS.split(",")))
done = asyncio.Event()
seen = []

@engine.stream(TOPIC, group_id=TOPIC, auto_offset_reset="earliest", enable_auto_commit=False)
async def consume(record: ConsumerRecord, stream: Stream):
    seen.append((record.key, record.value, record.offset))
    await stream.commit()
    if len(seen) == 3:
        done.set()

async def main():
    await engine.start()
    for number in range(3):
        metadata = await engine.send(TOPIC, value=b"%d" % number, key="ann", partition=0)
        print(metadata.topic, metadata.partition, metadata.offset)
    await asyncio.wait_for(done.wait(), 60)
    await engine.stop()
    print(seen)
"""

OPENTELEMETRY = """
from opentelemetry import trace
from opentelemetry.instrumentation.aiokafka import AIOKafkaInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter = InMemorySpanExporter()
trace.set_tracer_provider(TracerProvider())
trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(exporter))
AIOKafkaInstrumentor().instrument()

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

async def main():
    async with AIOKafkaProducer(bootstrap_servers=SERVERS, client_id="sender") as producer:
        await producer.send_and_wait(TOPIC, b"1", key=b"ann")
        await producer.send_and_wait(TOPIC, b"2", key=b"ann", headers=[("mine", b"x")])
    async with AIOKafkaConsumer(
        TOPIC, bootstrap_servers=SERVERS, client_id="reader", group_id=TOPIC, auto_offset_reset="earliest"
    ) as consumer:
        first = await consumer.getone()
        second = await consumer.getmany(timeout_ms=5000)
    print(first.headers[0][0], [name for records in second.values() for name, _ in records[0].headers])
    traces = {}
    for span in exporter.get_finished_spans():
        number = traces.setdefault(span.context.trace_id, len(traces))
        print(number, span.name, span.kind, span.parent is not None, span.status.status_code, dict(span.attributes))
"""

DDTRACE = """
import os
from ddtrace import patch
from ddtrace.trace import TraceFilter, tracer

patch(aiokafka=True)
spans = []

class Keep(TraceFilter):
    def process_trace(self, trace):
        spans.extend(trace)  # and hands none on: no agent is here

tracer.configure(trace_processors=[Keep()])

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

async def main():
    async with AIOKafkaProducer(bootstrap_servers=SERVERS, client_id="sender") as producer:
        await producer.send_and_wait(TOPIC, b"1", key=b"ann")
        await (await producer.send(TOPIC, b"2", key=b"ann"))
    async with AIOKafkaConsumer(
        TOPIC, bootstrap_servers=SERVERS, client_id="reader", group_id=TOPIC, auto_offset_reset="earliest"
    ) as consumer:
        first = await consumer.getone()
        second = await consumer.getmany(timeout_ms=5000)
        await consumer.commit()
    print(sorted(name for name, _ in first.headers), [len(each) for each in second.values()])
    changing = {"runtime-id", "_dd.p.tid", "_dd.p.dm", "kafka.received_message", "language"}
    for span in spans:
        tags = {name: value for name, value in span.get_tags().items() if name not in changing}
        print(span.name, span.resource, span.service, span.error, sorted(tags.items()))
"""

PROGRAMS = {
    "faststream": FASTSTREAM,
    "taskiq-aio-kafka": TASKIQ,
    "kstreams": KSTREAMS,
    "opentelemetry-instrumentation-aiokafka": OPENTELEMETRY,
    "ddtrace": DDTRACE,
}
"""Programs by distribution."""
INSTALL = """
import aiokafka_lead.compat
aiokafka_lead.compat.install()
"""
END = """
import asyncio, sys
asyncio.run(main())
print(sys.modules["aiokafka"].AIOKafkaProducer.__module__, file=sys.stderr)
"""


def version(python: str, distribution: str) -> str | None:
    """Return the version installed there, or None."""
    asked = f"from importlib.metadata import version; print(version({distribution!r}))"
    done = subprocess.run([python, "-c", asked], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def said(python: str, program: str, servers: str, *, compat: bool) -> str:
    """Return a program's output on one of the two, or its error if it fails."""
    source = f"SERVERS, TOPIC = {servers!r}, 'orders'\n{INSTALL if compat else ''}{program}{END}"
    environment = os.environ | {
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "DD_KAFKA_PROPAGATION_ENABLED": "1",
        "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "0",
        "DD_REMOTE_CONFIGURATION_ENABLED": "0",
    }
    done = subprocess.run([python, "-c", source], capture_output=True, text=True, env=environment, timeout=90)
    if done.returncode != 0:
        return done.stderr
    if compat and "aiokafka_lead.compat" not in done.stderr:
        return "it ran on aiokafka"
    return done.stdout.replace(servers, "SERVERS")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--only", choices=PROGRAMS)
    options = parser.parse_args()
    different = []
    for name, program in PROGRAMS.items():
        if options.only not in (None, name):
            continue
        found = version(options.python, name)
        if found is None:
            print(f"{name}: not installed")
            continue
        both = []
        for compat in (False, True):
            with ClusterThread(EmbeddedCluster(1, cluster_id="orders")) as cluster:
                cluster.create_topic("orders", partitions=1)
                both.append(said(options.python, program, cluster.bootstrap_servers, compat=compat))
        on_aiokafka, on_compat = both
        same = on_aiokafka == on_compat
        print(f"{name} {found}: {'the same' if same else 'not the same'}\n{on_aiokafka}", flush=True)
        if not same:
            print(f"but on compat:\n{on_compat}", flush=True)
            different.append(name)
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
