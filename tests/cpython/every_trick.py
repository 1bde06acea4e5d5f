"""Every function of `aiokafka_lead._cpython`, used as in a hot module: the test compiles this file, too."""

from __future__ import annotations

from array import array
from collections.abc import Generator
from typing import Any, NamedTuple

from aiokafka_lead._cpython import awaiting, calling, clock, collector, naming, raw, references, slots, tuples

NUMBERS = 64


class Place(NamedTuple):
    """Created by `tuples`."""

    topic: str
    partition: int
    offset: int
    time: int


def place(topic: str, partition: int, offset: int, time: int) -> Place:
    return tuples.of_four(Place, topic, partition, offset, time)


class Sample:
    """Copied by `slots`."""

    __slots__ = ("key", "note", "number", "value")

    def __init__(self, number: int, key: Any, value: Any, note: Any) -> None:
        self.number = number
        self.key = key
        self.value = value
        self.note = note

    def with_content(self, key: Any, value: Any) -> Sample:
        return Sample(self.number, key, value, self.note)


naming.show_in("public", Sample)


def like(sample: Sample) -> Sample:
    made: Sample = slots.like(sample)
    return made


def pair(first: list[int], second: list[int]) -> tuple[list[int], list[int]]:
    made = (first, second)
    collector.untrack(made)
    return made


class Result:
    """Result that `awaiting` returns directly."""

    __slots__ = ("done", "value")

    def __init__(self, value: Any, done: bool) -> None:
        self.value = value
        self.done = done

    def __await__(self) -> Generator[Any, Any, Any]:
        while not self.done:
            self.done = yield "wait"
        return self.value


def _is_done(one: Any) -> bool:
    result: Result = one
    return result.done


def _take(one: Any) -> Any:
    result: Result = one
    return result.value


class Method:
    """Called by `calling`."""

    __slots__ = ("_slot", "calls")

    def __init__(self) -> None:
        self.calls = 0
        self._slot = 0
        calling.call_by(self, self._slot, "make")

    def __call__(self, *args: Any, **named: Any) -> Call:
        return self.make(*args, **named)

    def make(self, first: Any, second: Any = None) -> Call:
        self.calls += 1
        return Call(first, second)


class Call:
    """Coroutine run by `calling`, which ends at its first step if ``first`` is not None."""

    __slots__ = ("first", "second")

    def __init__(self, first: Any, second: Any) -> None:
        self.first = first
        self.second = second

    def __await__(self) -> Call:
        return self

    def __iter__(self) -> Call:
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        found = _first_step(self)
        if found is not None:
            raise StopIteration(found)
        return _rest(self).send(value)

    def throw(self, *error: Any) -> Any:
        return _rest(self).throw(*error)

    def close(self) -> None:
        pass


def _first_step(one: Any) -> Any:
    call: Call = one
    return call.first


def _rest(one: Any) -> Any:
    call: Call = one
    return call.second


class Owner:
    """Inspected by `references`."""

    __slots__ = ("kept",)

    def __init__(self) -> None:
        self.kept: Any = bytearray(8)

    def is_the_only_one(self) -> bool:
        kept = self.kept
        return references.has_no_other_owner(kept)

    def take(self) -> Call:
        """Return the call that was returned before, if no one else keeps it."""
        kept = self.kept
        if type(kept) is not Call or not references.has_no_other_owner(kept):
            kept = self.kept = Call(None, None)
        return kept


def times() -> tuple[float, int, int]:
    return clock.monotonic_s(), clock.wall_ms(), clock.thread_id()


def written(content: bytes, text: str) -> bytearray:
    """Return the bytes written by each writing function of `raw`."""
    buffer = raw.new_buffer(NUMBERS)
    target = raw.writable(buffer)
    raw.put_int16(target, 0, -2)
    raw.put_int32(target, 2, -3)
    raw.put_uint32(target, 6, 0xFEDCBA98)
    raw.put_int64(target, 10, -(2**62))
    raw.copy(target, 18, content, len(content))
    at = 18 + len(content)
    size = raw.utf8_size(text)
    raw.copy_utf8(target, at, text, size)
    source = raw.readable(content)
    raw.copy_part(target, at + size, source, 1, len(content) - 1)
    raw.resize(buffer, at + size + len(content) - 1)
    raw.append_int16(buffer, -(2**15))
    raw.append_int32(buffer, 2**31 - 1)
    raw.append_uvarint(buffer, 2**31 + 5)
    raw.append_uvarint(buffer, 0)
    return buffer


def read(data: bytes | memoryview) -> tuple[int, int, int]:
    buffer = raw.readable(data)
    return raw.int16_at(buffer, 0), raw.int32_at(buffer, 2), raw.int64_at(buffer, 10)


def arrays(count: int) -> tuple[array[int], array[int]]:
    """Return the numbers up to a count, with 32 and with 64 bits."""
    small_array, large_array = raw.new_int32s(count), raw.new_int64s(count)
    small, large = raw.int32s(small_array), raw.int64s(large_array)
    for at in range(count):
        small[at] = at
        large[at] = at << 32
    return small_array, large_array


_UNIQUE = [object() for _ in range(3)]
slots.expose(Sample(0, _UNIQUE[0], _UNIQUE[1], _UNIQUE[2]), ("key", "value", "note"))
tuples.recycle(Place)
awaiting.shorten_await(Result, _is_done, _take)
calling.run_by(Call, _first_step, _rest)
