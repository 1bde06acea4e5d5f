"""Grouping of producers' requests to a broker: together, in time, and by connection."""

from __future__ import annotations

from collections.abc import Callable

from aiokafka_lead._core.producer.outbox import FEW, SLOW_S, Outbox, Parcel, Part
from aiokafka_lead._core.producer.produce import BatchesRequest
from aiokafka_lead._wire.messages.produce import ProduceRequest
from aiokafka_lead.errors import KafkaConnectionError, KafkaError

WAY = "the first connection"
SLOWLY_S = 4 * SLOW_S


def request(*partitions: int, transactional_id: str | None = None) -> BatchesRequest:
    made = BatchesRequest(acks=-1, timeout_ms=30_000, transactional_id=transactional_id)
    made.topics = [(b"t", [(partition, memoryview(b"records")) for partition in partitions])]
    return made


def parcel(owner: str, *partitions: int, transactional_id: str | None = None, way: object = WAY) -> Parcel:
    wanted: ProduceRequest = request(*partitions, transactional_id=transactional_id)
    return Parcel(way, 12, Part(owner, wanted, lambda response, error: None, lambda error: None))


def owners(parcel: Parcel | None) -> str:
    return "" if parcel is None else "".join(str(part.owner) for part in parcel.parts)


class World:
    """An outbox, its first connection, and the additional ones."""

    def __init__(self) -> None:
        self.outbox = Outbox()
        self.now = 0.0
        self.under_way: list[tuple[Parcel, bool]] = []

    def add(self, *parcels: Parcel) -> None:
        for each in parcels:
            self.outbox.add(each, self.now)

    def send(self, *, beside: bool = False) -> str:
        """Send the next request if any may leave; return its owners."""
        first = self.outbox.first(self.now, beside=beside)
        if first is not None:
            self.outbox.left(first, self.now, beside=beside)
            self.under_way.append((first, beside))
        return owners(first)

    def answer(self, after_s: float) -> None:
        """Answer all requests in flight."""
        self.now += after_s
        for sent, beside in self.under_way:
            self.outbox.ended(sent, self.now, beside=beside)
        self.under_way.clear()

    def takes(self, owner: str, *, way_free: bool = False) -> bool:
        return self.outbox.takes(owner, way_free, self.now)

    def wants_connection(self, coming: int = 0) -> bool:
        return self.outbox.wants_connection(coming, self.now)


def slow_world() -> World:
    """Return a world whose broker has been slow with the requests of a, b and c, which write to one partition."""
    world = World()
    world.add(parcel("a", 0), parcel("b", 0), parcel("c", 0))
    assert world.send() == "a"
    world.now += SLOWLY_S
    assert world.send(beside=True) == "b"
    assert world.send(beside=True) == "c"
    world.answer(SLOWLY_S)
    return world


def test_requests_leave_together_unless_they_have_the_same_partition() -> None:
    world = World()
    world.add(parcel("a", 0, 1), parcel("b", 2), parcel("c", 1), parcel("d", 3))
    assert [world.send(), world.send(), world.send()] == ["abd", "c", ""]


def test_transactions_and_requests_for_another_connection_leave_by_themselves() -> None:
    world = World()
    world.add(parcel("a", 0), parcel("b", 1, transactional_id="b"), parcel("c", 2, way="the next one"))
    assert [world.send(), world.send(), world.send()] == ["a", "b", "c"]


def test_requests_of_one_producer_stay_in_order() -> None:
    world = World()
    world.add(parcel("a", 0), parcel("b", 0, 1), parcel("b", 1))
    assert [world.send(), world.send(), world.send()] == ["a", "b", "b"]
    world = World()
    world.add(parcel("a", 0), parcel("b", 0), parcel("b", 1))
    assert [world.send(), world.send()] == ["a", "b"]


def test_a_producer_hands_over_one_request_at_a_time() -> None:
    world = World()
    assert world.takes("a", way_free=True)
    world.add(parcel("a", 0))
    assert not world.takes("a", way_free=True)
    assert world.takes("b")  # to leave together with that one
    world.send()
    assert world.takes("a", way_free=True)
    assert not world.takes("b")


def test_a_quick_broker_s_outbox_stays_short() -> None:
    world = World()
    world.add(parcel("a", 0), parcel("b", 0))
    assert not world.takes("c", way_free=True)


def test_a_quick_broker_gets_nothing_beside() -> None:
    world = World()
    for _ in range(20):
        world.add(parcel("a", 0), parcel("b", 0))
        assert (world.send(), world.send()) == ("a", "b")
        world.answer(SLOW_S / 10)
    world.add(parcel("a", 0), parcel("b", 0))
    world.send()
    assert not world.wants_connection()


