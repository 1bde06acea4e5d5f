"""The fetches of several consumers merged into one session: the request, and each consumer's part of the answer."""

from __future__ import annotations

from itertools import pairwise
from uuid import UUID

import pytest

from aiokafka_lead._core.backoff import Backoff
from aiokafka_lead._core.consumer.fetch_plan import BESIDE_AFTER_S, PlannedFetch
from aiokafka_lead._core.consumer.fetch_session import MergedSession, SessionRequest, TopicUse
from aiokafka_lead._core.consumer.merged_ask import AWAY_AFTER_S, Answered, MergedRequest
from aiokafka_lead._core.consumer.merged_fetch import PATIENCE_S, PROBE_AGAIN_S, MergedFetches
from aiokafka_lead._core.consumer.position import PartitionFetch
from aiokafka_lead._wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from aiokafka_lead.errors import FetchSessionIdNotFoundError, KafkaConnectionError
from aiokafka_lead.types import TopicPartition

TOPIC = UUID(int=1)
P0, P1, P2 = (TopicPartition("t", number) for number in range(3))
HOLD_S = 5.0
LATER = BESIDE_AFTER_S + 0.001


def at(offset: int) -> PartitionFetch:
    return PartitionFetch(TOPIC, offset, 0, 0)


class Reader:
    """A consumer with its own session, and the answers that it received."""

    def __init__(self, merged: MergedFetches) -> None:
        self.merged = merged
        self.session = MergedSession()
        self.got: list[Answered] = []

    def answered(self, answered: Answered, /) -> None:
        self.got.append(answered)

    def ask(self, now: float, *drop: TopicPartition, max_bytes: int = 100, **places: int) -> None:
        """Ask for these positions: ``p0=5`` is partition 0 from offset 5."""
        changed = {TopicPartition("t", int(name[1:])): at(offset) for name, offset in places.items()}
        request = self.session.incremental(changed, drop)
        planned = PlannedFetch(1, 17, False, request, self.session.known, {}, max_bytes, now)
        answered = self.merged.ask(self, planned, now)
        if answered is not None:
            self.answered(answered)

    def partitions(self) -> list[list[tuple[int, bytes | None]]]:
        """Return the partitions of each answer, with their records."""
        return [
            [
                (data.partition_index, None if data.records is None else bytes(data.records))
                for topic in answered.response.responses
                for data in topic.partitions
            ]
            for answered in self.got
            if answered.response is not None
        ]


def answer(*partitions: tuple[int, bytes], session_id: int = 7, error_code: int = 0) -> FetchResponse:
    data = [PartitionData(partition_index=n, high_watermark=9, records=memoryview(b)) for n, b in partitions]
    topics = [FetchableTopicResponse(topic_id=TOPIC, partitions=data)] if data else []
    return FetchResponse(session_id=session_id, responses=topics, error_code=error_code)


class World:
    def __init__(self) -> None:
        self.merged = MergedFetches(HOLD_S, 0.5, 1000, Backoff(100, 1000, lambda: 0.5))
        self.now = 0.0

    def reader(self) -> Reader:
        return Reader(self.merged)

    def main(self) -> MergedRequest:
        assert self.merged.main_due(self.now)
        sent = self.merged.main(17, self.now)
        assert sent is not None
        return sent

    def tell(self, sent: MergedRequest, response: FetchResponse) -> None:
        for answered in self.merged.answered(sent, response, self.now):
            answered.owner.answered(answered)


@pytest.fixture
def world() -> World:
    return World()


def opened(world: World, *readers: Reader) -> None:
    """Open the session with the positions that the readers ask for."""
    sent = world.main()
    world.tell(sent, answer(*((tp.partition, b"") for tp in sent.asked)))
    for reader in readers:
        reader.got.clear()
        reader.ask(world.now)


def test_one_request_asks_for_all_and_each_gets_its_own(world: World) -> None:
    one, other = world.reader(), world.reader()
    one.ask(0, p0=5, max_bytes=100)
    other.ask(0, p1=7, max_bytes=200)
    sent = world.main()
    assert sent.request == SessionRequest(0, 0, {P0: at(5), P1: at(7)}, [])
    assert sent.max_bytes == 300
    assert not world.merged.main_due(0)
    world.tell(sent, answer((0, b"a"), (1, b"b")))
    assert one.partitions() == [[(0, b"a")]]
    assert other.partitions() == [[(1, b"b")]]
    assert not world.merged.main_due(0)  # until one asks again
    one.ask(0, p0=6)
    assert not world.merged.main_due(0)  # the other one is about to ask
    assert world.merged.next_time(0) == PATIENCE_S
    world.now = PATIENCE_S
    assert world.main().request == SessionRequest(7, 1, {P0: at(6)}, [TopicUse(TOPIC, P1)])


