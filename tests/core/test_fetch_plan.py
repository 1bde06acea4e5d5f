"""Assignment of partitions to fetches: from which broker, and when."""

from __future__ import annotations

from uuid import UUID

import pytest

from aiokafka_lead._core.consumer.fetch_plan import BESIDE_AFTER_S, FetchLimits, PlannedFetch
from aiokafka_lead._core.consumer.partition_state import FetchState, PartitionState
from aiokafka_lead._core.consumer.reset_policy import EARLIEST
from aiokafka_lead._core.metadata.types import NO_TOPIC_ID
from aiokafka_lead.errors import FrameTooLargeError

from .fetch_world import ID, MIB, T0, T1, T2, World, batch, data, response, snapshot


def test_one_request_for_each_broker_with_everything_it_leads() -> None:
    world = World(T0, T1, T2)
    world.learn(snapshot([(1, 3), (2, 4), (1, 5)]))
    first, second = world.plan()
    assert (first.node_id, list(first.asked)) == (1, [T0, T2])
    assert (second.node_id, list(second.asked)) == (2, [T1])
    assert first.asked[T2].leader_epoch == 5
    assert first.asked[T2].topic_id == ID
    assert world.plan() == []


def test_only_what_changed_goes_into_the_next_request() -> None:
    world = World(T0, T1)
    world.fetch(data(0, batch(0)), data(1))
    planned = world.plan_one()
    assert (planned.request.session_id, planned.request.epoch) == (5, 1)
    assert list(planned.request.send) == [T0]
    assert planned.request.send[T0].fetch_offset == 1
    assert planned.request.send[T0].last_fetched_epoch == 3
    assert set(planned.asked) == {T0, T1}


def test_a_partition_whose_buffer_is_full_leaves_the_session_until_it_is_read() -> None:
    world = World(T0, T1)
    world.fetch(data(0, batch(0)), data(1))
    world.fetch(data(0, batch(1)))
    planned = world.plan_one()
    assert [use.tp for use in planned.request.forget] == [T0]
    world.answer(planned, response())
    assert world.read() == [0, 1]
    planned = world.plan_one()
    assert list(planned.request.send) == [T0]


def test_a_large_answer_is_read_before_the_next_is_fetched() -> None:
    world = World(T0, limits=FetchLimits(50 * MIB, 100))
    world.fetch(data(0, batch(0, [b"x" * 200])))
    assert world.plan() == []
    assert world.read() == [0]
    assert len(world.plan()) == 1


def test_a_partition_that_becomes_fetchable_does_not_wait_for_the_long_poll() -> None:
    world = World(T0, T1)
    world.prefetch.pause(world.state(T1))
    main = world.plan_one()
    world.prefetch.resume(world.state(T1))
    world.now += BESIDE_AFTER_S / 2
    assert world.plan() == []
    assert world.planner.next_time(world.now) == pytest.approx(main.sent_at + BESIDE_AFTER_S)
    world.now += BESIDE_AFTER_S
    beside = world.plan_one()
    assert beside.beside
    assert (beside.request.session_id, beside.request.epoch) == (0, -1)
    assert list(beside.asked) == [T1]
    assert world.plan() == []
    # The session takes it over before the separate request is answered; the second answer is ignored.
    world.answer(main, response(data(0, batch(0))))
    main = world.plan_one()
    assert set(main.request.send) == {T0, T1}
    world.answer(beside, response(data(1, batch(0)), session_id=0))
    world.answer(main, response(data(1, batch(0))))
    assert world.counters.stale_answers == 1
    assert world.read(tp=T1) == [0]
    main = world.plan_one()
    assert (main.beside, main.request.send[T1].fetch_offset) == (False, 1)


def test_a_seek_goes_out_beside_the_long_poll_and_voids_its_answer() -> None:
    world = World(T0)
    main = world.plan_one()
    world.now += 0.2
    world.state().move(50)
    beside = world.plan_one()
    assert beside.asked[T0].fetch_offset == 50
    world.answer(main, response(data(0, batch(0))))
    assert world.counters.stale_answers == 1
    assert world.read() == []
    world.answer(beside, response(data(0, batch(50)), session_id=0))
    assert world.read() == [50]


