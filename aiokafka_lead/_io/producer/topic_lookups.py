"""Looks up unknown topics of records from calls that do not wait."""

from __future__ import annotations

import time

from ..._core.producer.accumulator import Accumulator
from ..._core.producer.batches import Record
from ..._core.producer.delivery import Delivery
from ..._core.producer.unknown_topics import UnknownTopics
from ..._core.sparingly import Sparingly
from ..._options.logs import ClientLog
from ...errors import KafkaError
from ..loop import Spawn
from ..metadata.actor import MetadataActor

_WARN_EVERY_S = 60.0
"""Interval of the warnings about dropped records of a topic."""


class TopicLookups:
    """One task for each such topic, whose records fail if that fails."""

    def __init__(
        self, accumulator: Accumulator, metadata: MetadataActor, spawn: Spawn, max_block_ms: float, log: ClientLog
    ) -> None:
        """``spawn`` runs a supervised task."""
        self.unknown = UnknownTopics(accumulator)
        """The records."""
        self._metadata = metadata
        self._spawn = spawn
        self._max_block_ms = max_block_ms
        self._log = log
        self._warnings = Sparingly(_WARN_EVERY_S)
        """For topics that stay unknown: an application that keeps sending to one would get a line per call."""

    def put(self, record: Record) -> Delivery | None:
        """Accept a record, and look up its topic; return None when memory is short."""
        first = record.topic not in self.unknown
        delivery = self.unknown.append(record)
        if first and delivery is not None:
            self._spawn(self._look_up, record.topic, name="kafka producer topic")
        return delivery

    async def _look_up(self, topic: str) -> None:
        try:
            await self._metadata.topic(topic, self._max_block_ms)
        except KafkaError as error:
            failure = error
            count = self.unknown.drop(topic, lambda fate: type(failure)(f"{failure.message}; the records were {fate}"))
            if count and self._warnings.allow(topic, time.monotonic()):
                text = "gave up %d records of %s, which is not known: %s"
                self._log.warning(text, count, topic, failure, extra={"topic": topic})
