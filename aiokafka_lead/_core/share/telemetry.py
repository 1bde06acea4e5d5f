"""What a share consumer measures for those who run the cluster (KIP-714)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..telemetry.measures import Attributes, Kind, Measure, meters_by_topic, spread, spreads_by_node
from .buffer import ShareBuffer
from .member import ShareMember
from .metrics import ShareCounters

__all__ = ["ShareTelemetry"]


class ShareTelemetry:
    """Under the names that Java has for share consumers."""

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
        """See `ConsumerTelemetry`."""
        rack: Attributes = () if client_rack is None else (("client_rack", client_rack),)
        self._attributes: Attributes = (*rack, ("group_id", group_id), ("group_member_id", member.member_id))
        self._member = member
        self._counters = counters
        self._buffer = buffer
        self._idle_s = idle_s
        self._connections = connections

    def resource(self) -> Attributes:
        """The rack, and the member of the group."""
        return self._attributes

    def measures(self) -> Iterator[Measure]:
        """Of this moment."""
        counters = self._counters
        if self._connections is not None:
            yield Measure(Kind.METER, "consumer.connection.creation", self._connections())
        yield from spreads_by_node("consumer.node.request.latency", counters.nodes)
        yield Measure(Kind.SHARE, "consumer.share.poll.idle.ratio.avg", self._idle_s())
        manager, topics = "consumer.share.fetch.manager", list(counters.topics.values())
        bytes_fetched = {name: each.bytes_fetched for name, each in list(counters.topics.items())}
        records = self._buffer.handed_out()
        yield spread(f"{manager}.fetch.latency", counters.fetch_latencies)
        yield spread(f"{manager}.fetch.throttle.time", counters.throttles)
        yield Measure(Kind.METER, f"{manager}.fetch", counters.fetches)
        yield Measure(Kind.METER, f"{manager}.bytes.consumed", sum(bytes_fetched.values()))
        yield Measure(Kind.METER, f"{manager}.records.consumed", sum(records.values()))
        taken = sum(each.accepted + each.released + each.rejected + each.renewed for each in topics)
        yield Measure(Kind.METER, f"{manager}.acknowledgements.send", taken)
        yield Measure(Kind.METER, "consumer.share.coordinator.heartbeat", self._member.heartbeats)
        yield from meters_by_topic(f"{manager}.bytes.consumed", bytes_fetched)
        yield from meters_by_topic(f"{manager}.records.consumed", records)
