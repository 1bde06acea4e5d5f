"""`RecordMetadata` from outcomes: a named tuple like any other, whatever happens to its memory."""

from __future__ import annotations

import gc
import sys
import weakref

from aiokafka_lead import _accel
from aiokafka_lead._core.producer.outcome import NOTHING_TO_WAIT_FOR, BatchOutcome
from aiokafka_lead.types import RecordMetadata

MANY = 3000
"""More than are kept for reuse."""


class Node:
    """An object that the garbage collector has to find."""

    other: object = None


def acknowledged(base_offset: int) -> BatchOutcome:
    whole = BatchOutcome("topic", 3, NOTHING_TO_WAIT_FOR)
    whole.complete(base_offset)
    return whole


def test_each_is_its_own() -> None:
    for base_offset in (0, 10**12, 5):
        whole = acknowledged(base_offset)
        found = [whole.metadata(index, 1_700_000_000_000) for index in range(MANY)]
        wanted = [("topic", 3, base_offset + index, 1_700_000_000_000) for index in range(MANY)]
        assert found == wanted
        assert list(map(hash, found)) == list(map(hash, wanted))
        assert {*found} == {*wanted}
        assert not _accel.ACCELERATED or not any(map(gc.is_tracked, found))


def test_the_class_is_not_kept_alive_by_them() -> None:
    whole = acknowledged(0)
    before = sys.getrefcount(RecordMetadata)
    for _ in range(3):
        found = [whole.metadata(index, 1) for index in range(MANY)]
        assert sys.getrefcount(RecordMetadata) >= before
        del found
    assert sys.getrefcount(RecordMetadata) == before


def test_those_that_applications_make_are_collected_too() -> None:
    class Sub(RecordMetadata):
        pass

    for kind in (RecordMetadata, Sub):
        node = Node()
        node.other = kind(node, 1, 2, 3)  # type: ignore[arg-type]
        gone = weakref.ref(node)
        assert gc.is_tracked(node.other)
        del node
        gc.collect()
        assert gone() is None


def test_subclasses_are_let_go_of() -> None:
    class Sub(RecordMetadata):
        pass

    before = sys.getrefcount(Sub)
    found = [Sub("topic", 1, offset, 3) for offset in range(MANY)]
    assert [one.offset for one in found] == list(range(MANY))
    del found
    assert sys.getrefcount(Sub) == before
