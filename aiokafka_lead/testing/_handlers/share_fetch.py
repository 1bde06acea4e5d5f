"""ShareFetch and ShareAcknowledge: sessions, long polls, records and acknowledgements (KIP-932, KIP-1206, KIP-1222).

Java: ``KafkaApis.handleShareFetchRequest``, ``DelayedShareFetch``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol
from uuid import UUID

from ... import errors
from ..._wire.messages import share_acknowledge as ack
from ..._wire.messages import share_fetch as fetch
from .._server.context import Pending, RequestContext
from .._server.timers import Timer
from .._state.batch import StoredBatch
from .._state.consumer_members import Slot
from .._state.share_broker import FINAL_EPOCH, INITIAL_EPOCH, ShareSession, next_epoch
from .._state.share_deliveries import Acknowledge, Acquired
from .._state.share_partition import AcknowledgedBatch, SharePartition
from .._state.topics import Partition
from .list_offsets import Endpoints
from .share_groups import check_member_id, check_share_groups

_RENEW_FROM = 2

Outcomes = dict[Slot, errors.BrokerError | None]
"""The result of each partition's acknowledgements: None or an error."""


class _Batch(Protocol):
    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


class _Part(Protocol):
    partition_index: int

    @property
    def acknowledgement_batches(self) -> Sequence[_Batch]: ...


class AcknowledgingTopic(Protocol):
    """A topic with acknowledgements in a ShareFetch or ShareAcknowledge request."""

    topic_id: UUID

    @property
    def partitions(self) -> Sequence[_Part]: ...


def share_acknowledge(context: RequestContext, request: ack.ShareAcknowledgeRequest) -> ack.ShareAcknowledgeResponse:
    broker = context.engine.share_broker(context.node.node_id)
    epoch = request.share_session_epoch
    try:
        key = member_key(context, request.group_id, request.member_id)
        if epoch == INITIAL_EPOCH:
            raise errors.InvalidShareSessionEpochError("The share session epoch is invalid.")
        if epoch == FINAL_EPOCH:
            broker.session(key)
        else:
            broker.continued(key, epoch)
    except errors.BrokerError as error:
        return ack.ShareAcknowledgeResponse(error_code=error.code, error_message=error.message)
    outcomes = acknowledge(context, key, request.topics, is_renewal=request.is_renew_ack)
    if epoch == FINAL_EPOCH:
        broker.close(key)
    endpoints = Endpoints()
    topics: dict[UUID, ack.ShareAcknowledgeTopicResponse] = {}
    for slot, problem in outcomes.items():
        data = ack.PartitionData(partition_index=slot[1])
        if problem is not None:
            data.error_code, data.error_message = problem.code, problem.message
            endpoints.name_leader(context, find_partition(context, slot), problem, data.current_leader)
        topics.setdefault(slot[0], ack.ShareAcknowledgeTopicResponse(topic_id=slot[0])).partitions.append(data)
    return ack.ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=context.engine.groups.configs.share(key[0]).record_lock_duration_ms,
        responses=list(topics.values()),
        node_endpoints=endpoints.build(ack.NodeEndpoint),
    )


def member_key(context: RequestContext, group_id: str | None, member_id: str | None) -> tuple[str, str]:
    """Return the group and the member of a request. Raises an error if one of them is invalid."""
    check_share_groups(context)
    if group_id is None:
        raise errors.InvalidRequestError("Invalid group id in the request.")
    check_member_id(member_id)
    assert member_id is not None
    return group_id, member_id


def find_partition(context: RequestContext, slot: Slot) -> Partition | None:
    """Return the partition with this topic id and index, or None if it does not exist."""
    topic = context.engine.state.topics_by_id.get(slot[0])
    return topic.partitions[slot[1]] if topic is not None and 0 <= slot[1] < len(topic.partitions) else None


