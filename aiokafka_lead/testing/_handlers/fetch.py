"""Fetch: fetch sessions (KIP-227), long polls, and the responses of partitions."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from ... import errors
from ..._wire.messages import fetch as wire
from .._server.context import Pending, RequestContext
from .._server.timers import Timer
from .._state.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, FetchSession, PartitionKey, SessionPartition
from .._state.topics import NO_LEADER, Partition
from .list_offsets import Endpoints, check_epoch

_TOPIC_IDS_FROM = 13
_HINTS_FROM = 16
_RACKS_FROM = 11
_READ_COMMITTED = 1


def fetch(context: RequestContext, request: wire.FetchRequest) -> wire.FetchResponse | Pending:
    """Start or continue the fetch session of the request (KIP-227), and begin the fetch."""
    by_id = context.api_version >= _TOPIC_IDS_FROM
    wanted = [
        SessionPartition(
            topic.topic_id if by_id else topic.topic,
            part.partition,
            part.fetch_offset,
            part.partition_max_bytes,
            part.current_leader_epoch,
            part.last_fetched_epoch,
        )
        for topic in request.topics
        for part in topic.partitions
    ]
    sessions = context.node.fetch_sessions
    session: FetchSession | None = None
    if request.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
        if request.session_id != 0:
            sessions.close(request.session_id)
    else:
        forgotten: list[PartitionKey] = [
            (topic.topic_id if by_id else topic.topic, index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        ]
        try:
            session = sessions.continued(
                request.session_id, request.session_epoch, uses_topic_ids=by_id, now=context.engine.timers.now()
            )
        except errors.BrokerError as error:
            return wire.FetchResponse(error_code=error.code)
        session.update(wanted, forgotten)
        if not session.partitions:
            sessions.close(session.session_id)
            session = None
    return _Fetch(context, request, wanted, session).start()


class _Fetch:
    """A fetch in progress. It responds once its partitions have enough data, or after its time limit."""

    def __init__(
        self,
        context: RequestContext,
        request: wire.FetchRequest,
        wanted: list[SessionPartition],
        session: FetchSession | None,
    ) -> None:
        self.context = context
        self.request = request
        # The partitions of a request without a session.
        self.wanted = wanted
        # None for a request without a session, and for a request that may open a session.
        self.session = session
        self.committed_only = request.isolation_level == _READ_COMMITTED
        self.pending = Pending()
        # The fetch waits until these partitions change, these bytes arrive, or this time has passed.
        self._watched: list[Partition] = []
        self._missing_bytes = 0
        self._timer: Timer | None = None

    def start(self) -> wire.FetchResponse | Pending:
        read = _Read(self)
        if read.answers_now or read.size >= self.request.min_bytes or self.request.max_wait_ms <= 0:
            return self._response(read)
        self._missing_bytes = self.request.min_bytes - read.size
        if self.session is not None:
            self.session.waiting = self._changed
        else:
            self._watched = read.partitions
            for partition in self._watched:
                partition.watchers[self._changed] = None
        self.pending.on_give_up = self._stop_waiting
        self._timer = self.context.engine.timers.call_later(self.request.max_wait_ms / 1000, self._finish)
        return self.pending

    def _changed(self, appended_bytes: int) -> None:
        """Check whether the fetch can respond now, after new records, a change of leader, or the deletion of a
        partition.
        """
        if appended_bytes >= 0:
            self._missing_bytes -= appended_bytes
            if self._missing_bytes > 0:
                return
            if self.committed_only:
                # A read_committed consumer cannot read records of open transactions yet.
                read = _Read(self)
                if not read.answers_now and read.size < self.request.min_bytes:
                    self._missing_bytes = self.request.min_bytes - read.size
                    return
        self._finish()

    def _stop_waiting(self) -> None:
        if self.session is not None and self.session.waiting == self._changed:
            self.session.waiting = None
        for partition in self._watched:
            partition.watchers.pop(self._changed, None)
        self._watched = []
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _finish(self) -> None:
        self._stop_waiting()
        self.pending.complete(self._response(_Read(self)))

    def _response(self, read: _Read) -> wire.FetchResponse:
        """Return the response, and open a session if the client requests one.

        In a session, data that the client already has is left out.
        """
        session = self.session
        answers = read.answers
        if session is not None:
            kept = []
            for part, data in answers:
                news = part.is_news(data.error_code, data.high_watermark, data.log_start_offset)
                if data.records:
                    session.move_to_end(part)
                if news or data.records or data.preferred_read_replica >= 0 or data.diverging_epoch.epoch >= 0:
                    kept.append((part, data))
            answers = kept
        elif self.request.session_epoch == INITIAL_EPOCH and self.context.api_version >= 7:
            session = self.context.node.fetch_sessions.create(
                uses_topic_ids=self.context.api_version >= _TOPIC_IDS_FROM, now=self.context.engine.timers.now()
            )
            if session is not None:
                for part, data in answers:
                    part.is_news(data.error_code, data.high_watermark, data.log_start_offset)
                session.update(self.wanted, ())
        return wire.FetchResponse(
            session_id=0 if session is None else session.session_id,
            responses=_by_topic(answers),
            node_endpoints=read.endpoints.build(wire.NodeEndpoint),
        )


def _by_topic(answers: Iterable[tuple[SessionPartition, wire.PartitionData]]) -> list[wire.FetchableTopicResponse]:
    topics: dict[str | UUID, wire.FetchableTopicResponse] = {}
    for part, data in answers:
        topic = topics.get(part.topic)
        if topic is None:
            name = part.topic
            topic = (
                wire.FetchableTopicResponse(topic=name)
                if isinstance(name, str)
                else wire.FetchableTopicResponse(topic_id=name)
            )
            topics[name] = topic
        topic.partitions.append(data)
    return list(topics.values())


class _Read:
    """One attempt to read the partitions of a fetch, and the resulting responses.

    ``answers_now`` is set if the client must get the response immediately, even if it is small (Java:
    ``ReplicaManager.fetchMessages``): after an error in an existing partition, for another replica to read from, for a
    diverging epoch, or if no partition exists.
    """

    def __init__(self, fetch: _Fetch) -> None:
        self._context = fetch.context
        self._committed_only = fetch.committed_only
        self._rack = fetch.request.rack_id if fetch.context.api_version >= _RACKS_FROM else ""
        self._bytes_left = fetch.request.max_bytes
        self.size = 0
        self.answers: list[tuple[SessionPartition, wire.PartitionData]] = []
        self.partitions: list[Partition] = []
        self.endpoints = Endpoints()
        self.answers_now = False
        if fetch.session is not None:
            self._read_session(fetch, fetch.session)
        else:
            for part in fetch.wanted:
                self.answers.append((part, self._partition(part)))
            self.answers_now = self.answers_now or not self.partitions

    def _read_session(self, fetch: _Fetch, session: FetchSession) -> None:
        """Read those partitions of the session that may have changed. Determine the nearest replica each time."""
        may_be_quiet = fetch.context.is_faultless and not self._rack
        node_id = fetch.context.node.node_id
        if not may_be_quiet:
            session.whole_look_at = 0.0
        looked_at = session.to_look_at(fetch.context.engine.timers.now())
        for part in looked_at:
            if may_be_quiet and part.is_quiet(node_id, committed_only=fetch.committed_only):
                session.loud.pop(part.key, None)
            else:
                session.loud[part.key] = part
                self.answers.append((part, self._partition(part)))
            part.watch()
        if not self.partitions and len(self.answers) == len(session.partitions):
            self.answers_now = True

    def _partition(self, part: SessionPartition) -> wire.PartitionData:
        try:
            partition = self._find(part)
        except errors.BrokerError as error:
            # Like a real broker, do not respond early only because of such an error.
            return _error(part, error)
        self.partitions.append(partition)
        try:
            return self._read(part, partition)
        except errors.BrokerError as error:
            self.answers_now = True
            data = _error(part, error)
            data.aborted_transactions = None
            if self._context.api_version >= _HINTS_FROM:
                self.endpoints.name_leader(self._context, partition, error, data.current_leader)
            return data

    def _find(self, part: SessionPartition) -> Partition:
        if part.target is None or part.target.topic.deleted:
            part.target = None
            part.target = self._look_up(part)
        return part.target

    def _look_up(self, part: SessionPartition) -> Partition:
        state = self._context.engine.state
        if isinstance(part.topic, str):
            return state.partition(part.topic, part.partition)
        topic = state.topics_by_id.get(part.topic)
        if topic is None:
            raise errors.UnknownTopicIdError(f"there is no topic with id {part.topic}")
        if not 0 <= part.partition < len(topic.partitions):
            raise errors.UnknownTopicOrPartitionError(f"there is no partition {topic.name}-{part.partition}")
        return topic.partitions[part.partition]

    def _read(self, part: SessionPartition, partition: Partition) -> wire.PartitionData:
        """Read one partition, and return its part of the response. Raises the error of the partition."""
        errors.raise_for_code(self._context.fault_code(partition.topic.name, partition.index))
        self._check_replica(part, partition)
        log = partition.log
        data = wire.PartitionData(
            partition_index=part.partition,
            high_watermark=log.end_offset,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.start_offset,
            records=b"",
        )
        if self._committed_only:
            data.aborted_transactions = []
        else:
            data.aborted_transactions = None
        if part.last_fetched_epoch >= 0 and self._diverges(part, partition, data):
            self.answers_now = True
            return data
        preferred = self._preferred_replica(part, partition)
        if preferred is not None:
            data.preferred_read_replica = preferred
            self.answers_now = True
            return data
        chunks, size = log.read(
            part.fetch_offset,
            min(part.max_bytes, self._bytes_left),
            committed_only=self._committed_only,
            at_least_one=self.size == 0,
        )
        if chunks:
            self.size += size
            self._bytes_left = max(0, self._bytes_left - size)
            data.records = chunks  # type: ignore[assignment]
            if self._committed_only and log.aborted:
                up_to = log.next_offset_after(part.fetch_offset, len(chunks))
                data.aborted_transactions = [
                    wire.AbortedTransaction(producer_id=txn.producer_id, first_offset=txn.first_offset)
                    for txn in log.aborted_in(part.fetch_offset, up_to)
                ]
        return data

    def _check_replica(self, part: SessionPartition, partition: Partition) -> None:
        """Check that this broker may serve the fetch. Consumers may read from followers since Fetch 11 (KIP-392)."""
        context = self._context
        node_id = context.node.node_id
        if node_id in partition.replicas:
            check_epoch(partition, part.leader_epoch)
        follower = (
            context.api_version >= _RACKS_FROM and node_id in partition.replicas and partition.resignation is None
        )
        if not follower and not partition.leads(node_id, context.engine.timers.now()):
            raise errors.NotLeaderOrFollowerError(
                f"broker {node_id} is not a replica of {partition.topic.name}-{partition.index}"
            )
        if partition.leader_id == NO_LEADER:
            raise errors.NotLeaderOrFollowerError(f"{partition.topic.name}-{partition.index} has no leader")

    def _diverges(self, part: SessionPartition, partition: Partition, data: wire.PartitionData) -> bool:
        """Return True if the log has been truncated since the client's last fetch (KIP-320, KIP-595)."""
        epoch, end_offset = partition.log.end_of_epoch(part.last_fetched_epoch)
        if epoch < 0:
            raise errors.OffsetOutOfRangeError(
                f"the leader epoch {part.last_fetched_epoch} of the last fetched record is unknown"
            )
        if epoch < part.last_fetched_epoch or end_offset < part.fetch_offset:
            data.diverging_epoch = wire.EpochEndOffset(epoch=epoch, end_offset=end_offset)
            return True
        return False

    def _preferred_replica(self, part: SessionPartition, partition: Partition) -> int | None:
        """Return a follower in the client's rack, unless the leader is in it (Java: ``RackAwareReplicaSelector``)."""
        state = self._context.engine.state
        if not self._rack or self._context.node.node_id != partition.leader_id:
            return None
        if self._context.node.rack == self._rack:
            return None
        log = partition.log
        if not log.start_offset <= part.fetch_offset <= log.end_offset:
            return None
        for replica in partition.isr:
            node = state.nodes[replica]
            if node.registered and node.rack == self._rack:
                return replica
        return None


def _error(part: SessionPartition, error: errors.BrokerError) -> wire.PartitionData:
    return wire.PartitionData(
        partition_index=part.partition,
        error_code=error.code,
        high_watermark=-1,
        records=b"",
    )


HANDLERS = {wire.FetchRequest: fetch}
