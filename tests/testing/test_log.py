"""A partition's log against a model that is a plain list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lead import errors
from aiokafka_lead._records import read_batches
from aiokafka_lead.testing._state.batch import validate
from aiokafka_lead.testing._state.log import NOWHERE, PartitionLog
from aiokafka_lead.testing._state.offsets import Coordinators, slot_of

from .raw import batch


def append(log: PartitionLog, *values: bytes, leader_epoch: int = 0, **fields: int | bool) -> None:
    records = memoryview(batch(*values, **fields))  # type: ignore[arg-type]
    header = validate(records, max_bytes=1_000_000, produce_version=12)
    log.append(records, header, leader_epoch, None)


def read(log: PartitionLog, offset: int, max_bytes: int = 1_000_000, *, committed: bool = False) -> list[int]:
    chunks, size = log.read(offset, max_bytes, committed_only=committed, at_least_one=True)
    assert size == sum(map(len, chunks))
    return [record.offset for chunk in chunks for view in read_batches(chunk) for record in view.records("t", 0)]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 5)),
        st.tuples(st.just("epoch"), st.integers(1, 3)),
        st.tuples(st.just("delete"), st.integers(0, 30)),
        st.tuples(st.just("truncate"), st.integers(0, 30)),
    ),
    max_size=30,
)


@given(STEPS, st.integers(1, 500))
def test_it_agrees_with_a_list(steps: list[tuple[str, int]], max_bytes: int) -> None:
    log = PartitionLog()
    log.begin_epoch(0)
    epoch = 0
    model: list[tuple[int, int, int]] = []  # first and last offset of each batch, and its epoch
    start = end = 0
    for step, number in steps:
        if step == "append":
            append(log, *[b"v"] * number, leader_epoch=epoch)
            model.append((end, end + number - 1, epoch))
            end += number
        elif step == "epoch":
            epoch += number
            log.begin_epoch(epoch)
        elif step == "delete" and start <= number <= end:
            log.delete_before(number)
            start = number
            model = [entry for entry in model if entry[1] >= start]
        elif step == "truncate" and number >= start:
            log.truncate(number)
            model = [entry for entry in model if entry[1] < number]
            end = model[-1][1] + 1 if model else start
            epoch += 1
            log.begin_epoch(epoch)
    assert (log.start_offset, log.end_offset) == (start, end)
    assert log.size_bytes == sum(batch.size for batch in log.batches)
    for offset in range(start, end + 1):
        wanted = [entry for entry in model if entry[1] >= offset]
        assert read(log, offset) == [o for first, last, _ in wanted for o in range(first, last + 1)]
        assert (read(log, offset, max_bytes) != []) == bool(wanted)
    for outside in (start - 1, end + 1):
        with pytest.raises(errors.OffsetOutOfRangeError):
            read(log, outside)
    for _, last, of_epoch in model:
        assert log.epoch_at(last) == of_epoch
        # An epoch ends at the first record of the next one.
        expected = next((first for first, _, other in model if other > of_epoch), None)
        found, ends = log.end_of_epoch(of_epoch)
        assert found == of_epoch
        assert ends == (end if expected is None else expected)
    assert log.end_of_epoch(epoch + 1) == (-1, -1)
    assert log.latest(committed_only=True).offset == end


def test_times() -> None:
    log = PartitionLog()
    log.begin_epoch(0)
    assert log.at_time(0) == log.at_max_timestamp() == NOWHERE
    append(log, b"a", b"b", timestamp_ms=1000)
    append(log, b"c", timestamp_ms=500)
    append(log, b"d", b"e", timestamp_ms=2000)
    assert [log.at_time(at).offset for at in (0, 1000, 1001, 1002, 2001, 2002)] == [0, 0, 1, 3, 4, -1]
    assert log.at_time(1001) == (1, 1001, 0)
    assert log.at_max_timestamp() == (4, 2001, 0)
    log.delete_before(4)
    assert log.at_time(0) == (4, 2001, 0)


def test_committed_readers_stop_at_open_transactions() -> None:
    log = PartitionLog()
    log.begin_epoch(0)
    append(log, b"plain")
    append(log, b"one", producer_id=1, epoch=0, sequence=0, transactional=True)
    append(log, b"two", producer_id=2, epoch=0, sequence=0, transactional=True)
    assert (log.last_stable_offset, read(log, 0, committed=True)) == (1, [0])
    log.end_transaction(1, 0, committed=False, coordinator_epoch=0, leader_epoch=0, now_ms=1)
    assert (log.last_stable_offset, read(log, 0, committed=True)) == (2, [0, 1])
    assert [(txn.producer_id, txn.first_offset) for txn in log.aborted_in(0, 2)] == [(1, 1)]
    assert log.aborted_in(0, 1) == log.aborted_in(4, 10) == []
    log.end_transaction(2, 0, committed=True, coordinator_epoch=0, leader_epoch=0, now_ms=1)
    assert (log.last_stable_offset, len(log.aborted)) == (5, 1)
    append(log, b"x", producer_id=1, epoch=0, sequence=1, transactional=True)
    with pytest.raises(errors.InvalidTxnStateError):
        log.producers.check(1, 0, 2, 1, transactional=False)
    # Lost data is unknown after a truncation, including the state of producers and transactions.
    log.truncate(3)
    assert (log.end_offset, log.last_stable_offset, log.aborted) == (3, 1, [])
    assert log.producers.entries[2].last_sequence == 0


def test_coordinators() -> None:
    alive = [1, 2, 3]
    coordinators = Coordinators(lambda: alive)
    # Java: abs("group".hashCode()) % 50, and a hash that is negative there.
    assert (slot_of("group"), slot_of("polygenelubricants"), slot_of("")) == (47, 0, 0)
    first = coordinators.of(0, "g")
    assert coordinators.of(0, "g") == first
    alive.remove(first)
    second = coordinators.of(0, "g")
    assert second in alive
    alive.append(first)
    # It stays there until it has to move.
    assert coordinators.of(0, "g") == second
    assert coordinators.move(0, "g", None) != second
    alive.clear()
    assert coordinators.of(0, "g") == -1
