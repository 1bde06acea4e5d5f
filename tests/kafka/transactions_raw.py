"""A transactional producer that sends a probe's requests, and returns the answers."""

from __future__ import annotations

import time
from typing import Any

import anyio

from aiokafka_lead._wire import Request, Response
from aiokafka_lead._wire.messages import add_partitions_to_txn as ap
from aiokafka_lead._wire.messages import txn_offset_commit as tc
from aiokafka_lead._wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from aiokafka_lead._wire.messages.describe_transactions import DescribeTransactionsRequest, TransactionState
from aiokafka_lead._wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from aiokafka_lead._wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from aiokafka_lead._wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from aiokafka_lead.errors import NotEnoughReplicasError
from tests.testing.raw import batch

from .coordinator_probes import LOADING
from .probes import World

CONCURRENT_TRANSACTIONS = 51
_NOT_ENOUGH_REPLICAS = NotEnoughReplicasError.code
"""Produce's error while the coordinator cannot answer, and below version 12 in place of CONCURRENT_TRANSACTIONS."""


class Transactions:
    """Requests of a transactional producer, and their answers."""

    def __init__(self, world: World, transactional_id: str, broker: int) -> None:
        self.world = world
        self.transactional_id = transactional_id
        self.broker = broker
        self.producer_id = -1
        self.patient = True
        """True to wait out answers that only mean "not yet"."""

    async def _ready(self, request: Request[Any], version: int) -> Any:
        """Ask until the previous transaction has ended completely."""
        while True:
            response: Response = await self.world.ask(request, version, broker=self.broker)
            if not self.patient or getattr(response, "error_code", 0) not in (*LOADING, CONCURRENT_TRANSACTIONS):
                return response
            await anyio.sleep(0.05)

    def init_request(self, **fields: Any) -> InitProducerIdRequest:
        return InitProducerIdRequest(
            **{"transactional_id": self.transactional_id, "transaction_timeout_ms": 60_000, **fields}
        )

    async def init(self, *, version: int = 5, **fields: Any) -> InitProducerIdResponse:
        response: InitProducerIdResponse = await self._ready(self.init_request(**fields), version)
        return response

    async def begin(self, **fields: Any) -> int:
        """Take the transactional id; return the epoch."""
        given = await self.init(**fields)
        assert given.error_code == 0
        self.producer_id = given.producer_id
        return given.producer_epoch

    async def resumed(self, producer_id: int, epoch: int, version: int = 5) -> tuple[int, int]:
        response = await self.init(producer_id=producer_id, producer_epoch=epoch, version=version)
        return response.error_code, response.producer_epoch

    async def end(
        self, epoch: int, *, committed: bool, producer_id: int | None = None, version: int = 4
    ) -> EndTxnResponse:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id if producer_id is None else producer_id,
            producer_epoch=epoch,
            committed=committed,
        )
        response: EndTxnResponse = await self._ready(request, version)
        return response

    async def ended(self, epoch: int, *, committed: bool) -> tuple[int, int]:
        """End in the second version; return error and epoch."""
        response = await self.end(epoch, committed=committed, version=5)
        return response.error_code, response.producer_epoch

    async def add(self, epoch: int, *topics: str) -> list[int]:
        wanted = [ap.AddPartitionsToTxnTopic(name=topic, partitions=[0]) for topic in topics]
        request = ap.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=wanted,
        )
        while True:
            response = await self.world.ask(request, 3, broker=self.broker)
            codes = sorted(
                part.partition_error_code
                for topic in response.results_by_topic_v3_and_below
                for part in topic.results_by_partition
            )
            if not self.patient or CONCURRENT_TRANSACTIONS not in codes:
                return codes
            await anyio.sleep(0.05)

    async def write(
        self,
        topic: str,
        leader: int,
        epoch: int,
        sequence: int,
        *,
        version: int,
        transactional: bool = True,
        records: bytes | None = None,
        **fields: Any,
    ) -> int:
        if records is None:
            records = batch(
                b"v",
                producer_id=self.producer_id,
                epoch=epoch,
                sequence=sequence,
                transactional=transactional,
                # The markers' time: a log that jumps in time gets another segment, at which a fetch ends.
                timestamp_ms=time.time_ns() // 1_000_000,
            )
        wanted = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])
        request = ProduceRequest(
            **{
                "transactional_id": self.transactional_id if transactional else None,
                "acks": -1,
                "timeout_ms": 60_000,
                "topic_data": [wanted],
                **fields,
            }
        )
        while True:
            code = (
                (await self.world.ask(request, version, broker=leader)).responses[0].partition_responses[0].error_code
            )
            if not self.patient or code not in (CONCURRENT_TRANSACTIONS, _NOT_ENOUGH_REPLICAS):
                return code
            await anyio.sleep(0.05)

    async def add_offsets(self, group: str, epoch: int, version: int = 4) -> int:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=epoch,
            group_id=group,
        )
        response = await self._ready(request, version)
        return int(response.error_code)

    async def commit_offset(
        self, group: str, broker: int, topic: str, offset: int, epoch: int, *, version: int, **fields: Any
    ) -> int:
        part = tc.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        request = tc.TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=epoch,
            topics=[tc.TxnOffsetCommitRequestTopic(name=topic, partitions=[part])],
            **fields,
        )
        while True:
            code = (await self.world.ask(request, version, broker=broker)).topics[0].partitions[0].error_code
            if not self.patient or code not in (*LOADING, CONCURRENT_TRANSACTIONS):
                return code
            await anyio.sleep(0.05)

    async def described(self) -> TransactionState:
        request = DescribeTransactionsRequest(transactional_ids=[self.transactional_id])
        while True:
            found = (await self.world.ask(request, broker=self.broker)).transaction_states[0]
            if found.error_code not in LOADING:
                return found
            await anyio.sleep(0.05)

    async def state(self) -> tuple[str, int]:
        """Return state and epoch, once the markers are written."""
        while True:
            found = await self.described()
            if not found.transaction_state.startswith("Prepare"):
                return found.transaction_state, found.producer_epoch
            await anyio.sleep(0.05)

    async def until(self, state: str) -> tuple[str, int]:
        while True:
            found = await self.state()
            if found[0] == state:
                return found
            await anyio.sleep(0.05)
