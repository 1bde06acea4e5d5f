"""ConsumerRecord as a value."""

from __future__ import annotations

import copy
import gc
import pickle
import random
import sys
from typing import Any

import pytest

from aiokafka_lead._records import ConsumerRecord
from aiokafka_lead.types import TimestampType

from .variants import VARIANTS

FIELDS: dict[str, Any] = {
    "topic": "events",
    "partition": 3,
    "offset": 2**40,
    "timestamp_ms": 1_700_000_000_000,
    "timestamp_type": TimestampType.CREATE_TIME,
    "key": b"k",
    "value": b"v",
    "headers": (("h", b"1"),),
    "leader_epoch": 5,
}


def test_fields(codec: Any) -> None:
    record = codec.ConsumerRecord(**FIELDS)
    assert {name: getattr(record, name) for name in FIELDS} == FIELDS
    assert codec.ConsumerRecord(*FIELDS.values()) == record
    assert not hasattr(record, "__dict__")


def test_headers_and_epoch_may_be_missing(codec: Any) -> None:
    record = codec.ConsumerRecord("t", 0, 1, -1, TimestampType.NO_TIMESTAMP, None, None)
    assert (record.headers, record.leader_epoch) == ((), None)


@pytest.mark.parametrize("name", list(FIELDS))
def test_equality_is_by_every_field(codec: Any, name: str) -> None:
    record, same = codec.ConsumerRecord(**FIELDS), codec.ConsumerRecord(**FIELDS)
    other = codec.ConsumerRecord(**{**FIELDS, name: 9})
    assert record == same
    assert hash(record) == hash(same)
    assert record != other
    assert record != tuple(FIELDS.values())


def test_records_with_contents_that_have_no_hash_have_one(codec: Any) -> None:
    assert len({codec.ConsumerRecord(**{**FIELDS, "value": {"a": 1}}), codec.ConsumerRecord(**FIELDS)}) == 2


def test_repr_names_every_field(codec: Any) -> None:
    text = repr(codec.ConsumerRecord(**FIELDS))
    assert text.startswith("ConsumerRecord(topic='events', partition=3, offset=1099511627776, ")
    assert all(f"{name}=" in text for name in FIELDS)


def test_pickle_and_copy() -> None:
    record = ConsumerRecord(**FIELDS)
    for other in (pickle.loads(pickle.dumps(record)), copy.copy(record), copy.deepcopy(record)):
        assert other == record
        assert type(other) is ConsumerRecord


def test_subscript_at_runtime(codec: Any) -> None:
    alias = codec.ConsumerRecord[str, bytes]
    assert alias.__origin__ is codec.ConsumerRecord
    assert alias.__args__ == (str, bytes)


def test_match_by_name(codec: Any) -> None:
    kind = codec.ConsumerRecord
    match codec.ConsumerRecord(**FIELDS):
        case kind(offset=offset, value=value):
            assert (offset, value) == (2**40, b"v")
        case _:
            pytest.fail("no match")


def test_other_contents(codec: Any) -> None:
    record = codec.ConsumerRecord(**FIELDS).with_content("k", {"v": 1})
    assert record == codec.ConsumerRecord(**{**FIELDS, "key": "k", "value": {"v": 1}})


def test_a_record_with_an_object_that_refers_back_is_collected(codec: Any) -> None:
    class Event:
        """A deserialized value."""

        collected = False
        record: Any = None

        def __del__(self) -> None:
            Event.collected = True

    [view] = codec.read_batches(codec.build_batch([codec.StoredRecord(5, None, b"v")]))
    event = Event()
    event.record = view.records("t", 0)[0].with_content(None, event)
    del event
    gc.collect()
    assert Event.collected


MANY = 6000
"""More than memory is kept for."""


def test_records_are_their_own_whatever_memory_they_are_made_of(codec: Any) -> None:
    rng = random.Random(5)

    def content() -> bytes | None:
        return rng.choice([None, b"", rng.randbytes(20)])

    topic = " ".join(["a", "topic"])  # not a constant, which would be immortal
    stored = [codec.StoredRecord(at, content(), content(), rng.choice([(), (("h", content()),)])) for at in range(MANY)]
    [view] = codec.read_batches(codec.build_batch(stored, base_offset=7, leader_epoch=2))
    wanted = [
        codec.ConsumerRecord(
            topic, 3, 7 + at, one.timestamp_ms, TimestampType.CREATE_TIME, one.key, one.value, tuple(one.headers), 2
        )
        for at, one in enumerate(stored)
    ]
    before = sys.getrefcount(topic)
    held: list[Any] = []
    for _ in range(5):
        found = view.records(topic, 3)
        assert found == wanted
        assert codec is not VARIANTS.get("compiled") or not any(map(gc.is_tracked, found))
        held += rng.sample(found, 500)
        del found
        assert all(record == wanted[record.offset - 7] for record in held)
        held = held[250:]
    del held
    assert sys.getrefcount(topic) == before
