"""Share sessions, fetches and acknowledgements, request by request."""

from __future__ import annotations

import pytest

from aiokafka_lead._core.leadership.patience import CATCH_UP_MS
from aiokafka_lead._core.share.answers import read_failure
from aiokafka_lead._core.share.exchange import ACK_LINGER_S
from aiokafka_lead._core.share.planner import AT_ONCE_MS, HELD_BACK_MS
from aiokafka_lead._core.trust import DOUBT_AFTER
from aiokafka_lead._wire.messages.share_fetch import ShareFetchRequest
from aiokafka_lead.errors import (
    CoordinatorNotAvailableError,
    FencedLeaderEpochError,
    GroupAuthorizationFailedError,
    InvalidRecordStateError,
    InvalidShareSessionEpochError,
    KafkaConnectionError,
    NotLeaderOrFollowerError,
    ShareSessionLimitReachedError,
    ShareSessionNotFoundError,
    TopicAuthorizationFailedError,
    UnknownLeaderEpochError,
    UnknownServerError,
)
from aiokafka_lead.types import AcknowledgeType

from .share_world import LOCK_MS, World, jobs


def partitions(request: ShareFetchRequest) -> list[int]:
    return [partition.partition_index for topic in request.topics for partition in topic.partitions]


def forgotten(request: ShareFetchRequest) -> list[int]:
    return [partition for topic in request.forgotten_topics_data for partition in topic.partitions]


# --- sessions ---------------------------------------------------------------------------------------------------------


def test_a_session_begins_with_all_partitions_and_goes_on_with_what_changes() -> None:
    world = World((1, 1))
    planned, request = world.fetch()
    assert (request.share_session_epoch, partitions(request), forgotten(request)) == (0, [0, 1], [])
    assert world.plan() is None or planned.exchange.busy
    world.fetched(planned)
    planned, request = world.fetch()
    assert (request.share_session_epoch, partitions(request), forgotten(request)) == (1, [], [])
    world.fetched(planned)
    world.planner.assign({jobs(1): world.planner._partitions[jobs(1)].topic_id})
    world.lead((1, 1))
    planned, request = world.fetch()
    assert (request.share_session_epoch, partitions(request), forgotten(request)) == (2, [], [0])


def test_each_kind_of_request_counts() -> None:
    world = World()
    acquired = world.acquire((0, 9))
    world.decide(acquired, 0)
    planned, request = world.acknowledge()
    assert request.share_session_epoch == 1
    world.acknowledged(planned)
    assert world.fetch()[1].share_session_epoch == 2


@pytest.mark.parametrize(
    ("left_s", "held_ms"), [(60, 500), (0.5, 500), (0.25, 250), (0.01, HELD_BACK_MS), (-5, HELD_BACK_MS)]
)
def test_no_fetch_is_held_when_the_session_is_to_move(left_s: float, held_ms: int) -> None:
    """The session has one request at a time."""
    world = World()
    assert world.fetch(moves_at=world.now + left_s)[1].max_wait_ms == held_ms


@pytest.mark.parametrize("error", [InvalidShareSessionEpochError, ShareSessionLimitReachedError])
def test_after_a_session_error_a_new_one_is_opened_and_acknowledgements_wait_for_it(
    error: type[InvalidShareSessionEpochError],
) -> None:
    world = World()
    acquired = world.acquire((0, 9))
    world.decide(acquired, 0, 1)
    planned, _ = world.acknowledge()
    world.acknowledged(planned, top=error.code)
    assert not world.settled
    assert world.planner.waiting(world.now, fetching=True) == []
    world.now += 2
    planned, fetch = world.fetch()
    assert (fetch.share_session_epoch, partitions(fetch)) == (0, [0])
    assert not planned.acks
    world.fetched(planned)
    planned, request = world.acknowledge()
    assert request.share_session_epoch == 1
    world.acknowledged(planned)
    assert world.settled == [(jobs(0), None)]


