"""Faults drawn at random."""

from __future__ import annotations

from functools import partial

from tests.simulated.codes import REBOOTSTRAP_REQUIRED
from tests.simulated.partition import Partition
from tests.simulated.timeline import Event, Timeline

from .cluster import NOWHERE, Cluster, FaultyBroker, Refusal


class Storm:
    """Cause accidents in succession, until the storm ends."""

    def __init__(self, timeline: Timeline, cluster: Cluster, per_second: float, *, addresses_change: bool) -> None:
        self._timeline = timeline
        self._rng = timeline.rng
        self._cluster = cluster
        self._per_second = per_second
        self._addresses_change = addresses_change
        self._blowing = False
        self._accidents = [
            (30, self._move),
            (15, self._die),
            (4, self._replace_all),
            (6, self._freeze),
            (8, self._disconnect),
            (14, self._lie),
            (10, self._lag),
            (2, self._ask_for_rebootstrap),
        ]

    def blow(self) -> None:
        """Begin the storm."""
        self._blowing = True
        self._next()

    def end(self) -> None:
        """Heal everything at once."""
        self._blowing = False
        self._cluster.calm()

    def _next(self) -> None:
        if self._blowing:
            weights = [weight for weight, _ in self._accidents]
            [(_, accident)] = self._rng.choices(self._accidents, weights)
            accident()
            self._timeline.later(self._rng.expovariate(self._per_second), self._next)

    def _broker(self) -> FaultyBroker:
        return self._rng.choice(list(self._cluster.brokers.values()))

    def _for_a_while(self, longest_s: float, end: Event) -> None:
        self._timeline.later(self._rng.uniform(0.05, longest_s), end)

    # --- accidents ---------------------------------------------------------------------------------------------------

    def _move(self) -> None:
        chosen = self._cluster.partitions
        if self._rng.random() < 0.7:
            chosen = [self._rng.choice(chosen)]
        for partition in chosen:
            self._cluster.move(partition)

    def _die(self) -> None:
        broker = self._broker()
        self._cluster.kill(broker, self._rng.uniform(0, 0.2))
        elsewhere = self._addresses_change and self._rng.random() < 0.5
        self._for_a_while(1.5, partial(self._cluster.restart, broker, elsewhere=elsewhere))

    def _replace_all(self) -> None:
        """Move all brokers; only the bootstrap name stays."""
        for broker in self._cluster.brokers.values():
            self._cluster.kill(broker, 0.05)
            self._for_a_while(1.0, partial(self._cluster.restart, broker, elsewhere=self._addresses_change))

    def _freeze(self) -> None:
        broker = self._broker()
        broker.freeze()
        self._for_a_while(3.0, broker.thaw)

    def _disconnect(self) -> None:
        self._cluster.disconnect(self._broker())

    def _lag(self) -> None:
        broker = self._broker()
        broker.stale = self._cluster.view(broker)

        def end() -> None:
            broker.stale = None

        self._for_a_while(2.0, end)

    def _ask_for_rebootstrap(self) -> None:
        broker = self._broker()
        broker.metadata_error = REBOOTSTRAP_REQUIRED

        def end() -> None:
            broker.metadata_error = 0

        self._for_a_while(0.3, end)

    def _lie(self) -> None:
        broker = self._broker()
        broker.lie = self._rng.choice([self._anybody, self._ever_newer, self._wrong_address, self._incomplete])

        def end() -> None:
            broker.lie = None

        self._for_a_while(1.5, end)

    # --- lies --------------------------------------------------------------------------------------------------------

    def _anybody(self, partition: Partition) -> Refusal:
        leader = self._broker()
        return Refusal(leader.broker_id, partition.epoch + self._rng.randint(-1, 1), leader.endpoint)

    def _ever_newer(self, partition: Partition) -> Refusal:
        """Each refusal names a newer epoch than any before."""
        leader = self._broker()
        epoch = partition.epoch + round((self._timeline.now - 999) * 1e6)
        return Refusal(leader.broker_id, epoch, leader.endpoint)

    def _wrong_address(self, partition: Partition) -> Refusal:
        return Refusal(self._broker().broker_id, partition.epoch + self._rng.randint(0, 1), NOWHERE)

    def _incomplete(self, partition: Partition) -> Refusal:
        return self._rng.choice([Refusal(), Refusal(1, -1), Refusal(-1, partition.epoch + 1), Refusal(77, 10**6)])
