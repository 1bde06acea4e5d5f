"""A child of ``os.fork`` does not hold the sockets of embedded brokers and registries open."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ..suites import crossed

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")

PARENT = """
import os, socket, sys
import anyio
from aiokafka_lead.testing import ClusterThread, EmbeddedCluster, EmbeddedSchemaRegistry

def connect(address):
    host, _, port = address.removeprefix("http://").rpartition(":")
    return socket.create_connection((host, int(port)), timeout=20)

def refused(address):
    try:
        connect(address).close()
    except ConnectionRefusedError:
        return True

def fork(use):
    source, into = os.pipe()
    done, end = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(into, use().encode())
            os.close(end)
            os.read(done, 1)
        finally:
            os._exit(0)
    os.close(into)
    os.close(done)
    print(os.read(source, 1000).decode())
    return lambda: (os.close(end), os.waitpid(child, 0), os.close(source))

async def in_this_loop(backend):
    async with EmbeddedCluster(brokers=1) as cluster:
        client = await anyio.to_thread.run_sync(connect, cluster.address(1))
        while not cluster.connection_count(1):
            await anyio.sleep(0.001)
        end = fork(lambda: "forked")
        await cluster.kill_broker(1)
        try:
            assert not await anyio.to_thread.run_sync(client.recv, 1)
        except ConnectionResetError:
            pass
        assert refused(cluster.address(1))
        await cluster.start_broker(1)
        connect(cluster.address(1)).close()
        end()
        client.close()

def in_a_thread():
    with ClusterThread(EmbeddedCluster(brokers=1)) as cluster, EmbeddedSchemaRegistry() as registry:
        def use():
            try:
                cluster.create_topic("t")
            except RuntimeError as error:
                return str(error)

        end = fork(use)
        registry.stop()
        assert refused(registry.url)
        cluster.stop_broker(1)
        assert refused(cluster.address(1))
        end()

if sys.argv[1] == "thread":
    in_a_thread()
else:
    anyio.run(in_this_loop, sys.argv[1], backend=sys.argv[1])
"""


@pytest.mark.parametrize("where", crossed(["asyncio", "thread", "trio"], 2))
def test_a_child_does_not_keep_a_stopped_broker_alive(where: str) -> None:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PARENT, where]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    told = {"thread": "the cluster belongs to the parent process: pass only bootstrap_servers to the child"}
    assert done.stdout == f"{told.get(where, 'forked')}\n"
