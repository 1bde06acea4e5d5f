"""Detection of stuck partitions, with the reason."""

from __future__ import annotations

from aiokafka_lead._core.consumer.health import Standstill

from .fetch_world import T0, T1, World, batch, data, response, snapshot

LIMIT_S = 3.0


class Watched:
    """A consumer's partitions, with an application that reads all the time."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.unreachable: dict[int, str] = {}
        self.waiting = True
        self.waited_s = 0.0
        self.standstill = Standstill(LIMIT_S, lambda state: state.high_watermark, self.unreachable.get)

    def after(self, seconds: float, *, taken: int = 0) -> dict[str, str]:
        """Let time pass; return the reason for each stuck partition."""
        world = self.world
        self.look(taken)
        world.now += seconds
        self.look(taken)
        return {str(tp): why for tp, why in self.standstill.found(world.snapshot, world.now).items()}

    def look(self, taken: int) -> None:
        world = self.world
        if self.waiting:
            self.waited_s = world.now
        self.standstill.look(list(world.positions), world.snapshot, world.now, (taken, self.waited_s))


def behind() -> World:
    """Return the state of a partition whose available records do not arrive."""
    world = World(T0)
    world.fetch(data(0, high_watermark=5))
    return world


def test_a_partition_that_is_read_to_its_end_is_not_stuck() -> None:
    world = World(T0)
    world.fetch(data(0, high_watermark=0))
    assert Watched(world).after(100) == {}


def test_answers_without_the_records_that_are_there() -> None:
    watched = Watched(behind())
    assert watched.after(LIMIT_S - 0.1) == {}
    found = watched.after(0.2)
    assert list(found) == ["t-0"]
    assert "broker 1 returns no records, although the log ends at offset 5" in found["t-0"]


def test_progress_begins_the_time_again() -> None:
    watched = Watched(behind())
    assert watched.after(2) == {}
    watched.world.fetch(data(0, batch(0), high_watermark=5))
    watched.world.read()
    assert watched.after(2) == {}
    assert watched.after(1.5) != {}


def test_refusals_name_the_broker_and_its_error() -> None:
    world = World(T0, T1)
    planned = world.plan_one()
    world.answer(planned, response(data(0, error=75), data(1, high_watermark=0)))
    found = Watched(world).after(4)
    assert list(found) == ["t-0"]
    assert "broker 1 has refused 1 requests in 4.0 s, most recently with UnknownLeaderEpochError" in found["t-0"]


def test_a_leader_that_cannot_be_reached_and_none_at_all() -> None:
    watched = Watched(World(T0))
    watched.unreachable[1] = "connection refused"
    assert "broker 1 cannot be reached: connection refused" in watched.after(4)["t-0"]
    watched.world.learn(snapshot([(-1, 4)]))
    assert "no known leader" in watched.after(4)["t-0"]


def test_nobody_reads_or_the_partition_is_paused_or_read_ahead() -> None:
    watched = Watched(behind())
    watched.waiting = False
    assert watched.after(100) == {}
    # Records handed out prove that the application reads, even without a waiting call.
    assert watched.after(1, taken=1) == {}
    assert watched.after(1.5, taken=2) == {}
    assert watched.after(1, taken=3) != {}
    watched.world.state().pause()
    watched.look(4)
    assert watched.after(4, taken=5) == {}
