from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, final

from ..types import Headers, TimestampType

__all__ = ["AnyRecord", "ConsumerRecord"]

_K = TypeVar("_K", covariant=True)
_V = TypeVar("_V", covariant=True)
_K2 = TypeVar("_K2")
_V2 = TypeVar("_V2")

class AnyRecord(Generic[_K, _V]):
    """The attributes of all records that are read from a partition."""

    def _copy(self) -> Self: ...
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp_ms(self) -> int: ...
    @property
    def timestamp_type(self) -> TimestampType: ...
    @property
    def key(self) -> _K: ...
    @property
    def value(self) -> _V: ...
    @property
    def headers(self) -> Headers: ...
    @property
    def leader_epoch(self) -> int | None: ...

@final
class ConsumerRecord(AnyRecord[_K, _V]):
    """A record as read from a partition. Treat it as frozen, even if it is not compiled."""

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        timestamp_ms: int,
        timestamp_type: TimestampType,
        key: _K,
        value: _V,
        headers: Headers = (),
        leader_epoch: int | None = None,
    ) -> None: ...
    def with_content(self, key: _K2, value: _V2) -> ConsumerRecord[_K2, _V2]: ...
    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...
