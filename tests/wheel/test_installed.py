"""Checks for every wheel and every installation from source. They need only pytest and the package.

``make dist`` and cibuildwheel run this folder on their installations, on every Python that they have.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import aiokafka_lead
from aiokafka_lead import Consumer, Producer
from aiokafka_lead.config.options import CompressionType
from aiokafka_lead.testing import ClusterThread, EmbeddedCluster

CODECS: list[CompressionType] = ["none", "gzip", "snappy", "lz4", "zstd"]
OTHERS = ["lz4", "zstandard", "backports", "compression"]
"""Libraries that are missing on some Pythons, on which cramjam stands in."""


async def there_and_back(codec: CompressionType) -> None:
    """Send records of one codec through a cluster with a moving leader; read and commit them as a group's member."""
    values = [b"%d" % number * 50 for number in range(200)]
    async with EmbeddedCluster(2) as cluster:
        cluster.create_topic("events", replication_factor=2)
        async with Producer(cluster.bootstrap_servers, compression_type=codec, reconnect_backoff_ms=10) as producer:
            for value in values[:100]:
                await producer.send("events", value)
            await producer.flush()
            cluster.move_leader("events", 0, to=3 - cluster.leader("events"))
            for value in values[100:]:
                await producer.send("events", value)
        async with Consumer(
            "events", bootstrap_servers=cluster.bootstrap_servers, group_id="g", auto_offset_reset="earliest"
        ) as consumer:
            got: list[bytes | None] = []
            while len(got) < len(values):
                got += [
                    record.value for records in (await consumer.getmany(timeout_ms=1000)).values() for record in records
                ]
            await consumer.commit()
        assert got == values


@pytest.mark.parametrize("codec", CODECS)
def test_records_there_and_back(codec: CompressionType) -> None:
    asyncio.run(there_and_back(codec))


async def own_records(servers: str, topic: str, codec: CompressionType) -> None:
    """Check that an event loop's records are its own, complete, unchanged and in order, while other loops run."""
    values = [f"{topic} {number}".encode() * 5 for number in range(2000)]
    async with Producer(servers, compression_type=codec, batch_size=2000) as producer:
        for value in values:
            await producer.send(topic, value, partition=0)
    async with Consumer(topic, bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        got = []
        async for record in consumer:
            got.append(record.value)
            if len(got) == len(values):
                break
    assert got == values


def test_threads_with_an_event_loop_each() -> None:
    """Eight at once that share only modules. It is most telling without an interpreter lock."""
    topics = [f"of-thread-{number}" for number in range(8)]
    with ClusterThread(EmbeddedCluster(2)) as cluster, ThreadPoolExecutor(len(topics)) as threads:
        for topic in topics:
            cluster.create_topic(topic)
        ends = [
            threads.submit(asyncio.run, own_records(cluster.bootstrap_servers, topic, CODECS[number % len(CODECS)]))
            for number, topic in enumerate(topics)
        ]
        for end in ends:
            end.result(timeout=60)


async def sent_from_threads(threads: int, count: int) -> None:
    """Send from an event loop and from threads, whose calls of ``send`` run on that loop."""
    loop = asyncio.get_running_loop()
    async with EmbeddedCluster(1) as cluster, Producer(cluster.bootstrap_servers) as producer:
        cluster.create_topic("events")

        def send(thread: int) -> None:
            calls = [
                asyncio.run_coroutine_threadsafe(producer.send("events", b"%d %d" % (thread, number)), loop)
                for number in range(count)
            ]
            for call in calls:
                call.result(timeout=60)

        with ThreadPoolExecutor(threads) as pool:
            ends = [loop.run_in_executor(pool, send, thread) for thread in range(1, threads + 1)]
            for number in range(count):
                await producer.send("events", b"0 %d" % number)
                await asyncio.sleep(0)
            await asyncio.gather(*ends)
        await producer.flush()
        got = [record.value or b"" for record in cluster.records("events")]
        assert sorted(got) == sorted(b"%d %d" % (thread, n) for thread in range(threads + 1) for n in range(count))
        for thread in range(threads + 1):
            own = [value for value in got if value.startswith(b"%d " % thread)]
            assert own == [b"%d %d" % (thread, number) for number in range(count)]


def test_other_threads_send_by_way_of_the_event_loop() -> None:
    asyncio.run(sent_from_threads(threads=4, count=1000))


LOCKED = """
import sys
if not getattr(sys, "_is_gil_enabled", lambda: True)():
    import aiokafka_lead._io.producer.send_methods
    from aiokafka_lead import Consumer, Producer
    assert not sys._is_gil_enabled()
"""


def test_the_interpreter_lock_stays_away_where_there_is_none() -> None:
    done = run(LOCKED)  # Python warns if an import brings it back
    assert done.returncode == 0, done.stderr


FOLDER = str(Path(__file__).parents[2])


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([FOLDER, *sys.path])} | environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


