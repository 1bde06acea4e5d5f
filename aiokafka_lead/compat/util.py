"""Helpers that several classes of this package share."""

from __future__ import annotations

import asyncio
import re
import warnings
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from .. import types as native
from ..types import TopicPartition
from .structs import OffsetAndMetadata

__all__ = [
    "__version__",
    "commit_structure_validate",
    "create_future",
    "create_task",
    "deprecated",
    "get_running_loop",
    "native_offsets",
    "parse_kafka_version",
]

T = TypeVar("T")

__version__ = "0.14.0"
"""Version of aiokafka with which this package is compatible."""

INTEGER_MAX_VALUE = 2**31 - 1


def create_task(coro: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Create a task on the running event loop."""
    return get_running_loop().create_task(coro)


def create_future(loop: asyncio.AbstractEventLoop | None = None) -> asyncio.Future[Any]:
    """Create a future of ``loop``, or by default of the running event loop."""
    return (loop or get_running_loop()).create_future()


def get_running_loop() -> asyncio.AbstractEventLoop:
    """Return the running event loop. Raises RuntimeError if there is none."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError("The object should be created within an async function or provide loop directly.") from None


def deprecated(loop: asyncio.AbstractEventLoop | None, api_version: object) -> asyncio.AbstractEventLoop:
    """Return the event loop to use. Warns about deprecated arguments as aiokafka does."""
    if api_version is not None:
        warnings.warn("The `api_version` parameter is a no-op.", DeprecationWarning, stacklevel=3)
    if loop is None:
        return get_running_loop()
    warnings.warn("The `loop` parameter is deprecated.", DeprecationWarning, stacklevel=3)
    return loop


def commit_structure_validate(offsets: Mapping[TopicPartition, Any]) -> dict[TopicPartition, OffsetAndMetadata]:
    """Check and convert offsets to commit, which are ints or tuples (offset, metadata).

    Raises ValueError or TypeError for invalid offsets.
    """
    if not offsets or not isinstance(offsets, dict):
        raise ValueError(offsets)
    formatted = {}
    for tp, given in offsets.items():
        if not isinstance(tp, TopicPartition):
            raise TypeError("Key should be TopicPartition instance")
        if isinstance(given, int):
            offset, metadata = given, ""
        else:
            try:
                offset, metadata = given
            except Exception as error:
                raise ValueError(offsets) from error
            if not isinstance(metadata, str):
                raise TypeError("Metadata should be a string")
        formatted[tp] = OffsetAndMetadata(offset, metadata)
    return formatted


def parse_kafka_version(api_version: str) -> tuple[int, int, int]:
    """Parse a version of Kafka from 0.9 to 2.x to a tuple that programs can compare.

    Raises ValueError for other text.
    """
    if re.fullmatch(r"[0-9]+\.[0-9]+(\.[0-9]+)?", api_version) is None:
        raise ValueError(api_version)
    major, minor, patch = (*map(int, api_version.split(".")), 0)[:3]
    if not (0, 9) <= (major, minor, patch) < (3, 0):
        raise ValueError(api_version)
    return major, minor, patch


def native_offsets(
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
) -> dict[TopicPartition, native.OffsetAndMetadata]:
    """Convert aiokafka's offsets to the class that `aiokafka_lead` uses."""
    return {tp: native.OffsetAndMetadata(offset, metadata) for tp, (offset, metadata) in offsets.items()}
