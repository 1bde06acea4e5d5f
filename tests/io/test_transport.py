"""Byte streams: asyncio's fast path and anyio's, on every event loop that supports them."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import time
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest
from anyio.abc import SocketAttribute
from anyio.lowlevel import checkpoint

from aiokafka_lead._io.connection.transport import AddressInfo, Transport, dial, resolve
from aiokafka_lead._io.connection.transport.anyio_transport import AnyioTransport
from aiokafka_lead._io.connection.transport.asyncio_transport import AsyncioTransport
from aiokafka_lead._io.connection.transport.base import JOINED_BYTES, coalesce
from aiokafka_lead._io.connection.transport.dial import refuse_self
from aiokafka_lead._io.loop import Waiter
from aiokafka_lead._options.addresses import Addresses, Search
from aiokafka_lead._wire import Buffer
from aiokafka_lead.errors import KafkaConnectionError, KafkaError, NotKafkaError

from ..garbage import no_socket_is_dropped
from ..ports import PortPool
from .script import HOST, Certificates, Peer, full_backlog, serve

Kind = type[AsyncioTransport] | type[AnyioTransport]
Main = Callable[[], Coroutine[Any, Any, None]]

LOOPS = [
    pytest.param("asyncio", False, AsyncioTransport, id="asyncio"),
    pytest.param("asyncio", True, AsyncioTransport, id="uvloop"),
    pytest.param("asyncio", False, AnyioTransport, id="anyio on asyncio"),
    pytest.param("trio", False, AnyioTransport, id="anyio on trio"),
]
every_loop = pytest.mark.parametrize(("backend", "use_uvloop", "kind"), LOOPS)


def run(main: Main, backend: str, use_uvloop: bool) -> None:
    anyio.run(main, backend=backend, backend_options={"use_uvloop": True} if use_uvloop else {})
    gc.collect()  # an unclosed socket warns now, and a warning is an error


class Collector:
    """Keeps the calls of a transport."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.error: Waiter[KafkaError] = Waiter()
        self.writable = anyio.Event()
        self._enough: tuple[int, Waiter[None]] = (0, Waiter())

    def on_frame(self, frame: Buffer, /) -> None:
        self.frames.append(bytes(frame))
        count, waiter = self._enough
        if len(self.frames) >= count:
            waiter.set_result(None)

    def on_writable(self) -> None:
        self.writable.set()

    def on_closed(self, error: KafkaError, /) -> None:
        assert not self.error.done
        self.error.set_result(error)

    async def wait_for(self, count: int) -> list[bytes]:
        if len(self.frames) < count:
            self._enough = (count, Waiter())
            await self._enough[1].wait(20)
        return self.frames


async def open_to(kind: Kind | None, port: int, handler: Collector, tls: ssl.SSLContext | None = None) -> Transport:
    dialled = await dial(await resolve(HOST, port), Search(Addresses()), kind)
    return await dialled.open(HOST, ssl_context=tls, handler=handler, max_frame_bytes=10_000_000)


def is_paused(transport: Transport) -> bool:
    """A call, since a type checker assumes that an attribute has kept its value since the line before."""
    return transport.paused


async def echo(peer: Peer) -> None:
    while True:
        await peer.send(await peer.stream.receive())


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


@every_loop
@pytest.mark.parametrize("tls", [False, True])
def test_what_is_written_comes_back_in_frames(backend: str, use_uvloop: bool, kind: Kind, tls: bool) -> None:
    certificates = Certificates()
    bodies = [b"a", b"", b"b" * 40_000, b"c" * 3_000_000, b"d" * 100]

    async def main() -> None:
        server, context = (certificates.server(), certificates.client()) if tls else (None, None)
        async with serve(echo, tls=server) as port:
            collector = Collector()
            async with anyio.create_task_group() as group:
                transport = await open_to(kind, port, collector, context)
                group.start_soon(transport.run)
                for body in bodies:
                    transport.write([len(body).to_bytes(4, "big"), body])
                transport.write([bytearray(framed(b"e")), memoryview(framed(b"f")), framed(b"g" * 200_000)])
                assert await collector.wait_for(8) == [*bodies, b"e", b"f", b"g" * 200_000]
                transport.close()
            assert not collector.error.done

    run(main, backend, use_uvloop)


@every_loop
@pytest.mark.parametrize("tls", [False, True])
def test_the_peers_end_is_told_once(backend: str, use_uvloop: bool, kind: Kind, tls: bool) -> None:
    certificates = Certificates()

    async def handler(peer: Peer) -> None:
        await peer.stream.receive()
        await peer.send(framed(b"last words")[:7])

    async def main() -> None:
        server, context = (certificates.server(), certificates.client()) if tls else (None, None)
        async with serve(handler, tls=server) as port:
            collector = Collector()
            transport = await open_to(kind, port, collector, context)
            transport.write([b"hello"])
            await transport.run()
            error = collector.error.result()
            assert type(error) is KafkaConnectionError
            assert "clos" in str(error) or "reset" in str(error)
            transport.write([b"into the void"])
            transport.close()

    run(main, backend, use_uvloop)


