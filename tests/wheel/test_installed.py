"""What every wheel and every installation from source must do. Needs pytest, and nothing else beside the package.

``make dist`` and cibuildwheel run this folder on what they have installed, on every Python that they have.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

import aiokafka_lead
from aiokafka_lead import Consumer, Producer
from aiokafka_lead.config import CompressionType
from aiokafka_lead.testing import EmbeddedCluster

CODECS: list[CompressionType] = ["none", "gzip", "snappy", "lz4", "zstd"]
OTHERS = ["lz4", "zstandard", "backports", "compression"]
"""Libraries that some Pythons do not have: cramjam, which all have, stands in."""


async def there_and_back(codec: CompressionType) -> None:
    """Records of one codec through a cluster one of whose leaders moves, read by a member of a group that commits."""
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
from aiokafka_lead import Consumer, Producer
print(*sorted(set(sys.modules) - before))
"""
NEEDED = {"aiokafka_lead", "anyio", "cython_runtime", "idna", "sniffio", "typing_extensions"}
LATER = [
    "_io.run", "_io.group.consumer", "_records.arrow", "_records.compression.lz4_by_lz4",
    "_records.compression.zstd_by_zstandard", "_wire.schemas", "admin", "cli", "compat", "oidc", "spark", "testing",
]  # fmt: skip
"""Parts of the package that the first program that needs them imports."""


def test_nothing_is_imported_that_is_not_needed() -> None:
    done = run(IMPORTED)
    assert done.returncode == 0, done.stderr
    imported = set(done.stdout.split())
    foreign = {name.partition(".")[0] for name in imported} - sys.stdlib_module_names
    assert {name for name in foreign if not name.startswith("_cython_")} <= NEEDED
    assert {f"aiokafka_lead.{name}" for name in LATER} & imported == set()
    assert {"argparse", "http", "json", "multiprocessing", "unittest", "urllib.request", "xml"} & imported == set()