def test_what_the_session_asks_for_already_does_not_go_out_beside_it_when_records_are_read() -> None:
    world = World(T0)
    world.fetch(data(0, batch(0)))
    main = world.plan_one()
    assert main.asked[T0].fetch_offset == 1
    world.now += 0.2
    assert world.read() == [0]
    assert world.plan() == []
    world.answer(main, response(data(0, batch(1))))
    assert world.read() == [1]


def test_what_is_to_be_asked_for_anew_is() -> None:
    world = World(T0)
    world.plan_one()
    world.now += 0.2
    world.planner.ask_anew()
    assert world.plan_one().asked[T0].fetch_offset == 0


def test_a_paused_or_failed_partition_is_not_fetched() -> None:
    world = World(T0, T1, T2)
    world.prefetch.pause(world.state(T0))
    world.state(T1).reset(EARLIEST)
    assert list(world.plan_one().asked) == [T2]


def test_positions_to_look_up_are_handed_over_once() -> None:
    world = World(T0, T1)
    world.state(T0).reset(EARLIEST)
    world.plan()
    assert list(world.planner.lookups) == [world.state(T0)]
    world.planner.lookups.clear()
    world.state(T0).looked_up = True
    world.state(T0).touch()
    world.plan()
    assert not world.planner.lookups


def test_a_leaderless_partition_waits_for_metadata() -> None:
    world = World(T0)
    world.learn(snapshot([(-1, 4)]))
    assert world.plan() == []
    assert list(world.planner.leaderless) == [world.state()]
    world.learn(snapshot([(2, 5)]))
    assert world.plan_one().node_id == 2


def test_a_position_is_not_looked_up_without_a_leader_to_ask() -> None:
    world = World(T0)
    world.state().reset(EARLIEST)
    world.learn(snapshot([(-1, 4)]))
    world.plan()
    assert not world.planner.lookups
    assert list(world.planner.leaderless) == [world.state()]
    world.learn(snapshot([(2, 5)]))
    world.plan()
    assert list(world.planner.lookups) == [world.state()]
    assert not world.planner.leaderless


def test_a_leader_without_an_address_counts_as_none() -> None:
    world = World(T0)
    world.learn(snapshot([(9, 4)]))
    assert world.plan() == []
    assert list(world.planner.leaderless) == [world.state()]


def test_a_moved_partition_leaves_the_old_brokers_session() -> None:
    world = World(T0, T1)
    main = world.plan_one()
    world.learn(snapshot([(1, 3), (2, 4)]))
    moved = world.plan_one()
    assert (moved.node_id, list(moved.asked)) == (2, [T1])
    world.answer(main, response(data(0), data(1)))
    planned = world.plan_one()
    assert (planned.node_id, [use.tp for use in planned.request.forget]) == (1, [T1])


def test_a_backoff_ends_by_itself_or_by_an_epoch_advance() -> None:
    world = World(T0)
    world.state().back_off(world.now, 3, world.retry)
    assert world.plan() == []
    wake_at = world.planner.next_time(world.now)
    assert wake_at == pytest.approx(world.now + 0.1)
    assert wake_at is not None
    world.learn(snapshot([(2, 4)]))
    assert world.plan_one().node_id == 2
    world.state().back_off(world.now, 4, world.retry)
    world.plan()
    world.now = wake_at
    world.planner.place(world.snapshot, world.now)
    assert world.state().home == 2


def test_timers_do_not_pile_up() -> None:
    world = World(T0)
    world.state().read_from(2, world.now + 300)
    for _ in range(50):
        world.state().touch()
        world.plan()
    assert len(world.planner._timers) == 1


def test_a_follower_is_read_from_until_its_time_is_over() -> None:
    """KIP-392."""
    world = World(T0)
    world.state().read_from(2, world.now + 300)
    planned = world.plan_one()
    assert planned.node_id == 2
    world.answer(planned, response(data(0, batch(0))))
    world.now += 301
    assert world.plan_one().node_id == 1


@pytest.mark.parametrize("new", [snapshot(offline=[2]), snapshot(brokers=(1, 3))])
def test_a_follower_that_is_gone_gives_way_to_the_leader(new: object) -> None:
    world = World(T0)
    world.state().read_from(2, world.now + 300)
    world.learn(new)  # type: ignore[arg-type]
    assert world.plan_one().node_id == 1


def test_topics_without_an_id_are_named_in_version_12() -> None:
    world = World(T0)
    world.learn(snapshot(topic_id=NO_TOPIC_ID))
    assert world.plan_one().version == 12


