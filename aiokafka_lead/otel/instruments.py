"""The metrics of OpenTelemetry's conventions for messaging.

Python's SDK takes a microsecond for each measurement, so that metrics are measured per batch instead of per record:
sends from a batch's first record to its acknowledgement. Consumers count records anyway, and are queried when metrics
are collected.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from .._core.tracing import TracedClient
from .names import Attribute, Value, Vocabulary, error_type

BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
"""The bounds recommended by the conventions."""

Series = tuple[TracedClient, str]


class Instruments:
    """The instruments of one `instrument`."""

    def __init__(self, meter: Meter, words: Vocabulary) -> None:
        self._words = words
        self._operation = meter.create_histogram(
            "messaging.client.operation.duration",
            unit="s",
            description="Duration of messaging operation initiated by a producer or consumer client.",
            explicit_bucket_boundaries_advisory=BOUNDS_S,
        )
        self._process = meter.create_histogram(
            "messaging.process.duration",
            unit="s",
            description="Duration of processing operation.",
            explicit_bucket_boundaries_advisory=BOUNDS_S,
        )
        self._sent = meter.create_counter(
            "messaging.client.sent.messages",
            unit="{message}",
            description="Number of messages producer attempted to send to the broker.",
        )
        meter.create_observable_counter(
            "messaging.client.consumed.messages",
            [self._consumed],
            unit="{message}",
            description="Number of messages that were delivered to the application.",
        )
        self._reading: list[TracedClient] = []
        """The running consumers."""
        self._stopped: Counter[Series] = Counter()
        """Counts of stopped consumers, by topic."""
        self._known: dict[Any, dict[str, Value]] = {}

    def settled(
        self, client: TracedClient, topic: str, records: int, seconds: float, error: BaseException | None
    ) -> None:
        """Record a batch that was acknowledged, or given up."""
        attributes = self._attributes("send", "send", client, topic, error)
        self._operation.record(seconds, attributes)
        self._sent.add(records, attributes)

    def operation(
        self,
        name: str,
        kind: str,
        client: TracedClient | None,
        topic: str | None,
        began: int,
        error: BaseException | None = None,
    ) -> None:
        """Record the end of a call that began at this time (``time.time_ns()``)."""
        seconds = max(0.0, (time.time_ns() - began) / 1e9)
        self._operation.record(seconds, self._attributes(name, kind, client, topic, error))

    def processed(
        self, client: TracedClient | None, topic: str | None, seconds: float, error: BaseException | None
    ) -> None:
        """Record the time that the application has worked on records."""
        self._process.record(seconds, self._attributes("process", "process", client, topic, error))

    def reading(self, client: TracedClient) -> None:
        """Add a started consumer."""
        self._reading.append(client)

    def stopped(self, client: TracedClient) -> None:
        """Remove a stopped consumer and keep its counts."""
        if client in self._reading:
            self._reading.remove(client)
            kept = client._replace(client_id="", cluster_id=_unknown, consumed=dict)
            for topic, count in client.consumed().items():
                self._stopped[kept, topic] += count

    def _consumed(self, options: CallbackOptions) -> Iterable[Observation]:
        totals = self._stopped.copy()
        for client in list(self._reading):
            for topic, count in client.consumed().items():
                totals[client, topic] += count
        together: Counter[tuple[tuple[str, Value], ...]] = Counter()
        for (client, topic), count in totals.items():
            together[tuple(self._attributes("receive", "receive", client, topic, None).items())] += count
        return [Observation(count, dict(attributes)) for attributes, count in together.items()]

    def _attributes(
        self, name: str, kind: str, client: TracedClient | None, topic: str | None, error: BaseException | None
    ) -> dict[str, Value]:
        failure = None if error is None else error_type(error)
        group, host, port = (None, None, None) if client is None else (client.group_id, client.host, client.port)
        key = (name, group, host, port, topic, failure)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._words(
                (Attribute.SYSTEM, "kafka"),
                (Attribute.OPERATION_NAME, name),
                (Attribute.OPERATION_TYPE, kind),
                (Attribute.DESTINATION, topic),
                (Attribute.GROUP, group),
                (Attribute.ERROR_TYPE, failure),
                (Attribute.SERVER_ADDRESS, host),
                (Attribute.SERVER_PORT, port),
            )
        return found


def _unknown() -> None:
    return None
