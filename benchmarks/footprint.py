"""Import time, and memory of imports, idle consumers and waiting records: ``python -m benchmarks footprint``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

from .stats import table
from .suite.brokers import Brokers, sink
from .suite.report import bars
from .suite.rounds import OURS, PEERS, Case, Contender, Sample, parser, play, save, spreads
from .suite.sink import MUTE, SinkTopic
from .suite.workload import Workload

IMPORTS = {
    "aiokafka_lead": "from aiokafka_lead import Consumer, Producer",
    "aiokafka": "from aiokafka import AIOKafkaConsumer, AIOKafkaProducer",
    "confluent": "from confluent_kafka import Consumer, Producer",
    "confluent AIO": "from confluent_kafka.aio import AIOConsumer, AIOProducer",
    "kafka-python": "from kafka import KafkaConsumer, KafkaProducer",
    "asyncio alone": "import asyncio",
}
PROGRAM = """
import json, os, time
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
before, began = resident(), time.process_time()
{}
print(json.dumps({{"ms": (time.process_time() - began) * 1000, "MiB": (resident() - before) / 2**20}}))
"""
RUNS_OF_IMPORT = 4
"""Number of imports in each round. One is too quick to measure."""


def imports(rounds: int) -> list[Sample]:
    """Measure each import in a new interpreter, in turn. The first turn, which compiles the modules, does not count."""
    samples = []
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for number in range(rounds * RUNS_OF_IMPORT + 1):
            for name, statement in IMPORTS.items():
                command = [sys.executable, "-c", PROGRAM.format(statement)]
                done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
                if number:
                    samples.append(Sample("import", name, json.loads(done.stdout)))
    return samples


def main(arguments: list[str]) -> None:
    options = parser("footprint", __doc__).parse_args(arguments)
    samples = imports(options.rounds)
    times, memory = spreads(samples, "ms"), spreads(samples, "MiB")
    print("\nImport in a new interpreter, including asyncio\n")
    rows = [[key[1], times[key].best, times[key].middle, memory[key].middle] for key in times]
    print(table(["client", "CPU ms, best", "CPU ms, median", "MiB"], rows))

    def consumer(contender: Contender, place: Brokers) -> Workload:
        return Workload("idle", contender.client, place.bootstrap, SinkTopic(6).name, clients=50)

    def record(contender: Contender, place: Brokers) -> Workload:
        return Workload("buffered", contender.client, place.bootstrap, SinkTopic(6).name + MUTE, records=100_000)

    contenders = [OURS[0], PEERS[0], PEERS[2]]
    with sink() as place:
        consumers = play([Case("idle consumer, KiB", contenders, consumer)], place, options)
        records = play([Case("waiting record, bytes in addition to its 100", contenders, record)], place, options)
    held = {**spreads(consumers, "KiB"), **spreads(records, "bytes")}
    print("\nMemory of one more idle consumer, and of one more waiting record\n")
    print(table(["", "memory"], [[f"{what}: {who}", f"{spread.middle:.0f}"] for (what, who), spread in held.items()]))
    save(options, "footprint", [*samples, *consumers, *records], {"import": bars("Import", "ms of CPU", times)})
