"""Simulated brokers, which lead, lag, answer wrongly, freeze, die and restart at other addresses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from aiokafka_lead._core.consumer.fetch_plan import PlannedFetch
from aiokafka_lead._core.consumer.position import PartitionFetch
from aiokafka_lead._core.metadata.reachability import Endpoint
from aiokafka_lead._wire.messages.fetch import FetchResponse, NodeEndpoint, PartitionData
from aiokafka_lead._wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from aiokafka_lead._wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from aiokafka_lead._wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from aiokafka_lead.types import TopicPartition
from tests.core.fetch_world import data, response
from tests.simulated.broker import SimBroker
from tests.simulated.codes import (
    FENCED_LEADER_EPOCH,
    NONE,
    NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    NOT_LEADER_OR_FOLLOWER,
    OFFSET_OUT_OF_RANGE,
    REQUEST_TIMED_OUT,
    UNKNOWN_LEADER_EPOCH,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from tests.simulated.partition import Partition
from tests.simulated.timeline import Event, Timeline

from .dial import Route

if TYPE_CHECKING:
    from .links import Link

TOPIC = "t"
TOPIC_ID = UUID(int=42)
BOOTSTRAP: Endpoint = ("bootstrap", 9092)
"""A name with an address of each broker, by default."""
NOWHERE: Endpoint = ("nowhere", 1)
APPENDED_PERHAPS = (NOT_ENOUGH_REPLICAS_AFTER_APPEND, REQUEST_TIMED_OUT)
"""Error codes of a leader that may have appended the batch, without confirmation by its followers."""

View = tuple[list[tuple[int, Endpoint]], list[tuple[int, int]] | None]
"""A Metadata answer: brokers with their addresses, and each partition's leader and epoch; None denies the topic."""


class Refusal:
    """Hint of a broker that does not lead: the leader, its epoch and its address (None: no leader named)."""

    def __init__(self, leader: int = -1, epoch: int = -1, endpoint: Endpoint | None = None) -> None:
        self.leader = leader
        self.epoch = epoch
        self.endpoint = endpoint


Lie = Callable[[Partition], Refusal]


class Refusals(NamedTuple):
    """Error codes, one of which a broker chooses for its answer to each request."""

    produce: Sequence[int]
    read: Sequence[int]
    """Codes for Fetch, ListOffsets and OffsetForLeaderEpoch."""


class FaultyBroker(SimBroker):
    """A broker: its address and its faults."""

    def __init__(self, broker_id: int, endpoint: Endpoint) -> None:
        super().__init__(broker_id)
        self.endpoint = endpoint
        self.life = 0
        """Incremented at each start, because connections do not survive a restart."""
        self.links: list[Link] = []
        self.lie: Lie | None = None
        """If set, the broker refuses every request in this way instead of answering correctly."""
        self.refuses: Refusals | None = None
        """If set, the broker refuses every request with one of these codes, without a leader hint."""
        self.stale: View | None = None
        """Outdated metadata that the broker returns while it lags."""
        self.metadata_error = NONE
        self._frozen: list[Event] | None = None

    @property
    def frozen(self) -> bool:
        """Return True if it does not answer."""
        return self._frozen is not None

    def serve(self, work: Event) -> None:
        """Run ``work`` now, or when the broker has resumed."""
        if self._frozen is None:
            work()
        else:
            self._frozen.append(work)

    def freeze(self) -> None:
        """Keep connections open without answers."""
        self._frozen = self._frozen or []

    def thaw(self) -> None:
        """Resume, and answer first the requests that came meanwhile."""
        held, self._frozen = self._frozen or [], None
        if self.running:
            for work in held:
                work()


