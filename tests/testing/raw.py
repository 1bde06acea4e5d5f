"""A client without logic, which sends requests in a version that the test selects, and returns the responses."""

from __future__ import annotations

import itertools
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar, cast

import anyio
import anyio.abc

from aiokafka_lead._records import BatchBuilder
from aiokafka_lead._wire import Request, Response, decode_response, encode_request
from aiokafka_lead.testing import EmbeddedCluster

R = TypeVar("R", bound=Response)


class RawClient:
    """One connection."""

    def __init__(self, stream: anyio.abc.ByteStream) -> None:
        self.stream = stream
        self._received = b""
        self._ids = itertools.count(1)

    async def send(self, request: Request[R], version: int | None = None) -> int:
        """Send a request, in its latest version by default; return its correlation id."""
        correlation_id = next(self._ids)
        version = request.MAX_VERSION if version is None else version
        await self.stream.send(b"".join(encode_request(request, version, correlation_id, "raw")))
        return correlation_id

    async def receive_frame(self) -> bytes:
        while True:
            if len(self._received) >= 4:
                (size,) = struct.unpack_from(">i", self._received)
                if len(self._received) >= 4 + size:
                    frame, self._received = self._received[4 : 4 + size], self._received[4 + size :]
                    return frame
            self._received += await self.stream.receive()

    async def receive(self, response: type[R], version: int) -> tuple[int, R]:
        with anyio.fail_after(20):
            correlation_id, answer = decode_response(response, version, memoryview(await self.receive_frame()))
        assert isinstance(answer, response)
        return correlation_id, answer

    async def call(self, request: Request[R], version: int | None = None) -> R:
        """Send a request and return its answer."""
        version = request.MAX_VERSION if version is None else version
        sent = await self.send(request, version)
        response = cast(type[R], request.RESPONSE)
        received, answer = await self.receive(response, version)
        assert received == sent
        return answer

    async def is_closed(self) -> bool:
        """Return True if the broker closes the connection now, without another answer."""
        with anyio.fail_after(20):
            try:
                await self.stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return True
        return False

    async def wait_closed(self) -> None:
        """Read until the broker ends the connection."""
        while not await self.is_closed():
            pass


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[RawClient]:
    """Yield a client connected to ``"host:port"``."""
    host, _, port = address.rpartition(":")
    async with await anyio.connect_tcp(host, int(port)) as stream:
        yield RawClient(stream)


def batch(
    *values: bytes,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    timestamp_ms: int = 1_700_000_000_000,
    transactional: bool = False,
    compression: str = "none",
    key: bytes | None = b"k",
) -> bytes:
    """Return a record batch as a producer sends it; timestamps rise by one from ``timestamp_ms``."""
    builder = BatchBuilder(batch_size=1_000_000, compression=compression)
    for index, value in enumerate(values):
        builder.append(timestamp_ms + index, key, value)
    return bytes(
        builder.build(
            producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=transactional
        )
    )


@asynccontextmanager
async def a_cluster(brokers: int = 3) -> AsyncIterator[tuple[EmbeddedCluster, RawClient]]:
    async with EmbeddedCluster(brokers=brokers) as cluster, connected(cluster.address(1)) as client:
        yield cluster, client
