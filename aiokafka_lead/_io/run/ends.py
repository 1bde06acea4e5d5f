"""Finds the ends of retry partitions.

A retry partition is read to its end before any record of its partition is handled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from ..._core.consumer.reset_policy import LATEST_TIMESTAMP
from ..._core.run.following import Scan
from ..._options.logs import ClientLog
from ...errors import KafkaError, UnknownTopicOrPartitionError
from ...types import TopicPartition
from .routing import Routing

if TYPE_CHECKING:
    from ..consumer.engine import ConsumerEngine

ENDS_TOGETHER_MS = 2_000.0
"""Time limit in milliseconds for finding the ends of several retry partitions in one query."""


class RetryEnds:
    """Finds the ends in tasks of the client. A task ends when its partitions are no longer assigned."""

    def __init__(self, engine: ConsumerEngine[object, object], routing: Routing, log: ClientLog) -> None:
        self._engine = engine
        self._routing = routing
        self._log = log

    def find(self, scans: dict[TopicPartition, Scan]) -> None:
        """Find the ends for these scans. The partitions of a scan's family wait until its end is known."""
        self._engine.client.spawn(self._find, scans, name="kafka retry partitions")

    async def _find(self, scans: dict[TopicPartition, Scan]) -> None:
        engine = self._engine
        while left := [tp for tp in scans if tp in engine.reading.positions]:
            try:
                ends = await self._ends(left)
            except KafkaError as error:
                if len(left) > 1:
                    for tp in left:  # so that a partition without a leader delays only its own family
                        self.find({tp: scans[tp]})
                    return
                self._log.warning("the end of a retry partition is not known yet: %s", error)
                await anyio.sleep(engine.config.retry_backoff_max_ms / 1000)
                continue
            for tp, end in ends.items():
                scans[tp].ends_at(end)
            if ends:
                engine.reader.wake.set()
                return

    async def _ends(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the ends of retry partitions. If partitions did not exist, create them and return {}.

        An end lies after the records of open transactions. The partition's previous owner may have sent them together
        with the offsets from which this consumer continues.
        """
        wanted = dict.fromkeys(partitions, LATEST_TIMESTAMP)
        within_ms = self._engine.config.default_api_timeout_ms
        if len(partitions) > 1:
            within_ms = min(within_ms, ENDS_TOGETHER_MS)
        try:
            found = await self._engine.queries.offsets(wanted, within_ms, read_committed=False)
        except UnknownTopicOrPartitionError:
            await self._routing.make_retry_topics({tp.topic for tp in partitions})
            return {}
        return {tp: end.offset for tp, end in found.items()}
