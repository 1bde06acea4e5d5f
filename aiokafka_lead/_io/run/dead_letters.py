"""Sends records that cannot be handled to their dead-letter topic."""

from __future__ import annotations

import time
from typing import Any

import anyio

from ..._core.run.dead_letter import DeadLetterProducer, dead_letter_headers
from ..._core.run.refusals import REFUSALS, Refusals
from ..._records import ConsumerRecord

__all__ = ["DeadLetters"]


class DeadLetters:
    """The dead-letter topic of one run."""

    def __init__(self, producer: DeadLetterProducer, topic: str, group_id: str | None) -> None:
        self._producer = producer
        self.topic = topic
        self._group_id = group_id

    async def check(self) -> None:
        """Raise if the topic cannot be written to as far as metadata tells, before the first letter needs it."""
        await self._producer.partitions_for(self.topic)

    async def send(
        self, record: ConsumerRecord[Any, Any], error: BaseException, attempts: int, refusals: Refusals
    ) -> None:
        """Return when the dead letter is acknowledged; raises what the producer raises after its own retries.

        Refusals are borne with, and the letter is sent again.
        The letter's time is now, so that the topic's retention begins now; its record's is among the headers.
        """
        headers = dead_letter_headers(record, error, attempts, self._group_id)
        while True:
            try:
                await self._producer.send_and_wait(self.topic, record.value, record.key, headers=headers)
            except REFUSALS as refused:
                await anyio.sleep(refusals.bear(refused, time.monotonic()))
            else:
                return
