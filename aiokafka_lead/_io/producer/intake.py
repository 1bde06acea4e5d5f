"""Intake of records into batches, at once if possible and otherwise after the necessary waits.

Most records need neither checks nor waits, and `Intake.append` accepts them as they are. `CheckedSends` checks and
serializes all others, and passes them on as `Record` objects, which may have to wait for metadata, memory or the
sender. Parameters are always in the order of ``send``.

This code runs for each record. If a compiler is available, it is compiled through ``intake.pxd``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import anyio.lowlevel

from ..._core.metadata.topics import believed
from ..._core.producer.batches import Record, TopicBuffer
from ..._core.producer.delivery import Delivery, DeliveryBatch
from ..._core.producer.record import check_headers, to_bytes
from ..._core.unsampled import Unsampled
from ..._cpython import clock
from ..._records.encoder import BatchBuilder
from ...config import ProducerConfig
from ...errors import ConfigError, ConfigTypeError, KafkaError, MessageTooLargeError, RequestTimedOutError
from ...types import Header, Headers
from ..deadline import Deadline
from ..metadata.actor import MetadataActor
from .sender import Sender

T = TypeVar("T")

INT64_MAX = 2**63 - 1

_NONE_YET = object()


def all_bytes(what: str, contents: list[Any]) -> list[bytes | None]:
    """Return values or keys as bytes or None.

    A list that contains only these is returned unchanged. Raises `ConfigTypeError` for content that cannot be
    converted. ``what`` names it in the message.
    """
    if all(content is None or type(content) is bytes for content in contents):
        return contents
    return [to_bytes(what, content) for content in contents]


class Admission:
    """Permission to add records while the producer is running, or during one transaction.

    A call keeps the permission with which it began, so it cannot add records to a later transaction after a wait.
    """

    __slots__ = ("_on_failure", "check", "lenient")

    def __init__(
        self,
        check: Callable[[], None],
        on_failure: Callable[[KafkaError], None] | None = None,
        *,
        lenient: bool = False,
    ) -> None:
        """Grant the permission while ``check`` raises no error.

        ``on_failure`` is called with the errors of sends. With ``lenient``, it is called only with the errors of sends
        that have accepted some of their records.
        """
        self.lenient = lenient
        self.check = check
        """Raises an error if records cannot be accepted now from this task."""
        self._on_failure = on_failure

    def failed(self, error: KafkaError) -> None:
        """Report the error that a send raises. Errors of its arguments do not count, nor any error if lenient."""
        if not self.lenient and not isinstance(error, (ConfigError, ConfigTypeError)):
            self.incomplete(error)

    def incomplete(self, error: KafkaError) -> None:
        """Report that a call has accepted only some of its records, because of this error."""
        if self._on_failure is not None:
            self._on_failure(error)


class Intake:
    """Puts records into the accumulator, where they wait to be sent.

    If the accumulator is empty, the sender takes the record instead and sends it at once.
    """

    __slots__ = (
        "_accumulator",
        "_buffer",
        "_expected",
        "_identity",
        "_key",
        "_known",
        "_lines",
        "_lingers",
        "_max_block_ms",
        "_metadata",
        "_probe",
        "_sender",
        "_thread",
        "_topic",
        "_topics",
        "admission",
        "unsampled",
        "usable",
    )

    def __init__(self, config: ProducerConfig, sender: Sender, metadata: MetadataActor, admission: Admission) -> None:
        self.usable = False
        """True if `append` may accept records: the producer has started, and has neither stopped nor failed."""
        self.admission = admission
        """The permission for calls that begin now."""
        self.unsampled: Unsampled | None = None
        """Selects the records that are not traced. None without a tracer."""
        self._accumulator = sender.accumulator
        self._topics = self._accumulator.topics
        self._sender = sender
        self._lines = sender.lines
        self._metadata = metadata
        self._lingers = config.linger_ms > 0
        self._max_block_ms = config.max_block_ms
        # values that `append` compares with its arguments
        self._topic: object = _NONE_YET
        """The topic of the latest record."""
        self._buffer: TopicBuffer
        """The buffer of that topic. A topic always has the same buffer."""
        self._thread = 0
        """The id of the event loop's thread."""
        self._identity: object = None
        """The same id, as the object stored by the event loop."""
        self._probe: Callable[[], object] = object
        """Returns ``_expected`` while the producer's event loop is running.

        Otherwise, it returns another object or raises an error.
        """
        self._expected: object = None
        self._known: dict[str, object] | None = None
        """A dict that contains the thread's id under ``_key`` while the event loop is running.

        It is None if the loop has no such dict.
        """
        self._key = ""

    def start(
        self, probe: Callable[[], object], expected: object, thread: tuple[dict[str, object], str] | None
    ) -> None:
        """Allow `append` to accept records on the current event loop, which is identified by ``probe`` or ``thread``.

        See `loop_probe` and `loop_thread`.
        """
        self._thread = clock.thread_id()
        self._probe = probe
        self._expected = expected
        if thread is not None:
            self._known, self._key = thread
            self._identity = self._known[self._key]
        self.usable = True

    # --- records that need no wait ------------------------------------------------------------------------------------

    def append(
        self, topic: object, value: object, key: object, partition: object, timestamp_ms: object, headers: object
    ) -> Delivery | None:
        """Add a record, given by the arguments of ``send``, to a batch at once.

        Returns None if the record needs checks or has to wait, or if other tasks should run first. Accepts only
        arguments that are certain to be valid. Other methods raise the errors for invalid arguments.
        """
        if not self._here():
            return None
        if topic is self._topic:
            buffer = self._buffer
        else:
            if type(topic) is not str or topic not in self._topics:
                return None
            self._topic = topic
            self._buffer = buffer = self._topics[topic]
        if self._lines.calls and buffer.name in self._lines:
            return None
        carried: Headers = ()
        if self.unsampled is not None:
            if not self.unsampled.covers(buffer.name):
                return None
            carried = self.unsampled.headers
            if headers is not None and carried:
                return None
        if key is not None and type(key) is not bytes:
            return None
        if value is not None and type(value) is not bytes:
            return None
        number = -1
        if partition is not None:
            if type(partition) is not int or not 0 <= partition < buffer.count:
                return None
            number = partition
        if timestamp_ms is None:
            time_ms = clock.wall_ms()
        elif type(timestamp_ms) is int and 0 <= timestamp_ms <= INT64_MAX:
            time_ms = timestamp_ms
        else:
            return None
        return self._append(buffer, value, key, number, time_ms, carried if headers is None else check_headers(headers))

    def _append(
        self,
        buffer: TopicBuffer,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        timestamp_ms: int,
        headers: Sequence[Header],
    ) -> Delivery | None:
        """Append a checked record to a batch of its topic's ``buffer``, or open a new batch.

        Returns None if memory is short or the sender should run first.
        """
        delivery = buffer.append(value, key, partition, timestamp_ms, headers)
        if delivery is None and buffer.count and not self._accumulator.crowded():
            delivery = self._put(buffer, Record(buffer.name, value, key, partition, timestamp_ms, headers), False)
        return delivery

    def _put(self, buffer: TopicBuffer, record: Record, with_others: bool) -> Delivery | None:
        """Accept a record, and open a batch if necessary. Return None if memory is short.

        Without ``linger_ms``, the record is sent at once, unless other records of the same call follow
        (``with_others``).
        """
        accumulator = self._accumulator
        now = clock.monotonic_s()
        if self._lingers or with_others or accumulator.pending:
            return accumulator.append(buffer, record, now)
        return self._sender.put_first(buffer, record, now)

    def _append_plain(
        self, topic: str, values: list[bytes | None], keys: list[bytes | None] | None, start: int, partition: int,
        timestamp_ms: int, headers: Headers, into: DeliveryBatch,
    ) -> int:  # fmt: skip
        """Accept ``values[start:]`` until a record would have to wait. Return the number of records accepted."""
        buffer = self._buffer_with(topic, partition)
        if buffer is None:
            return 0
        if keys is None and not headers:
            return self._accumulator.append_values(
                buffer, values, start, partition, timestamp_ms, into, clock.monotonic_s()
            )
        return self._append_each(buffer, values, keys, start, partition, timestamp_ms, headers, into)

    def _append_each(
        self, buffer: TopicBuffer, values: list[bytes | None], keys: list[bytes | None] | None, start: int,
        partition: int, timestamp_ms: int, headers: Headers, into: DeliveryBatch,
    ) -> int:  # fmt: skip
        """Do the same as `_append_plain`, for records with keys or headers."""
        accumulator = self._accumulator
        at = start
        count = len(values)
        try:
            while at < count:
                value, key = values[at], None if keys is None else keys[at]
                delivery = buffer.append(value, key, partition, timestamp_ms, headers)
                if delivery is None:
                    if accumulator.crowded():
                        break
                    record = Record(buffer.name, value, key, partition, timestamp_ms, headers)
                    delivery = self._put(buffer, record, count > 1)
                    if delivery is None:
                        break
                into.add_delivery(delivery)
                at += 1
        except MessageTooLargeError:
            pass  # this record's error is raised when the record is accepted alone
        return at - start

    def _buffer_with(self, topic: str, partition: int) -> TopicBuffer | None:
        """Return the topic's buffer if the producer can be used and the topic has the partition, which may be -1."""
        buffer = self._topics.get(topic)
        return buffer if buffer is not None and self.usable and partition < buffer.count else None

    def _here(self) -> bool:
        """Return True if the producer can be used, and its event loop is running in this thread."""
        if not self.usable or clock.thread_id() != self._thread:
            return False
        if self._known is not None:
            identity = self._known.get(self._key)
            if identity is not self._identity:
                if identity != self._thread:
                    return False
                self._identity = identity  # the event loop was stopped and is running again
            return True
        try:
            return self._probe() is self._expected
        except RuntimeError:
            return False

    def try_now(self, record: Record, with_others: bool = False) -> Delivery | None:
        """Accept a record if it does not have to wait. Return None if it must `wait_in_line`."""
        if self._accumulator.crowded() or (self._lines.calls and record.topic in self._lines):
            return None
        buffer = self._accumulator.topic(record.topic)
        if buffer is None or record.partition >= buffer.count:
            return None
        return self._put(buffer, record, with_others)

    # --- records that may have to wait --------------------------------------------------------------------------------

    async def wait_in_line(
        self, record: Record, admission: Admission, deadline: Deadline | None, with_others: bool = False
    ) -> Delivery:
        """Accept a record as soon as that is possible, and return its `Delivery`.

        Waits until all earlier calls for the same topic have been served, the topic and the partition are known, and
        ``buffer_memory`` has space. ``deadline`` limits the total of these waits (default: ``max_block_ms``). After the
        deadline, raises `BufferFull` if the call was waiting for its turn or for space, and
        `UnknownTopicOrPartitionError` or `RequestTimedOutError` if the topic is unknown. Raises `ConfigError` if the
        topic has no such partition, and the errors of ``admission``.

        The call does not suspend after accepting the record, so a cancelled call has not accepted it.
        """
        accumulator = self._accumulator
        return await self._put_in_line(
            record,
            accumulator.record_size(record),
            admission,
            deadline,
            lambda buffer: self._put(buffer, record, with_others),
            lambda buffer: accumulator.append_granted(buffer, record, accumulator.next_ordinal(), clock.monotonic_s()),
        )

    def put_nowait(self, record: Record) -> Delivery | None:
        """Accept a record now. Return None if memory is short. If the topic is unknown, it is looked up afterwards."""
        buffer = self._accumulator.topic(record.topic)
        if buffer is not None:
            return self._put(buffer, record, False)
        return self._sender.lookups.put(record)

    async def put_plain(
        self,
        topic: str,
        values: list[bytes | None],
        keys: list[bytes | None] | None,
        partition: int,
        timestamp_ms: int,
        headers: Headers,
        admission: Admission,
        deadline: Deadline | None,
    ) -> DeliveryBatch:
        """Accept many checked records. All have these headers, and there is no custom partitioner."""
        batch = DeliveryBatch()
        at = 0
        if topic not in self._lines:
            at = self._append_plain(topic, values, keys, 0, partition, timestamp_ms, headers, batch)
        while at < len(values):
            record = Record(topic, values[at], keys[at] if keys else None, partition, timestamp_ms, headers)
            if not await self._put_into(batch, record, len(values) - at, admission, deadline):
                break
            at += 1
            # Until this call waits again, its records also precede the records of other waiting calls.
            at += self._append_plain(topic, values, keys, at, partition, timestamp_ms, headers, batch)
        return batch

    async def put_all(
        self, records: Sequence[Record], admission: Admission, deadline: Deadline | None
    ) -> DeliveryBatch:
        """Accept these records in order.

        A record that is too large fails alone. After any other error, all later records fail as well. If that error
        concerns the first record, it is raised.
        """
        batch = DeliveryBatch()
        for at, record in enumerate(records):
            if not await self._put_into(batch, record, len(records) - at, admission, deadline):
                break
        return batch

    async def put_batch(self, topic: str, partition: int, builder: BatchBuilder, admission: Admission) -> DeliveryBatch:
        """Accept a whole batch of records. Waits like `wait_in_line`."""
        accumulator = self._accumulator
        outcome = await self._put_in_line(
            Record(topic, None, None, partition, builder.base_timestamp_ms, ()),
            builder.size_bytes,
            admission,
            None,
            lambda buffer: accumulator.append_built(buffer, partition, builder, clock.monotonic_s()),
            lambda buffer: accumulator.append_built_granted(buffer, partition, builder, clock.monotonic_s()),
        )
        batch = DeliveryBatch()
        batch.add(outcome, 0, builder.record_count, builder.base_timestamp_ms)
        return batch

    async def _put_into(
        self, batch: DeliveryBatch, record: Record, left: int, admission: Admission, deadline: Deadline | None
    ) -> bool:
        """Accept one of many records, and add its delivery or its error to ``batch``. Return True if later ones may
        follow.

        Returns False if an error concerns later records as well. All ``left`` records, including this one, have then
        failed. If this is the first record, the error is raised instead.
        """
        try:
            with_others = left + len(batch) > 1
            delivery = self.try_now(record, with_others)
            if delivery is None:
                delivery = await self.wait_in_line(record, admission, deadline, with_others)
        except MessageTooLargeError as error:
            admission.failed(error)
            batch.add_failed(error)
            return True
        except KafkaError as error:
            if not len(batch):
                admission.failed(error)
                raise
            admission.incomplete(error)
            batch.add_failed(error, left)
            return False
        except BaseException:
            if len(batch):
                admission.incomplete(KafkaError(f"send_many was interrupted: {left} records were not accepted"))
            raise
        batch.add_delivery(delivery)
        return True

    # --- waiting for the topic and for memory -------------------------------------------------------------------------

    async def _put_in_line(
        self,
        record: Record,
        size: int,
        admission: Admission,
        deadline: Deadline | None,
        put: Callable[[TopicBuffer], T | None],
        put_granted: Callable[[TopicBuffer], T],
    ) -> T:
        """Accept data for the record's destination once possible and no earlier call is waiting for the topic.

        ``put`` returns None if memory is short. ``put_granted`` is called after ``size`` bytes have been reserved.
        """
        deadline = deadline or Deadline(self._max_block_ms)
        if self._accumulator.topic(record.topic) is not None:
            # Other calls must not wait until partitions are added.
            await self._find(record, admission, deadline)
        with self._lines.enter(record.topic) as place:
            buffer = await self._find(record, admission, deadline)
            while not place.first:
                if not await place.until_first(deadline):
                    raise self._sender.no_room(size, deadline)
                admission.check()
                buffer = await self._find(record, admission, deadline)
            if self._accumulator.crowded():
                await anyio.lowlevel.checkpoint()  # let the sender and other tasks run
                self._accumulator.opened = 0
                admission.check()
                buffer = await self._find(record, admission, deadline)
            taken = put(buffer)
            if taken is not None:
                return taken
            claim = await self._sender.reserve(size, deadline)
            try:
                admission.check()
                return put_granted(await self._find(record, admission, deadline))
            finally:
                self._accumulator.memory.release(claim)

    async def _find(self, record: Record, admission: Admission, deadline: Deadline) -> TopicBuffer:
        """Wait until the record's topic and partition are known. Return the topic's buffer.

        A partition that was just created is unknown to some brokers. It does not exist if several responses agree.
        """
        began_at = math.inf
        answers_before = 0
        while True:
            now = clock.monotonic_s()
            buffer = self._accumulator.topic(record.topic)
            if buffer is None:
                await self._metadata.topic(record.topic, deadline.left_ms())
            elif record.partition < buffer.count:
                return buffer
            elif deadline.passed or believed(self._metadata.full_answers - answers_before, now - began_at):
                raise ConfigError(
                    f"partition must be from 0 to {buffer.count - 1} in topic {record.topic!r}, not {record.partition}"
                )
            else:
                if began_at == math.inf:
                    began_at, answers_before = now, self._metadata.full_answers
                await self._look_for_more_partitions(deadline)
            admission.check()

    async def _look_for_more_partitions(self, deadline: Deadline) -> None:
        """Wait for newer metadata, in which the topic may have more partitions. Return at the deadline in any case."""
        self._metadata.request_update()
        try:
            await self._metadata.wait_newer(self._metadata.snapshot.generation, deadline.left_ms())
        except RequestTimedOutError:
            pass
