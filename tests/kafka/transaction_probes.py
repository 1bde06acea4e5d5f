"""Requests about transactions of both versions (KIP-98, KIP-890), as in `probes`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio

from aiokafka_lead._wire.messages import describe_producers as dp
from aiokafka_lead._wire.messages import fetch as f
from aiokafka_lead._wire.messages import list_offsets as lo
from aiokafka_lead._wire.messages import list_transactions as lt
from aiokafka_lead._wire.messages import offset_fetch as of
from aiokafka_lead._wire.messages import update_features as uf
from aiokafka_lead._wire.messages import write_txn_markers as wm
from aiokafka_lead._wire.messages.api_versions import ApiVersionsRequest
from tests.testing.raw import batch

from .coordinator_probes import coordinator
from .probes import Answers, World
from .transactions_raw import Transactions

_ASK = ApiVersionsRequest(client_software_name="probe", client_software_version="1")
FEATURE = "transaction.version"


async def transactional(world: World, suffix: str = "-tx") -> Transactions:
    name = world.name(suffix)
    return Transactions(world, name, await coordinator(world, name, 1))


async def open_transaction(world: World, topic: str, leader: int) -> tuple[Transactions, int]:
    """Open a transaction of the second version with a record in it, and an epoch above 0."""
    txn = await transactional(world, "-open")
    await txn.begin()
    epoch = await txn.begin()
    assert await txn.write(topic, leader, epoch, 0, version=12) == 0
    return txn, epoch


async def transactions(world: World) -> Answers:
    """Version 1, and the step to version 2."""
    topic, other = world.name("-transactions"), world.name("-other")
    leader, _, _ = await world.topic(topic)
    other_leader, _, _ = await world.topic(other)
    txn = await transactional(world)
    first = await txn.init()
    txn.producer_id = first.producer_id
    second = await txn.init()
    answers: Answers = {
        "init": (first.error_code, first.producer_epoch),
        "init again": (second.error_code, second.producer_epoch, second.producer_id == first.producer_id),
        "no timeout": (await txn.init(transaction_timeout_ms=0)).error_code,
        "long timeout": (await txn.init(transaction_timeout_ms=10**8)).error_code,
        "no id": (await txn.init(transactional_id="")).error_code,
    }
    answers["resumed"] = await txn.resumed(txn.producer_id, 1)
    answers["resumed again"] = await txn.resumed(txn.producer_id, 1)
    answers["resumed by somebody"] = await txn.resumed(txn.producer_id + 999, 0)
    answers["resumed, old epoch"] = await txn.resumed(txn.producer_id, 0)
    answers["resumed, old epoch, 3"] = await txn.resumed(txn.producer_id, 0, version=3)
    epoch = 2
    answers["end of nothing"] = (await txn.end(epoch, committed=True)).error_code
    answers["abort of nothing"] = (await txn.end(epoch, committed=False)).error_code
    answers["end by somebody"] = (await txn.end(epoch, committed=True, producer_id=999)).error_code
    answers["end, old epoch"] = (await txn.end(epoch - 1, committed=True)).error_code
    answers["end, old epoch, 1"] = (await txn.end(epoch - 1, committed=True, version=1)).error_code
    answers["end, epoch to come"] = (await txn.end(epoch + 1, committed=True)).error_code
    answers["add, no topic"] = await txn.add(epoch, topic, world.name("-none"))
    answers["add, old epoch"] = await txn.add(epoch - 1, topic)
    answers["add"] = await txn.add(epoch, topic)
    answers["write"] = await txn.write(topic, leader, epoch, 0, version=11)
    answers["write elsewhere"] = await txn.write(other, other_leader, epoch, 0, version=11)
    answers["write elsewhere, 10"] = await txn.write(other, other_leader, epoch, 0, version=10)
    answers["write outside"] = await txn.write(topic, leader, epoch, 1, version=11, transactional=False)
    answers["commit"] = [(await txn.end(epoch, committed=True)).error_code for _ in range(2)]
    answers["abort after it"] = (await txn.end(epoch, committed=False)).error_code
    answers["the last write again"] = await txn.write(topic, leader, epoch, 0, version=11)
    answers["add again"] = await txn.add(epoch, topic)
    answers["write again"] = await txn.write(topic, leader, epoch, 1, version=11)
    answers["abort"] = (await txn.end(epoch, committed=False)).error_code
    # The second version of transactions (KIP-890). A new epoch first: it is assigned when the abort's marker is in the
    # log, and a write in flight while the marker arrives may be refused.
    answers["resumed after it"] = await txn.resumed(txn.producer_id, epoch)
    epoch += 1
    answers["write, 12"] = await txn.write(topic, leader, epoch, 0, version=12)
    for attempt in (1, 2):
        answers[f"commit, 5, {attempt}"] = await txn.ended(epoch, committed=True)
    answers["write, old epoch"] = await txn.write(topic, leader, epoch, 1, version=12)
    answers["abort of nothing, 5"] = await txn.ended(epoch + 1, committed=False)
    answers["commit of nothing, 5"] = await txn.ended(epoch + 2, committed=True)
    return answers


async def second_version(world: World) -> Answers:
    """Changes of KIP-890: every end has a new epoch, and writes begin transactions."""
    topic, other = world.name("-second"), world.name("-other")
    leader, _, _ = await world.topic(topic)
    other_leader, _, _ = await world.topic(other)
    txn = await transactional(world)
    epoch = await txn.begin()
    answers: Answers = {"commit of nothing": await txn.ended(epoch, committed=True)}
    answers["abort of nothing"] = await txn.ended(epoch, committed=False)
    answers["and again"] = await txn.ended(epoch, committed=False)
    answers["commit instead"] = await txn.ended(epoch, committed=True)
    epoch += 1
    answers["after it"] = await txn.state()
    answers["first sequence 1"] = await txn.write(topic, leader, epoch, 1, version=12)
    # Refused, but part of the transaction.
    answers["after a refused write"] = await txn.state()
    answers["sequence 0"] = await txn.write(topic, leader, epoch, 0, version=12)
    answers["sequence 0 again"] = await txn.write(topic, leader, epoch, 0, version=12)
    answers["sequence 2"] = await txn.write(topic, leader, epoch, 2, version=12)
    answers["sequence 1"] = await txn.write(topic, leader, epoch, 1, version=12)
    answers["broken records"] = await txn.write(
        other,
        other_leader,
        epoch,
        0,
        version=12,
        records=batch(b"v", producer_id=txn.producer_id, epoch=epoch, sequence=0, transactional=True)[:-1] + b"\xff",
    )
    found = await txn.described()
    answers["part of it"] = sorted(data.topic == other for data in found.topics)
    answers["write, epoch before"] = await txn.write(other, other_leader, epoch - 1, 0, version=12)
    answers["write, epoch to come"] = await txn.write(other, other_leader, epoch + 1, 0, version=12)
    records = batch(b"v", producer_id=txn.producer_id + 77_777, epoch=0, sequence=0, transactional=True)
    answers["write by somebody"] = await txn.write(other, other_leader, 0, 0, version=12, records=records)
    records = batch(b"v", producer_id=txn.producer_id, epoch=epoch, sequence=0, transactional=True)
    answers["write without id"] = await txn.write(
        other, other_leader, 0, 0, version=12, records=records, transactional_id=None
    )
    answers["write, unknown id"] = await txn.write(
        other, other_leader, 0, 0, version=12, records=records, transactional_id=world.name("-unknown")
    )
    answers["end, epoch before"] = [await txn.ended(epoch - 1, committed=committed) for committed in (True, False)]
    answers["end, epoch to come"] = [await txn.ended(epoch + 1, committed=committed) for committed in (True, False)]
    answers["end by somebody"] = (await txn.end(epoch, committed=True, producer_id=999, version=5)).error_code
    answers["end, no id"] = (await _named(txn, "").end(epoch, committed=True, version=5)).error_code
    unknown = await transactional(world, "-unknown")
    answers["end, unknown id"] = (await unknown.end(epoch, committed=True, version=5)).error_code
    answers["commit"] = [await txn.ended(epoch, committed=True) for _ in range(2)]
    answers["crossed"] = await txn.ended(epoch, committed=False)
    answers["two epochs before"] = await txn.ended(epoch - 1, committed=True)
    answers["commit of nothing after it"] = await txn.ended(epoch + 1, committed=True)
    answers["abort of nothing after it"] = await txn.ended(epoch + 1, committed=False)
    epoch += 2
    answers["write, 12"] = await txn.write(topic, leader, epoch, 0, version=12)
    # A transaction of version 2 that ends in version 1: the epoch stays, and so do the sequence numbers.
    answers["end of version 1"] = [(await txn.end(epoch, committed=True)).error_code for _ in range(2)]
    answers["crossed in version 1"] = (await txn.end(epoch, committed=False)).error_code
    answers["the last write again"] = await txn.write(topic, leader, epoch, 0, version=12)
    answers["the next write"] = await txn.write(topic, leader, epoch, 1, version=12)
    answers["abort"] = await txn.ended(epoch, committed=False)
    answers["crossed again"] = await txn.ended(epoch, committed=True)
    answers["at last"] = await txn.state()
    return answers


def _named(txn: Transactions, transactional_id: str) -> Transactions:
    """Return the same producer under another transactional id."""
    named = Transactions(txn.world, transactional_id, txn.broker)
    named.producer_id = txn.producer_id
    return named


async def transactional_offsets(world: World) -> Answers:
    topic, group = world.name("-offsets"), world.name("-group")
    await world.topic(topic)
    broker = await coordinator(world, group)
    txn = await transactional(world)
    epoch = await txn.begin()

    async def commit(offset: int, at: int, version: int, **fields: Any) -> int:
        return await txn.commit_offset(group, broker, topic, offset, at, version=version, **fields)

    async def position(*, stable: bool) -> tuple[int, int]:
        wanted = of.OffsetFetchRequestGroup(
            group_id=group, topics=[of.OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
        )
        response = await world.ask(of.OffsetFetchRequest(groups=[wanted], require_stable=stable), 9, broker=broker)
        found = response.groups[0].topics[0].partitions[0]
        return found.error_code, found.committed_offset

    answers: Answers = {f"not added, {version}": await commit(5, epoch, version) for version in (3, 4)}
    answers["add, old epoch"] = [await txn.add_offsets(group, epoch - 1, version) for version in (1, 4)]
    answers["add"] = await txn.add_offsets(group, epoch)
    answers["commit"] = await commit(5, epoch, 3)
    answers["commit, old epoch"] = [await commit(5, epoch - 1, version) for version in (3, 4, 5)]
    answers["pending"] = [await position(stable=stable) for stable in (False, True)]
    answers["end"] = (await txn.end(epoch, committed=True)).error_code
    answers["its state"] = await txn.state()
    answers["committed"] = [await position(stable=stable) for stable in (False, True)]
    # The second version: a commit adds the group, even if the group refuses it.
    answers["unknown member"] = await commit(6, epoch, 5, member_id="nobody", generation_id_or_member_epoch=3)
    answers["after it"] = await txn.state()
    answers["commit, 5"] = await commit(7, epoch, 5)
    answers["no such topic"] = await txn.commit_offset(group, broker, world.name("-no"), 1, epoch, version=5)
    answers["aborted"] = await txn.ended(epoch, committed=False)
    answers["the state then"] = await txn.state()
    answers["position then"] = await position(stable=True)
    answers["commit, epoch before"] = await commit(8, epoch, 5)
    answers["commit by somebody"] = await _commit_by_somebody(txn, group, broker, topic)
    answers["no group"] = await txn.commit_offset("", broker, topic, 1, epoch, version=5)
    return answers


async def _commit_by_somebody(txn: Transactions, group: str, broker: int, topic: str) -> int:
    somebody = _named(txn, txn.transactional_id)
    somebody.producer_id += 77_777
    return await somebody.commit_offset(group, broker, topic, 1, 0, version=5)


async def taken_over(world: World) -> Answers:
    """Probe transactions that time out, and that another producer takes over, in the finalized version."""
    topic = world.name("-taken")
    leader, _, _ = await world.topic(topic)
    answers: Answers = {}
    for name, version in (("1", 11), ("2", 12)):
        txn = await transactional(world, f"-over-{name}")

        async def open_one(epoch: int, txn: Transactions = txn, version: int = version) -> None:
            if version < 12:
                assert await txn.add(epoch, topic) == [0]
            assert await txn.write(topic, leader, epoch, 0, version=version) == 0

        async def open_for(timeout_ms: int, txn: Transactions = txn) -> int:
            """Open a transaction with a short timeout that even a slow machine can open in time; return its epoch."""
            epoch = await txn.begin(transaction_timeout_ms=timeout_ms)
            try:
                await open_one(epoch)
            except AssertionError:
                return await open_for(5 * timeout_ms) if timeout_ms < 10_000 else -1
            return epoch

        def end(epoch: int, *, committed: bool, txn: Transactions = txn, version: int = version) -> Any:
            return txn.end(epoch, committed=committed, version=4 if version < 12 else 5)

        epoch = await txn.begin()
        await open_one(epoch)
        answers[f"{name}: init in between"] = (await world.ask(txn.init_request(), 5, broker=txn.broker)).error_code
        answers[f"{name}: its state"] = await txn.state()
        answers[f"{name}: init then"] = (await txn.init()).producer_epoch
        answers[f"{name}: who was before ends"] = (await end(epoch, committed=True)).error_code
        answers[f"{name}: who was before resumes"] = await txn.resumed(txn.producer_id, epoch)
        answers[f"{name}: who was before writes"] = await txn.write(topic, leader, epoch, 1, version=version)

        epoch = await txn.begin()
        await open_one(epoch)
        request = txn.init_request(producer_id=txn.producer_id, producer_epoch=epoch)
        answers[f"{name}: resumed in between"] = (await world.ask(request, 5, broker=txn.broker)).error_code
        answers[f"{name}: its state then"] = await txn.state()
        answers[f"{name}: resumed then"] = await txn.resumed(txn.producer_id, epoch)

        for committed in (False, True):
            epoch = await open_for(300)
            state, after = await txn.until("CompleteAbort")
            answers[f"{name}: timed out, {committed}"] = state, after - epoch
            ended = await end(epoch, committed=committed)
            answers[f"{name}: ended late, {committed}"] = ended.error_code, ended.producer_epoch - epoch
            answers[f"{name}: added late, {committed}"] = await txn.add(epoch, topic)
            answers[f"{name}: written late, {committed}"] = await txn.write(topic, leader, epoch, 1, version=version)
            code, resumed = await txn.resumed(txn.producer_id, epoch)
            answers[f"{name}: resumed late, {committed}"] = code, resumed - epoch if code == 0 else resumed
    return answers


@asynccontextmanager
async def level(world: World, wanted: int) -> AsyncIterator[None]:
    """Set the finalized transaction.version to another level; restore 2 afterwards."""
    try:
        await set_level(world, wanted)
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await set_level(world, 2)


async def set_level(world: World, wanted: int) -> None:
    """Finalize a level of transaction.version, and wait until every broker knows it."""
    update = uf.FeatureUpdateKey(feature=FEATURE, max_version_level=wanted, upgrade_type=2 if wanted < 2 else 1)
    response = await world.ask(uf.UpdateFeaturesRequest(feature_updates=[update]))
    assert response.error_code == 0, response.error_message
    for broker in world.addresses:
        while await finalized(world, broker) != wanted:  # noqa: ASYNC110
            await anyio.sleep(0.05)


async def finalized(world: World, broker: int) -> int:
    response = await world.ask(_ASK, broker=broker)
    levels = {feature.name: feature.max_version_level for feature in response.finalized_features}
    return levels.get(FEATURE, 0)


async def taken_over_below(world: World) -> Answers:
    """Probe the same before the second version is finalized."""
    await world.topic(world.name("-addresses"))
    async with level(world, 1):
        return await taken_over(world)


async def features(world: World) -> Answers:
    async def update(level: int, kind: int = 1, name: str = FEATURE, version: int = 2) -> tuple[Any, ...]:
        wanted = uf.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
        request = uf.UpdateFeaturesRequest(feature_updates=[wanted], validate_only=version > 0)
        response = await world.ask(request, version)
        return response.error_code, [(each.error_code, each.error_message) for each in response.results]

    answers: Answers = {}
    for version in (3, 4):
        versions = await world.ask(_ASK, version)
        answers[f"supported, {version}"] = [
            (each.min_version, each.max_version) for each in versions.supported_features if each.name == FEATURE
        ]
        answers[f"finalized, {version}"] = [
            each.max_version_level for each in versions.finalized_features if each.name == FEATURE
        ]
    answers["lower"] = await update(1)
    answers["lower safely"] = await update(1, 2)
    answers["lower safely, 1"] = await update(1, 2, version=1)
    answers["too high"] = await update(3)
    answers["the same"] = await update(2)
    answers["unknown"] = await update(1, name="no.such.feature")
    answers["lower, 0"] = await update(1, version=0)
    return answers


async def described(world: World) -> Answers:
    """Probe the views that operators have of transactions and producers, and the end of a hanging one (KIP-664)."""
    topic = world.name("-described")
    leader, follower, _ = await world.topic(topic)
    txn = await transactional(world)
    epoch = await txn.begin()
    answers: Answers = {}

    async def producers(broker: int = leader, name: str = topic) -> Any:
        wanted = dp.TopicRequest(name=name, partition_indexes=[0])
        response = await world.ask(dp.DescribeProducersRequest(topics=[wanted]), broker=broker)
        found = response.topics[0].partitions[0]
        return found.error_code, [
            (
                each.producer_id == txn.producer_id,
                each.producer_epoch,
                each.last_sequence,
                each.coordinator_epoch >= 0,
                each.current_txn_start_offset,
                each.last_timestamp > 0,
            )
            for each in found.active_producers
        ]

    async def listed(version: int = 2, **fields: Any) -> Any:
        response = await world.ask(lt.ListTransactionsRequest(**fields), version, broker=txn.broker)
        return (
            response.error_code,
            response.unknown_state_filters,
            [
                (each.transaction_state, each.producer_id == txn.producer_id)
                for each in response.transaction_states
                if each.transactional_id == txn.transactional_id
            ],
        )

    async def describe() -> Any:
        found = await txn.described()
        topics = [(data.topic == topic, data.partitions) for data in found.topics]
        return (
            found.transaction_state,
            found.transaction_timeout_ms,
            found.transaction_start_time_ms > 0,
            found.producer_id == txn.producer_id,
            found.producer_epoch,
            topics,
        )

    async def ends() -> Any:
        """Probe the log's ends, and the aborted transactions reported to a consumer of committed records."""
        stable = []
        for isolation in (0, 1):
            part = lo.ListOffsetsPartition(partition_index=0, timestamp=-1)
            request = lo.ListOffsetsRequest(
                replica_id=-1,
                isolation_level=isolation,
                topics=[lo.ListOffsetsTopic(name=topic, partitions=[part])],
            )
            stable.append((await world.ask(request, 10, broker=leader)).topics[0].partitions[0].offset)
        wanted = f.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000_000)
        fetch = f.FetchRequest(
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=1_000_000,
            isolation_level=1,
            topics=[f.FetchTopic(topic=topic, partitions=[wanted])],
        )
        data = (await world.ask(fetch, 12, broker=leader)).responses[0].partitions[0]
        aborted = [(each.producer_id == txn.producer_id, each.first_offset) for each in data.aborted_transactions or []]
        return stable, data.last_stable_offset, len(bytes(data.records or b"")) > 0, aborted

    async def mark(at: int, *, broker: int = leader, name: str = topic, version: int = 1, **fields: Any) -> int:
        marker = wm.WritableTxnMarker(
            producer_id=txn.producer_id,
            producer_epoch=at,
            transaction_result=False,
            topics=[wm.WritableTxnMarkerTopic(name=name, partition_indexes=[0])],
            **{"coordinator_epoch": 1000, **fields},
        )
        response = await world.ask(wm.WriteTxnMarkersRequest(markers=[marker]), version, broker=broker)
        return response.markers[0].topics[0].partitions[0].error_code

    answers["new"] = await describe()
    answers["new, listed"] = await listed()
    answers["new, listed by duration"] = await listed(duration_filter=0)
    answers["producers before"] = await producers()
    answers["write"] = await txn.write(topic, leader, epoch, 0, version=12)
    await anyio.sleep(0.01)
    answers["open"] = await describe()
    filters: list[dict[str, Any]] = [
        {"state_filters": ["Ongoing"]},
        {"state_filters": ["Empty", "Odd"]},
        {"producer_id_filters": [txn.producer_id]},
        {"producer_id_filters": [txn.producer_id + 1]},
        {"duration_filter": 0},
        {"duration_filter": 100_000},
        {"transactional_id_pattern": ".*-tx"},
        {"transactional_id_pattern": "probe"},
        {"transactional_id_pattern": ""},
        {"transactional_id_pattern": "("},
    ]
    answers["open, listed"] = [await listed(**fields) for fields in filters]
    answers["producers"] = [await producers(broker) for broker in (leader, follower)]
    answers["producers, no topic"] = await producers(name=world.name("-none"))
    answers["ends while it is open"] = await ends()
    answers["commit"] = await txn.ended(epoch, committed=True)
    answers["committed"] = await txn.state(), await producers(), await ends()
    answers["committed, described"] = await describe()
    answers["committed, by duration"] = await listed(duration_filter=0)
    epoch += 1
    answers["write on"] = await txn.write(topic, leader, epoch, 0, version=12)
    answers["ends then"] = await ends()
    answers["marked, no topic"] = await mark(epoch, name=world.name("-none"))
    answers["marked at a follower"] = await mark(epoch, broker=follower)
    answers["marked, old epoch"] = await mark(epoch - 1)
    answers["marked, old coordinator"] = await mark(epoch, coordinator_epoch=-1)
    answers["marked, own epoch"] = await mark(epoch, version=2, transaction_version=2)
    answers["still open"] = (await ends())[:2]
    answers["marked"] = [await mark(epoch) for _ in range(2)]
    answers["ends after it"] = await ends()
    answers["producers after it"] = await producers()
    answers["the coordinator"] = await txn.state()
    answers["unknown id"] = (await (await transactional(world, "-unknown")).described()).error_code
    answers["empty id"] = (await _named(txn, "").described()).error_code
    return answers


PROBES = [transactions, second_version, transactional_offsets, taken_over, taken_over_below, features, described]
