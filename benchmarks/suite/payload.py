"""Contents of the records in all benchmarks: JSON-like values, which compress like real JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import lru_cache
from itertools import cycle, islice, repeat
from typing import Any

from .workload import WINDOW, Workload

DIFFERENT = 1000
"""Number of different values and keys."""


@lru_cache
def values(size: int, count: int) -> list[bytes]:
    """Return different values of this size. The list is cached, and must not be changed."""
    return [_value(size, number) for number in range(count)]


def _value(size: int, number: int) -> bytes:
    fields = b"".join(
        b'{"id":%d,"user":"user-%d","amount":%d.%02d,"note":"%x"},'
        % (number + step, number * 7919 % 1009, number * 31 % 977, step % 100, number * 2654435761 % 2**32)
        for step in range(size // 60 + 1)
    )
    return fields[:size].ljust(size, b" ")


def records(work: Workload, count: int, anywhere: Any = None) -> Iterator[tuple[bytes, bytes | None, Any]]:
    """Yield the value, key and partition of each record. ``anywhere`` stands for a partition that the client chooses.

    The iteration takes very little time compared with the measured work.
    """
    keys: Iterable[bytes | None] = repeat(None)
    if work.keyed:
        keys = cycle([b"key-%d" % number for number in range(DIFFERENT)])
    partitions: Iterable[Any] = repeat(anywhere)
    if work.spread:
        partitions = cycle([partition for partition in range(work.partitions) for _ in range(work.run)])
    return zip(islice(cycle(values(work.size, DIFFERENT)), count), keys, partitions, strict=False)


async def send_all(
    send: Callable[..., Awaitable[Awaitable[Any]]],
    flush: Callable[[], Awaitable[Any]],
    work: Workload,
    count: int,
    anywhere: Any = None,
) -> None:
    """Send ``count`` records one by one. If a window of records is in flight, await the older half."""
    topic = work.topic
    behind: list[Awaitable[Any]] = []
    content = records(work, count, anywhere)
    while ahead := [await send(topic, value, key, where) for value, key, where in islice(content, WINDOW // 2)]:
        for delivery in behind:
            await delivery
        behind = ahead
    await flush()
    for delivery in behind:
        await delivery
