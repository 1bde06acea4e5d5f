"""Checking, as early as possible, that handlers are async."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Awaitable, Callable
from types import FunctionType
from typing import Any, Protocol

from ..._options.checks import function_of
from ...errors import ConfigTypeError

Handler = Callable[..., Awaitable[object]]


class _Placed(Protocol):
    """The attributes that identify a record of either kind of consumer."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...


def place_of(record: _Placed) -> str:
    """Return a name for a record in logs and errors.

    It omits the content, which is private and may be large.
    """
    return f"the record at offset {record.offset} of {record.topic}-{record.partition}"


def raw_record(record: Any) -> Any:
    """Return a share group's record as a plain `ConsumerRecord`, and any other record unchanged."""
    return record.consumer_record() if hasattr(record, "consumer_record") else record


RESERVE_SHARE = 0.25
RESERVE_S = 2.0
"""Maximum number of seconds of a stop that are reserved for the last commit and for leaving the group.

The reserved time is the fraction `RESERVE_SHARE` of the stop's time, up to this maximum.
"""


def time_of_handlers(deadline: float, timeout_s: float) -> tuple[float, float]:
    """Return the deadlines of the handlers and of the whole run during a stop.

    The stop takes ``timeout_s`` and ends at ``deadline``. Both deadlines are earlier, to leave time for the next steps.
    """
    reserve_s = min(timeout_s * RESERVE_SHARE, RESERVE_S)
    return deadline - reserve_s, deadline - reserve_s / 2


class NoAwaitableError(Exception):
    """The handler has returned an object that cannot be awaited."""


def checked_handler(handler: Handler) -> Handler:
    """Return the handler if it is certainly async. Otherwise, return a wrapper that may raise `NoAwaitableError`.

    A plain function may return a coroutine, so it can only be checked when it is called. Raises `ConfigTypeError` for
    an object that can never be an async handler.
    """
    if not callable(handler):
        raise ConfigTypeError(f"handler must be an async function, not {type(handler).__name__}")
    function = function_of(handler)
    if inspect.iscoroutinefunction(function):
        return handler
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigTypeError(f"handler must be an async function: {name_of(handler)} is a generator")
    if isinstance(function, type) and not issubclass(function, Awaitable):
        raise ConfigTypeError(f"handler must be an async function, not the class {name_of(handler)}")
    if isinstance(function, FunctionType) and _returns_nothing(function):
        raise ConfigTypeError(
            f"handler must be an async function: {name_of(handler)} is a plain function that returns None"
        )

    def handle(*arguments: Any, **named: Any) -> Awaitable[object]:
        outcome = handler(*arguments, **named)
        if not inspect.isawaitable(outcome):
            raise NoAwaitableError(
                f"handler must be an async function: {name_of(handler)} returned {type(outcome).__name__}, "
                "which cannot be awaited"
            )
        return outcome

    return handle


_LOADS = ("LOAD_CONST", "LOAD_COMMON_CONSTANT")
"""Instructions that load the None of a return statement. Python 3.15 loads it as a common constant."""


def _returns_nothing(function: FunctionType) -> bool:
    """Return True if a plain function always returns None, like a coroutine function whose ``async`` is missing."""
    loads_none = False
    for instruction in dis.get_instructions(function):
        match instruction.opname:
            case "RETURN_CONST" if instruction.argval is not None:
                return False
            case "RETURN_VALUE" if not loads_none or instruction.is_jump_target:
                return False
        loads_none = instruction.opname in _LOADS and instruction.argval is None
    return True


def name_of(handler: object) -> str:
    return getattr(handler, "__qualname__", None) or repr(handler)