def test_a_consumer_that_has_not_asked_yet_stays_in_the_session_and_gets_what_came(world: World) -> None:
    one, other = world.reader(), world.reader()
    one.ask(0, p0=5)
    other.ask(0, p1=7, p2=9)
    world.tell(world.main(), answer((0, b"a"), (1, b"b"), (2, b"")))
    one.ask(0, p0=6)
    world.now = PATIENCE_S
    sent = world.main()
    assert sent.request.forget == [TopicUse(TOPIC, P1)]
    assert sent.asked[P2] == at(9)
    world.tell(sent, answer((2, b"c")))
    assert other.partitions() == [[(1, b"b"), (2, b"")]]
    one.ask(world.now)
    world.now += PATIENCE_S
    assert P2 not in world.main().asked  # fetched partitions are not fetched again
    other.ask(world.now, p1=8)
    assert other.partitions()[1:] == [[(2, b"c")]]


def test_nothing_is_fetched_for_a_consumer_that_does_not_ask_again(world: World) -> None:
    one, other = world.reader(), world.reader()
    one.ask(0, p0=5)
    other.ask(0, p1=7, p2=9)
    world.tell(world.main(), answer((0, b""), (1, b"b"), (2, b"")))
    one.ask(0)
    world.now = AWAY_AFTER_S
    assert world.main().request.forget == [TopicUse(TOPIC, P1), TopicUse(TOPIC, P2)]
    other.ask(world.now, p1=8)
    world.now += LATER
    assert world.merged.probe_due(world.now)
    probe = world.merged.probe(17, world.now)
    assert probe is not None
    assert probe.asked == {P1: at(8), P2: at(9)}


def test_who_asks_for_the_same_again_gets_it_again(world: World) -> None:
    one = world.reader()
    one.ask(0, p0=5)
    world.tell(world.main(), answer((0, b"a")))
    one.ask(0)
    assert world.main().asked == {P0: at(5)}


def test_who_gets_nothing_is_not_woken_and_stays_in_the_session(world: World) -> None:
    one, other = world.reader(), world.reader()
    one.ask(0, p0=5)
    other.ask(0, p1=7)
    opened(world, one, other)
    sent = world.main()
    world.tell(sent, answer((0, b"a")))
    assert (len(one.got), len(other.got)) == (1, 0)
    one.ask(0, p0=6)
    assert world.main().request == SessionRequest(7, 2, {P0: at(6)}, [])


def test_an_ask_that_was_open_for_long_is_answered_with_nothing(world: World) -> None:
    one = world.reader()
    one.ask(0, p0=5)
    opened(world, one)
    for world.now in (1.0, HOLD_S - 1, HOLD_S):
        world.tell(world.main(), answer())
    assert one.partitions() == [[]]


def test_two_at_the_same_place_share_what_is_fetched(world: World) -> None:
    one, other = world.reader(), world.reader()
    one.ask(0, p0=5)
    other.ask(0, p0=5)
    sent = world.main()
    assert sent.request.send == {P0: at(5)}
    world.tell(sent, answer((0, b"a")))
    assert one.partitions() == other.partitions() == [[(0, b"a")]]


def test_who_comes_to_a_place_that_is_fetched_already_learns_how_far_the_log_goes(world: World) -> None:
    one, other = world.reader(), world.reader()
    one.ask(0, p0=5)
    opened(world, one)
    world.main()
    other.ask(0, p0=5)
    ((partition, records),) = other.partitions()[0]
    assert (partition, records) == (0, None)
    answered = other.got[0].response
    assert answered is not None
    assert answered.responses[0].partitions[0].high_watermark == 9
    other.ask(0)
    assert not world.merged.probe_due(LATER)  # the request in flight is its own, too


def test_what_is_asked_for_meanwhile_is_probed_and_joins_the_session(world: World) -> None:
    one, other = world.reader(), world.reader()
    one.ask(0, p0=5)
    opened(world, one)
    main = world.main()
    other.ask(0, p1=7)
    assert not world.merged.probe_due(0)  # the main request may soon return
    assert world.merged.next_time(0) == BESIDE_AFTER_S
    world.now = LATER
    assert world.merged.probe_due(LATER)
    probe = world.merged.probe(17, LATER)
    assert probe is not None
    assert (probe.request, probe.max_bytes) == (SessionRequest(0, -1, {P1: at(7)}, []), 100)
    world.tell(probe, answer((1, b""), session_id=0))
    assert not other.got
    assert not world.merged.probe_due(LATER)
    assert world.merged.next_time(LATER) == LATER + PROBE_AGAIN_S
    world.tell(main, answer())
    assert world.main().request.send == {P1: at(7)}
    assert not world.merged.probe_due(10)


