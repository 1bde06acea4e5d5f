"""Inspection of the application's serializers and deserializers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from aiokafka_lead._options.serialization import inspected


class Waits:
    async def __call__(self, content: bytes) -> bytes:
        return content

    async def method(self, content: bytes) -> bytes:
        return content

    def plain(self, content: bytes) -> bytes:
        return content


async def waits(content: bytes) -> bytes:
    return content


WAITING = [waits, partial(waits), Waits(), partial(Waits()), Waits().method, partial(Waits().method)]
PLAIN = [bytes.decode, Waits().plain, partial(Waits().plain), int, lambda content: content]


@pytest.mark.parametrize("function", WAITING)
def test_what_is_to_be_awaited_however_it_is_wrapped(function: Callable[..., Any]) -> None:
    assert inspected("value_deserializer", function).waits


@pytest.mark.parametrize("function", PLAIN)
def test_what_is_not(function: Callable[..., Any]) -> None:
    assert not inspected("value_deserializer", function).waits
