from collections.abc import Callable
from typing import Any, Generic, TypeVar, final

from ..types import Headers, TimestampType

K = TypeVar("K", covariant=True)
V = TypeVar("V", covariant=True)
K2 = TypeVar("K2")
V2 = TypeVar("V2")

@final
class ConsumerRecord(Generic[K, V]):
    """A record as it was read from a partition: frozen where it is compiled, to be treated so elsewhere."""

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        timestamp_ms: int,
        timestamp_type: TimestampType,
        key: K,
        value: V,
        headers: Headers = (),
        leader_epoch: int | None = None,
    ) -> None: ...
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
    def key(self) -> K: ...
    @property
    def value(self) -> V: ...
    @property
    def headers(self) -> Headers: ...
    @property
    def leader_epoch(self) -> int | None: ...
    def with_content(self, key: K2, value: V2) -> ConsumerRecord[K2, V2]: ...
    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...