def test_a_probe_that_brings_records_is_followed_by_the_next(world: World) -> None:
    one, other = world.reader(), world.reader()
    one.ask(0, p0=5)
    opened(world, one)
    world.main()
    world.now = LATER
    for offset in range(7, 10):
        other.ask(LATER, p1=offset)
        assert world.merged.probe_due(LATER)
        probe = world.merged.probe(17, LATER)
        assert probe is not None
        assert probe.asked == {P1: at(offset)}
        world.tell(probe, answer((1, b"x"), session_id=0))
    assert other.partitions() == [[(1, b"x")]] * 3


def test_two_places_of_a_partition_take_turns(world: World) -> None:
    one, other = world.reader(), world.reader()
    one.ask(0, p0=5)
    other.ask(0, p0=900)
    asked = []
    for _ in range(4):
        sent = world.main()
        asked.append(sent.asked[P0].fetch_offset)
        world.now += LATER
        assert world.merged.probe_due(world.now)
        probe = world.merged.probe(17, world.now)
        assert probe is not None
        assert {sent.asked[P0].fetch_offset, probe.asked[P0].fetch_offset} == {5, 900}
        world.tell(probe, answer((0, b""), session_id=0))
        world.tell(sent, answer(*([(0, b"")] if sent.request.epoch == 0 else [])))
        for reader in (one, other):
            if reader.got:
                reader.got.clear()
                reader.ask(world.now)
    assert sorted(asked) == [5, 5, 900, 900]


def test_probes_of_a_place_without_records_become_rare(world: World) -> None:
    one, other = world.reader(), world.reader()
    one.ask(0, p0=5)
    opened(world, one)
    world.main()
    other.ask(0, p1=7)
    times: list[float] = []
    while len(times) < 6:
        due = world.merged.next_time(world.now)
        assert due is not None
        world.now = due
        probe = world.merged.probe(17, world.now)
        assert probe is not None
        world.tell(probe, answer((1, b""), session_id=0))
        times.append(world.now)
    waits = [later - earlier for earlier, later in pairwise(times)]
    assert waits == pytest.approx([0.04, 0.08, 0.16, 0.25, 0.25])


def test_a_recalled_ask_is_not_answered(world: World) -> None:
    one = world.reader()
    one.ask(0, p0=5, p1=6)
    sent = world.main()
    world.merged.recall(one, 0)
    world.tell(sent, answer((0, b"a"), (1, b"b")))
    assert not one.got
    one.ask(0, P1, p0=5)
    assert one.partitions() == [[(0, b"a")]]  # it arrived meanwhile, and is still wanted
    one.ask(0, p0=6)
    assert world.main().request == SessionRequest(7, 1, {P0: at(6)}, [TopicUse(TOPIC, P1)])


def test_who_leaves_is_forgotten(world: World) -> None:
    one, other = world.reader(), world.reader()
    one.ask(0, p0=5, p1=1)
    other.ask(0, p1=1)
    opened(world, one, other)
    world.merged.leave(one)
    assert world.main().request.forget == [TopicUse(TOPIC, P0)]
    world.merged.leave(other)
    assert world.merged.idle
    closing = world.merged.close()
    assert closing is not None
    assert closing.session_id == 7


def test_what_a_lost_connection_does(world: World) -> None:
    one, late = world.reader(), world.reader()
    one.ask(0, p0=5)
    opened(world, one)
    sent = world.main()
    late.ask(0, p1=7)
    error = KafkaConnectionError("gone")
    told = world.merged.failed(sent, error, 0)
    assert [(answered.owner, answered.error) for answered in told] == [(one, error), (late, error)]
    one.ask(0)
    late.ask(0)
    assert world.main().request == SessionRequest(7, 0, {P0: at(5), P1: at(7)}, [])  # all positions are kept


def test_a_session_that_the_broker_does_not_know_begins_anew_and_nobody_is_told(world: World) -> None:
    one = world.reader()
    one.ask(0, p0=5)
    opened(world, one)
    code = FetchSessionIdNotFoundError.code
    world.tell(world.main(), answer(session_id=0, error_code=code))
    assert not one.got
    sent = world.main()
    assert sent.request == SessionRequest(0, 0, {P0: at(5)}, [])
    world.tell(sent, answer(session_id=0, error_code=code))
    assert not world.merged.main_due(0.05)  # twice in a row: a backoff
    assert world.merged.next_time(0.05) == pytest.approx(0.1)
    assert world.merged.main_due(0.11)


def test_an_answer_is_no_larger_than_a_frame_may_be(world: World) -> None:
    readers = [world.reader() for _ in range(20)]
    for number, reader in enumerate(readers):
        reader.ask(0, **{f"p{number}": 0})
    assert world.main().max_bytes == 1000