def test_a_session_ends_when_topics_get_ids() -> None:
    """A session names topics either by name or by id."""
    world = World(T0, T1)
    world.learn(snapshot(topic_id=NO_TOPIC_ID))
    world.answer(world.plan_one(), response(data(0, batch(0)), data(1)))
    world.learn(snapshot(topic_id=ID))
    planned = world.plan_one()
    assert (planned.version, planned.request.session_id, planned.request.epoch) == (17, 5, 0)
    assert set(planned.request.send) == {T0, T1}


def test_a_topic_made_anew_is_forgotten_under_its_old_id() -> None:
    world = World(T0)
    world.fetch(data(0))
    new_id = UUID(int=99)
    world.learn(snapshot(topic_id=new_id))
    planned = world.plan_one()
    assert [use.topic_id for use in planned.request.forget] == [ID]
    assert planned.request.send[T0].topic_id == new_id


def test_answers_share_the_memory() -> None:
    world = World(T0, T1, limits=FetchLimits(3 * MIB, MIB))
    world.learn(snapshot([(1, 3), (2, 3), (1, 3)]))
    assert [planned.max_bytes for planned in world.plan()] == [MIB, MIB]


def test_what_a_silent_broker_was_asked_for_keeps_no_memory_from_the_next_leader() -> None:
    world = World(T0, T1, limits=FetchLimits(2 * MIB, MIB))
    world.fetch(data(0), data(1))
    world.plan_one()
    world.now += 1.0
    world.state(T1).move(7)
    assert world.plan_one().beside
    world.learn(snapshot([(2, 4), (2, 4)]))
    assert set(world.plan_one().asked) == {T0, T1}


def test_requests_beside_sessions_leave_room_for_brokers_that_are_asked_for_nothing_yet() -> None:
    world = World(T0, T1, T2, limits=FetchLimits(4 * MIB, MIB))
    world.learn(snapshot([(1, 3), (2, 3), (3, 3)]))
    for planned in world.plan():
        world.answer(planned, response(data(planned.node_id - 1)))
    world.planner.wait(3, world.now + 2.0)
    for planned in world.plan():
        (tp,) = planned.asked
        world.state(tp).move(7)
    world.now += 1.0
    assert [(planned.node_id, planned.beside) for planned in world.plan()] == [(1, True)]
    world.now += 1.0
    assert [(planned.node_id, planned.beside) for planned in world.plan()] == [(3, False)]


def test_brokers_take_turns_when_memory_is_short() -> None:
    """A broker without records, whose answers arrive constantly, leaves memory to other brokers."""
    world = World(T0, T1, T2, limits=FetchLimits(900, MIB))
    world.learn(snapshot([(1, 3), (2, 3), (3, 3)]))
    world.prefetch.pause(world.state(T0))
    world.hold(world.state(T0), batch(0, [b"x" * 400]))
    asked: list[int] = []
    for _ in range(6):
        planned = world.plan_one()
        asked.append(planned.node_id)
        world.answer(planned, response(data(planned.node_id - 1)))
    assert asked == [2, 3, 2, 3, 2, 3]


def test_no_request_goes_out_when_memory_is_used_up_until_some_is_read() -> None:
    world = World(T0, T1, limits=FetchLimits(2000, 2000))
    world.fetch(data(0, batch(0, [b"x" * 1800])), data(1))
    assert world.plan() == []
    assert world.planner.starved
    assert world.read() == [0]
    assert set(world.plan_one().asked) == {T0, T1}


def test_a_reader_in_want_gets_room_from_what_nobody_reads() -> None:
    world = World(T0, T1, limits=FetchLimits(2000, 2000))
    world.fetch(data(0, batch(0, [b"x" * 1800])), data(1))
    assert world.plan() == []
    world.planner.make_room({T1})
    assert world.prefetch.total_bytes == 0
    planned = world.plan_one()
    assert planned.asked[T0].fetch_offset == 0
    world.answer(planned, response(data(0, batch(0)), data(1, batch(0))))
    assert sorted(world.read()) == [0, 0]


def test_tiny_limits_still_make_progress() -> None:
    world = World(T0, limits=FetchLimits(1, 1))
    got = []
    for offset in range(5):
        world.fetch(data(0, batch(offset, [b"x" * 500])))
        got += world.read()
    assert got == [0, 1, 2, 3, 4]


