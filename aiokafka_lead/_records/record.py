"""Records as read from partitions, and the class that consumers return.

This code runs for each record. If a compiler is available, it is compiled through ``record.pxd``.
"""

from types import GenericAlias

from .._cpython import naming, slots


class AnyRecord:
    """Attributes of all records that are read from a partition. The decoder copies a sample for each record."""

    __slots__ = (
        "headers",
        "key",
        "leader_epoch",
        "offset",
        "partition",
        "timestamp_ms",
        "timestamp_type",
        "topic",
        "value",
    )

    def _copy(self):
        """Return another record with the same attributes, which the decoder can change.

        It does not refer to this record.
        """
        raise NotImplementedError


class ConsumerRecord(AnyRecord):
    """A record as read from a partition. Treat it as frozen.

    - ``timestamp_ms`` is in milliseconds since 1970, or -1 if the record has no timestamp (message format 0).
      ``timestamp_type`` says if the producer or the broker has set it.
    - ``key`` and ``value`` are None if the record has none.
    - ``leader_epoch`` is the epoch in which the batch was written, or None if the broker did not report it.
    """

    __slots__ = ()

    __class_getitem__ = classmethod(GenericAlias)

    def __init__(
        self, topic, partition, offset, timestamp_ms, timestamp_type, key, value, headers=(), leader_epoch=None
    ):
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp_ms = timestamp_ms
        self.timestamp_type = timestamp_type
        self.key = key
        self.value = value
        self.headers = headers
        self.leader_epoch = leader_epoch

    def with_content(self, key, value):
        """Return a copy of the record with a deserialized key and value."""
        return ConsumerRecord(
            self.topic,
            self.partition,
            self.offset,
            self.timestamp_ms,
            self.timestamp_type,
            key,
            value,
            self.headers,
            self.leader_epoch,
        )

    def _copy(self):
        return slots.like(self)

    def _fields(self):
        return (
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

    def _equals(self, other):
        return self._fields() == other._fields()

    def __reduce__(self):
        return ConsumerRecord, self._fields()

    def __eq__(self, other):
        if not isinstance(other, ConsumerRecord):
            return NotImplemented
        return self._equals(other)

    def __hash__(self):
        return hash((self.topic, self.partition, self.offset))

    def __repr__(self):
        return (
            f"ConsumerRecord(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, "
            f"timestamp_ms={self.timestamp_ms}, timestamp_type={self.timestamp_type!r}, key={self.key!r}, "
            f"value={self.value!r}, headers={self.headers!r}, leader_epoch={self.leader_epoch})"
        )


naming.show_in("aiokafka_lead", ConsumerRecord)

_UNIQUE = [object() for _ in range(6)]
slots.expose(
    ConsumerRecord(_UNIQUE[0], 0, 0, 0, *_UNIQUE[1:]),
    ("topic", "timestamp_type", "key", "value", "headers", "leader_epoch"),
)
