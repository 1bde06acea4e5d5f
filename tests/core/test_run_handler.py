"""Handlers that `Consumer.run` accepts, and the checks that reject the rest."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any
from unittest.mock import AsyncMock

import pytest

from aiokafka_lead import ConsumerRecord
from aiokafka_lead._core.run.handler import NoAwaitableError, checked_handler
from aiokafka_lead.errors import ConfigTypeError

RECORD: Any = object()


async def handle(record: Any, *more: Any) -> Any:
    return record


def returns_nothing(record: Any) -> None:
    """Handle a record; the ``async`` is missing."""
    if record is None:
        return
    print(record, end="")  # noqa: T201


def passes_on(function: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
    """Decorate a function without being async, returning its awaitable."""

    @functools.wraps(function)
    def passing(*args: Any) -> Awaitable[object]:
        return function(*args)

    return passing


class Service:
    async def handle(self, record: Any) -> Any:
        return record

    async def __call__(self, record: Any) -> Any:
        return record

    def forgets(self, record: Any) -> None:
        pass


class Forgetful:
    def __call__(self, record: Any) -> None:
        pass


def run(awaitable: Awaitable[Any]) -> Any:
    """Return the result of an awaitable that never waits."""
    try:
        awaitable.__await__().send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits")


ASYNC = [
    handle,
    functools.partial(handle),
    functools.partial(functools.partial(handle)),
    Service().handle,
    Service(),
    functools.partial(Service()),
    functools.partial(Service().handle),
]


@pytest.mark.parametrize("handler", ASYNC)
def test_async_functions_are_called_as_they_are(handler: Any) -> None:
    assert checked_handler(handler) is handler


@pytest.mark.parametrize(
    "handler",
    [
        lambda record: handle(record),
        lambda record: handle(record) if record else None,
        passes_on(handle),
        functools.partial(passes_on(handle)),
        AsyncMock(return_value=RECORD),
    ],
)
def test_plain_functions_may_return_something_to_await(handler: Any) -> None:
    assert run(checked_handler(handler)(RECORD)) is RECORD


def generates(record: Any) -> Iterator[Any]:
    yield record


async def generates_slowly(record: Any) -> AsyncIterator[Any]:
    yield record


@pytest.mark.parametrize(
    "handler",
    [
        None,
        "handle",
        handle(RECORD),
        returns_nothing,
        lambda record: None,
        functools.partial(returns_nothing),
        Service().forgets,
        functools.partial(Service().forgets),
        Forgetful(),
        generates,
        generates_slowly,
        functools.partial(generates_slowly),
        Service,
        dict,
    ],
)
def test_what_is_none_is_refused_before_any_record(handler: Any) -> None:
    with pytest.raises(ConfigTypeError, match=r"^handler must be an async function"):
        checked_handler(handler)
    if inspect.iscoroutine(handler):
        handler.close()


@pytest.mark.parametrize("handler", [repr, [].append, lambda record: (record, 1), lambda record: record and None])
def test_what_cannot_be_known_shows_at_the_first_call(handler: Any) -> None:
    taken: Callable[[ConsumerRecord[Any, Any]], Awaitable[object]] = checked_handler(handler)
    with pytest.raises(NoAwaitableError, match=r"^handler must be an async function: .* returned (str|None|tuple)"):
        taken(RECORD)
