"""One run: applications of every kind and a nemesis, a calm, and the properties that hold throughout and at its end."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import anyio

from aiokafka_lead import Producer, ShareConsumer
from aiokafka_lead.testing import EmbeddedCluster, GroupOptions

from .loop import VirtualLoop
from .nemesis import Nemesis
from .roles import (
    INPUT,
    LOSSY,
    OUTPUT,
    STOPS_WITHIN_S,
    Admin,
    Copier,
    LossyReader,
    LossyWriter,
    Member,
    Reader,
    Role,
    Sharer,
    Writer,
)

SETTLES_WITHIN_S = 40.0
"""Bound from the end of the faults until everything is written, read and handled: sessions of 6 s, locks of 5 s."""

ENDS_WITHIN_S = 15.0
BROKERS = 3

GROUPS = GroupOptions(
    consumer_session_timeout_ms=6000,
    consumer_heartbeat_interval_ms=1000,
    share_session_timeout_ms=6000,
    share_heartbeat_interval_ms=1000,
    share_record_lock_duration_ms=5000,
    share_delivery_count_limit=1000,
)
"""Short sessions; faults count as deliveries, and must not exhaust a record's attempts."""


@dataclass
class Report:
    """Figures of a run."""

    records: int = 0
    settled_s: float = 0.0
    longest_stop_s: float = 0.0
    lives: int = 0
    caused: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    """Errors that applications saw."""


