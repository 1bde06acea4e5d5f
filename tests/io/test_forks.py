"""A child of ``os.fork`` can neither use clients started by its parent nor disturb the parent."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
import trustme

from aiokafka_lead.testing import EmbeddedCluster

from ..suites import crossed

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")]

PARENT = """
import gc, json, os, ssl, sys, time
from contextlib import AsyncExitStack
import anyio
from aiokafka_lead import AdminClient, Client, Consumer, Producer, TopicPartition

servers, backend, ca, how = sys.argv[1:]
options = {}
if ca:
    options = {"security_protocol": "SSL", "ssl_context": ssl.create_default_context(cafile=ca)}

async def in_child(producer, consumer, admin, found):
    T = TopicPartition("t", 0)
    calls = {
        "send_nowait": lambda: producer.send_nowait("t", b"lost"),
        "send": lambda: producer.send("t", b"lost"),
        "send_and_wait": lambda: producer.send_and_wait("t", b"lost"),
        "send_many": lambda: producer.send_many("t", [b"lost"]),
        "flush": lambda: producer.flush(),
        "partitions_for": lambda: producer.partitions_for("t"),
        "getone": lambda: consumer.getone(),
        "getmany": lambda: consumer.getmany(timeout_ms=100),
        "anext": lambda: consumer.__anext__(),
        "aiter": lambda: consumer.__aiter__(),
        "batches": lambda: consumer.batches(),
        "position": lambda: consumer.position(T),
        "commit": lambda: consumer.commit(),
        "end_offsets": lambda: consumer.end_offsets([T]),
        "list_topics": lambda: admin.list_topics(),
    }
    for name, call in calls.items():
        try:
            outcome = call()
            if hasattr(outcome, "__await__"):
                outcome.__await__().send(None)
            found[name] = "no error"
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"
    for client in (producer, consumer, admin):
        try:
            client.stop().__await__().send(None)
            found[f"stop {client!r}"] = "waits"
        except StopIteration:
            pass

async def main():
    reading = {"group_id": "g", "auto_offset_reset": "earliest"}
    async with AsyncExitStack() as stack:
        if how == "shared":
            client = await stack.enter_async_context(Client(servers, **options))
            producer, consumer, admin = client.producer(), client.consumer("t", **reading), client.admin()
        else:
            producer, admin = Producer(servers, **options), AdminClient(servers, **options)
            consumer = Consumer("t", bootstrap_servers=servers, **reading, **options)
        for one in (producer, consumer, admin):
            await stack.enter_async_context(one)
        await producer.send_and_wait("t", b"first")
        await producer.send_and_wait("t", b"second")
        assert (await consumer.getone()).value == b"first"
        await consumer.commit()
        await admin.list_topics()
        waiting = producer.send_nowait("t", b"third")
        forked_at = time.monotonic()
        source, into = os.pipe()
        child = os.fork()
        if not child:
            found = {}
            await in_child(producer, consumer, admin, found)
            os.write(into, json.dumps(found).encode())
            if how == "exit":
                sys.stderr = open(os.devnull, "w")  # what asyncio and trio say of an end that is not theirs
                sys.exit(0)
            producer = consumer = admin = None
            gc.collect()
            os._exit(0)
        os.close(into)
        # Not in a thread: a child that ends asyncio's event loop takes away what wakes the parent's.
        while os.waitpid(child, os.WNOHANG) == (0, 0):
            await anyio.sleep(0.01)
        with anyio.fail_after(20):
            await waiting
            await producer.send_and_wait("t", b"fourth")
            values = [(await consumer.getone()).value for _ in range(3)]
            assert values == [b"second", b"third", b"fourth"], values
            assert "t" in await admin.list_topics()
            await consumer.commit()
        print(json.dumps({"errors": json.loads(os.read(source, 65536)), "forked_at": forked_at}))

anyio.run(main, backend=backend.split("+")[0], backend_options={"use_uvloop": True} if "+" in backend else {})
"""


REFUSED = (
    "IllegalStateError: the client was started before os.fork(), and belongs to the parent: "
    "create a new one in the child"
)


async def parent(cluster: EmbeddedCluster, backend: str, ca: Path | None, how: str) -> dict[str, Any]:
    """Run the parent in a process; return its report: the errors of calls in the child, and the time of the fork."""
    command = [sys.executable, "-W", "ignore", "-c", PARENT]
    command += [cluster.bootstrap_servers, backend, str(ca or ""), how]

    def run() -> subprocess.CompletedProcess[str]:
        quiet = {**os.environ, "AIOKAFKA_LEAD_PURE": "1"}  # no warning if this package is not compiled
        return subprocess.run(command, capture_output=True, text=True, timeout=120, env=quiet)

    ended = await anyio.to_thread.run_sync(run)
    assert (ended.returncode, ended.stderr) == (0, "")
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def tls(folder: Path) -> dict[str, Any]:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    return {"ssl_context": context}


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("secure", crossed([True, False]))
@pytest.mark.parametrize(
    ("backend", "how"),
    [
        ("asyncio", "garbage"),
        ("asyncio", "exit"),
        ("asyncio+uvloop", "garbage"),
        ("asyncio+uvloop", "exit"),
        ("asyncio", "shared"),
        ("trio", "shared"),
        ("trio", "garbage"),  # a child cannot leave trio's run: even without a client, it and the parent hang
    ],
)
async def test_a_child_can_neither_use_nor_disturb_what_the_parent_has_started(
    tmp_path: Path, backend: str, secure: bool, how: str
) -> None:
    async with EmbeddedCluster(1, **(tls(tmp_path) if secure else {})) as cluster:
        cluster.create_topic("t")
        found = await parent(cluster, backend, tmp_path / "ca.pem" if secure else None, how)
        assert set(found["errors"].values()) == {REFUSED}, found
        assert len(found["errors"]) == 15
        assert [record.value for record in cluster.records("t")] == [b"first", b"second", b"third", b"fourth"]
        assert cluster.requests.select("ApiVersions", since=found["forked_at"]) == []  # all connections were kept