class Cluster:
    """All brokers and the topic."""

    def __init__(self, timeline: Timeline, brokers: int, partitions: int) -> None:
        self.timeline = timeline
        self._ports = count(9001)
        self._session_ids = count(1)
        self.brokers = {n: FaultyBroker(n, ("host", next(self._ports))) for n in range(1, brokers + 1)}
        self.partitions = [self._partition(index, 1 + index % brokers) for index in range(partitions)]
        self.tells_leaders = True
        """True if refusals name the leader (KIP-951)."""
        self.nearest: int | None = None
        """The broker in the clients' rack: leaders name it to clients that report their rack (KIP-392)."""
        self.entrance: FaultyBroker | None = None
        """The only broker to which the bootstrap name resolves; None for all brokers."""
        self.routes: dict[Endpoint, Sequence[Route]] = {}
        """Servers at addresses of a name: beside the brokers for the bootstrap name, else in place of the broker."""
        self._polls: dict[int, list[Event]] = {broker_id: [] for broker_id in self.brokers}
        """Fetches that wait for an event, by broker."""

    def _partition(self, index: int, leader: int) -> Partition:
        return Partition(index, leader)

    # --- the network -------------------------------------------------------------------------------------------------

    def running(self) -> list[FaultyBroker]:
        return [broker for broker in self.brokers.values() if broker.running]

    def eligible(self) -> list[int]:
        """Return the brokers that may lead."""
        return [broker.broker_id for broker in self.running() if broker.broker_id != self.nearest]

    def targets(self, endpoint: Endpoint) -> dict[str, FaultyBroker | Route]:
        """Return the server at each address of a name, in the order of the resolver."""
        routes = self.routes.get(endpoint, ())
        found: list[FaultyBroker | Route] = [*routes]
        if endpoint == BOOTSTRAP:
            found += self.brokers.values() if self.entrance is None else [self.entrance]
        elif not found:
            found += [broker for broker in self.running() if broker.endpoint == endpoint] or [Route.REFUSED]
        targets = {f"{endpoint[0]}:{endpoint[1]}/{number}": target for number, target in enumerate(found)}
        order = list(targets)
        self.timeline.rng.shuffle(order)
        return {address: targets[address] for address in order}

    # --- faults of brokers -------------------------------------------------------------------------------------------

    def elect(self, partition: Partition, leader: int) -> None:
        """Elect another leader; brokers learn of it at different times."""
        partition.elect(leader, list(self.brokers))
        for broker_id in self.brokers:
            self.timeline.later(self.timeline.rng.uniform(0, 0.06), partial(self._learn, partition, broker_id))

    def _learn(self, partition: Partition, broker_id: int) -> None:
        partition.learn(broker_id)
        self.touched(broker_id)

    def disconnect(self, broker: FaultyBroker) -> None:
        """Break its connections."""
        for link in list(broker.links):
            link.lost()

    def kill(self, broker: FaultyBroker, failover_s: float) -> None:
        """Kill a broker; another broker leads in its place after a while."""
        if broker.running:
            broker.running = False
            broker.sessions.clear()
            for link in list(broker.links):
                self.timeline.later(self.timeline.latency(), partial(_lose, link, broker, broker.life))
            self.timeline.later(failover_s, self._fail_over)

    def _fail_over(self) -> None:
        running = [broker.broker_id for broker in self.running()]
        eligible = self.eligible()
        for partition in self.partitions:
            if partition.leader not in running:
                if eligible:
                    self.elect(partition, self.timeline.rng.choice(eligible))
                elif partition.leader >= 0:
                    self.elect(partition, -1)

    def restart(self, broker: FaultyBroker, *, elsewhere: bool) -> None:
        """Restart a broker at its address, at a new address, or at an address that another broker had."""
        if not broker.running:
            if elsewhere:
                free = {b.endpoint for b in self.brokers.values() if not b.running}
                fresh = ("host", next(self._ports))
                broker.endpoint = self.timeline.rng.choice([fresh, fresh, *sorted(free)])
            if any(other.running and other.endpoint == broker.endpoint for other in self.brokers.values()):
                broker.endpoint = ("host", next(self._ports))
            broker.running = True
            broker.life += 1
            broker.thaw()
            self._fail_over()

    def move(self, partition: Partition) -> None:
        """Move a leader in an orderly way."""
        eligible = [broker_id for broker_id in self.eligible() if broker_id != partition.leader]
        if eligible:
            self.elect(partition, self.timeline.rng.choice(eligible))

    def calm(self) -> None:
        """Heal the cluster: every broker runs, is reachable and answers correctly."""
        self.routes.clear()
        self.entrance = None
        for broker in self.brokers.values():
            broker.lie = broker.stale = broker.refuses = None
            broker.metadata_error = NONE
            broker.thaw()
            self.restart(broker, elsewhere=False)

    def serves(self, partition: Partition) -> bool:
        """Return True if the leader is reachable and working, and some broker would name it."""
        leader = self.brokers.get(partition.leader)
        if leader is None or leader.refuses is not None or self.refusal(leader, partition) is not None:
            return False
        return self._in_reach(leader) and any(self._knows(broker, partition) for broker in self.brokers.values())

    def _in_reach(self, broker: FaultyBroker) -> bool:
        return broker.running and not broker.frozen and broker.endpoint not in self.routes

    def _knows(self, broker: FaultyBroker, partition: Partition) -> bool:
        truth = partition.seen_by(broker.broker_id) == (partition.leader, partition.epoch)
        return truth and broker.stale is None and not broker.metadata_error and self._in_reach(broker)

    # --- Metadata ----------------------------------------------------------------------------------------------------

    def view(self, broker: FaultyBroker) -> View:
        """Return the cluster as a broker sees it."""
        nodes = {other.broker_id: other.endpoint for other in self.running()}
        seen = [partition.seen_by(broker.broker_id) for partition in self.partitions]
        # A dead leader is reported as no leader, even before another is elected.
        return list(nodes.items()), [(leader if leader in nodes else -1, epoch) for leader, epoch in seen]

    def metadata(self, broker: FaultyBroker) -> MetadataResponse:
        """Return its answer to Metadata."""
        if broker.metadata_error:
            return MetadataResponse(error_code=broker.metadata_error)
        nodes, leaders = broker.stale or self.view(broker)
        partitions = [
            MetadataResponsePartition(
                partition_index=index, leader_id=leader, leader_epoch=epoch, replica_nodes=[1, 2, 3], isr_nodes=[1, 2]
            )
            for index, (leader, epoch) in enumerate(leaders or ())
        ]
        topic = MetadataResponseTopic(name=TOPIC, topic_id=TOPIC_ID, partitions=partitions)
        if leaders is None:
            topic = MetadataResponseTopic(name=TOPIC, error_code=UNKNOWN_TOPIC_OR_PARTITION)
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=n, host=host, port=port) for n, (host, port) in nodes],
            cluster_id="sim",
            controller_id=1,
            topics=[topic],
        )

    # --- Produce and Fetch -------------------------------------------------------------------------------------------

    def refusal(self, broker: FaultyBroker, partition: Partition) -> Refusal | None:
        """Return the reason why this broker does not serve the partition; None if it does."""
        if broker.lie is not None:
            return broker.lie(partition)
        leader, epoch = partition.seen_by(broker.broker_id)
        if leader == broker.broker_id == partition.leader and epoch == partition.epoch:
            return None
        return self._hint(leader, epoch)

    def _hint(self, leader: int, epoch: int) -> Refusal:
        if not self.tells_leaders:
            return Refusal()
        named = self.brokers.get(leader)
        return Refusal(leader, epoch, named.endpoint if named is not None and named.running else None)

    def append(self, broker: FaultyBroker, partition: Partition, raw: memoryview) -> tuple[int, int, Refusal | None]:
        """Return error code, base offset and hint."""
        if broker.refuses is not None:
            code = self.timeline.rng.choice(broker.refuses.produce)
            if code in APPENDED_PERHAPS and self.refusal(broker, partition) is None:
                partition.append(raw)
            return code, -1, None
        refusal = self.refusal(broker, partition)
        if refusal is not None:
            return NOT_LEADER_OR_FOLLOWER, -1, refusal
        code, offset = partition.append(raw)
        self.touched(broker.broker_id)
        if self.nearest is not None:
            self.touched(self.nearest)
        return code, offset, None

    def fetch(
        self,
        broker: FaultyBroker,
        planned: PlannedFetch,
        wait_s: float,
        reply: Callable[[FetchResponse], None],
        *,
        racked: bool = False,
    ) -> None:
        """Answer once there are records or errors, or the time is up; ``racked``: the client reports its rack."""
        error, session_id, wanted = broker.sessions.take(planned.request, next(self._session_ids))
        if error:
            reply(response(session_id=session_id, error=error))
            return
        until = self.timeline.now + wait_s
        full = planned.request.epoch in (0, -1)
        polls = self._polls[broker.broker_id]
        open_poll = [True]

        def poll() -> None:
            if not open_poll or not broker.running or broker.frozen:
                return
            rows, endpoints = self._read(broker, wanted, planned.max_bytes, racked)
            news = [row for row in rows if row.error_code or row.records or row.preferred_read_replica >= 0]
            if news or self.timeline.now >= until:
                open_poll.clear()
                if poll in polls:
                    polls.remove(poll)
                answer = response(*(rows if full else news), session_id=session_id, topic_id=TOPIC_ID)
                answer.node_endpoints = [NodeEndpoint(node_id=n, host=h, port=p) for n, (h, p) in endpoints.items()]
                reply(answer)

        poll()
        if open_poll:
            polls.append(poll)
            self.timeline.later(wait_s, lambda: broker.serve(poll))

    def touched(self, *brokers: int) -> None:
        """Wake the fetches that wait at these brokers, or at all, after an event."""
        for broker_id in brokers or self._polls:
            for poll in tuple(self._polls[broker_id]):
                poll()

    def _read(
        self, broker: FaultyBroker, wanted: dict[TopicPartition, PartitionFetch], left: int, racked: bool
    ) -> tuple[list[PartitionData], dict[int, Endpoint]]:
        rows: list[PartitionData] = []
        endpoints: dict[int, Endpoint] = {}
        near = racked and broker.broker_id == self.nearest
        for tp, asked in wanted.items():
            partition = self.partitions[tp.partition]
            code, hint = self._check(broker, partition, asked.leader_epoch, as_follower=near)
            if hint.endpoint is not None:
                endpoints[hint.leader] = hint.endpoint
            if code:
                row = data(tp.partition, error=code, leader=(hint.leader, hint.epoch))
            elif asked.fetch_offset > partition.end:
                row = data(tp.partition, error=OFFSET_OUT_OF_RANGE)
            elif racked and self.nearest is not None and not near:
                row = data(tp.partition, high_watermark=partition.end, preferred=self.nearest)
            else:
                row = self._row(partition, asked.fetch_offset, min(left, 1000))
                left -= len(row.records or b"")
            rows.append(row)
        return rows, endpoints

    def _check(
        self, broker: FaultyBroker, partition: Partition, leader_epoch: int, *, as_follower: bool = False
    ) -> tuple[int, Refusal]:
        """Return error code and hint for a client that reads, and knows this epoch."""
        if broker.refuses is not None:
            return self.timeline.rng.choice(broker.refuses.read), Refusal()
        refusal = None if as_follower else self.refusal(broker, partition)
        if refusal is not None:
            return NOT_LEADER_OR_FOLLOWER, refusal
        leader, epoch = partition.seen_by(broker.broker_id)
        if leader_epoch < epoch:
            return FENCED_LEADER_EPOCH, self._hint(leader, epoch)
        return (UNKNOWN_LEADER_EPOCH if leader_epoch > epoch else NONE), Refusal()

    def _row(self, partition: Partition, offset: int, max_bytes: int) -> PartitionData:
        """Return the records of a Fetch answer from this offset on; none if ``max_bytes`` is 0."""
        found = partition.read(offset, max_bytes) if max_bytes > 0 else b""
        return data(partition.index, found, high_watermark=partition.end)

    # --- ListOffsets and OffsetForLeaderEpoch ------------------------------------------------------------------------

    def list_offsets(self, broker: FaultyBroker, request: ListOffsetsRequest) -> ListOffsetsResponse:
        """Return the offsets at which the logs begin."""
        found = []
        for asked in request.topics[0].partitions:
            partition = self.partitions[asked.partition_index]
            code, _ = self._check(broker, partition, asked.current_leader_epoch)
            offset = -1 if code else 0
            found.append(
                ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=code, offset=offset)
            )
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=TOPIC, partitions=found)])

    def epoch_ends(self, broker: FaultyBroker, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        """Return the offsets at which the logs end: no acknowledged record is ever lost from them."""
        found = []
        for asked in request.topics[0].partitions:
            partition = self.partitions[asked.partition]
            code, _ = self._check(broker, partition, asked.current_leader_epoch)
            found.append(
                EpochEndOffset(
                    partition=asked.partition,
                    error_code=code,
                    leader_epoch=-1 if code else asked.leader_epoch,
                    end_offset=-1 if code else partition.end,
                )
            )
        return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic=TOPIC, partitions=found)])


def _lose(link: Link, broker: FaultyBroker, life: int) -> None:
    if link.reaches(broker, life):
        link.lost()
