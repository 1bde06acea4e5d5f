"""Faults of brokers and of the network, drawn at random, each for a while; and their end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from random import Random
from typing import Any

import anyio
import anyio.abc

from aiokafka_lead.errors import (
    BrokerError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    PreferredLeaderNotAvailableError,
    RequestTimedOutError,
    ShareSessionNotFoundError,
    UnknownLeaderEpochError,
    UnknownServerError,
)
from aiokafka_lead.testing import EmbeddedCluster, Fault, Hint, RequestRecord
from tests.hostile.answers import changed

from .loop import Network
from .roles import LOSSY

OF_COORDINATORS = (
    "FindCoordinator",
    "JoinGroup",
    "SyncGroup",
    "Heartbeat",
    "ConsumerGroupHeartbeat",
    "ShareGroupHeartbeat",
    "OffsetCommit",
    "OffsetFetch",
    "InitProducerId",
    "AddPartitionsToTxn",
    "TxnOffsetCommit",
    "EndTxn",
)
OF_LEADERS = ("Produce", "Fetch", "ListOffsets", "OffsetForLeaderEpoch", "ShareFetch", "ShareAcknowledge")
OF_ANY = ("Metadata", "ApiVersions", "FindCoordinator")
ERRORS: dict[tuple[str, ...], tuple[type[BrokerError], ...]] = {
    OF_COORDINATORS: (CoordinatorLoadInProgressError, CoordinatorNotAvailableError, NotCoordinatorError),
    OF_LEADERS[:1]: (NotLeaderOrFollowerError, NotEnoughReplicasError, RequestTimedOutError, UnknownServerError),
    OF_LEADERS[1:4]: (NotLeaderOrFollowerError, UnknownLeaderEpochError, UnknownServerError),
    OF_LEADERS[4:]: (NotLeaderOrFollowerError, ShareSessionNotFoundError),
}


class Nemesis:
    """Causes one fault after another until it is cancelled; `calm` ends all."""

    def __init__(
        self,
        cluster: EmbeddedCluster,
        network: Network,
        rng: Random,
        tasks: anyio.abc.TaskGroup,
        topics: list[str],
        ports: Iterator[int],
    ) -> None:
        self._cluster = cluster
        self._network = network
        self._rng = rng
        self._tasks = tasks
        self._topics = topics
        self._ports = ports
        self._per_second = rng.choice([1, 3, 8])
        self._starting = anyio.Lock()
        self.groups: dict[str, Callable[[str], object]] = {}
        """Moves of coordinators, by group or transactional id."""
        self.caused: Counter[str] = Counter()
        self._acts: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (20, self._move_leader),
            (8, self._kill),
            (4, self._shut_down),
            (4, self._move_away),
            (10, self._move_coordinator),
            (6, self._lose_records),
            (6, self._lag),
            (8, self._refuse),
            (6, self._lie),
            (6, self._misname),
            (8, self._lose),
            (8, self._delay),
            (6, self._stall),
            (3, self._be_silent),
            (4, self._throttle),
        ]

    async def run(self) -> None:
        """Cause faults until cancelled."""
        weights = [weight for weight, _ in self._acts]
        while True:
            await anyio.sleep(self._rng.expovariate(self._per_second))
            [(_, act)] = self._rng.choices(self._acts, weights)
            self.caused[act.__name__.strip("_")] += 1
            await act()

    async def calm(self) -> None:
        """End all faults."""
        cluster = self._cluster
        self._network.heal()
        cluster.faults.clear()
        cluster.transactions.marker_delay_ms = 0
        cluster.transactions.write_markers()
        for broker in cluster.broker_ids:
            await self._start(broker)

    # --- helpers -----------------------------------------------------------------------------------------------------

    def _broker(self) -> int:
        return self._rng.choice(self._cluster.broker_ids)

    def _port(self) -> int:
        return int(self._cluster.address(self._broker()).rpartition(":")[2])

    def _for_a_while(self, longest_s: float, end: Callable[[], object]) -> None:
        async def later() -> None:
            await anyio.sleep(self._rng.uniform(0.02, longest_s))
            found: Any = end()
            if found is not None and hasattr(found, "__await__"):
                await found

        self._tasks.start_soon(later)

    def _fault(self, longest_s: float, api: str | None, **effect: Any) -> None:
        fault: Fault = self._cluster.faults.add(api, **effect)
        self._for_a_while(longest_s, fault.remove)

    def _api(self) -> str:
        return self._rng.choice(OF_COORDINATORS + OF_LEADERS + OF_ANY)

    # --- brokers -----------------------------------------------------------------------------------------------------

    async def _move_leader(self) -> None:
        topic = self._rng.choice(self._topics)
        if self._rng.random() < 0.2:
            with suppress(PreferredLeaderNotAvailableError):
                self._cluster.move_all_leaders()
        else:
            partition, gap_ms = (
                self._rng.randrange(self._cluster.partition_count(topic)),
                self._rng.choice([0, 0, 20, 300]),
            )
            with suppress(PreferredLeaderNotAvailableError):
                self._cluster.move_leader(topic, partition, gap_ms=gap_ms)

    async def _kill(self) -> None:
        broker = self._broker()
        await self._cluster.kill_broker(broker, failover_delay_ms=self._rng.choice([0, 50, 1000]))
        self._for_a_while(2.0, lambda: self._start(broker))

    async def _shut_down(self) -> None:
        broker = self._broker()
        await self._cluster.stop_broker(broker, drain_ms=self._rng.choice([0, 20, 200]))
        self._for_a_while(2.0, lambda: self._start(broker))

    async def _start(self, broker: int) -> None:
        async with self._starting:
            await self._cluster.start_broker(broker)

    async def _move_away(self) -> None:
        """Restart a broker at another port."""
        broker = self._broker()
        async with self._starting:
            if self._cluster.is_running(broker):
                await self._cluster.change_address(broker, port=next(self._ports))

    async def _move_coordinator(self) -> None:
        name, move = self._rng.choice(list(self.groups.items()))
        move(name)

    async def _lose_records(self) -> None:
        """An unclean election: the new leader lacks the latest records."""
        end = self._cluster.end_offset(LOSSY)
        self._cluster.truncate(LOSSY, 0, max(0, end - self._rng.choice([1, 3, 20])))

    async def _lag(self) -> None:
        self._cluster.freeze_metadata(self._rng.randint(1, 6), broker=self._rng.choice([None, self._broker()]))

    # --- answers -----------------------------------------------------------------------------------------------------

    async def _refuse(self) -> None:
        """One broker, or all, refuse some or all requests of one kind."""
        apis = self._rng.choice(list(ERRORS))
        share = self._rng.choice([0.1, 0.5, 1.0])
        self._fault(
            3.0,
            self._rng.choice(apis),
            broker=self._rng.choice([None, self._broker(), self._broker()]),
            error_code=self._rng.choice(ERRORS[apis]),
            when=lambda record: self._rng.random() < share,
        )

    async def _lie(self) -> None:
        """A broker names any leader at any epoch."""
        epoch = self._rng.choice([None, 0, 1, 10**6])
        endpoint: Any = self._rng.choice([None, None, ("127.0.0.1", 9), ()])
        hint = Hint(self._broker(), epoch, endpoint)
        self._fault(
            1.5,
            self._rng.choice(["Produce", "Fetch"]),
            broker=self._broker(),
            error_code=NotLeaderOrFollowerError,
            hint=hint,
        )

    async def _misname(self) -> None:
        """A broker names another broker, or itself, as every coordinator."""
        named = self._broker()
        asked: list[RequestRecord] = []
        host, _, port = self._cluster.address(named).rpartition(":")

        def concerns(record: RequestRecord) -> bool:
            asked[:] = [record]
            return True

        def change(answer: Any) -> None:
            for each in answer.coordinators or [answer]:
                if not each.error_code:
                    each.node_id, each.host, each.port = named, host, int(port)

        self._fault(
            4.0,
            "FindCoordinator",
            broker=self._broker(),
            after=True,
            when=concerns,
            garbage=lambda answer: changed(asked[0], answer, change),
        )

    async def _lose(self) -> None:
        """A connection breaks at a request, before or after it has taken effect."""
        self._fault(2.0, self._api(), disconnect=True, after=self._rng.random() < 0.5, count=self._rng.choice([1, 3]))

    async def _delay(self) -> None:
        self._fault(
            2.0,
            self._api(),
            delay_ms=self._rng.choice([20, 200, 1500]),
            after=self._rng.random() < 0.5,
            count=self._rng.choice([1, 20]),
        )

    async def _throttle(self) -> None:
        self._fault(1.0, self._api(), throttle_time_ms=self._rng.choice([10, 500]), count=3)

    # --- the network -------------------------------------------------------------------------------------------------

    async def _stall(self) -> None:
        """No bytes arrive at a broker, or from it, for a while; connections stay open."""
        port, ways = self._port(), self._rng.choice([(True,), (False,), (True, False)])
        self._network.stalled |= {(port, way) for way in ways}

        def end() -> None:
            self._network.stalled -= {(port, way) for way in ways}
            for connection in self._network.ends:
                connection.resume_way()

        self._for_a_while(4.0, end)

    async def _be_silent(self) -> None:
        """Connects to a broker get no answer."""
        port = self._port()
        self._network.silent.add(port)
        self._for_a_while(3.0, lambda: self._network.silent.discard(port))
