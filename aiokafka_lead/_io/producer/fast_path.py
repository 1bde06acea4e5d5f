"""What the producer tries first: records that need no care and no waiting, straight into batches.

Hot: this module is compiled through ``fast_path.pxd`` where a compiler is, and runs as it is elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..._core.producer.accumulator import Accumulator
from ..._core.producer.batches import TopicBuffer
from ..._core.producer.delivery import Delivery, DeliveryBatch
from ..._core.producer.record import check_headers
from ..._cpython import clock
from ...errors import MessageTooLargeError
from ...types import Header

__all__ = ["FastPath", "all_bytes"]

INT64_MAX = 2**63 - 1

_NONE_YET = object()

PutFirst = Callable[[TopicBuffer, int, bytes | None, bytes | None, int, Sequence[Header], float], Delivery | None]
"""Topic, timestamp in milliseconds, key, value, partition or -1, headers, now."""


def all_bytes(contents: list[object]) -> bool:
    """Whether each of these can be sent as it is: bytes, or None."""
    return all(content is None or type(content) is bytes for content in contents)


class FastPath:
    """Appends what can be appended at once, on the producer's event loop.

    Wrong arguments are among what it leaves to the others: it only takes what it knows to be right.
    """

    __slots__ = (
        "_accumulator",
        "_buffer",
        "_expected",
        "_identity",
        "_key",
        "_known",
        "_probe",
        "_put_first",
        "_thread",
        "_topic",
        "_topics",
        "usable",
    )

    def __init__(self, accumulator: Accumulator, put_first: PutFirst | None) -> None:
        """``put_first`` takes a record when there is no other, where none should linger; None where they should."""
        self.usable = False
        """Whether the producer is started, and neither stopped nor failed."""
        self._accumulator = accumulator
        self._topics = accumulator.topics
        self._put_first = put_first
        self._topic: object = _NONE_YET
        """The topic of the latest record."""
        self._buffer: TopicBuffer
        """Its buffer, which stays the same."""
        self._thread = 0
        """The event loop's thread."""
        self._identity: object = None
        """The same as an object: the one that the event loop itself has of it."""
        self._probe: Callable[[], object] = object
        """Gives ``_expected`` while the producer's event loop runs, or else something different or RuntimeError."""
        self._expected: object = None
        self._known: dict[str, object] | None = None
        """Has the event loop's thread under ``_key`` while that runs, where it is of the kind that tells it so."""
        self._key = ""

    def start(
        self, probe: Callable[[], object], expected: object, thread: tuple[dict[str, object], str] | None
    ) -> None:
        """The producer belongs to the event loop that runs here, and that the probe, or ``thread``, tells from others.

        See `loop_probe` and `loop_thread`.
        """
        self._thread = clock.thread_id()
        self._probe = probe
        self._expected = expected
        if thread is not None:
            self._known, self._key = thread
            self._identity = self._known[self._key]
        self.usable = True

    def append(
        self, topic: object, value: object, key: object, partition: object, timestamp_ms: object, headers: object
    ) -> Delivery | None:
        """Take the record; None when there is more to it, or when the sender should have its turn first."""
        if not self._here():
            return None
        if topic is self._topic:
            buffer = self._buffer
        else:
            if type(topic) is not str or topic not in self._topics:
                return None
            self._topic = topic
            self._buffer = buffer = self._topics[topic]
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
        return self._put(buffer, time_ms, key, value, number, () if headers is None else check_headers(headers))

    def _put(
        self,
        buffer: TopicBuffer,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        partition: int,
        headers: Sequence[Header],
    ) -> Delivery | None:
        """Take a record that was checked; None when memory is short or the sender should have its turn first."""
        delivery = buffer.append(timestamp_ms, key, value, partition, headers)
        if delivery is None and buffer.count and not self._accumulator.crowded():
            delivery = self.open_and_append(buffer, timestamp_ms, key, value, partition, headers)
        return delivery

    def open_and_append(
        self,
        buffer: TopicBuffer,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        partition: int,
        headers: Sequence[Header],
    ) -> Delivery | None:
        """Take a record that no open batch takes; None when memory is short."""
        accumulator = self._accumulator
        now = clock.monotonic_s()
        if self._put_first is None or accumulator.pending:
            return accumulator.append(buffer, timestamp_ms, key, value, partition, headers, now)
        return self._put_first(buffer, timestamp_ms, key, value, partition, headers, now)

    def append_values(
        self, topic: str, timestamp_ms: int, values: Sequence[bytes | None], start: int, partition: int,
        into: DeliveryBatch,
    ) -> int:  # fmt: skip
        """Take as many of ``values[start:]`` as possible at once; how many. They have neither keys nor headers."""
        buffer = self._buffer_with(topic, partition)
        if buffer is None:
            return 0
        return self._accumulator.append_values(
            buffer, timestamp_ms, values, start, partition, into, clock.monotonic_s()
        )

    def append_pairs(
        self, topic: str, timestamp_ms: int, values: list[bytes | None], keys: list[bytes | None], start: int,
        partition: int, into: DeliveryBatch,
    ) -> int:  # fmt: skip
        """The same of records that have keys, too."""
        buffer = self._buffer_with(topic, partition)
        if buffer is None:
            return 0
        at = start
        count = len(values)
        try:
            while at < count:
                delivery = self._put(buffer, timestamp_ms, keys[at], values[at], partition, ())
                if delivery is None:
                    break
                into.add_delivery(delivery)
                at += 1
        except MessageTooLargeError:
            pass  # whoever takes this one alone says so
        return at - start

    def _buffer_with(self, topic: str, partition: int) -> TopicBuffer | None:
        """The topic's buffer, where the producer can be used and the topic is known to have the partition, or -1."""
        buffer = self._topics.get(topic)
        return buffer if buffer is not None and self.usable and partition < buffer.count else None

    def _here(self) -> bool:
        """Whether the producer can be used, and its event loop is the one that runs."""
        if not self.usable or clock.thread_id() != self._thread:
            return False
        if self._known is not None:
            identity = self._known.get(self._key)
            if identity is not self._identity:
                if identity != self._thread:
                    return False
                self._identity = identity  # the event loop was stopped and runs again
            return True
        try:
            return self._probe() is self._expected
        except RuntimeError:
            return False