def test_without_anything_to_fetch_a_session_is_opened_for_acknowledgements_alone() -> None:
    world = World()
    acquired = world.acquire((0, 0))
    world.decide(acquired, 0)
    planned, _ = world.acknowledge()
    world.acknowledged(planned, top=InvalidShareSessionEpochError.code)
    world.now += 2
    planned, fetch = world.fetch(room=0)
    assert (fetch.share_session_epoch, fetch.max_wait_ms, partitions(fetch)) == (0, 0, [])
    world.fetched(planned)
    assert world.acknowledge()[1].share_session_epoch == 1


def test_a_forgotten_session_has_released_everything() -> None:
    world = World()
    acquired = world.acquire((0, 9))
    world.decide(acquired, 0)
    planned, _ = world.acknowledge()
    world.acknowledged(planned, top=ShareSessionNotFoundError.code)
    assert acquired.over
    assert isinstance(acquired.failure(5), InvalidRecordStateError)
    assert isinstance(acquired.failure(0), ShareSessionNotFoundError | InvalidRecordStateError)


def test_a_lost_connection_has_released_everything_and_the_session_begins_anew() -> None:
    world = World()
    acquired = world.acquire((0, 9))
    world.decide(acquired, 0)
    planned, _ = world.acknowledge()
    read_failure(planned, KafkaConnectionError("reset"), world.now)
    assert acquired.over
    assert [type(error) for _, error in world.settled] == [KafkaConnectionError]
    assert world.fetch()[1].share_session_epoch == 0


def test_the_last_request_carries_what_is_left_and_ends_the_session() -> None:
    world = World()
    acquired = world.acquire((0, 2))
    world.decide(acquired, 0, 1, 2, kind=AcknowledgeType.RELEASE)
    planned = world.planner.close(world.planner.exchanges[1], 2, world.now)
    assert planned is not None
    assert planned.request.share_session_epoch == -1
    world.acknowledged(planned)
    assert acquired.over


def test_no_session_needs_no_end() -> None:
    world = World()
    assert world.planner.close(world.planner.exchanges[1], 2, world.now) is None


# --- fetches and acknowledgements -------------------------------------------------------------------------------------


def test_acknowledgements_go_with_the_next_fetch_unless_somebody_waits_for_them() -> None:
    world = World()
    acquired = world.acquire((0, 9))
    exchange = world.planner.exchanges[1]
    acquired.decide(0, 1)
    exchange.decided(acquired, world.now)
    planned, fetch = world.fetch()
    ((topic,),) = [fetch.topics]
    (partition,) = topic.partitions
    (batch,) = partition.acknowledgement_batches
    assert (batch.first_offset, batch.last_offset, batch.acknowledge_types) == (0, 0, [1])
    world.fetched(planned)
    assert world.settled == [(jobs(0), None)]


def test_acknowledgements_wait_for_others_for_a_moment() -> None:
    world = World()
    acquired = world.acquire((0, 9))
    exchange = world.planner.exchanges[1]
    acquired.decide(0, 1)
    exchange.decided(acquired, world.now)
    assert world.plan(room=0) is None
    assert world.planner.next_time(world.now) == world.now + ACK_LINGER_S
    world.now += ACK_LINGER_S
    world.acknowledge()


def test_a_fetch_behind_which_acknowledgements_would_wait_is_held_for_a_moment_only() -> None:
    world = World()
    _, first = world.fetch()
    assert first.max_wait_ms == 500
    world = World()
    world.acquire((0, 9))
    assert world.fetch()[1].max_wait_ms == HELD_BACK_MS


def test_renewals_go_alone_and_only_where_the_broker_knows_them() -> None:
    world = World()
    acquired = world.acquire((0, 9))
    world.decide(acquired, 3, kind=AcknowledgeType.RENEW)
    world.planner.exchanges[1].urgent = False
    planned = world.plan()
    assert planned is not None
    assert not isinstance(planned.request, ShareFetchRequest)
    assert planned.request.is_renew_ack
    world.now += 5
    world.acknowledged(planned)
    assert acquired.lock_expires_at(3) == planned.sent_at + LOCK_MS / 1000
    assert acquired.may_decide(3)


def test_what_is_not_sent_while_its_lock_holds_is_lost_and_nothing_else() -> None:
    world = World()
    late = world.acquire((0, 0))
    world.now += 20
    early = world.acquire((1, 1))
    world.decide(late, 0)
    world.decide(early, 0)
    world.now += 11
    planned, request = world.acknowledge()
    assert [batch.first_offset for batch in request.topics[0].partitions[0].acknowledgement_batches] == [1]
    assert isinstance(late.failure(0), InvalidRecordStateError)
    world.acknowledged(planned)
    assert early.failure(0) is None