@every_loop
def test_garbage_is_told_and_ends_it(backend: str, use_uvloop: bool, kind: Kind) -> None:
    async def handler(peer: Peer) -> None:
        await peer.send(framed(b"fine") + b"HTTP/1.1 200 OK\r\n")
        await peer.drain()

    async def main() -> None:
        async with serve(handler) as port:
            collector = Collector()
            async with anyio.create_task_group() as group:
                transport = await open_to(kind, port, collector)
                group.start_soon(transport.run)
                assert isinstance(await collector.error.wait(20), NotKafkaError)
            assert collector.frames == [b"fine"]

    run(main, backend, use_uvloop)


@every_loop
@pytest.mark.parametrize("tls", [False, True])
def test_a_slow_peer_pauses_and_resumes(backend: str, use_uvloop: bool, kind: Kind, tls: bool) -> None:
    certificates = Certificates()
    total = 0

    async def main() -> None:
        go = anyio.Event()

        async def handler(peer: Peer) -> None:
            nonlocal total
            await go.wait()
            while True:
                total += len(await peer.stream.receive())

        server, context = (certificates.server(), certificates.client()) if tls else (None, None)
        async with serve(handler, tls=server) as port:
            collector = Collector()
            async with anyio.create_task_group() as group:
                transport = await open_to(kind, port, collector, context)
                group.start_soon(transport.run)
                written = 0
                while not is_paused(transport):
                    transport.write([bytes(1_000_000)])
                    written += 1_000_000
                    assert written < 100_000_000
                go.set()
                with anyio.fail_after(20):
                    await collector.writable.wait()
                    while total < written or is_paused(transport):
                        await checkpoint()
                transport.close()

    run(main, backend, use_uvloop)


@every_loop
def test_closing_with_bytes_unsent_ends_at_once(backend: str, use_uvloop: bool, kind: Kind) -> None:
    async def main() -> None:
        forever = anyio.Event()

        async def handler(peer: Peer) -> None:
            await forever.wait()

        async with serve(handler) as port:
            collector = Collector()
            transport = await open_to(kind, port, collector)
            with anyio.fail_after(20):
                async with anyio.create_task_group() as group:
                    group.start_soon(transport.run)
                    while not is_paused(transport):
                        transport.write([bytes(1_000_000)])
                    transport.close()
            assert not collector.error.done

    run(main, backend, use_uvloop)


@every_loop
@pytest.mark.parametrize("tls", [False, True])
def test_opening_can_be_cancelled_at_each_step(backend: str, use_uvloop: bool, kind: Kind, tls: bool) -> None:
    certificates = Certificates()

    async def main() -> None:
        server, context = (certificates.server(), certificates.client()) if tls else (None, None)
        opened = 0
        async with serve(echo, tls=server) as port:
            for steps in range(40):

                async def attempt() -> None:
                    nonlocal opened
                    transport = await open_to(kind, port, Collector(), context)
                    opened += 1
                    await transport.run()

                async with anyio.create_task_group() as group:
                    group.start_soon(attempt)
                    for _ in range(steps):
                        await checkpoint()
                    group.cancel_scope.cancel()
            async with anyio.create_task_group() as group:
                transport = await open_to(kind, port, Collector(), context)
                group.start_soon(transport.run)
                transport.close()

    run(main, backend, use_uvloop)


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("use_uvloop", [False, True])
def test_an_event_loop_may_end_at_each_step_of_opening(use_uvloop: bool, tls: bool) -> None:
    """The loop cancels the remaining tasks, as at a program's end; a server in place of TLS is silent."""
    context = Certificates().client() if tls else None
    with no_socket_is_dropped(), socket.create_server((HOST, 0), backlog=100) as listener:
        port = listener.getsockname()[1]

        async def attempt() -> None:
            await (await open_to(AsyncioTransport, port, Collector(), context)).run()

        async def main(steps: int) -> None:
            task = asyncio.create_task(attempt())
            for _ in range(steps):
                await asyncio.sleep(0)
            assert not task.done()

        for steps in range(30):
            anyio.run(main, steps, backend="asyncio", backend_options={"use_uvloop": use_uvloop})


@every_loop
def test_a_refused_or_unknown_name_is_told_in_words(
    ports: PortPool, backend: str, use_uvloop: bool, kind: Kind
) -> None:
    async def main() -> None:
        for host, says in (
            (HOST, "connection refused"),
            ("nowhere.invalid", "does not resolve"),
            ("a" * 70 + ".example", "cannot connect"),
        ):
            with pytest.raises(KafkaConnectionError, match=says):
                await dial(await resolve(host, ports.take()), Search(Addresses()), kind)

    run(main, backend, use_uvloop)


