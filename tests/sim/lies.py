"""Faults in which brokers answer wrongly, until the fault is ended."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

from tests.simulated.codes import (
    NOT_ENOUGH_REPLICAS,
    NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    NOT_LEADER_OR_FOLLOWER,
    OFFSET_NOT_AVAILABLE,
    OFFSET_OUT_OF_RANGE,
    REPLICA_NOT_AVAILABLE,
    REQUEST_TIMED_OUT,
    UNKNOWN_LEADER_EPOCH,
    UNKNOWN_SERVER_ERROR,
)
from tests.simulated.timeline import Timeline

from .cluster import BOOTSTRAP, NOWHERE, Cluster, FaultyBroker, Refusals
from .dial import Route

PRODUCE_REFUSALS = (REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND)
READ_REFUSALS = (UNKNOWN_LEADER_EPOCH, UNKNOWN_SERVER_ERROR, OFFSET_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER)
FOLLOWER_REFUSALS = (*READ_REFUSALS, REPLICA_NOT_AVAILABLE, OFFSET_OUT_OF_RANGE)


class Nemesis:
    """Causes one lie at a time, during which correct answers remain available.

    The leaders keep working, and some broker that all clients know names the leader.
    """

    def __init__(self, timeline: Timeline, cluster: Cluster, known: Callable[[], Collection[int]]) -> None:
        """``known``: the brokers that all clients know of."""
        self._timeline = timeline
        self._known = known
        self._rng = timeline.rng
        self._cluster = cluster
        lies = [
            self.deposed,
            self.deposed_late,
            self.recovering,
            self.old_leaders,
            self.denied_topic,
            self.no_brokers,
            self.wrong_address,
            self.misled,
            self.name_astray,
        ]
        if cluster.nearest is not None:
            lies += [
                self.follower_refuses_connections,
                self.follower_is_silent,
                self.follower_answers_errors,
                self.follower_is_frozen,
            ]
        self.lies: dict[str, Callable[[], None]] = {lie.__name__.replace("_", " "): lie for lie in lies}
        """Lies by name."""

    def end(self) -> None:
        """Let all brokers answer correctly."""
        self._cluster.calm()

    # --- leaders -----------------------------------------------------------------------------------------------------

    def deposed(self) -> None:
        """A leader that is cut off from its cluster refuses everything; other brokers lead in its place."""
        self._depose(self._refusing((*PRODUCE_REFUSALS, UNKNOWN_SERVER_ERROR)))

    def deposed_late(self) -> None:
        """The same, but the cluster notices it late."""
        broker = self._refusing(PRODUCE_REFUSALS)

        def notice() -> None:
            if broker.refuses is not None:
                self._depose(broker)

        self._timeline.later(self._rng.uniform(0, 4), notice)

    def recovering(self) -> None:
        """A leader refuses everything for a while."""
        self._refusing(PRODUCE_REFUSALS)

    def _refusing(self, produce: Sequence[int]) -> FaultyBroker:
        """Make a leader refuse."""
        broker = self._cluster.brokers[self._rng.choice(self._cluster.partitions).leader]
        # Some brokers always return the same error, others the error of whichever check fails first.
        some = self._rng.choice([1, 1, 3])
        broker.refuses = Refusals(self._rng.sample(produce, some), self._rng.sample(READ_REFUSALS, some))
        if self._rng.random() < 0.5:
            broker.stale = self._cluster.view(broker)
        return broker

    def _depose(self, broker: FaultyBroker) -> None:
        for partition in self._cluster.partitions:
            if partition.leader == broker.broker_id:
                self._cluster.move(partition)

    # --- metadata ----------------------------------------------------------------------------------------------------

    def old_leaders(self) -> None:
        """Brokers repeat metadata from before leaders moved, or one died."""
        liars = self._liars()
        for liar in liars:
            liar.stale = self._cluster.view(liar)
        self._rearrange(liars)

    def denied_topic(self) -> None:
        """Brokers do not know the topic; most leaders move meanwhile. If three deny a topic, clients believe them."""
        liars = self._liars(at_most=2)
        for liar in liars:
            liar.stale = self._cluster.view(liar)[0], None
        self._rearrange(liars)

    def no_brokers(self) -> None:
        """Brokers list no brokers, not even themselves."""
        liars = self._liars()
        for liar in liars:
            liar.stale = [], self._cluster.view(liar)[1]
        self._rearrange(liars)

    def wrong_address(self) -> None:
        """Brokers give old addresses of other brokers, with no broker or another one behind them.

        One broker knows better and is at its own address; if all known addresses are wrong, only the bootstrap servers
        help.
        """
        endpoints = [broker.endpoint for broker in self._cluster.brokers.values()]
        liars = self._liars()
        honest = self._rng.choice([broker for broker in self._cluster.running() if broker not in liars])
        wrong = {
            broker.broker_id: self._rng.choice([NOWHERE, *endpoints])
            for broker in self._cluster.brokers.values()
            if broker is not honest and self._rng.random() < 0.6
        }
        for liar in liars:
            nodes, leaders = self._cluster.view(liar)
            liar.stale = [(node, wrong.get(node, endpoint)) for node, endpoint in nodes], leaders

    def misled(self) -> None:
        """One broker leads everything from a new address, which only the bootstrap servers' name resolves to.

        All other brokers keep their old metadata, list no brokers, or list no leaders.
        """
        leader = self._cluster.brokers[self._rng.choice(self._cluster.eligible())]
        for liar in self._cluster.brokers.values():
            nodes, leaders = self._cluster.view(liar)
            assert leaders is not None
            leaderless = [(-1, epoch) for _, epoch in leaders]
            liar.stale = self._rng.choice([(nodes, leaders), ([], leaders), (nodes, leaderless)])
        leader.stale = None
        self._cluster.kill(leader, 0)
        self._cluster.restart(leader, elsewhere=True)
        self._cluster.entrance = leader
        for partition in self._cluster.partitions:
            if partition.leader != leader.broker_id:
                self._cluster.elect(partition, leader.broker_id)

    def _liars(self, at_most: int = 4) -> list[FaultyBroker]:
        """Return any broker that the clients do not know."""
        running = self._cluster.running()
        witness = self._rng.choice([broker for broker in running if broker.broker_id in self._known()] or running)
        others = [broker for broker in running if broker is not witness]
        return self._rng.sample(others, self._rng.randint(1, min(at_most, len(others))))

    def _rearrange(self, liars: list[FaultyBroker]) -> None:
        known = self._known()
        honest = [broker for broker in self._cluster.running() if broker not in liars]
        witnesses = [broker for broker in honest if broker.broker_id in known]
        # Keep the last broker that clients know: no other broker could inform them.
        mortal = honest if len(witnesses) > 1 else [broker for broker in honest if broker not in witnesses]
        if len(honest) > 1 and mortal and self._rng.random() < 0.4:
            self._cluster.kill(self._rng.choice(mortal), self._rng.uniform(0, 0.2))
        for partition in self._cluster.partitions:
            if self._rng.random() < 0.7:
                self._cluster.move(partition)

    # --- the way to brokers ------------------------------------------------------------------------------------------

    def name_astray(self) -> None:
        """Not each address of the bootstrap servers' name leads to a broker, and brokers may move."""
        self._cluster.routes[BOOTSTRAP] = self._rng.choices(list(Route), k=self._rng.randint(1, 3))
        if self._rng.random() < 0.5:
            for broker in self._cluster.brokers.values():
                self._cluster.kill(broker, 0.05)
                self._timeline.later(
                    self._rng.uniform(0.05, 0.5), partial(self._cluster.restart, broker, elsewhere=True)
                )

    # --- followers ---------------------------------------------------------------------------------------------------

    def follower_refuses_connections(self) -> None:
        """The broker in the clients' rack cannot be connected to, but leaders still name it."""
        self._cut_off(Route.REFUSED)

    def follower_is_silent(self) -> None:
        """The same, and connects to it get no answer at all."""
        self._cut_off(Route.SILENT)

    def _cut_off(self, route: Route) -> None:
        follower = self._follower()
        self._cluster.routes[follower.endpoint] = [route]
        self._cluster.disconnect(follower)

    def follower_answers_errors(self) -> None:
        """The follower accepts connections, but returns no records."""
        some = self._rng.choice([1, 1, 3])
        self._follower().refuses = Refusals(PRODUCE_REFUSALS, self._rng.sample(FOLLOWER_REFUSALS, some))

    def follower_is_frozen(self) -> None:
        """The follower no longer answers."""
        self._follower().freeze()

    def _follower(self) -> FaultyBroker:
        assert self._cluster.nearest is not None
        return self._cluster.brokers[self._cluster.nearest]
