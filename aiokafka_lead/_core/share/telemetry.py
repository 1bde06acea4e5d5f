"""Metrics of a share consumer that are pushed to the cluster (KIP-714)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...metrics import ShareConsumerMetrics
from ..telemetry.measures import Attributes, Kind, Measure, measured, standard_first
from .buffer import ShareBuffer
from .counters import ShareCounters
from .member import ShareMember


class ShareTelemetry:
    """The metrics that Java defines for share consumers."""

    def __init__(
        self,
        client_rack: str | None,
        group_id: str,
        member: ShareMember,
        counters: ShareCounters,
        buffer: ShareBuffer,
        idle_s: Callable[[], float],
        connections: Callable[[], int] | None,
    ) -> None:
        """Measure a share consumer. See `ConsumerTelemetry` for the arguments."""
        rack: Attributes = () if client_rack is None else (("client_rack", client_rack),)
        self._attributes: Attributes = (*rack, ("group_id", group_id), ("group_member_id", member.member_id))
        self._member = member
        self._counters = counters
        self._buffer = buffer
        self._idle_s = idle_s
        self._connections = connections

    def resource(self) -> Attributes:
        """Return the attributes that identify the consumer: its rack, its group and its member id."""
        return self._attributes

    def measures(self) -> list[Measure]:
        """Return the consumer's current measures, the most important first."""
        return standard_first(self._measures())

    def _measures(self) -> Iterator[Measure]:
        if self._connections is not None:
            yield Measure(Kind.METER, "consumer.connection.creation", self._connections())
        yield from measured(ShareConsumerMetrics, self._counters.counted(self._buffer.handed_out()))
        yield Measure(Kind.SHARE, "consumer.share.poll.idle.ratio.avg", self._idle_s())
        yield Measure(Kind.METER, "consumer.share.coordinator.heartbeat", self._member.heartbeats)
