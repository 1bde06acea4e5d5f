"""Taking records in where that may have to wait: for metadata, for memory, for the sender's turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import anyio.lowlevel

from ..._core.producer.batches import TopicBuffer
from ..._core.producer.buffer_memory import MemoryClaim
from ..._core.producer.delivery import Delivery, DeliveryBatch
from ...config import ProducerConfig
from ...errors import ConfigError, ConfigTypeError, KafkaError, MessageTooLargeError, RequestTimedOutError
from ...types import Header
from ..metadata.actor import MetadataActor
from .fast_path import FastPath
from .sender import Sender

__all__ = ["PreparedRecord", "RecordIntake"]


class PreparedRecord(NamedTuple):
    """A record whose arguments were checked and serialized."""

    topic: str
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    partition: int
    """-1 leaves the choice to the key or the partitioner."""
    headers: Sequence[Header]


class RecordIntake:
    """Puts prepared records into the accumulator."""

    def __init__(
        self,
        config: ProducerConfig,
        sender: Sender,
        fast: FastPath,
        metadata: MetadataActor,
        check: Callable[[], None],
        refused: Callable[[KafkaError], None] | None = None,
    ) -> None:
        """``check`` raises unless the producer can be used here and now; ``refused`` hears why a send raises."""
        self._accumulator = sender.accumulator
        self._sender = sender
        self._fast = fast
        self._metadata = metadata
        self.check = check
        """Raises unless records can be taken."""
        self._refused = refused
        self._max_block_s = config.max_block_ms / 1000

    def refused(self, error: KafkaError) -> None:
        """A send raises this, and its record is not taken. Wrong arguments mean nothing to others."""
        if self._refused is not None and not isinstance(error, (ConfigError, ConfigTypeError)):
            self._refused(error)

    def put(self, record: PreparedRecord) -> Delivery | None:
        """Take the record now; None when its topic is not known, or memory is short."""
        buffer = self._accumulator.topic(record.topic)
        return None if buffer is None else self._put(buffer, record, granted=False)

    def put_or_keep(self, record: PreparedRecord) -> Delivery | None:
        """Take the record now, also if its topic is not known yet; None when memory is short."""
        buffer = self._accumulator.topic(record.topic)
        return self._sender.put_unknown(*record) if buffer is None else self._put(buffer, record, granted=False)

    def _put(self, buffer: TopicBuffer, record: PreparedRecord, granted: bool) -> Delivery | None:
        """Take the record now; None when memory is short and none has been granted."""
        accumulator = self._accumulator
        _, timestamp_ms, key, value, partition, headers = record
        partition = accumulator.chosen_partition(buffer, key, partition)
        if granted:
            now = time.monotonic()
            return accumulator.append(buffer, timestamp_ms, key, value, partition, headers, now=now, granted=True)
        delivery = buffer.append(timestamp_ms, key, value, partition, headers)
        if delivery is None:
            delivery = self._fast.open_and_append(buffer, timestamp_ms, key, value, partition, headers)
        return delivery

    async def put_when_possible(self, record: PreparedRecord) -> Delivery:
        """Take the record as soon as its topic is known and there is memory, within ``max_block_ms``.

        Never suspends after the record was taken, so that a cancelled call has not taken it.
        """
        accumulator = self._accumulator
        if accumulator.crowded():
            await anyio.lowlevel.checkpoint()
            accumulator.opened = 0
            self.check()
        buffer = accumulator.topic(record.topic)
        if buffer is not None and record.partition < buffer.count:
            delivery = self._put(buffer, record, granted=False)
            if delivery is not None:
                return delivery
        return await self._wait_and_put(record)

    async def _wait_and_put(self, record: PreparedRecord) -> Delivery:
        accumulator = self._accumulator
        deadline = time.monotonic() + self._max_block_s
        claim: MemoryClaim | None = None
        try:
            while True:
                buffer = accumulator.topic(record.topic)
                if buffer is None:
                    await self._metadata.topic(record.topic, _left_ms(deadline))
                    self.check()
                    buffer = accumulator.topic(record.topic)
                if buffer is not None:
                    if record.partition >= buffer.count:
                        await self._look_for_partition(record, buffer, deadline)
                        self.check()
                    delivery = self._put(buffer, record, granted=claim is not None)
                    if delivery is not None:
                        return delivery
                    if claim is None:
                        size = accumulator.record_size(record.key, record.value, record.headers)
                        claim = await self._sender.reserve(size, max(0.0, deadline - time.monotonic()))
                    self.check()
        finally:
            if claim is not None:
                accumulator.memory.release(claim)

    async def _look_for_partition(self, record: PreparedRecord, buffer: TopicBuffer, deadline: float) -> None:
        """The topic may have got more partitions since metadata was fetched: look once."""
        self._metadata.request_update()
        try:
            await self._metadata.wait_newer(self._metadata.snapshot.generation, _left_ms(deadline))
        except RequestTimedOutError:
            pass
        if record.partition >= buffer.count > 0:
            raise ConfigError(
                f"partition must be from 0 to {buffer.count - 1} in topic {record.topic!r}, not {record.partition}"
            )

    async def put_plain(
        self, topic: str, timestamp_ms: int, values: list[bytes | None], keys: list[bytes | None] | None, partition: int
    ) -> DeliveryBatch:
        """Take many checked records without headers, for which no partitioner of the application is to be asked."""
        batch = DeliveryBatch()
        fast = self._fast
        at = 0
        while at < len(values):
            if keys is None:
                at += fast.append_values(topic, timestamp_ms, values, at, partition, batch)
            else:
                at += fast.append_pairs(topic, timestamp_ms, values, keys, at, partition, batch)
            if at == len(values):
                break
            record = PreparedRecord(topic, timestamp_ms, keys[at] if keys else None, values[at], partition, ())
            if not await self.put_one(batch, record, len(values) - at):
                break
            at += 1
        return batch

    async def put_all(self, records: Iterable[PreparedRecord], count: int) -> DeliveryBatch:
        """Take these records, as many as ``count``, in order."""
        batch = DeliveryBatch()
        for at, record in enumerate(records):
            if not await self.put_one(batch, record, count - at):
                break
        return batch

    async def put_one(self, batch: DeliveryBatch, record: PreparedRecord, left: int) -> bool:
        """Take one of many; whether to go on. What keeps it out keeps out the ``left - 1`` behind it as well."""
        try:
            delivery = await self.put_when_possible(record)
        except MessageTooLargeError as error:
            self.refused(error)
            batch.add_failed(error)
            return True
        except KafkaError as error:
            self.refused(error)
            if not len(batch):
                raise
            batch.add_failed(error, left)
            return False
        batch.add_delivery(delivery)
        return True


def _left_ms(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic()) * 1000
