"""Records of a share consumer.

This code runs for each record. If a compiler is available, it is compiled through ``record.pxd``.
"""

# pyright: reportAttributeAccessIssue=false, reportArgumentType=false
# The stubs declare records as frozen for all other code. This module creates them.

from types import GenericAlias
from uuid import UUID

from ..._cpython import naming, slots
from ..._records.record import AnyRecord, ConsumerRecord
from ...types import TopicPartition
from .acquired import Acquired


class ShareRecord(AnyRecord):
    """A record that is locked for this consumer until it is acknowledged or the lock expires.

    It has the attributes of `ConsumerRecord`; do not change them. In addition, ``delivery_count`` is the number of
    times that the record was delivered to any member of the group, including this time. Records compare by identity, so
    a record that is delivered again is a different object.
    """

    __slots__ = ("_acquired", "_exchange", "_index", "delivery_count")

    __class_getitem__ = classmethod(GenericAlias)

    def __init__(self, record, delivery_count, exchange, acquired, index):
        """Create a record. Called by `ShareConsumer` only."""
        self.topic = record.topic
        self.partition = record.partition
        self.offset = record.offset
        self.timestamp_ms = record.timestamp_ms
        self.timestamp_type = record.timestamp_type
        self.key = record.key
        self.value = record.value
        self.headers = record.headers
        self.leader_epoch = record.leader_epoch
        self.delivery_count = delivery_count
        self._exchange = exchange
        self._acquired = acquired
        self._index = index

    @property
    def topic_partition(self):
        """Topic and partition of the record."""
        return self._acquired.tp

    @property
    def lock_expires_at(self):
        """Time (``time.monotonic()``) before which no other member gets the record.

        Renewing the lock extends the time. It is 0 if the record is acknowledged or its lock is lost.
        """
        return self._acquired.lock_expires_at(self._index)

    def consumer_record(self):
        """Return the record as a `ConsumerRecord`, without the attributes of the delivery."""
        return ConsumerRecord(
            self.topic,
            self.partition,
            self.offset,
            self.timestamp_ms,
            self.timestamp_type,
            self.key,
            self.value,
            self.headers,
            self.leader_epoch,
        )

    def with_content(self, key, value):
        """Return the same delivery with a deserialized key and value."""
        made = ShareRecord(self, self.delivery_count, self._exchange, self._acquired, self._index)
        made.key = key
        made.value = value
        return made

    # --- for the consumer that created it ---

    def _copy(self):
        return slots.like(self)

    def _is_open(self):
        """Return True if the record must still be acknowledged and its lock is not lost."""
        return self._acquired.may_decide(self._index)

    def __repr__(self):
        return (
            f"ShareRecord(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, "
            f"delivery_count={self.delivery_count}, timestamp_ms={self.timestamp_ms}, key={self.key!r}, "
            f"value={self.value!r}, headers={self.headers!r})"
        )


def place(found, acquired, passed):
    """Find the acquired records, and set their marks and delivery counts.

    ``found`` are records in offset order. Marks below ``passed`` belong to earlier records. Returns the acquired
    records, the ranges of marks between them that have no record (pairs of start and end), and the mark after the last
    record.
    """
    ranges = acquired.ranges
    made = []
    gaps = []
    at = 0
    base = 0
    first, last, count = ranges[0]
    for record in found:
        offset = record.offset
        while offset > last:
            base += last - first + 1
            at += 1
            if at == len(ranges):
                return made, gaps, passed
            first, last, count = ranges[at]
        if offset >= first:
            index = base + offset - first
            if index > passed:
                gaps.append((passed, index))
            record._index = index
            record.delivery_count = count
            made.append(record)
            passed = index + 1
    return made, gaps, passed


naming.show_in("aiokafka_lead", ShareRecord)

_UNIQUE = [object() for _ in range(7)]
slots.expose(
    ShareRecord(
        ConsumerRecord(_UNIQUE[0], 0, 0, 0, *_UNIQUE[1:6]),
        1,
        _UNIQUE[6],
        Acquired(TopicPartition("", 0), UUID(int=0), [], expires_at=0.0, gone_at=0.0),
        0,
    ),
    ("topic", "timestamp_type", "key", "value", "headers", "leader_epoch", "_exchange", "_acquired"),
)
