"""Classes of values: like the standard library's, without their cost at import."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
import subprocess
import sys
import typing
from dataclasses import KW_ONLY, field
from typing import Any

import pytest

from aiokafka_lead._values import Frozen, NamedTuple


class Place(NamedTuple):
    """A place."""

    topic: str
    partition: int
    offset: int = 0

    @property
    def next(self) -> int:
        return self.offset + 1


class Standard(typing.NamedTuple):
    """A place."""

    topic: str
    partition: int
    offset: int = 0

    @property
    def next(self) -> int:
        return self.offset + 1


class Shape(Frozen):
    """A frozen value."""

    name: str
    size: int = 1
    _: KW_ONLY
    note: str | None = field(default=None, repr=False, compare=False)
    parts: list[int] = field(default_factory=list)


class Larger(Shape):
    depth: int = 2


@pytest.mark.parametrize("kind", [Place, Standard])
def test_a_named_tuple(kind: Any) -> None:
    place = kind("events", partition=3)
    assert repr(place) == f"{kind.__name__}(topic='events', partition=3, offset=0)"
    assert place == ("events", 3, 0)
    assert place.next == 1
    assert place._replace(offset=8).next == 9
    assert pickle.loads(pickle.dumps(place)) == place
    assert kind._fields == ("topic", "partition", "offset")
    assert kind._field_defaults == {"offset": 0}
    assert (kind.__doc__, kind.__module__, kind.__qualname__) == ("A place.", __name__, kind.__name__)
    assert typing.get_type_hints(kind) == {"topic": str, "partition": int, "offset": int}
    assert kind.__mro__ == (kind, tuple, object)
    with pytest.raises(TypeError, match="partition"):
        kind("events")


MANY = """
import gc
from aiokafka_lead._values import NamedTuple
gc.set_threshold(1, 1, 1)
for count in range(1, 60):
    fields = {f"field{at}": "int" for at in range(count)}
    kind = type(NamedTuple)("Kind", (NamedTuple,), {"__annotations__": fields, "__module__": __name__})
    assert kind(*range(count))[-1] == count - 1
"""


def test_named_tuples_are_made_while_garbage_is_collected() -> None:
    subprocess.run([sys.executable, "-c", MANY], check=True, timeout=60)


def test_a_frozen_value() -> None:
    shape = Shape("a", 2, note="hidden")
    assert repr(shape) == "Shape(name='a', size=2, parts=[])"
    assert shape == Shape("a", size=2)
    assert shape != Shape("a")
    assert shape != Larger("a", 2)
    assert dataclasses.asdict(shape) == {"name": "a", "size": 2, "note": "hidden", "parts": []}
    assert dataclasses.replace(shape, size=3) == Shape("a", 3)
    assert pickle.loads(pickle.dumps(shape)) == shape
    assert Larger("a", 2, 4).depth == 4
    assert str(inspect.signature(Larger)) == (
        "(name: 'str', size: 'int' = 1, depth: 'int' = 2, *, note: 'str | None' = None, parts: 'list[int]' = Ellipsis)"
    )
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(shape, "size", 5)  # noqa: B010
    with pytest.raises(dataclasses.FrozenInstanceError):
        delattr(shape, "size")


def test_fields_that_are_not_compared_do_not_count_for_the_hash() -> None:
    class Keyed(Frozen):
        key: str
        rest: dict[str, int] = field(default_factory=dict, compare=False)

    assert hash(Keyed("a", {"b": 1})) == hash(Keyed("a"))


@pytest.mark.parametrize(
    ("values", "named", "text"),
    [
        ((), {}, "Shape needs name"),
        (("a", 1, "note"), {}, "Shape takes 2 values by position, not 3"),
        (("a",), {"colour": "red"}, "Shape has no colour"),
        (("a",), {"name": "b"}, "Shape got name twice"),
    ],
)
def test_what_a_frozen_value_does_not_take(values: tuple[Any, ...], named: dict[str, Any], text: str) -> None:
    kind: Any = Shape
    with pytest.raises(TypeError, match=text):
        kind(*values, **named)
