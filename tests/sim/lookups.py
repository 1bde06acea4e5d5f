"""A reader's positions without tasks: ListOffsets for missing positions, OffsetForLeaderEpoch for doubtful ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from aiokafka_lead._core.consumer.offset_lookup import (
    LookupAnswer,
    by_leader,
    epoch_end_request,
    list_offsets_request,
    read_epoch_ends,
    read_listed_offsets,
)
from aiokafka_lead._core.consumer.partition_state import FetchState, PartitionState
from aiokafka_lead._core.consumer.reset_policy import EARLIEST_TIMESTAMP
from aiokafka_lead._core.metadata.refresh import LEADERLESS, doubted, lost, refused
from aiokafka_lead.errors import KafkaConnectionError, KafkaError
from tests.core.fetch_world import World

from .client import SimClient
from .cluster import Cluster

if TYPE_CHECKING:
    from .links import Link

Asked = dict[PartitionState, int]
"""Partitions that one request is about, and their incarnations when it was sent."""
Ask = Callable[["Link", int, Asked], None]


class Lookups:
    """`PositionKeeper` for a reader without a group."""

    def __init__(self, client: SimClient, cluster: Cluster, world: World) -> None:
        self._client = client
        self._cluster = cluster
        self._world = world

    def begin(self, states: Iterable[PartitionState]) -> None:
        """Ask the leaders of these partitions."""
        listed = [state for state in states if state.state is FetchState.RESETTING]
        self._by_leader(listed, self._list)
        self._by_leader([state for state in states if state not in listed], self._validate)

    def _by_leader(self, states: list[PartitionState], ask: Ask) -> None:
        by_tp = {state.tp: state for state in states}
        leaders, leaderless = by_leader(by_tp, self._client.snapshot)
        if leaderless:
            self._client.request_update(LEADERLESS)
        for node_id, partitions in leaders.items():
            asked = {by_tp[tp]: by_tp[tp].incarnation for tp in partitions}
            for state in asked:
                state.looked_up = True
            self._when_ready(node_id, self._client.timeline.now, asked, ask)

    def _when_ready(self, node_id: int, since: float, asked: Asked, ask: Ask) -> None:
        """Wait for a connection, which is attempted only once."""
        broker = self._client.snapshot.brokers.get(node_id)
        link = self._client.links.ready(node_id, "control")
        if link is not None:
            ask(link, node_id, asked)
        elif broker is None or self._client.links.reachability.failed_since((broker.host, broker.port), since):
            self._lost(node_id, asked, KafkaConnectionError("no connection"))
        else:
            self._client.timeline.later(0.001, lambda: self._when_ready(node_id, since, asked, ask))

    def _list(self, link: Link, node_id: int, asked: Asked) -> None:
        timestamps = {state.tp: EARLIEST_TIMESTAMP for state in asked}
        request = list_offsets_request(timestamps, self._client.snapshot, read_committed=False, timeout_ms=1000)

        def done(response: Any, error: KafkaError | None) -> None:
            if error is not None:
                self._lost(node_id, asked, error)
                return
            answer = read_listed_offsets(response, timestamps)
            for state in self._current(asked):
                found = answer.found.get(state.tp)
                if found is None:
                    self._failed(state)
                else:
                    state.move(found.offset)
            self._end(node_id, asked, answer)

        link.submit(lambda peer, reply: reply(self._cluster.list_offsets(peer, request)), done)

    def _validate(self, link: Link, node_id: int, asked: Asked) -> None:
        snapshot = self._client.snapshot
        request = epoch_end_request({state.tp: state.fetch_epoch for state in asked}, snapshot)

        def done(response: Any, error: KafkaError | None) -> None:
            if error is not None:
                self._lost(node_id, asked, error)
                return
            answer = read_epoch_ends(response)
            for state in self._current(asked):
                found = answer.found.get(state.tp)
                if found is None:
                    self._failed(state)
                else:
                    leader_epoch = snapshot.leader(*state.tp)[1]
                    self._world.answers.epoch_ended(state, found.end_offset, found.leader_epoch, leader_epoch)
            self._end(node_id, asked, answer)

        link.submit(lambda peer, reply: reply(self._cluster.epoch_ends(peer, request)), done)

    def _current(self, asked: Asked) -> list[PartitionState]:
        return [state for state, incarnation in asked.items() if state.incarnation == incarnation]

    def _failed(self, state: PartitionState) -> None:
        leader_epoch = self._client.snapshot.leader(*state.tp)[1]
        state.back_off(self._client.timeline.now, leader_epoch, self._world.retry)

    def _lost(self, node_id: int, asked: Asked, error: KafkaError) -> None:
        for state in self._current(asked):
            self._failed(state)
        if error.refreshes_metadata:
            self._client.request_update(lost(node_id))
        self._client.woken = True

    def _end(self, node_id: int, asked: Asked, answer: LookupAnswer[Any]) -> None:
        now, patience_s = self._client.timeline.now, self._world.retry.patience_s
        if answer.refresh:
            self._client.request_update(refused(node_id))
        if any(state.patience.in_doubt(now, patience_s) for state in self._current(asked)):
            self._client.request_update(doubted(node_id))
        self._client.woken = True
