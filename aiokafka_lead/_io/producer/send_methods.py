"""Compiled replacements for the methods `send` and `send_nowait` of a running producer.

Most records need only the `Intake`, and a Python function or a coroutine around it would double the cost. These methods
try the `Intake` first, and call the methods of the class for all other records.

This module is compiled through ``send_methods.pxd``. Without a compiler, it is not used.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from ..._core.producer.delivery import Delivery
from ..._cpython import calling, references
from ...types import Header
from .intake import Intake


class QuickSend:
    """Replaces `Producer.send` in a running producer.

    Introspection, for example with `inspect.iscoroutinefunction`, sees the method of the class.
    """

    __slots__ = ("_intake", "_otherwise", "_slot", "_spare")

    def __init__(self, intake: Intake, otherwise: Callable[..., Coroutine[Any, Any, Delivery]]) -> None:
        """Try ``intake`` first, and call ``otherwise``, which is the method of the class, for all other records."""
        self._intake = intake
        self._otherwise = otherwise
        self._spare: SendCall | None = None
        """The last finished call. The next call reuses it if the application no longer refers to it."""
        self._slot = 0
        calling.call_by(self, self._slot, "send")

    def __call__(self, *args: Any, **named: Any) -> SendCall | Coroutine[Any, Any, Delivery]:
        return self.send(*args, **named)

    def send(
        self,
        topic: Any,
        value: Any = None,
        key: Any = None,
        partition: Any = None,
        timestamp_ms: Any = None,
        headers: Sequence[Header] | None = None,
        *,
        timeout_ms: Any = None,
    ) -> SendCall | Coroutine[Any, Any, Delivery]:
        """Return an awaitable that sends a record. With ``timeout_ms``, it is the coroutine of the class's method."""
        if timeout_ms is not None:
            return self._otherwise(topic, value, key, partition, timestamp_ms, headers, timeout_ms=timeout_ms)
        return _new_call(self, topic, value, key, partition, timestamp_ms, headers)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self._otherwise)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._otherwise, name)

    def __repr__(self) -> str:
        return repr(self._otherwise)


class SendCall:
    """The coroutine of a call of ``send``. If the record can be accepted at once, it ends in its first step.

    Otherwise, it continues as the coroutine of the class's method. Introspection also sees that coroutine.
    """

    __slots__ = (
        "_coroutine",
        "_fresh",
        "_headers",
        "_key",
        "_method",
        "_partition",
        "_timestamp_ms",
        "_topic",
        "_value",
    )

    # `_new_call` sets the attributes, because a constructor would be slower.
    _method: QuickSend
    _topic: Any
    _value: Any
    _key: Any
    _partition: Any
    _timestamp_ms: Any
    _headers: Any
    _fresh: bool
    """True until the call has started or is closed."""
    _coroutine: Coroutine[Any, Any, Delivery] | None
    """The coroutine of the method of the class, once the call continues as that coroutine."""

    def __await__(self) -> SendCall:
        if self._coroutine is not None and inspect.getcoroutinestate(self._coroutine) == inspect.CORO_SUSPENDED:
            raise RuntimeError("coroutine is being awaited already")
        return self

    def __iter__(self) -> SendCall:
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        """Continue. Raises StopIteration with the `Delivery`, or returns the awaited object for the event loop."""
        delivery = self._begin()
        if delivery is not None:
            raise StopIteration(delivery)
        return self._other().send(value)

    def throw(self, *error: Any) -> Any:
        """Raise the error at the point at which the call waits."""
        return self._other().throw(*error)

    def close(self) -> None:
        """End the call without a result, as Python does with a coroutine that is no longer needed."""
        self._fresh = False
        if self._coroutine is not None:
            self._coroutine.close()

    def _begin(self) -> Delivery | None:
        """Accept the record. Return None if the coroutine of the class's method must continue."""
        if self._fresh:
            self._fresh = False  # after an error, the call has ended
            delivery = self._method._intake.append(
                self._topic, self._value, self._key, self._partition, self._timestamp_ms, self._headers
            )
            if delivery is not None:
                return delivery
            self._fresh = True
        return None

    def _other(self) -> Coroutine[Any, Any, Delivery]:
        """Return the coroutine of the class's method. It is closed if this call has ended."""
        if self._coroutine is None:
            self._coroutine = self._method._otherwise(
                self._topic, self._value, self._key, self._partition, self._timestamp_ms, self._headers
            )
            if not self._fresh:
                self._coroutine.close()
            self._fresh = False
        return self._coroutine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._other(), name)

    def __dealloc__(self) -> None:
        """Cython's destructor, which is faster than Python's ``__del__``."""
        if self._fresh and self._method is not None:
            self._coroutine = self._other()  # Python warns that it was never awaited


def _new_call(
    method: QuickSend, topic: Any, value: Any, key: Any, partition: Any, timestamp_ms: Any, headers: Any
) -> SendCall:
    """Create a `SendCall`, which is faster than calling the class."""
    call = method._spare
    if call is not None and references.has_no_other_owner(call):
        method._spare = None
    else:
        call = SendCall.__new__(SendCall)
        call._method = method
    call._topic = topic
    call._value = value
    call._key = key
    call._partition = partition
    call._timestamp_ms = timestamp_ms
    call._headers = headers
    call._fresh = True
    call._coroutine = None
    return call


def _first_step(one: Any) -> Delivery | None:
    call: SendCall = one
    delivery = call._begin()
    if delivery is not None:
        call._topic = call._value = call._key = call._partition = call._timestamp_ms = call._headers = None
        if references.COUNTED:
            call._method._spare = call
    return delivery


def _rest(one: Any) -> Coroutine[Any, Any, Delivery]:
    call: SendCall = one
    return call._other()


calling.run_by(SendCall, _first_step, _rest)


def _change_type() -> None:
    """Create and call the first object, because its call changes the type.

    At import, no other thread can create objects at the same time.
    """
    first = QuickSend.__new__(QuickSend)
    first._slot = 0
    calling.call_by(first, first._slot, "send")


_change_type()


class QuickSendNowait:
    """Holds the function that replaces `Producer.send_nowait` in a running producer."""

    __slots__ = ("_intake", "_otherwise")

    def __init__(self, intake: Intake, otherwise: Callable[..., Delivery]) -> None:
        """Try ``intake`` first, and call ``otherwise``, which is the method of the class, for all other records."""
        self._intake = intake
        self._otherwise = otherwise

    def send_nowait(
        self,
        topic: Any,
        value: Any = None,
        key: Any = None,
        partition: Any = None,
        timestamp_ms: Any = None,
        headers: Sequence[Header] | None = None,
    ) -> Delivery:
        """Send a record. Takes the place of `Producer.send_nowait` while the producer is running."""
        delivery = self._intake.append(topic, value, key, partition, timestamp_ms, headers)
        if delivery is None:
            return self._otherwise(topic, value, key, partition, timestamp_ms, headers)
        return delivery
