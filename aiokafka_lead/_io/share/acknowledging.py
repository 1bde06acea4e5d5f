"""The application's acknowledgements of records, and their outcomes.

This code runs for each record. If a compiler is available, it is compiled through ``acknowledging.pxd``.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

from ..._core.share.acquired import RENEW
from ..._core.share.delivered import Delivered
from ..._core.share.exchange import Exchange
from ..._core.share.planner import SharePlanner
from ..._core.share.record import ShareRecord
from ..._core.share.session import FIRST_VERSION_WITH_RENEWALS
from ..._cpython import naming
from ...errors import ConfigTypeError, IllegalStateError, KafkaError, RequestTimedOutError, UnsupportedVersionError
from ...types import AcknowledgeType, TopicPartition
from ..client import Client
from ..deadline import Deadline
from ..loop import News, Signal

Record = ShareRecord[Any, Any]
_RENEW = RENEW


class Acknowledgement:
    """The outcome of a record's acknowledgement. Awaiting it is optional.

    Awaiting returns None when the broker has accepted the acknowledgement. It raises `InvalidRecordStateError` if the
    lock had expired, or was lost with a connection or a leader. The record is then delivered again. Other errors of the
    broker are raised as well.
    """

    __slots__ = ("_acknowledging", "_record")

    def __init__(self, acknowledging: Acknowledging, record: Record) -> None:
        self._acknowledging = acknowledging
        self._record = record

    @property
    def done(self) -> bool:
        """True if the outcome is known."""
        return self._record._acquired.is_settled(self._record._index)

    def __await__(self) -> Generator[Any, Any, None]:
        return self._acknowledging.wait_settled(self._record).__await__()


class Acknowledging:
    """Passes one consumer's acknowledgements to the planner, and waits until brokers have received them."""

    def __init__(
        self, client: Client, planner: SharePlanner, delivered: Delivered, planning: Signal, news: News
    ) -> None:
        self._client = client
        self._planner = planner
        self._delivered = delivered
        self._planning = planning
        """Set when there are acknowledgements to send."""
        self._news = news
        """Notified of each response."""
        self._own: Exchange | None = None
        """The last exchange found to belong to this consumer."""

    def acknowledge(self, record: Record, kind: AcknowledgeType) -> Acknowledgement:
        """Acknowledge a record. See `ShareConsumer.acknowledge`."""
        if not isinstance(record, ShareRecord):
            raise ConfigTypeError(f"record must be a ShareRecord, not {type(record).__name__}")
        if not isinstance(kind, AcknowledgeType):
            raise ConfigTypeError(f"kind must be an AcknowledgeType, not {type(kind).__name__}")
        one, number = record, int(kind)
        acquired = one._acquired
        # Fast path for further records of the same response. The first one was checked below.
        if acquired.dirty and one._exchange is self._own and number != _RENEW and acquired.is_open(one._index):
            acquired.decide(one._index, number)
        else:
            self._decide_checked(one, number)
        return Acknowledgement(self, one)

    def _decide_checked(self, record: Record, kind: int) -> None:
        """Acknowledge a record after checks.

        Raises `IllegalStateError` for a record of another consumer or one that is already acknowledged, and
        `UnsupportedVersionError` for a renewal that the broker does not support. If the lock is lost, the outcome is
        the error.
        """
        self._client.check()
        exchange, acquired = record._exchange, record._acquired
        if self._planner.exchanges.get(exchange.node_id) is exchange:
            self._own = exchange
        elif exchange.holds:
            raise IllegalStateError("the record belongs to another consumer")
        failure = acquired.failure(record._index)
        if failure is not None:
            self._delivered.settled(acquired.tp, failure)
            return
        if not acquired.may_decide(record._index):
            raise IllegalStateError(f"the record at offset {record.offset} has already been acknowledged")
        if kind == RENEW and exchange.version < FIRST_VERSION_WITH_RENEWALS:
            raise UnsupportedVersionError("the broker cannot renew locks: that needs Apache Kafka 4.2 (KIP-1222)")
        self.decide(record, kind)

    def decide(self, record: Record, kind: int) -> bool:
        """Acknowledge a record without checks. Return False if it is already acknowledged or its lock is lost."""
        acquired = record._acquired
        if not acquired.decide(record._index, kind):
            return False
        if not acquired.dirty:
            record._exchange.decided(acquired, time.monotonic())
            self._planning.set()
        elif kind == _RENEW:
            self._planning.set()
        return True

    async def wait_settled(self, record: Record) -> None:
        """Wait until the record's acknowledgement has been accepted, or raise its error."""
        acquired, index = record._acquired, record._index
        if not acquired.is_settled(index):
            record._exchange.urgent = True
            self._planning.set()
        while not acquired.is_settled(index):
            self._client.check()
            await self._news.wait()
        failure = acquired.failure(index)
        if failure is not None:
            raise failure

    async def commit(self, timeout_ms: float) -> dict[TopicPartition, KafkaError | None]:
        """Send the pending acknowledgements, and return the error or None for each partition.

        In implicit mode, first accepts the records in hand.
        """
        self._client.check()
        self._delivered.come_back(time.monotonic())
        return await self.flush(timeout_ms)

    async def flush(self, timeout_ms: float) -> dict[TopicPartition, KafkaError | None]:
        """Send the pending acknowledgements, and return the error or None for each partition.

        Does not wait for acknowledgements that other tasks make later.
        """
        deadline = Deadline(timeout_ms)
        exchanges = list(self._planner.exchanges.values())
        pending = [(each, each.pending()) for exchange in exchanges for each in exchange if each.unsettled]
        for exchange in exchanges:
            exchange.urgent = exchange.has_unsent
        self._planning.set()
        while left := [acquired for acquired, indices in pending if not all(map(acquired.is_settled, indices))]:
            try:
                await self._news.wait(deadline.left_s())
            except TimeoutError:
                late = RequestTimedOutError(f"the acknowledgements were not confirmed within {timeout_ms:g} ms")
                return self._delivered.outcomes() | {acquired.tp: late for acquired in left}
            self._client.check()
        return self._delivered.outcomes()


naming.show_in("aiokafka_lead", Acknowledgement)