def test_a_lost_request_makes_the_next_one_full() -> None:
    world = World(T0, T1)
    world.fetch(data(0), data(1))
    world.state(T0).move(7)
    states = world.planner.failed(world.plan_one())
    assert {state.tp for state in states} == {T0, T1}
    planned = world.plan_one()
    assert (planned.request.session_id, planned.request.epoch, set(planned.request.send)) == (5, 0, {T0, T1})


def test_before_fetch_12_a_new_leader_is_asked_about_the_epoch_first() -> None:
    """KIP-320, for brokers that do not answer with the diverging epoch."""
    world = World(T0, version=11)
    state = world.state()
    world.fetch(data(0, batch(0)))
    assert state.validated_epoch == 3
    assert len(world.plan()) == 1
    world.learn(snapshot([(2, 4)]))
    assert world.plan() == []
    assert state.state is FetchState.VALIDATING
    assert list(world.planner.lookups) == [state]
    state.validated(4)
    planned = world.plan_one()
    assert (planned.node_id, planned.version) == (2, 11)


def test_closing_ends_every_session() -> None:
    world = World(T0, T1)
    world.learn(snapshot([(1, 3), (2, 3)]))
    first, second = world.plan()
    world.answer(first, response(data(0), session_id=11))
    world.answer(second, response(data(1), session_id=12))
    assert [(node, request.session_id, request.epoch) for node, request in world.planner.closing()] == [
        (1, 11, -1),
        (2, 12, -1),
    ]
    assert list(world.planner.closing()) == []


def test_a_broker_can_be_left_alone_for_a_while() -> None:
    world = World(T0)
    world.answer(world.plan_one(), response(data(0)))
    world.planner.wait(1, world.now + 0.5)
    assert world.plan() == []
    assert world.planner.next_time(world.now) == pytest.approx(world.now + 0.5)
    world.now += 0.5
    assert len(world.plan()) == 1


@pytest.mark.parametrize("epoch", [3, -1])
def test_a_position_in_doubt_of_which_the_records_are_evicted_is_fetched_again(epoch: int) -> None:
    """The question concerned the evicted records, so its answer is ignored."""
    world = World(T0, T1, version=11)
    state = world.state(T0)
    state.move(0, epoch)
    world.hold(state, batch(0, [b"v"] * 3))
    state.received(3, 3)
    world.learn(snapshot([(1, 4), (1, 4), (1, 4)]))
    world.plan()
    assert state in world.planner.lookups
    world.planner.lookups.clear()
    state.looked_up = True
    world.prefetch.evict({T1})
    world.now += 1
    plans = world.plan()
    if epoch < 0:
        assert [planned.asked[T0].fetch_offset for planned in plans] == [0]
    else:
        assert state in world.planner.lookups
        assert (state.fetch_offset, state.fetch_epoch) == (0, epoch)


# --- answers too large to be read -------------------------------------------------------------------------------------


def too_large(world: World, planned: PlannedFetch) -> PartitionState | None:
    """The frame that answers this request exceeds the limit."""
    world.planner.failed(planned)
    return world.planner.too_large(planned)


def test_after_a_frame_that_is_too_large_partitions_are_asked_about_one_by_one() -> None:
    world = World(T0, T1, T2)
    assert too_large(world, world.plan_one()) is None
    planned = world.plan_one()
    assert (list(planned.asked), planned.request.epoch) == ([T0], -1)
    world.answer(planned, response(data(0, batch(0))))
    planned = world.plan_one()
    assert list(planned.asked) == [T1]
    assert too_large(world, planned) is world.state(T1)
    world.state(T1).fail(FrameTooLargeError("too large"))
    planned = world.plan_one()
    assert (list(planned.asked), planned.request.epoch) == ([T2, T0], 0)


def test_one_frame_of_garbage_is_no_reason_to_stop_a_partition() -> None:
    world = World(T0)
    assert too_large(world, world.plan_one()) is None
    world.fetch(data(0, batch(0)))
    assert too_large(world, world.plan_one()) is None
    assert too_large(world, world.plan_one()) is world.state()


def test_a_suspect_that_is_wanted_no_more_is_not_asked_about() -> None:
    world = World(T0, T1)
    assert too_large(world, world.plan_one()) is None
    world.state(T0).pause()
    assert list(world.plan_one().asked) == [T1]