WITHOUT = f"""
import asyncio, sys
sys.modules.update(dict.fromkeys({OTHERS!r}))
from tests.wheel.test_installed import there_and_back
for codec in ("lz4", "zstd"):
    asyncio.run(there_and_back(codec))
used = {{name.rpartition(".")[2] for name in sys.modules if "compression." in name and "_by_" in name}}
assert used == {{"lz4_by_cramjam", "zstd_by_cramjam"}}, used
"""


def test_without_the_libraries_that_some_pythons_lack() -> None:
    done = run(WITHOUT)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif("EXPECT_ACCELERATED" not in os.environ, reason="nobody says whether it should be compiled")
def test_it_is_compiled_where_it_should_be() -> None:
    assert os.environ["EXPECT_ACCELERATED"] == str(int(aiokafka_lead.ACCELERATED))


PLAIN = """
import asyncio, sys
from tests.wheel.plain import SourceOnly
sys.meta_path.insert(0, SourceOnly)
from aiokafka_lead import ACCELERATED, Consumer, Producer
from aiokafka_lead.testing import EmbeddedCluster
async def main():
    async with EmbeddedCluster(1) as cluster:
        async with Producer(cluster.bootstrap_servers), Consumer(bootstrap_servers=cluster.bootstrap_servers):
            pass
asyncio.run(main())
assert not ACCELERATED
"""


def test_plain_python_is_said_once_and_can_be_silenced() -> None:
    said = run(PLAIN, AIOKAFKA_LEAD_PURE="0").stderr
    assert said.count("runs as plain Python") == 1
    assert run(PLAIN, AIOKAFKA_LEAD_PURE="1").stderr == ""


IMPORTED = """
import asyncio, sys
before = set(sys.modules)
{}
print(*sorted(set(sys.modules) - before))
"""
NEEDED = {"aiokafka", "aiokafka_lead", "anyio", "cython_runtime", "idna", "sniffio", "typing_extensions"}
LATER = {
    "_core.transactions", "_io.group", "_io.run", "_io.transactions", "_options.tls", "_records.arrow",
    "_records.compression.lz4_by_lz4", "_records.compression.zstd_by_zstandard", "_wire.server", "admin", "cli",
    "compat", "config.options", "oidc", "producer.transaction", "spark", "testing",
}  # fmt: skip
"""Parts of the package that the first program that needs them imports."""
CONSUMING = {"_core.group", "_core.run", "_io.consumer", "_wire.messages.fetch", "consumer"}
STANDARD = {
    "argparse", "base64", "bz2", "hmac", "http", "json", "lzma", "multiprocessing", "secrets", "shutil", "tempfile",
    "unittest", "urllib.request", "xml",
}  # fmt: skip
"""Modules of the standard library that are slow to import, and that asyncio does not need."""


COMPAT = """
import aiokafka_lead.compat
aiokafka_lead.compat.install()
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
"""


@pytest.mark.parametrize(
    ("program", "later"),
    [
        ("from aiokafka_lead import Consumer, Producer", LATER),
        ("from aiokafka_lead import Producer", LATER | CONSUMING),
        (COMPAT, LATER - {"compat"}),
    ],
    ids=["both", "producer", "compat"],
)
def test_nothing_is_imported_that_is_not_needed(program: str, later: set[str]) -> None:
    done = run(IMPORTED.format(program))
    assert done.returncode == 0, done.stderr
    imported = set(done.stdout.split())
    foreign = {name.partition(".")[0] for name in imported} - sys.stdlib_module_names
    assert {name for name in foreign if not name.startswith("_cython_")} <= NEEDED
    assert {f"aiokafka_lead.{name}" for name in later} & imported == set()
    assert imported & STANDARD == set()
