"""Probes of a producer whose previous transaction is decided, but has no markers yet.

Its coordinator stays in PrepareCommit, or in PrepareAbort, until the leader of one of the transaction's partitions
answers. (Without a leader Kafka 4.3 writes no marker at all, and continues.)
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple

import anyio

from aiokafka_lead import Delivery, Producer
from aiokafka_lead._wire import ApiKey
from aiokafka_lead._wire.messages import create_topics as ct
from aiokafka_lead.errors import KafkaError, error_for_code

from .coordinator_probes import coordinator
from .cut_proxy import CutProxy
from .probes import Answers, World
from .transactions_raw import Transactions

GROUP, TRANSACTION = 0, 1
NoMarkers = Callable[[int], AbstractAsyncContextManager[None]]
"""Keeps markers from the partitions of a broker until the block ends."""


class Place(NamedTuple):
    """A topic of one partition, and its leader."""

    topic: str
    leader: int


async def answers(world: World, no_markers: NoMarkers) -> Answers:
    """Return the answers to each request, by version of transactions and identity, with this client's reactions."""
    await world.look([])
    *others, frozen = sorted(world.addresses)
    stuck, online = await _place(world, "-stuck", [frozen]), await _place(world, "-online", [*others, frozen])
    group = await _elsewhere(world, stuck.leader, GROUP, "group")
    cases = [(v2, committed) for v2 in (False, True) for committed in (False, True)]
    begun = {case: await _begun(world, stuck, *case) for case in cases}
    found: Answers = {}
    deliveries: list[Delivery] = []
    with CutProxy(",".join(world.bootstrap)) as proxy:
        name, _ = await _elsewhere(world, stuck.leader, TRANSACTION, "ours")
        async with Producer(proxy.bootstrap, transactional_id=name, linger_ms=0) as producer:
            await producer.begin_transaction()
            await producer.send_and_wait(stuck.topic, b"a")
            async with anyio.create_task_group() as tasks, no_markers(stuck.leader):
                await producer.commit_transaction()
                await producer.begin_transaction()
                deliveries.append(producer.send_nowait(online.topic, b"never"))
                requests = producer.metrics().requests
                await _until(lambda: producer.metrics().requests > requests)
                tasks.start_soon(producer.abort_transaction)
                await _until(lambda: proxy.asked[ApiKey.END_TXN, 5] >= 2)
                async with anyio.create_task_group() as asking:
                    for case, txn in begun.items():
                        asking.start_soon(_ask, txn, case, online, group, found)
            found["ours"] = producer.transaction_health().phase, await _failures(deliveries)
            async with producer.transaction() as last:
                await last.send(online.topic, b"b")
    return found


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110
        await anyio.sleep(0.01)


async def _failures(deliveries: list[Delivery]) -> list[str]:
    names = []
    for delivery in deliveries:
        try:
            await delivery
        except KafkaError as error:
            names.append(type(error).__name__)
    return names


async def _place(world: World, suffix: str, replicas: list[int]) -> Place:
    """Return a topic on these brokers, led by the first of them."""
    place = Place(world.name(suffix), replicas[0])
    part = ct.CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)
    wanted = ct.CreatableTopic(name=place.topic, num_partitions=-1, replication_factor=-1, assignments=[part])
    created = await world.ask(ct.CreateTopicsRequest(topics=[wanted], timeout_ms=20_000))
    assert created.topics[0].error_code == 0, created.topics[0].error_message
    while (await world.listed(place.topic, -1, place.leader))[0]:  # noqa: ASYNC110
        await anyio.sleep(0.05)
    return place


async def _elsewhere(world: World, broker: int, kind: int, what: str) -> tuple[str, int]:
    """Return a name that another broker coordinates, and the broker."""
    number = 0
    while True:
        number += 1
        name = world.name(f"-{what}-{number}")
        found = await coordinator(world, name, kind)
        if found != broker:
            return name, found


async def _begun(world: World, stuck: Place, v2: bool, committed: bool) -> tuple[Transactions, int]:
    """Begin a transaction with a record; return its epoch."""
    txn = Transactions(world, *await _elsewhere(world, stuck.leader, TRANSACTION, f"{v2}-{committed}"))
    await txn.begin()
    epoch = await txn.begin()
    if not v2:
        assert await txn.add(epoch, stuck.topic) == [0]
    assert await txn.write(*stuck, epoch, 0, version=12 if v2 else 11) == 0
    return txn, epoch


async def _ask(
    begun: tuple[Transactions, int],
    case: tuple[bool, bool],
    online: Place,
    group: tuple[str, int],
    answers: Answers,
) -> None:
    """End the transaction, and send all of its producer's possible requests, in the current and the previous epoch.

    Also with another producer id, as after the last epoch. No request takes effect.
    """
    (txn, epoch), (v2, committed) = begun, case
    end, write, offsets = (5, 12, 5) if v2 else (4, 11, 4)
    txn.patient = False
    ended = await txn.end(epoch, committed=committed, version=end)
    assert ended.error_code == 0
    found: dict[str, int] = {}
    own = txn.producer_id
    identities = {
        "next": (own, epoch + 1 if v2 else epoch),
        "before": (own, epoch),
        "older": (own, epoch - 1),
        "another id": (own + 77_777, 0),
    }
    for when, (producer_id, at) in identities.items():
        txn.producer_id = producer_id
        found[f"{when}: commit"] = (await txn.end(at, committed=True, version=end)).error_code
        found[f"{when}: abort"] = (await txn.end(at, committed=False, version=end)).error_code
        found[f"{when}: write"] = await txn.write(*online, at, 0, version=write)
        found[f"{when}: commit offsets"] = await txn.commit_offset(*group, online.topic, 1, at, version=offsets)
        found[f"{when}: renew"] = (await txn.init(producer_id=txn.producer_id, producer_epoch=at)).error_code
        found[f"{when}: add partitions"] = (await txn.add(at, online.topic))[0]
        found[f"{when}: add offsets"] = await txn.add_offsets(group[0], at)
    found["start"] = (await txn.init()).error_code
    described = await txn.described()
    state = f"{described.transaction_state}, {described.producer_epoch - epoch}"
    said = {what: error_for_code(code).__name__ if code else "" for what, code in found.items()}
    answers[f"{'V2' if v2 else 'V1'}, {'commit' if committed else 'abort'}"] = {"state": state, **said}
