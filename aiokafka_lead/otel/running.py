"""The spans of `Consumer.run`: one per record, regardless of the number of attempts.

In `ShareConsumer.run` each delivery has one, because the next may be to another member.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from opentelemetry.context import attach, get_current

from .._records import ConsumerRecord
from ..types import TopicPartition
from .names import Attribute
from .processes import Process, Processes, current

__all__ = ["Run"]

Record = ConsumerRecord[Any, Any]
Key = tuple[str, int, int, int]


class Run:
    """The spans of one run. A record's span ends when it is handled, sent to the dead letters, or given up."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._open: dict[Key, Process] = {}
        """Spans of records that are being handled, or will be handled again after a failure."""

    def around(self, handle: Callable[[Record], Awaitable[object]]) -> Callable[[Record], Awaitable[object]]:
        """Return the handler wrapped in the record's span."""

        async def traced(record: Record) -> None:
            key = _key(record)
            process = self._open.get(key) or self._processes.process(record)
            if process is None:
                await handle(record)
                return
            self._open[key] = process
            before = get_current()
            attach(process.context)
            try:
                await handle(record)
            except BaseException as error:
                process.error = error
                raise
            finally:
                attach(before)
            self._end(key, None)

        return traced

    def retried(self, record: Record, error: BaseException, attempts: int) -> None:
        """Record that its handler will be called again, within the same span."""
        process = self._open.get(_key(record))
        if process is not None:
            self._processes.retry(process, error, attempts)

    def within(self, record: Record) -> AbstractContextManager[object]:
        """Make the span of a record whose handler has failed current again."""
        process = self._open.get(_key(record))
        return nullcontext() if process is None else current(process.context)

    def dead_letter(self, record: Record, error: BaseException, topic: str) -> None:
        """Record that it was sent to this topic: the letter's own span is below the record's."""
        process = self._open.get(_key(record))
        if process is not None and process.span is not None:
            process.span.add_event("dead letter", {Attribute.DESTINATION.value[0]: topic})
        self.failed(record, error)

    def failed(self, record: Record, error: BaseException) -> None:
        """Record that it is given up because of this error."""
        self._end(_key(record), error)

    def drop(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Drop the pending retries of these partitions; without partitions, the run has ended."""
        for key, process in list(self._open.items()):
            if partitions is None or key[:2] in partitions:
                self._end(key, process.error)

    def _end(self, key: Key, error: BaseException | None) -> None:
        process = self._open.pop(key, None)
        if process is not None:
            self._processes.end(process, error)


def _key(record: Any) -> Key:
    # A share group's record may be delivered again while a handler that lost its lock is still working.
    return record.topic, record.partition, record.offset, getattr(record, "delivery_count", 1)
