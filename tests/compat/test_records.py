"""The record that compat's consumer hands out works like aiokafka's dataclass."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any, cast

import pytest
from aiokafka.structs import ConsumerRecord as Theirs

from aiokafka_lead import ConsumerRecord as Native
from aiokafka_lead import TimestampType
from aiokafka_lead.compat.consumer.read_record import Converter
from aiokafka_lead.compat.structs import ConsumerRecord

NATIVE = Native("t", 1, 2, 3, TimestampType.CREATE_TIME, b"key", None, (("h", b"v"),), 7)
EXPECTED: dict[str, Any] = {
    "topic": "t",
    "partition": 1,
    "offset": 2,
    "timestamp": 3,
    "timestamp_type": 0,
    "key": b"key",
    "value": None,
    "checksum": None,
    "serialized_key_size": 3,
    "serialized_value_size": -1,
    "headers": (("h", b"v"),),
}


@pytest.fixture
def record() -> ConsumerRecord[Any, Any]:
    return cast("ConsumerRecord[Any, Any]", Converter(None, None).one(NATIVE))


def test_it_has_what_aiokafkas_has(record: ConsumerRecord[Any, Any]) -> None:
    assert [field.name for field in dataclasses.fields(record)] == [field.name for field in dataclasses.fields(Theirs)]
    assert dataclasses.asdict(record) == EXPECTED
    assert repr(record) == repr(ConsumerRecord(**EXPECTED)) == repr(Theirs(**EXPECTED))


def test_it_equals_one_that_the_application_makes(record: ConsumerRecord[Any, Any]) -> None:
    made = ConsumerRecord(**EXPECTED)
    assert record == made
    assert made == record
    assert record != ConsumerRecord(**{**EXPECTED, "offset": 3})
    assert record != "t"
    with pytest.raises(TypeError):
        hash(record)


def test_it_can_be_changed_copied_and_pickled(record: ConsumerRecord[Any, Any]) -> None:
    for other in (copy.copy(record), copy.deepcopy(record), pickle.loads(pickle.dumps(record))):
        assert other == record
    replaced = dataclasses.replace(record, value=b"new")
    other = copy.copy(record)
    other.value = b"new"
    record.value = b"new"
    assert record == other == replaced == ConsumerRecord(**{**EXPECTED, "value": b"new"})
    assert record.serialized_value_size == -1


def test_it_takes_other_attributes(record: ConsumerRecord[Any, Any]) -> None:
    """FastStream gives a record its consumer."""
    with pytest.raises(AttributeError, match="'ConsumerRecord' object has no attribute 'consumer'"):
        _ = record.consumer  # type: ignore[attr-defined]
    record.consumer = "c"  # type: ignore[attr-defined]
    assert record.consumer == "c"  # type: ignore[attr-defined]
    assert vars(record) == {**EXPECTED, "consumer": "c"}
    assert record == ConsumerRecord(**EXPECTED)
    vars(record)["offset"] = 9
    assert record.offset == 9


def test_deserializers_get_what_is_not_there_too() -> None:
    record = Converter(len, lambda value: value).one(NATIVE)  # type: ignore[arg-type]
    assert record == ConsumerRecord(**{**EXPECTED, "key": 3})
