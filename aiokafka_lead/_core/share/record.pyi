from typing import Any, Generic, TypeVar, final

from ..._records import AnyRecord, ConsumerRecord
from ...types import TopicPartition
from .acquired import Acquired
from .exchange import Exchange

__all__ = ["ShareRecord", "place"]

_K = TypeVar("_K", covariant=True)
_V = TypeVar("_V", covariant=True)
_K2 = TypeVar("_K2")
_V2 = TypeVar("_V2")

@final
class ShareRecord(AnyRecord[_K, _V], Generic[_K, _V]):
    """A record that is locked for this consumer. Treat it as frozen, even if it is not compiled."""

    def __init__(
        self, record: AnyRecord[_K, _V], delivery_count: int, exchange: Exchange, acquired: Acquired, index: int
    ) -> None: ...
    @property
    def delivery_count(self) -> int: ...
    @property
    def topic_partition(self) -> TopicPartition: ...
    @property
    def lock_expires_at(self) -> float: ...
    def consumer_record(self) -> ConsumerRecord[_K, _V]: ...
    def with_content(self, key: _K2, value: _V2) -> ShareRecord[_K2, _V2]: ...
    @property
    def _exchange(self) -> Exchange: ...
    @property
    def _acquired(self) -> Acquired: ...
    @property
    def _index(self) -> int: ...
    def _is_open(self) -> bool: ...

def place(
    found: list[ShareRecord[Any, Any]], acquired: Acquired, passed: int
) -> tuple[list[ShareRecord[Any, Any]], list[tuple[int, int]], int]: ...