def test_the_earlier_delivery_of_a_record_is_lost_to_a_later_one() -> None:
    """The same broker leads in a new epoch, and delivers the record again; its lock is not for the former copy."""
    world = World()
    earlier = world.acquire((0, 2), (5, 6))
    world.acquire((9, 9))
    planned, _ = world.fetch()
    world.decide(earlier, 0, 1, 4)
    ((_, later, _),) = world.fetched(planned, [(1, 5)]).arrived
    assert [earlier.is_open(index) for index in range(5)] == [False, False, False, False, False]
    assert [isinstance(earlier.failure(index), InvalidRecordStateError) for index in range(5)] == [
        *(False, True, True, True, False)
    ]
    _, request = world.acknowledge()
    [part] = request.topics[0].partitions
    assert [(batch.first_offset, batch.last_offset) for batch in part.acknowledgement_batches] == [(0, 0), (6, 6)]
    assert all(later.is_open(index) for index in range(5))


def test_what_the_application_forgets_is_forgotten_when_its_lock_has_run_out() -> None:
    world = World()
    acquired = world.acquire((0, 9))
    world.now += LOCK_MS / 1000
    assert world.fetch()[1].max_wait_ms == 500
    assert acquired.over
    assert not world.planner.exchanges[1].holds
    assert world.settled == []


def test_one_bad_record_does_not_cost_the_others_theirs() -> None:
    """A broker refuses all acknowledgements of a partition because of one: halving isolates the bad one."""
    world = World()
    acquired = world.acquire((0, 15))
    world.decide(acquired, *range(16))
    for _ in range(40):
        planned = world.plan(room=0)
        if planned is None:
            break
        sent = [
            offset
            for topic in planned.request.topics
            for partition in topic.partitions
            for batch in partition.acknowledgement_batches
            for offset in range(batch.first_offset, batch.last_offset + 1)
        ]
        world.acknowledged(planned, error=InvalidRecordStateError.code if 5 in sent else 0)
        world.planner.exchanges[1].urgent = True
    assert acquired.over
    assert [index for index in range(16) if acquired.failure(index) is not None] == [5]


def test_what_may_pass_is_tried_again() -> None:
    world = World()
    acquired = world.acquire((0, 1))
    world.decide(acquired, 0)
    planned, _ = world.acknowledge()
    world.acknowledged(planned, error=CoordinatorNotAvailableError.code)
    assert not world.settled
    world.now += 2
    planned, _ = world.acknowledge()
    world.acknowledged(planned)
    assert world.settled == [(jobs(0), None)]


@pytest.mark.parametrize("error", [NotLeaderOrFollowerError, FencedLeaderEpochError])
def test_a_former_leader_has_forgotten_the_locks_and_its_hint_is_read(error: type[NotLeaderOrFollowerError]) -> None:
    world = World()
    acquired = world.acquire((0, 9))
    world.decide(acquired, 0)
    planned, _ = world.acknowledge()
    outcome = world.acknowledged(planned, error=error.code, leader=(2, 5))
    assert [(hint.leader_id, hint.leader_epoch) for hint in outcome.hints] == [(2, 5)]
    assert outcome.refresh
    assert acquired.over
    world.lead((2,), epoch=5)
    _, request = world.fetch(node=2)
    assert (request.share_session_epoch, partitions(request)) == (0, [0])


def test_a_fetch_goes_to_the_new_leader_at_once_and_the_old_one_forgets_the_partition() -> None:
    world = World((1, 1))
    planned, _ = world.fetch()
    outcome = world.fetched(planned, error=NotLeaderOrFollowerError.code, leader=(2, 5))
    assert [(hint.partition, hint.leader_id) for hint in outcome.hints] == [(0, 2)]
    world.lead((2, 1), epoch=5)
    assert {exchange.node_id for exchange in world.planner.waiting(world.now, fetching=True)} == {1, 2}
    assert partitions(world.fetch(node=2)[1]) == [0]
    assert forgotten(world.fetch(node=1)[1]) == [0]


