"""Requests for metadata to one broker after another until one responds, and look-ups of single topics."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence, Set

from ... import errors
from ..._core.chance import random
from ..._core.metadata.answer import ClusterAnswer, MetadataReader
from ..._core.metadata.reachability import NodeState
from ..._core.metadata.topics import TopicsInUse
from ..._core.metadata.types import Broker, ClusterSnapshot, TopicMetadata
from ..._options.logs import ClientLog
from ..._values import NamedTuple
from ..._wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ...errors.shown import some_of
from ..asking_around import ask_in_turn
from ..connection.brokers import Brokers
from ..connection.settings import Lane
from ..deadline import Deadline
from ..loop import Waiter, in_slices

HEDGE_AFTER_S = 0.5
"""Seconds without a response after which the next broker is asked as well."""

_PREFERENCE = {NodeState.READY: 0, NodeState.CONNECTING: 1, NodeState.CONNECTABLE: 2}


class Plan(NamedTuple):
    """The topics that the next refresh requests."""

    topics: Sequence[str] | None
    """The topics to request. None means all topics of the cluster."""
    full: bool
    """False if the refresh only looks up unknown topics."""

    def request(self, create_topics: bool) -> MetadataRequest:
        """Return the request. ``create_topics`` lets brokers create the topics that are looked up."""
        # Only look-ups create topics. A refresh must not recreate a deleted topic.
        topics = None if self.topics is None else [MetadataRequestTopic(name=name) for name in self.topics]
        return MetadataRequest(topics=topics, allow_auto_topic_creation=create_topics and not self.full)


class Answer(NamedTuple):
    """The first response, and the node that sent it."""

    node_id: int
    cluster: ClusterAnswer
    asked_at: float
    """Time at which the request was sent (``time.monotonic()``)."""


class Outcome(NamedTuple):
    """The result of asking several brokers for metadata."""

    answer: Answer | None
    """The response, or None if no broker responded."""
    failures: Mapping[int, errors.KafkaError]
    """The errors of brokers that did not respond, by node id."""


def candidates(brokers: Brokers, nodes: Sequence[int], avoid: Sequence[Set[int]] = ()) -> list[int]:
    """Return the nodes that can be asked now, best first, by the state of their connections and by load.

    Nodes in doubt come later, and the nodes in ``avoid`` come last. ``avoid`` is a sequence of sets of nodes, the least
    trusted first.
    """
    states = {node_id: brokers.state(node_id) for node_id in nodes}
    # Prefer a node that is connected on the control lane.
    least_loaded = brokers.least_loaded(avoid=set().union(*avoid))
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
    """Return True if any of these nodes is connected or connecting.

    A connecting node does not count if it has refused a connection since ``since``. Otherwise, a node that refuses one
    lane after another would always count, because some lane is always connecting.
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
    """Request metadata from one node after another, and return the first response.

    If a node fails or is slow, the next one is asked (see `ask_in_turn`).
    """
    deadline = Deadline(timeout_s * 1000)

    async def ask_node(node_id: int) -> tuple[ClusterAnswer, float]:
        while True:
            connection = await brokers.get(node_id, Lane.CONTROL, timeout_ms=deadline.left_ms())
            version = connection.versions.version_for(MetadataRequest)
            # The name of a bootstrap server may have an IP address that accepts connections but does not respond.
            patience_ms = brokers.patience_s(node_id) * 1000 if node_id < 0 else math.inf
            timeout_ms = min(patience_ms, deadline.left_ms())
            asked_at = time.monotonic()
            try:
                frame = await connection.answer(request, timeout_ms=timeout_ms, version=version, raw=True)
                break
            except errors.RequestTimedOutError as error:
                if deadline.passed:
                    raise
                brokers.leave(node_id, error, silent=True)
        try:
            cluster = await in_slices(reader.read(frame, version))
        except errors.MalformedMessageError as error:
            connection.close(error)
            raise errors.KafkaConnectionError(error.message, broker=connection.label) from error
        if cluster.throttle_time_ms > 0:
            connection.mute(cluster.throttle_time_ms / 1000)
        return cluster, asked_at

    answer, failures = await ask_in_turn(
        brokers, following, ask_node, timeout_s, next_after_s=HEDGE_AFTER_S, next_after_failure=True
    )
    return Outcome(None if answer is None else Answer(answer[0], *answer[1]), failures)


def describe(failures: Mapping[int, errors.KafkaError], nodes: Mapping[int, Broker]) -> str:
    """Return a text with each broker and its error, for the message of another error."""
    reasons = []
    for node_id, error in failures.items():
        node = nodes.get(node_id)
        where = f"node {node_id}" if node is None else f"{node.host}:{node.port}"
        reasons.append(f"{where}: {error.message}")
    return "; ".join(reasons)


def final_error(failures: Mapping[int, errors.KafkaError]) -> errors.KafkaError | None:
    """Return the first error if all have the same class and a retry cannot help, otherwise None.

    `TokenProviderError` counts as such an error, although it is retriable.
    """
    kinds = {type(error) for error in failures.values()}
    first = next(iter(failures.values()), None)
    if len(kinds) != 1 or first is None:
        return None
    return None if first.retriable and not isinstance(first, errors.TokenProviderError) else first


