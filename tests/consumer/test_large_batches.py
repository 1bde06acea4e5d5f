"""Batches that are decompressed beside the event loop, read in every way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from aiokafka_lead.testing import EmbeddedCluster

from .support import consumer_of, fill

pytestmark = pytest.mark.anyio

SIZES = [10, 3_000_000, 20, 2_000_000]


async def getone(consumer: Any) -> list[bytes]:
    return [(await consumer.getone()).value]


async def getmany(consumer: Any) -> list[bytes]:
    found = await consumer.getmany(timeout_ms=5000)
    return [record.value for records in found.values() for record in records]


async def iterate(consumer: Any) -> list[bytes]:
    return [(await anext(consumer)).value]


async def batches(consumer: Any) -> list[bytes]:
    return list((await anext(consumer.batches())).values)


async def later(value: bytes) -> bytes:
    await anyio.lowlevel.checkpoint()
    return value


@pytest.mark.parametrize("deserializer", [None, later], ids=["bytes", "awaited"])
@pytest.mark.parametrize("read", [getone, getmany, iterate, batches])
async def test_they_come_in_their_turn(
    cluster: EmbeddedCluster, read: Callable[[Any], Awaitable[list[bytes]]], deserializer: Any
) -> None:
    for size in SIZES:
        await fill(cluster, [bytes(size)], compression_type="gzip", batch_size=10_000_000, max_request_size=10_000_000)
    async with consumer_of(cluster, "events", value_deserializer=deserializer) as consumer:
        found: list[bytes] = []
        with anyio.fail_after(30):
            while len(found) < len(SIZES):
                found += await read(consumer)
    assert [len(value) for value in found] == SIZES