def test_a_socket_that_is_connected_to_itself_is_refused() -> None:
    """The system chose as the socket's local port the port to which it connects, which has no listener."""
    with socket.socket() as sock:
        sock.bind((HOST, 0))
        sock.connect(sock.getsockname())
        with pytest.raises(ConnectionRefusedError):
            refuse_self(sock)
    with socket.create_server((HOST, 0)) as server, socket.create_connection(server.getsockname()) as sock:
        refuse_self(sock)


@every_loop
def test_an_idle_connection_is_probed_before_load_balancers_drop_it(backend: str, use_uvloop: bool, kind: Kind) -> None:
    async def main() -> None:
        async with serve(echo) as port:
            dialled = await dial(await resolve(HOST, port), Search(Addresses()), kind)
            sock = dialled.connected
            if kind is AnyioTransport:
                sock = sock.extra(SocketAttribute.raw_socket)
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            if hasattr(socket, "TCP_KEEPIDLE"):
                idle_s = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
                assert idle_s < 240  # Azure
            await kind.drop(dialled.connected)

    run(main, backend, use_uvloop)


@pytest.mark.anyio
async def test_the_transport_fits_the_event_loop(anyio_backend: str) -> None:
    async with serve(echo) as port:
        transport = await open_to(None, port, Collector())
        assert type(transport) is (AnyioTransport if anyio_backend == "trio" else AsyncioTransport)
        async with anyio.create_task_group() as group:
            group.start_soon(transport.run)
            transport.close()


# --- happy eyeballs ---


def at(*ports: int) -> dict[str, AddressInfo]:
    """A name's addresses; each is a port here."""
    return {f"address {number}": (socket.AF_INET, (HOST, port)) for number, port in enumerate(ports)}


class Report:
    """Attempted addresses, and their refusals."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.errors: dict[str, KafkaConnectionError] = {}

    def begin(self, address: str) -> None:
        self.begun.append(address)

    def refused(self, address: str, error: KafkaConnectionError) -> None:
        self.errors[address] = error


@every_loop
def test_an_address_that_refuses_gives_way_at_once(ports: PortPool, backend: str, use_uvloop: bool, kind: Kind) -> None:
    async def main() -> None:
        async with serve(echo) as port:
            started = time.monotonic()
            report = Report()
            dialled = await dial(at(*[ports.take()] * 60, port), report, kind)
            assert time.monotonic() - started < 10  # a silent address delays the next one by 0.25 s
            await kind.drop(dialled.connected)
            assert dialled.address == "address 60"
            assert len(report.begun) == 61
            assert list(report.errors) == report.begun[:-1]

    run(main, backend, use_uvloop)


@every_loop
def test_an_address_that_is_silent_does_not_hold_up_the_next(backend: str, use_uvloop: bool, kind: Kind) -> None:
    async def main() -> None:
        async with serve(echo) as port, full_backlog() as hole:
            started = time.monotonic()
            report = Report()
            dialled = await dial(at(hole, port), report, kind)
            await kind.drop(dialled.connected)
            assert 0.2 < time.monotonic() - started < 8  # a silent address takes ten seconds
            assert dialled.address == "address 1"
            assert not report.errors

    run(main, backend, use_uvloop)


@every_loop
def test_each_address_that_failed_is_reported(ports: PortPool, backend: str, use_uvloop: bool, kind: Kind) -> None:
    async def main() -> None:
        report = Report()
        with pytest.raises(KafkaConnectionError, match="connection refused"):
            await dial(at(ports.take(), ports.take()), report, kind)
        assert sorted(report.errors) == ["address 0", "address 1"]
        assert all("connection refused" in error.message for error in report.errors.values())
        with pytest.raises(KafkaConnectionError, match="no address"):
            await dial({}, report, kind)

    run(main, backend, use_uvloop)


@every_loop
def test_a_race_that_is_cancelled_leaves_no_socket(backend: str, use_uvloop: bool, kind: Kind) -> None:
    async def main() -> None:
        async with serve(echo) as port, full_backlog() as hole:
            for steps in range(12):

                async def attempt() -> None:
                    await kind.drop((await dial(at(hole, port), Report(), kind)).connected)

                async with anyio.create_task_group() as group:
                    group.start_soon(attempt)
                    for _ in range(steps):
                        await checkpoint()
                    group.cancel_scope.cancel()

    run(main, backend, use_uvloop)


# --- writing ---


def test_small_buffers_are_joined_and_large_ones_pass_uncopied() -> None:
    assert list(coalesce([b"one"])) == [b"one"]
    assert list(coalesce([b"a", b"b", bytearray(b"c")])) == [b"abc"]
    large = memoryview(bytes(JOINED_BYTES * 2))
    joined = coalesce([b"head", b"er", large, b"more", large, b"tail"])
    assert [len(buffer) for buffer in joined] == [6, len(large), 4, len(large), 4]
    assert joined[1] is large
    assert joined[3] is large
    many = coalesce([bytes(1000)] * 200)
    assert sum(map(len, many)) == 200_000
    assert max(map(len, many)) <= JOINED_BYTES
