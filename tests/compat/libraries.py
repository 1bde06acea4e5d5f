"""Libraries written for aiokafka, on `aiokafka_lead.compat`, as users run them:

    python -m tests.compat.libraries --install FOLDER [--tests NAME=CHECKOUT ...]

Creates a virtual environment in FOLDER, unless it exists, and installs the releases below, for which pip has to reach a
package index. Each program then runs on aiokafka and on `compat`, against an embedded cluster, and has to print the
same on both. With ``--tests``, the Kafka tests of the library NAME also run on both, from a clone or an unpacked source
archive (library_tests.py). The last lines are a table for the guide. Alternatively, ``--python`` names an interpreter
that has the libraries; programs whose library is missing are listed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from aiokafka_lead.testing import ClusterThread, EmbeddedCluster

from .library_tests import SUITES, compared

RELEASES = (
    "aiokafka==0.14.0",
    "faststream[kafka]==0.7.8",
    "ktables==2.0.0",
    "taskiq-aio-kafka==1.0.0",
    "kafka-python<2.3",  # aiokafka fails with the assignor that taskiq-aio-kafka takes from version 2.3
    "kstreams==0.34.6",
    "broadcaster==0.3.1",
    "amgi-aiokafka==0.49.0",
    "opentelemetry-instrumentation-aiokafka==0.66b1",
    "opentelemetry-sdk",
    "ddtrace==4.16.0",
)
FOR_TESTS = (
    "pytest",
    "pytest-asyncio",
    "pytest-timeout",
    "pytest-rerunfailures",
    "hypothesis",
    "redis",
    "pytest-httpserver",
    "opentelemetry-test-utils==0.66b1",
    "faststream[nats,rabbit]",  # as the rest, for FastStream's tests
    "dirty-equals",
    "email-validator",
    "fastapi",
    "httpx",
    "psutil",
    "pydantic-settings",
)

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

KTABLES = """
from ktables import KafkaTable, KafkaTableWriter
from pydantic import BaseModel

class Service(BaseModel):
    host: str

async def main():
    async with KafkaTableWriter.json(connection=SERVERS, topic="services", model=Service) as writer:
        for name in ("billing", "mail", "search"):
            await writer.set(name, Service(host=name + "-1"))
        await writer.delete("mail")
        async with KafkaTable.json(connection=SERVERS, topic="services", model=Service) as table:
            print(table.status, table.get("billing"), table.get("mail"))
            await writer.set("billing", Service(host="billing-2"))
            print(await table.barrier(), table.get("billing"), table.get("search"))
"""

BROADCASTER = """
import asyncio
from broadcaster import Broadcast

async def main():
    async with Broadcast("kafka://" + SERVERS) as broadcast:
        async with broadcast.subscribe(channel=TOPIC) as first:
            await broadcast.publish(TOPIC, "before")
            print((await first.get()).message)
        async with broadcast.subscribe(channel=TOPIC) as again:
            await broadcast.publish(TOPIC, "after")
            print((await again.get()).message)
"""

AMGI = """
import asyncio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from amgi_aiokafka import Server

seen = []

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        for event in ("startup", "shutdown"):
            print((await receive())["type"])
            await send({"type": f"lifespan.{event}.complete"})
        return
    print(scope["address"], scope["payload"], scope["bindings"], scope["headers"])
    doubled = {"type": "message.send", "address": "doubled", "headers": [], "payload": scope["payload"] * 2}
    await send(doubled)
    await send({"type": "message.ack"})

async def main():
    server = Server(app, TOPIC, bootstrap_servers=SERVERS, group_id=TOPIC, auto_offset_reset="earliest")
    serving = asyncio.create_task(server.serve())
    async with AIOKafkaProducer(bootstrap_servers=SERVERS) as producer:
        for number in range(3):
            await producer.send_and_wait(TOPIC, b"%d" % number, b"ann", headers=[("mine", b"x")])
    async with AIOKafkaConsumer("doubled", bootstrap_servers=SERVERS, auto_offset_reset="earliest") as consumer:
        print([(await consumer.getone()).value for _ in range(3)])
    server.stop()
    await serving
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
    "ktables": KTABLES,
    "broadcaster": BROADCASTER,
    "amgi-aiokafka": AMGI,
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
    """Return a program's output on one of the two clients, or its error if it fails."""
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


def installed(folder: Path) -> str:
    """Return the interpreter of an environment with the releases in this folder, which is created if it is missing."""
    python = str(folder / "bin" / "python")
    if not Path(python).exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    # Also into an existing environment: an earlier installation may have failed, or have other releases.
    subprocess.run([python, "-m", "pip", "install", "--quiet", *RELEASES, *FOR_TESTS], check=True)
    return python


def same_output(python: str, name: str) -> bool:
    """Run a library's program on both clients, and print its output."""
    both = []
    for compat in (False, True):
        with ClusterThread(EmbeddedCluster(1, cluster_id="orders")) as cluster:
            for topic in ("orders", "doubled"):
                cluster.create_topic(topic, partitions=1)
            both.append(said(python, PROGRAMS[name], cluster.bootstrap_servers, compat=compat))
    on_aiokafka, on_compat = both
    print(on_aiokafka, flush=True)
    if on_aiokafka != on_compat:
        print(f"but on compat:\n{on_compat}", flush=True)
    return on_aiokafka == on_compat


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--install", type=Path, metavar="FOLDER")
    parser.add_argument("--only", choices=PROGRAMS)
    parser.add_argument("--tests", action="append", default=[], metavar="NAME=CHECKOUT", help=", ".join(SUITES))
    options = parser.parse_args()
    python = options.python if options.install is None else installed(options.install)
    rows, different = [], []
    for name in [options.only] if options.only else PROGRAMS:
        found = version(python, name)
        print(f"--- {name} {found or 'is not installed'}", flush=True)
        if found is not None:
            same = same_output(python, name)
            rows.append(f"| {name} {found} | its program | {'the same' if same else 'not the same'} |")
            different += [] if same else [name]
    for name, checkout in (given.split("=", 1) for given in options.tests):
        print(f"--- tests of {name}", flush=True)
        on_aiokafka, on_compat, differences = compared(python, name, Path(checkout))
        print(*differences, sep="\n", flush=True)
        rows.append(f"| {name} {version(python, name)} | {on_aiokafka} of its tests pass | {on_compat} pass |")
        different += [name] if differences else []
    print("| library | on aiokafka | on compat |", "|---|---|---|", *rows, sep="\n")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