def test_errors_that_do_not_pass_are_for_the_application() -> None:
    world = World((1, 1))
    planned, _ = world.fetch()
    outcome = world.fetched(planned, error=TopicAuthorizationFailedError.code)
    assert [type(error) for error in outcome.errors] == [TopicAuthorizationFailedError]
    planned, request = world.fetch()
    assert forgotten(request) == [0]
    outcome = world.fetched(planned, top=GroupAuthorizationFailedError.code)
    assert [type(error) for error in outcome.errors] == [GroupAuthorizationFailedError]


def test_a_session_with_a_deleted_topic_begins_anew_without_an_error() -> None:
    """Brokers answer UNKNOWN_SERVER_ERROR while the topic is in the session."""
    world = World()
    acquired = world.acquire((0, 1))
    acquired.decide(0, 1)
    world.planner.exchanges[1].decided(acquired, world.now)
    planned, _ = world.fetch()
    outcome = world.fetched(planned, top=UnknownServerError.code)
    assert (outcome.errors, outcome.refresh, world.settled) == ([], True, [])
    world.now += 2
    assert world.fetch()[1].share_session_epoch == 0


def test_acknowledgements_that_are_put_off_leave_their_broker_in_doubt() -> None:
    world = World()
    acquired = world.acquire((0, 1))
    world.decide(acquired, 0)
    doubts = []
    for _ in range(DOUBT_AFTER):
        planned, _ = world.acknowledge()
        doubts.append(world.acknowledged(planned, error=UnknownLeaderEpochError.code).doubt)
        world.now += 0.5
    assert doubts == [False, False, True]
    planned, _ = world.acknowledge()
    assert not world.acknowledged(planned).doubt
    assert world.settled == [(jobs(0), None)]


def test_patience_with_a_leader_lasts_for_two_of_the_longest_backoffs() -> None:
    world = World()
    planned, _ = world.fetch()
    assert not world.fetched(planned, error=UnknownServerError.code).doubt
    world.now += 2
    planned, _ = world.fetch()
    outcome = world.fetched(planned, error=UnknownServerError.code)
    assert (outcome.doubt, outcome.refresh, outcome.errors) == (True, False, [])


# --- start of a group -------------------------------------------------------------------------------------------------


def test_leaders_are_asked_where_to_begin_though_nothing_is_to_be_fetched() -> None:
    world = World((1, 1, 2))
    assert world.planner.not_begun([jobs(0), jobs(1), jobs(2), jobs(3)]) == [jobs(0), jobs(1), jobs(2), jobs(3)]
    assert [exchange.node_id for exchange in world.planner.waiting(world.now, fetching=False)] == [1, 2]
    planned, request = world.fetch(1, room=0)
    assert (partitions(request), request.max_records, request.min_bytes) == ([0, 1], 1, 0)
    assert request.share_acquire_mode == 1
    world.fetched(planned, partition=0)
    assert world.planner.not_begun([jobs(0), jobs(1), jobs(2)]) == [jobs(1), jobs(2)]
    # A broker may answer before it has finished with some partitions; a separate request covers these.
    planned, request = world.fetch(1, room=0)
    assert (partitions(request), forgotten(request)) == ([], [0])
    world.fetched(planned, partition=0)
    assert world.planner.not_begun([jobs(0), jobs(1), jobs(2)]) == [jobs(2)]
    assert [exchange.node_id for exchange in world.planner.waiting(world.now, fetching=False)] == [2]
    assert world.plan(1, room=0) is None


def test_a_partition_that_is_refused_has_not_begun_unless_it_is_refused_for_good() -> None:
    world = World()
    for error in (UnknownServerError, CoordinatorNotAvailableError, NotLeaderOrFollowerError):
        planned, _ = world.fetch(room=0)
        world.fetched(planned, error=error.code)
        assert world.planner.not_begun([jobs(0)]) == [jobs(0)]
        world.now += 2
    planned, _ = world.fetch(room=0)
    world.fetched(planned, top=CoordinatorNotAvailableError.code)
    assert world.planner.not_begun([jobs(0)]) == [jobs(0)]
    world.now += 2
    planned, _ = world.fetch(room=0)
    world.fetched(planned, top=GroupAuthorizationFailedError.code)
    assert world.planner.not_begun([jobs(0)]) == []