def acknowledge(
    context: RequestContext, key: tuple[str, str], topics: Iterable[AcknowledgingTopic], *, is_renewal: bool
) -> Outcomes:
    """Apply the acknowledgements of a request, and return the result for each partition.

    An error in one partition does not affect the others.
    """
    outcomes: Outcomes = {}
    silent: list[Slot] = []
    for topic in topics:
        for part in topic.partitions:
            slot = topic.topic_id, part.partition_index
            batches = [
                AcknowledgedBatch(batch.first_offset, batch.last_offset, batch.acknowledge_types)
                for batch in part.acknowledgement_batches
            ]
            try:
                partition = _checked(context, slot, batches, is_renewal=is_renewal)
                if batches:
                    _take(context, key, partition, batches)
                    outcomes[slot] = None
                else:
                    silent.append(slot)
            except errors.BrokerError as error:
                outcomes[slot] = error
    if outcomes:
        # Like a real broker, report these only together with other results.
        outcomes.update(dict.fromkeys(silent))
    return outcomes


def _checked(
    context: RequestContext, slot: Slot, batches: Sequence[AcknowledgedBatch], *, is_renewal: bool
) -> Partition:
    """Return the partition. Raises an error if it does not exist, or if the acknowledgements are invalid."""
    if slot[0] not in context.engine.state.topics_by_id:
        raise errors.UnknownTopicIdError("This server does not host this topic ID.")
    most = Acknowledge.RENEW if context.api_version >= _RENEW_FROM else Acknowledge.REJECT
    end = -1
    for batch in batches:
        types = batch.types
        whole = len(types) == 1 or len(types) == batch.last - batch.first + 1
        renews = Acknowledge.RENEW in types
        if not (
            end <= batch.first <= batch.last
            and types
            and whole
            and all(Acknowledge.GAP <= kind <= most for kind in types)
            and (is_renewal or not renews)
        ):
            raise errors.InvalidRequestError("The acknowledgement batches are invalid.")
        end = batch.last
    partition = find_partition(context, slot)
    if partition is None:
        raise errors.UnknownTopicOrPartitionError("This server does not host this topic-partition.")
    return partition


def _take(
    context: RequestContext, key: tuple[str, str], partition: Partition, batches: Sequence[AcknowledgedBatch]
) -> None:
    errors.raise_for_code(context.fault_code(partition.topic.name, partition.index))
    shares = context.engine.share_broker(context.node.node_id).loaded(key[0], partition)
    if shares is None:
        # No records were acquired at this broker, or another broker leads now.
        raise errors.UnknownTopicOrPartitionError("This server does not host this topic-partition.")
    shares.acknowledge(key[1], batches)


_RECORD_LIMIT = 1
"""Acquire mode in which a member never gets more records than it has requested (KIP-1206)."""


def share_fetch(context: RequestContext, request: fetch.ShareFetchRequest) -> fetch.ShareFetchResponse | Pending:
    acknowledges = any(part.acknowledgement_batches for topic in request.topics for part in topic.partitions)
    try:
        key = member_key(context, request.group_id, request.member_id)
        _check_renewal(request)
        session = _session(context, request, key, acknowledges=acknowledges)
    except errors.ShareSessionLimitReachedError as error:
        # Delay the response, so that a member without a session does not retry immediately.
        pending = Pending()
        refusal = fetch.ShareFetchResponse(error_code=error.code, error_message=error.message)
        context.engine.timers.call_later(request.max_wait_ms / 1000, lambda: pending.complete(refusal))
        return pending
    except errors.BrokerError as error:
        return fetch.ShareFetchResponse(error_code=error.code, error_message=error.message)
    outcomes = acknowledge(context, key, request.topics, is_renewal=request.is_renew_ack) if acknowledges else {}
    return _ShareFetch(context, request, key, session, outcomes).start()


def _check_renewal(request: fetch.ShareFetchRequest) -> None:
    """Check that a request to renew locks does not fetch records."""
    names = ("max_bytes", "min_bytes", "max_records", "max_wait_ms")
    wrong = [name for name in names if request.is_renew_ack and getattr(request, name) != 0]
    if wrong:
        raise errors.InvalidRequestError(f"{', '.join(wrong)} must be set to 0, if isRenewAck is true.")


