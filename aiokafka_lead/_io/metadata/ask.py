"""Asks brokers for metadata, one after another, until one has answered."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence, Set
from random import random

from ..._core.metadata.answer import ClusterAnswer, MetadataReader
from ..._core.metadata.reachability import NodeState
from ..._core.metadata.types import Broker
from ..._values import NamedTuple
from ..._wire.messages.metadata import MetadataRequest
from ...errors import (
    BootstrapResolutionError,
    KafkaConnectionError,
    KafkaError,
    MalformedMessageError,
    RequestTimedOutError,
    TokenProviderError,
    UnresolvedHostError,
)
from ..asking_around import ask_in_turn
from ..connection.brokers import Brokers
from ..connection.settings import Lane
from ..deadline import Deadline
from ..loop import in_slices

HEDGE_AFTER_S = 0.5
"""If a broker has not answered within this time, the next one is asked as well."""

_PREFERENCE = {NodeState.READY: 0, NodeState.CONNECTING: 1, NodeState.CONNECTABLE: 2}


class Answer(NamedTuple):
    """The first answer, and the node that gave it."""

    node_id: int
    cluster: ClusterAnswer
    asked_at: float
    """Time at which the request was sent (``time.monotonic()``)."""


class Outcome(NamedTuple):
    """The result of asking several brokers."""

    answer: Answer | None
    """None if no broker that was asked has answered."""
    errors: Mapping[int, KafkaError]
    """Errors of brokers that did not answer, by node id."""


def candidates(brokers: Brokers, nodes: Sequence[int], avoid: Sequence[Set[int]] = ()) -> list[int]:
    """Return the nodes that can be asked now, best first: connected ones, and ones with few requests.

    Last come nodes that evade questions, and after these the ones to ``avoid``, whose view of the cluster is the least
    trusted; members of the first set come last of all.
    """
    states = {node_id: brokers.state(node_id) for node_id in nodes}
    least_loaded = brokers.least_loaded(avoid=set().union(*avoid))  # one that has a connection for this, if possible
    return sorted(
        (node_id for node_id in nodes if states[node_id] is not NodeState.BACKOFF),
        key=lambda node_id: (
            *(node_id in untrusted for untrusted in avoid),
            brokers.in_doubt(node_id),
            _PREFERENCE[states[node_id]],
            node_id != least_loaded,
            random(),
        ),
    )


def reachable(brokers: Brokers, nodes: Iterable[int], since: float) -> bool:
    """Return True if one of these nodes is connected, or is being connected to.

    A node that has refused a connection since then counts as unavailable, even if its backoff has ended already, or
    another lane is connecting: of lanes that are refused in turn, one always is.
    """
    refused = brokers.failed_since(since)
    states = {node_id: brokers.state(node_id) for node_id in nodes}
    return any(
        state is NodeState.READY or (state is NodeState.CONNECTING and node_id not in refused)
        for node_id, state in states.items()
    )


async def ask(
    brokers: Brokers,
    reader: MetadataReader,
    following: Callable[[Container[int]], int | None],
    request: MetadataRequest,
    timeout_s: float,
) -> Outcome:
    """Return the first answer; see `ask_in_turn`. The next node is asked once one has failed or is slow."""
    deadline = Deadline(timeout_s * 1000)

    async def ask_node(node_id: int) -> tuple[ClusterAnswer, float]:
        while True:
            connection = await brokers.get(node_id, Lane.CONTROL, timeout_ms=deadline.left_ms())
            version = connection.versions.version_for(MetadataRequest)
            # A bootstrap server's name may have an address that accepts connections and freezes.
            patience_ms = brokers.patience_s(node_id) * 1000 if node_id < 0 else math.inf
            timeout_ms = min(patience_ms, deadline.left_ms())
            asked_at = time.monotonic()
            try:
                frame = await connection.answer(request, timeout_ms=timeout_ms, version=version, raw=True)
                break
            except RequestTimedOutError as error:
                if deadline.passed:
                    raise
                brokers.leave(node_id, error, silent=True)
        try:
            cluster = await in_slices(reader.read(frame, version))
        except MalformedMessageError as error:
            connection.close(error)
            raise KafkaConnectionError(error.message, broker=connection.label) from error
        if cluster.throttle_time_ms > 0:
            connection.mute(cluster.throttle_time_ms / 1000)
        return cluster, asked_at

    answer, errors = await ask_in_turn(
        brokers, following, ask_node, timeout_s, next_after_s=HEDGE_AFTER_S, next_after_failure=True
    )
    return Outcome(None if answer is None else Answer(answer[0], *answer[1]), errors)


def describe(errors: Mapping[int, KafkaError], nodes: Mapping[int, Broker]) -> str:
    """Describe the failures of the brokers that were asked, for the texts of errors."""
    reasons = []
    for node_id, error in errors.items():
        node = nodes.get(node_id)
        where = f"node {node_id}" if node is None else f"{node.host}:{node.port}"
        reasons.append(f"{where}: {error.message}")
    return "; ".join(reasons)


def final_error(errors: Mapping[int, KafkaError]) -> KafkaError | None:
    """Return the error, if all are of one kind other than connection errors."""
    kinds = {type(error) for error in errors.values()}
    first = next(iter(errors.values()), None)
    if len(kinds) != 1 or first is None:
        return None
    return None if first.retriable and not isinstance(first, TokenProviderError) else first


def unusable(servers: Mapping[int, Broker], errors: Mapping[int, KafkaError]) -> KafkaError:
    """Return the error for a bootstrap without an answer; ``errors`` has one for each server that was asked."""
    text = f"no bootstrap server could be used: {describe(errors, servers)}"
    if others := [f"{server.host}:{server.port}" for node_id, server in servers.items() if node_id not in errors]:
        text += f"; there was no time to ask {', '.join(others)}"
    if errors and all(isinstance(error, UnresolvedHostError) for error in errors.values()):
        return BootstrapResolutionError(text)
    final = final_error(errors)
    return KafkaConnectionError(text) if final is None else type(final)(text)