def test_what_waits_for_a_broker_that_does_not_answer_soon_goes_beside() -> None:
    world = World()
    world.add(parcel("a", 0), parcel("b", 0), parcel("c", 0))
    world.send()
    assert not world.wants_connection()
    assert world.outbox.slow_at() == SLOW_S
    world.now = SLOW_S
    assert world.wants_connection(0)
    assert world.wants_connection(1)
    assert not world.wants_connection(2)  # no longer waiting
    assert (world.send(beside=True), world.send(beside=True)) == ("b", "c")


def test_a_producer_that_competed_goes_beside_at_once_while_the_broker_is_slow() -> None:
    world = slow_world()
    world.add(parcel("a", 0))
    assert world.send() == "a"
    assert world.takes("b")
    assert not world.takes("x")  # may leave with the next request on the first connection
    world.add(parcel("b", 0))
    assert world.send() == ""  # not behind a while another connection may open
    assert world.send(beside=True) == "b"


def test_one_that_finds_no_connection_beside_goes_behind_others() -> None:
    world = slow_world()
    world.add(parcel("a", 0))
    world.send()
    world.add(parcel("b", 0))
    world.now += SLOW_S
    assert world.send() == "b"


def test_a_producer_is_on_one_connection_at_a_time() -> None:
    world = slow_world()
    world.add(parcel("a", 0), parcel("b", 0))
    assert (world.send(), world.send(beside=True)) == ("a", "b")
    assert not world.takes("b", way_free=True)  # on an additional connection
    world.add(parcel("a", 1), parcel("b", 2))  # as threads that compress deliver them
    assert world.send(beside=True) == ""
    assert world.send() == "a"
    world.answer(SLOWLY_S)
    assert world.send() == "b"


def test_those_of_a_joint_request_that_may_go_beside_do() -> None:
    world = slow_world()
    world.add(parcel("a", 0))
    world.send()
    world.add(parcel("a", 1), parcel("b", 2))
    assert world.send(beside=True) == "b"
    assert world.send() == "a"


def test_requests_of_transactions_compete_with_all_others() -> None:
    world = slow_world()
    world.add(parcel("x", 5))
    world.send()
    world.add(parcel("t", 6, transactional_id="t"))
    assert world.send() == ""
    assert world.send(beside=True) == "t"


def test_a_broker_that_is_quick_again_gets_all_on_one_connection() -> None:
    world = slow_world()
    for _ in range(20):
        world.add(parcel("a", 0))
        world.send()
        world.answer(SLOW_S / 100)
    world.add(parcel("b", 0))
    assert world.send() == "b"
    assert not world.takes("c")


def test_more_go_beside_as_long_as_that_makes_none_slower() -> None:
    assert beside_after(10, lambda number: SLOWLY_S) >= 50


def test_few_go_beside_where_each_makes_the_others_slower() -> None:
    assert beside_after(10, lambda number: SLOW_S * (1 + number)) <= 2 * FEW


def beside_after(rounds: int, took_s: Callable[[int], float]) -> int:
    """Return how many of 60 competing requests use additional connections after these rounds.

    ``took_s`` gives the time that a round takes, by its number.
    """
    world = slow_world()
    beside = 0
    for _ in range(rounds):
        world.add(*(parcel(f"p{number}", 0) for number in range(60)))
        world.send()
        beside = 0
        while world.wants_connection() and world.send(beside=True):
            beside += 1
        world.answer(took_s(beside))
        while world.send():
            world.answer(SLOWLY_S)
    return beside


def test_nothing_of_a_producer_that_has_ended_stays() -> None:
    world = slow_world()
    world.add(parcel("b", 0))
    world.send()
    world.answer(SLOWLY_S)
    world.outbox.forget("b")
    world.add(parcel("a", 0))
    world.send()
    assert not world.takes("b")


def test_each_producer_hears_how_its_request_ended() -> None:
    heard: list[str] = []

    def part(owner: str, partition: int) -> Parcel:
        def on_done(response: object, error: KafkaError | None) -> None:
            heard.append(f"{owner} done")

        def unsent(error: KafkaError) -> None:
            heard.append(f"{owner} unsent")

        return Parcel(WAY, 12, Part(owner, request(partition), on_done, unsent))

    outbox = Outbox()
    outbox.add(part("a", 0), 0.0)
    outbox.add(part("b", 1), 0.0)
    both = outbox.first(0.0, beside=False)
    assert both is not None
    both.done(None, KafkaConnectionError("lost"))
    both.refused(KafkaConnectionError("not sent"))
    assert heard == ["a done", "b done", "a unsent", "b unsent"]
