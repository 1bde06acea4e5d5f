"""Each fault of the network, on echoes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import anyio
import anyio.abc
import pytest

from ..ports import PortPool
from .network import Network

pytestmark = pytest.mark.anyio


@pytest.fixture
async def network() -> AsyncIterator[Network]:
    """Two echo servers, which send their names first; see `at`."""
    async with AsyncExitStack() as stack, anyio.create_task_group() as tasks:
        ways = {}
        with PortPool() as pool:
            for name in (1, 2):
                listener = await stack.enter_async_context(await anyio.create_tcp_listener(local_host="127.0.0.1"))

                async def echo(stream: anyio.abc.SocketStream, name: int = name) -> None:
                    async with stream:
                        try:
                            await stream.send(b"%d" % name)
                            async for data in stream:
                                await stream.send(data)
                        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                            pass

                tasks.start_soon(listener.serve, echo)
                ways[name] = (pool.take(), listener.extra(anyio.abc.SocketAttribute.local_port))
            with Network(ways) as network:
                yield network
        tasks.cancel_scope.cancel()


async def at(network: Network, name: int) -> anyio.abc.SocketStream:
    return await anyio.connect_tcp("127.0.0.1", network.port(name))


async def test_bytes_go_through_until_the_way_is_cut(network: Network) -> None:
    async with await at(network, 1) as stream:
        assert await stream.receive() == b"1"
        await stream.send(b"hello")
        assert await stream.receive() == b"hello"
        network.strike(1, "cut", 2)
        with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await stream.receive()
    network.heal()
    async with await at(network, 1) as stream:
        assert await stream.receive() == b"1"


async def test_a_misrouted_way_leads_elsewhere_until_it_is_healed(network: Network) -> None:
    network.strike(1, "misroute", 2)
    async with await at(network, 1) as stream:
        assert await stream.receive() == b"2"
        network.heal()
        with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await stream.receive()
    async with await at(network, 1) as stream:
        assert await stream.receive() == b"1"


@pytest.mark.parametrize("kind", ["stall to broker", "stall to client"])
async def test_what_is_stalled_comes_later(network: Network, kind: str) -> None:
    async with await at(network, 1) as stream:
        assert await stream.receive() == b"1"
        network.strike(1, kind, 2)
        await stream.send(b"later")
        with anyio.move_on_after(0.1):
            assert await stream.receive() == b""
        network.heal()
        assert await stream.receive() == b"later"


async def test_the_client_hears_the_end_though_it_can_write(network: Network) -> None:
    async with await at(network, 1) as stream:
        assert await stream.receive() == b"1"
        network.strike(1, "half-close", 2)
        with pytest.raises(anyio.EndOfStream):
            await stream.receive()
        await stream.send(b"into the void")


async def test_a_trickle_is_whole(network: Network) -> None:
    async with await at(network, 1) as stream:
        assert await stream.receive() == b"1"
        network.strike(1, "trickle", 2)
        await stream.send(bytes(1000))
        size = 0
        while size < 1000:
            size += len(await stream.receive())
        assert size == 1000