def _session(
    context: RequestContext, request: fetch.ShareFetchRequest, key: tuple[str, str], *, acknowledges: bool
) -> ShareSession | None:
    """Return the session of member ``key`` for this request, or None if the request ends the session."""
    broker = context.engine.share_broker(context.node.node_id)
    wanted = [(topic.topic_id, part.partition_index) for topic in request.topics for part in topic.partitions]
    if request.share_session_epoch == FINAL_EPOCH:
        broker.session(key)
        return None
    if request.share_session_epoch == INITIAL_EPOCH:
        if acknowledges:
            raise errors.InvalidRequestError("There is nothing to acknowledge in the first request of a session.")
        session = broker.open(key, context.connection.number)
        session.partitions.update(dict.fromkeys(wanted, False))
    else:
        session = broker.continued(key, request.share_session_epoch)
    forgotten = [(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions]
    session.nameless.update(slot for slot in wanted if slot[0] not in context.engine.state.topics_by_id)
    session.update(wanted, forgotten)
    return session


class _ShareFetch:
    """A ShareFetch in progress. It responds once it has acquired records, or after its time limit."""

    def __init__(
        self,
        context: RequestContext,
        request: fetch.ShareFetchRequest,
        key: tuple[str, str],
        session: ShareSession | None,
        outcomes: Outcomes,
    ) -> None:
        self._context = context
        self._request = request
        self._group_id, self._member_id = self._key = key
        self._session = session
        self._outcomes = outcomes
        self._settings = context.engine.groups.configs.share(key[0])
        self._pending = Pending()
        self._shares: dict[Slot, SharePartition] = {}
        self._errors: dict[Slot, errors.BrokerError] = {}
        self._timer: Timer | None = None

    def start(self) -> fetch.ShareFetchResponse | Pending:
        request = self._request
        if self._session is not None and not request.is_renew_ack:
            self._find(list(self._session.partitions))
        nothing_wanted = not self._shares or request.max_records <= 0 or request.max_bytes <= 0
        if nothing_wanted:
            return self._response({})
        if request.max_wait_ms <= 0 or self._is_satisfied():
            return self._response(self._read())
        for shares in self._shares.values():
            shares.watchers[self._changed] = None
            shares.partition.watchers[self._appended] = None
        self._pending.on_give_up = self._stop_waiting
        self._timer = self._context.engine.timers.call_later(request.max_wait_ms / 1000, self._finish)
        return self._pending

    def _find(self, slots: list[Slot]) -> None:
        """Find the partitions of the session and their errors. Each call begins with another partition."""
        broker = self._context.engine.share_broker(self._context.node.node_id)
        turn = self._request.share_session_epoch % len(slots) if slots else 0
        for slot in [*slots[turn:], *slots[:turn]]:
            try:
                partition = find_partition(self._context, slot)
                if partition is None and self._session is not None and slot in self._session.nameless:
                    raise errors.UnknownTopicIdError("The topic of this partition is unknown.")
                if partition is None:
                    raise errors.UnknownTopicOrPartitionError("This server does not host this topic-partition.")
                errors.raise_for_code(self._context.fault_code(partition.topic.name, partition.index))
                self._shares[slot] = broker.load(self._group_id, partition)
            except errors.BrokerError as error:
                self._errors[slot] = error

    # --- waiting -----------------------------------------------------------------------------------------------------

    def _ready(self) -> dict[Slot, SharePartition]:
        """Return the partitions with records to acquire, if this broker still leads them."""
        broker = self._context.engine.share_broker(self._context.node.node_id)
        return {
            slot: shares
            for slot, shares in self._shares.items()
            if broker.loaded(self._group_id, shares.partition) is shares and shares.can_acquire
        }

    def _is_satisfied(self) -> bool:
        ready = self._ready()
        size = 0
        for shares in ready.values():
            try:
                size += self._stored(shares, self._request.max_bytes // len(ready))[1]
            except errors.OffsetOutOfRangeError:
                return True
        return bool(ready) and size >= min(self._request.min_bytes, self._request.max_bytes)

    def _stored(
        self, shares: SharePartition, max_bytes: int, *, at_least_one: bool = True
    ) -> tuple[list[StoredBatch], int]:
        return shares.partition.log.stored(
            shares.next_offset,
            max_bytes,
            committed_only=self._settings.committed_only,
            at_least_one=at_least_one,
        )

    def _appended(self, _: int) -> None:
        """Handle new records, a change of leader, or the deletion of a partition."""
        self._changed()

    def _changed(self) -> None:
        """Respond if there are more records to acquire."""
        if not self._pending.done and self._is_satisfied():
            self._finish()

    def _stop_waiting(self) -> None:
        for shares in self._shares.values():
            shares.watchers.pop(self._changed, None)
            shares.partition.watchers.pop(self._appended, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _finish(self) -> None:
        self._stop_waiting()
        self._pending.complete(self._response(self._read()))

    # --- answering ---------------------------------------------------------------------------------------------------

    def _read(self) -> dict[Slot, fetch.PartitionData]:
        """Acquire available records for the member, and return the data for each partition."""
        request = self._request
        ready = self._ready()
        left = request.max_records
        any_read = False
        answers: dict[Slot, fetch.PartitionData] = {}
        for slot, shares in ready.items():
            data = answers[slot] = fetch.PartitionData(partition_index=slot[1], records=b"")
            offset = shares.next_offset
            try:
                stored, size = self._stored(shares, request.max_bytes // len(ready), at_least_one=not any_read)
            except errors.OffsetOutOfRangeError:
                shares.reset_to_log_start()
                continue
            any_read = any_read or size > 0
            log = shares.partition.log
            acquired = shares.acquire(
                self._member_id,
                offset,
                stored,
                batch_size=request.batch_size,
                max_records=left,
                exact=request.share_acquire_mode == _RECORD_LIMIT,
                aborted=log.aborted_batches(stored) if self._settings.committed_only else (),
            )
            left -= sum(run.size for run in acquired)
            if acquired:
                data.records = _bytes_of(stored, acquired)  # type: ignore[assignment]
                data.acquired_records = [
                    fetch.AcquiredRecords(
                        first_offset=run.first, last_offset=run.last, delivery_count=run.delivery_count
                    )
                    for run in acquired
                ]
        return answers

    def _response(self, answers: dict[Slot, fetch.PartitionData]) -> fetch.ShareFetchResponse:
        """Return the response, with errors, results of acknowledgements, and the records in ``answers``.

        In a session, partitions without news are left out.
        """
        request = self._request
        endpoints = Endpoints()
        for slot, error in self._errors.items():
            data = answers[slot] = fetch.PartitionData(
                partition_index=slot[1], error_code=error.code, error_message=error.message, records=b""
            )
            endpoints.name_leader(self._context, find_partition(self._context, slot), error, data.current_leader)
        session = self._session
        if session is not None and request.share_session_epoch != INITIAL_EPOCH:
            if session.epoch != next_epoch(request.share_session_epoch):
                # Another request of the session has overtaken this request.
                overtaken = errors.InvalidShareSessionEpochError("The share session epoch is invalid.")
                return fetch.ShareFetchResponse(error_code=overtaken.code, error_message=overtaken.message)
            answers = {
                slot: data
                for slot, data in answers.items()
                if session.must_tell(slot, has_records=bool(data.records), has_error=data.error_code != 0)
            }
        for slot, outcome in self._outcomes.items():
            data = answers.setdefault(slot, fetch.PartitionData(partition_index=slot[1], records=b""))
            if outcome is not None:
                data.acknowledge_error_code, data.acknowledge_error_message = outcome.code, outcome.message
        if session is None:
            self._context.engine.share_broker(self._context.node.node_id).close(self._key)
        return fetch.ShareFetchResponse(
            acquisition_lock_timeout_ms=self._settings.record_lock_duration_ms,
            responses=_by_topic(answers.items()),
            node_endpoints=endpoints.build(fetch.NodeEndpoint),
        )


def _bytes_of(stored: list[StoredBatch], acquired: list[Acquired]) -> list[bytes]:
    """Return the stored batches that contain the acquired records."""
    first, last = acquired[0].first, acquired[-1].last
    return [batch.data for batch in stored if batch.base_offset <= last and batch.last_offset >= first]


def _by_topic(answers: Iterable[tuple[Slot, fetch.PartitionData]]) -> list[fetch.ShareFetchableTopicResponse]:
    topics: dict[UUID, fetch.ShareFetchableTopicResponse] = {}
    for slot, data in answers:
        topics.setdefault(slot[0], fetch.ShareFetchableTopicResponse(topic_id=slot[0])).partitions.append(data)
    return list(topics.values())


HANDLERS = {
    ack.ShareAcknowledgeRequest: share_acknowledge,
    fetch.ShareFetchRequest: share_fetch,
}
