"""The task that logs subscribed topics and partitions that the cluster does not have."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from typing import Protocol

from ..._core.backoff import Backoff
from ..._core.consumer.partition_state import PartitionState
from ..._core.metadata.topics import Absences, absent
from ..._core.metadata.types import ClusterSnapshot, Moved
from ..._options.logs import client_log
from ...errors.shown import some_of
from ..client import Client
from ..loop import Signal


class Subscribed(Protocol):
    """Provides the topics to read."""

    @property
    def topics(self) -> Iterable[str]: ...


class AbsenceWatch:
    """Watches for topics and partitions that the cluster does not have. Sleeps while there are none."""

    def __init__(self, client: Client, subscription: Subscribed, leaderless: Collection[PartitionState] = ()) -> None:
        self._client = client
        self._subscription = subscription
        self._leaderless = leaderless
        """Assigned partitions without a known leader."""
        self._absences = Absences(Backoff(client.config.retry_backoff_ms, client.config.retry_backoff_max_ms))
        self._wake = Signal()
        self._log = client_log("consumer", client.config.client_id)

    @property
    def absent(self) -> tuple[str, ...]:
        """Names of the wanted topics and partitions that the cluster does not have."""
        return self._absences.confirmed

    async def run(self) -> None:
        """Watch until cancelled."""
        self._client.metadata.add_listener(self._on_metadata)
        try:
            while True:
                now = time.monotonic()
                until = self._look(now)
                await self._wake.wait(None if until is None else max(0.0, until - now))
        finally:
            self._client.metadata.remove_listener(self._on_metadata)

    def look_soon(self) -> None:
        """Check again without waiting for the backoff, because topics have changed or a caller is waiting."""
        self._absences.hurry(time.monotonic())
        self._wake.set()

    def _on_metadata(self, snapshot: ClusterSnapshot, moved: Moved) -> None:
        if moved.topics or self._leaderless or self._absences:
            self._wake.set()

    def _look(self, now: float) -> float | None:
        metadata = self._client.metadata
        wanted = [state.tp for state in self._leaderless]
        look = self._absences.look(
            absent(self._subscription.topics, wanted, metadata.snapshot), metadata.full_answers, now
        )
        if look.refresh:
            metadata.request_update()
        if look.warn_of:
            self._log.warning(
                "cannot read %s: the cluster does not have it; the client keeps looking for it",
                some_of(sorted(map(str, look.warn_of))),
            )
        return look.until
