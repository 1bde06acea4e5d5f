"""Sends of a traced producer. Their spans end once the records are acknowledged or have failed."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any

from ..._core.producer.delivery import Delivery, DeliveryBatch
from ..._core.producer.record import check_headers, check_topic, given_once, headers_for_each
from ..._core.tracing import SendTracing
from ..._options.arguments import entries
from ..._records.encoder import BatchBuilder
from ...config import ProducerConfig
from ...types import Header
from ..deadline import Deadline
from .checked_sends import CheckedSends
from .intake import Intake


class TracedSends(CheckedSends):
    """Wraps `CheckedSends` with spans. Records that `Intake.append` accepts at once are not sampled."""

    __slots__ = ("_tracing",)

    def __init__(self, config: ProducerConfig, intake: Intake, topics: Container[str], tracing: SendTracing) -> None:
        super().__init__(config, intake, topics)
        self._tracing = tracing

    async def send(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Sequence[Header] | None,
        deadline: Deadline | None = None,
    ) -> Delivery:
        self._intake.admission.check()
        pairs = check_headers(headers)
        span = self._tracing.send(check_topic(topic), key, value, partition, pairs)
        try:
            delivery = await super().send(topic, value, key, partition, timestamp_ms, span.carry(pairs), deadline)
        except BaseException as error:
            span.failed(error)
            raise
        span.taken(delivery)
        return delivery

    def send_nowait(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Sequence[Header] | None,
    ) -> Delivery:
        self._intake.admission.check()
        pairs = check_headers(headers)
        span = self._tracing.send(check_topic(topic), key, value, partition, pairs)
        try:
            delivery = super().send_nowait(topic, value, key, partition, timestamp_ms, span.carry(pairs))
        except BaseException as error:
            span.failed(error)
            raise
        span.taken(delivery)
        return delivery

    async def send_many(
        self,
        topic: str,
        values: Iterable[Any],
        keys: Iterable[Any] | None,
        partition: int | None,
        headers: Sequence[Header] | Sequence[Sequence[Header] | None] | None,
        timestamps_ms: Iterable[int] | None,
        deadline: Deadline | None = None,
    ) -> DeliveryBatch:
        self._intake.admission.check()
        contents = entries("values", values, "values")
        span = self._tracing.send_many(check_topic(topic), len(contents), partition)
        try:
            carried: Any
            if headers is None or given_once(headers):
                carried = span.carry(check_headers(headers)) or None
            else:
                carried = [span.carry(check_headers(each)) for each in headers_for_each(headers, len(contents))]
            batch = await super().send_many(topic, contents, keys, partition, carried, timestamps_ms, deadline)
        except BaseException as error:
            span.failed(error)
            raise
        span.taken(batch)
        return batch

    async def send_batch(self, topic: str, partition: int, builder: BatchBuilder) -> DeliveryBatch:
        # Encode the records again, because their headers contain the context of the span.
        records = builder.records()
        return await self.send_many(
            topic,
            [record.value for record in records],
            [record.key for record in records],
            partition,
            [record.headers for record in records],
            [record.timestamp_ms for record in records],
        )