def unusable(servers: Mapping[int, Broker], failures: Mapping[int, errors.KafkaError]) -> errors.KafkaError:
    """Return the error of a failed bootstrap, given the ``failures`` of the servers that were asked."""
    text = f"no bootstrap server could be used: {describe(failures, servers)}"
    if others := [f"{server.host}:{server.port}" for node_id, server in servers.items() if node_id not in failures]:
        text += f"; no time was left to try {', '.join(others)}"
    if failures and all(isinstance(error, errors.UnresolvedHostError) for error in failures.values()):
        return errors.BootstrapResolutionError(text)
    final = final_error(failures)
    return errors.KafkaConnectionError(text) if final is None else type(final)(text)


UNKNOWN_TOPIC_OR_PARTITION = errors.UnknownTopicOrPartitionError.code


class TopicLookups:
    """Looks up unknown topics, and passes the results to waiting calls.

    All calls that wait for a topic share its look-ups. `TopicsInUse` decides when to repeat them.
    """

    def __init__(self, topics: TopicsInUse, wake: Callable[[], None], log: ClientLog) -> None:
        self._topics = topics
        self._log = log
        self._wake = wake
        """Wakes the refreshing task."""
        self._waiters: dict[str, Waiter[TopicMetadata]] = {}

    def want(self, name: str, snapshot: ClusterSnapshot) -> None:
        """Look up a topic, without waiting, if the snapshot does not contain it."""
        if not snapshot.partition_count(name):
            self._topics.look_up(name, time.monotonic())
            self._wake()

    async def wait(
        self, name: str, timeout_ms: float, explain: Callable[[str, int], errors.KafkaError]
    ) -> TopicMetadata:
        """Wait until the topic is known, and return it. Raises the cluster's final error.

        After the timeout, ``explain`` creates the error from the name and the number of failed look-ups.
        """
        waiter = self._waiters.get(name)
        if waiter is None:
            waiter = self._waiters[name] = Waiter()
        lookup = self._topics.wait(name, time.monotonic())
        self._wake()
        lookups = self._topics.lookups(name)
        try:
            return await waiter.wait(timeout_ms / 1000)
        except TimeoutError:
            raise explain(name, self._topics.lookups(name) - lookups) from None
        finally:
            if self._topics.leave(name, lookup) == 0 and self._waiters.get(name) is waiter:
                del self._waiters[name]

    def answered(self, names: Iterable[str], snapshot: ClusterSnapshot, node_id: int, now: float) -> None:
        """Pass the results for these topics to the waiting calls, and log the topics that are missing.

        ``snapshot`` contains the response of the broker ``node_id``.
        """
        missing: dict[int, list[str]] = {}
        for name in names:
            entry = snapshot.topics.get(name)
            if entry is not None and entry.partitions:
                self._topics.found(name)
                if name in self._waiters:
                    self._waiters.pop(name).set_result(entry)
            elif entry is not None and entry.error_code and not errors.error_for_code(entry.error_code).retriable:
                self._topics.found(name)
                if name in self._waiters:
                    self._waiters.pop(name).set_error(topic_error(name, entry.error_code))
            elif name in self._topics and self._topics.missed(name, node_id, now):
                code = entry.error_code if entry is not None and entry.error_code else UNKNOWN_TOPIC_OR_PARTITION
                missing.setdefault(code, []).append(name)
        for code, lacking in missing.items():
            unknown = code == UNKNOWN_TOPIC_OR_PARTITION
            why = "the cluster does not have it" if unknown else errors.error_for_code(code)().message
            fields = {"topic": lacking[0]} if len(lacking) == 1 else None
            self._log.warning(
                "cannot find %s: %s; the client keeps looking for it", some_of(sorted(lacking)), why, extra=fields
            )

    def fail(self, error: errors.KafkaError) -> None:
        """Make all calls that wait for a topic raise this error."""
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters.values():
            waiter.set_error(error)


def topic_error(name: str, code: int, more: str = "") -> errors.KafkaError:
    """Return the error with this ``code`` for a topic. ``more`` is appended to its message."""
    kind = errors.error_for_code(code)
    return kind(f"topic {name!r}: {kind().message}{more}")


def not_known(
    name: str, lookups: int, snapshot: ClusterSnapshot, timeout_ms: float, unreachable: str
) -> errors.KafkaError:
    """Return the error of a call that has waited for a topic in vain.

    It is `RequestTimedOutError` if no broker has responded, and otherwise the brokers' error for the topic. ``lookups``
    is the number of responses, and ``unreachable`` describes the failed brokers.
    """
    entry = snapshot.topics.get(name)
    if unreachable or (entry is None and lookups == 0):
        return errors.RequestTimedOutError(f"no metadata of topic {name!r} within {timeout_ms:.0f} ms{unreachable}")
    code = entry.error_code if entry is not None and entry.error_code else UNKNOWN_TOPIC_OR_PARTITION
    return topic_error(name, code, f" (asked {lookups} times within {timeout_ms:.0f} ms)")