async def whole(seed: int) -> Report:
    """Play applications of every kind under a nemesis. Raises AssertionError if a property does not hold."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return await _Campaign(seed, loop).play()


async def held_stop(seed: int) -> None:
    """Stop a share consumer whose last acknowledgement is not answered: it must not poll meanwhile.

    A fetch that had waited for acknowledgements when the stop began once kept it awake without a pause.
    """
    async with EmbeddedCluster(1, groups=GROUPS, request_log_size=0) as cluster:
        cluster.create_topic(INPUT, partitions=1)
        cluster.shares.configure(Sharer.group_id, {"share.auto.offset.reset": "earliest"})
        async with Producer(cluster.bootstrap_servers) as producer:
            await (await producer.send_many(INPUT, [b"value"] * 1000))  # no fetch is in flight: enough is at hand
        jobs = ShareConsumer(
            INPUT,
            bootstrap_servers=cluster.bootstrap_servers,
            group_id=Sharer.group_id,
            share_acknowledgement_mode="explicit",
        )
        await jobs.start()
        found = await jobs.getmany(timeout_ms=5000, max_records=1)
        [[record]] = found.values()
        await jobs.acknowledge(record)
        cluster.faults.add("ShareAcknowledge", hold=True)
        await jobs.stop(timeout_ms=1500)


class _Campaign:
    def __init__(self, seed: int, loop: VirtualLoop) -> None:
        self._rng = Random(seed)
        self._loop = loop
        self._partitions = self._rng.choice([1, 2, 4])
        self._storm_s = self._rng.choice([3.0, 8.0])
        self._ports = _free_ports()
        self._report = Report()

    async def play(self) -> Report:
        features = {"transaction.version": self._rng.choice([1, 2, 2])}
        ports = [next(self._ports) for _ in range(BROKERS)]
        entrance = next(self._ports)
        async with EmbeddedCluster(
            BROKERS, ports=ports, bootstrap_port=entrance, features=features, groups=GROUPS, request_log_size=0
        ) as cluster:
            for topic in (INPUT, OUTPUT):
                cluster.create_topic(topic, partitions=self._partitions, replication_factor=3)
            cluster.create_topic(LOSSY, partitions=1, replication_factor=3)
            cluster.shares.configure(Sharer.group_id, {"share.auto.offset.reset": "earliest"})
            roles = self._roles(cluster)
            async with anyio.create_task_group() as tasks:
                for role in roles:
                    tasks.start_soon(role.run, name=f"{type(role).__name__} {role.number}")
                faults = anyio.create_task_group()
                nemesis = self._nemesis(cluster, faults, roles)
                async with faults:
                    faults.start_soon(nemesis.run)
                    await anyio.sleep(self._storm_s)
                    faults.cancel_scope.cancel()
                await nemesis.calm()
                self._report.caused = nemesis.caused
                await self._settle(cluster, roles)
                await self._end(roles)
                tasks.cancel_scope.cancel()
            self._check(cluster, roles)
        return self._report

    def _roles(self, cluster: EmbeddedCluster) -> list[Role]:
        rng, roles = self._rng, []
        protocols = {name: rng.choice(["classic", "consumer", "auto"]) for name in ("group", "copy")}
        makers: list[tuple[int, Callable[..., Role], dict[str, Any]]] = [
            (1, Reader, {}),
            (1, Reader, {"topic": OUTPUT}),
            (rng.choice([0, 1, 3]), Member, {"group_id": "group", "protocol": protocols["group"]}),
            (rng.choice([0, 1, 2]), Sharer, {}),
            (rng.choice([0, 1, 2]), Copier, {"protocol": protocols["copy"]}),
            (rng.choice([0, 1]), Admin, {}),
            (rng.choice([1, 2]), Writer, {}),
        ]
        makers += [(1, LossyReader, {}), (1, LossyWriter, {})] if rng.random() < 0.3 else []
        for count, make, options in makers:
            roles += [make(cluster, Random(rng.random()), number, **options) for number in range(count)]
        return roles

    def _nemesis(self, cluster: EmbeddedCluster, faults: Any, roles: list[Role]) -> Nemesis:
        nemesis = Nemesis(cluster, self._loop.network, self._rng, faults, [INPUT, OUTPUT], self._ports)
        nemesis.groups |= dict.fromkeys(("group", "copy", "share"), cluster.move_coordinator)
        for copier in roles:
            if isinstance(copier, Copier):
                nemesis.groups[f"copy-{copier.number}"] = cluster.transactions.move_coordinator
        return nemesis

    # --- the end -----------------------------------------------------------------------------------------------------

    async def _settle(self, cluster: EmbeddedCluster, roles: list[Role]) -> None:
        began = self._loop.time()
        for role in roles:
            role.cancels = False
            if isinstance(role, Writer | LossyWriter | Admin):
                role.end()
        while missing := self._missing(cluster, roles):
            assert self._loop.time() < began + SETTLES_WITHIN_S, f"{SETTLES_WITHIN_S:g} s after the faults: {missing}"
            await anyio.sleep(0.05)
        self._report.settled_s = self._loop.time() - began

    def _missing(self, cluster: EmbeddedCluster, roles: list[Role]) -> str:
        """Return the first work that is not done yet, or an empty string."""
        for role in roles:
            if isinstance(role, Writer) and not all(delivery.done() for _, delivery in role.deliveries):
                return "records have no outcome"
            if isinstance(role, LossyReader) and not role.has_all():
                return "the log that lost records is not read"
            if isinstance(role, Reader) and (left := _left(role, roles, _logs(cluster, INPUT))):
                return f"{left} values are not read from {role.topic}"
        due = {value for values in _logs(cluster, INPUT).values() for value in values}
        for kind in (Member, Sharer):
            members = [role for role in roles if isinstance(role, kind)]
            handled = {value for member in members for value in member.handled}
            if members and not due <= handled:
                return f"{len(due - handled)} values are not handled by a {kind.__name__}"
        return ""

    async def _end(self, roles: list[Role]) -> None:
        """Make all applications stop by themselves."""
        for role in roles:
            role.end()
        until = self._loop.time() + ENDS_WITHIN_S
        names = {f"{type(role).__name__} {role.number}" for role in roles}
        while left := sorted({task.get_name() for task in asyncio.all_tasks(self._loop)} & names):
            assert self._loop.time() < until, f"{left} do not come to their end"
            await anyio.sleep(0.1)

    def _check(self, cluster: EmbeddedCluster, roles: list[Role]) -> None:
        logs = _logs(cluster, INPUT)
        self._report.records = sum(map(len, logs.values()))
        self._report.lives = sum(role.lives for role in roles)
        self._report.longest_stop_s = max(role.longest_stop_s for role in roles)
        for role in roles:
            self._report.errors += role.errors
            assert role.longest_stop_s <= STOPS_WITHIN_S, f"{role}: a stop took {role.longest_stop_s:.1f} s"
            if isinstance(role, Writer):
                _check_written(role, logs)
            elif isinstance(role, Reader):
                _check_read(role, logs)
            elif isinstance(role, Sharer):
                assert not role.again, f"delivered after their acceptance: {role.again}"


def _free_ports() -> Iterator[int]:
    """Return the same ports for each run, since they determine the order of sets, unless another process has them."""
    base = 20_000
    while not _is_free(base):
        base += 1000
    return itertools.count(base + 1)


def _is_free(port: int) -> bool:
    """Return True, and keep the port as long as the process lives, if no other process has it."""
    keeper = socket.socket()
    try:
        keeper.bind(("127.0.0.1", port))
    except OSError:
        keeper.close()
        return False
    _kept.append(keeper)
    return True


_kept: list[socket.socket] = []


def _logs(cluster: EmbeddedCluster, topic: str) -> dict[int, list[Any]]:
    return {
        index: [record.value for record in cluster.records(topic, index)]
        for index in range(cluster.partition_count(topic))
    }


def _left(reader: Reader, roles: list[Role], logs: dict[int, list[Any]]) -> int:
    """Return the number of values of the input that it has not seen, but will."""
    if reader.topic == OUTPUT and not any(isinstance(role, Copier) for role in roles):
        return 0
    return sum(len(set(values) - set(reader.values(index))) for index, values in logs.items())


def _check_read(reader: Reader, logs: dict[int, list[Any]]) -> None:
    """Check that each value of the input was read once: in its order, unless handlers copied it concurrently."""
    for index, values in logs.items():
        found = reader.values(index)
        if reader.topic == INPUT:
            assert found == values, f"partition {index}: read {found}, and written were {values}"
        elif found:
            extra, lacking = Counter(found) - Counter(values), Counter(values) - Counter(found)
            assert (extra, lacking) == ({}, {}), f"partition {index}: copied {extra} too often, {lacking} not"


def _check_written(writer: Writer, logs: dict[int, list[Any]]) -> None:
    """Check that acknowledged values are at their offsets, none is there twice, and lives keep their order."""
    places = {value: (index, offset) for index, values in logs.items() for offset, value in enumerate(values)}
    doubled = [value for values in logs.values() for value, count in Counter(values).items() if count > 1]
    assert not doubled, f"doubled: {doubled}"
    last: dict[tuple[bytes, int], int] = {}
    for value, delivery in writer.deliveries:
        where = places.get(value)
        if delivery.exception() is None:
            result = delivery.result()
            assert where == (result.partition, result.offset), f"{value!r} is at {where}, and not at {result}"
        if where is not None:
            life = value.rpartition(b"/")[0], where[0]
            assert last.get(life, -1) < where[1], f"{value!r} is out of order"
            last[life] = where[1]