def test_ranges_that_make_no_sense_are_left_out() -> None:
    world = World()
    planned, _ = world.fetch()
    outcome = world.fetched(planned, [(5, 4), (-3, 2), (10, 12), (11, 20), (30, 1 << 40), (40, 41)])
    (arrived,) = outcome.arrived
    assert [(entry.first, entry.last) for entry in arrived.acquired.ranges] == [(10, 12)]


# --- connections ------------------------------------------------------------------------------------------------------


def test_a_session_goes_over_to_another_connection_and_keeps_what_was_acquired() -> None:
    world = World()
    acquired = world.acquire((0, 9))
    world.decide(acquired, 0)
    exchange = world.planner.exchanges[1]
    planned = world.planner.reopen(exchange, 2, world.now)
    assert isinstance(planned.request, ShareFetchRequest)
    assert (planned.request.share_session_epoch, planned.request.topics, planned.acks) == (0, [], {})
    world.fetched(planned)
    assert acquired.has_unsent
    _, request = world.acknowledge()
    assert request.share_session_epoch == 1


def test_a_connection_is_kept_while_records_are_in_hand() -> None:
    world = World(idle_ms=20_000)
    acquired = world.acquire((0, 9))
    assert world.planner.waiting(world.now + 9.9, fetching=False) == []
    assert world.planner.next_time(world.now) == world.now + 10.0
    world.now += 10.0
    (exchange,) = world.planner.waiting(world.now, fetching=False)
    planned, request = world.acknowledge()
    assert (request.share_session_epoch, request.topics) == (1, [])
    world.acknowledged(planned)
    world.decide(acquired, *range(10))
    planned, _ = world.acknowledge()
    world.acknowledged(planned)
    assert not exchange.holds
    assert world.planner.waiting(world.now + 20.0, fetching=False) == []


# --- moving leaders, and the answer after a full one ------------------------------------------------------------------


def test_a_leader_that_does_not_know_of_its_election_is_asked_again_soon() -> None:
    """It names the previous leader, with an older epoch, which is no reason to wait for the backoff."""
    world = World()
    planned, _ = world.fetch()
    world.fetched(planned, error=NotLeaderOrFollowerError.code, leader=(2, 5))
    world.lead((2,), epoch=5)
    planned, _ = world.fetch(node=2)
    world.fetched(planned, error=NotLeaderOrFollowerError.code, leader=(1, 1))
    assert not world.planner.waiting(world.now, fetching=True)
    assert world.planner.next_time(world.now) <= world.now + 2 * CATCH_UP_MS / 1000
    world.now += 2 * CATCH_UP_MS / 1000
    planned, _ = world.fetch(node=2)
    world.fetched(planned, [(0, 9)])
    assert world.planner.counters.leader_moves == 1


def test_where_more_records_are_ready_a_fetch_is_not_held_for_long() -> None:
    """A broker that loses the partition meanwhile answers only when the long poll expires."""
    world = World()
    planned, first = world.fetch(room=10)
    world.fetched(planned, [(0, 9)])
    planned, second = world.fetch(room=10)
    world.fetched(planned, [(10, 14)])
    planned, third = world.fetch(room=10)
    assert (first.max_wait_ms, second.max_wait_ms, third.max_wait_ms) == (500, AT_ONCE_MS, HELD_BACK_MS)


def test_awaited_acknowledgements_go_with_a_fetch_that_is_not_held() -> None:
    world = World()
    planned, _ = world.fetch(room=10)
    ((exchange, acquired, _),) = world.fetched(planned, [(0, 9)]).arrived
    world.decide(acquired, *range(10))
    planned, request = world.fetch(room=10)
    assert request.max_wait_ms == AT_ONCE_MS
    assert len(planned.acks) == 1
    assert exchange.waited_for
    ((_, acquired, _),) = world.fetched(planned, [(10, 11)]).arrived
    assert world.settled == [(jobs(0), None)]
    world.decide(acquired, 0)
    world.acknowledge()
    assert exchange.waited_for
