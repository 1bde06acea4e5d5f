"""Sending one admin request to the right broker, with retries after retriable errors."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Set
from enum import Enum
from typing import Any, TypeVar, cast

import anyio

from .. import errors
from .._core.admin import BRIEF_TRIES, UNKNOWN_TOPIC_OR_PARTITION, changes, failure, note_unanswered
from .._core.backoff import Backoff
from .._core.trust import DOUBT_AFTER, patience_of
from .._options.arguments import TIMEOUT
from .._wire import Request, Response
from .._wire.messages.describe_cluster import DescribeClusterRequest
from .._wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ..errors.shown import shown
from ..types import TopicPartition
from .client import Client
from .deadline import Deadline
from .group.coordinators import Coordinators

R = TypeVar("R", bound=Response)


class Route(Enum):
    """Destinations of requests that are not for a particular broker."""

    CONTROLLER = "the controller"
    ANY = "any broker"


class Requests:
    """Sends admin requests of one client, one at a time."""

    def __init__(self, client: Client, default_timeout_ms: float) -> None:
        self._client = client
        self._default_timeout_ms = default_timeout_ms
        self._backoff = Backoff(client.config.retry_backoff_ms, client.config.retry_backoff_max_ms)
        self._patience_s = patience_of(client.config.retry_backoff_max_ms)
        self._coordinators = Coordinators(client)

    def deadline(self, timeout_ms: float | None) -> Deadline:
        """Return the deadline of a call that starts now. Raises the errors of `Client.check`."""
        checked: float | None = TIMEOUT("timeout_ms", timeout_ms)
        self._client.check()
        total_ms = self._default_timeout_ms if checked is None else checked
        return Deadline(total_ms, self._client.config.request_timeout_ms)

    async def call(self, to: Route | int, request: Request[R], deadline: Deadline, *, repeatable: bool = True) -> R:
        """Send a request, and return the response. Retriable errors are retried until the deadline.

        The call waits for a broker that is down, but raises `BrokerIdNotRegisteredError` if no broker has this id.
        (Java's admin client would wait until the deadline.) With ``repeatable`` False, a request that may have been
        executed is not sent again. Raises `RequestTimedOutError` at the deadline, with the error of the last attempt as
        the cause.
        """
        failures = 0
        exists = not isinstance(to, int)
        while True:
            try:
                return await self.once(to, request, deadline)
            except errors.KafkaError as error:
                executed = error.api == request.NAME or isinstance(error, errors.RequestTimedOutError)
                if not error.retriable or (executed and not repeatable):
                    note_unanswered(error, deadline.unanswered)
                    raise
                if error.api == request.NAME and changes(error.api):
                    deadline.unanswered = deadline.unanswered or error  # the last attempt may not even have been sent
                failures += 1
                if not exists and failures >= BRIEF_TRIES and to not in self._client.brokers.nodes:
                    exists = await self._exists(cast(int, to), deadline)
                await self.pause(failures, error, deadline)

    async def once(self, to: Route | int, request: Request[R], deadline: Deadline, *, lowest: int | None = None) -> R:
        """Send a request once and return the response. Errors of the whole response are raised as well.

        Raises `UnsupportedVersionError` if the broker does not support version ``lowest`` of the request.
        """
        self._client.check()
        timed: Any = request
        if hasattr(timed, "timeout_ms"):
            timed.timeout_ms = deadline.request_ms()
        node_id = await self._node(to, deadline)
        response = await self._client.request(node_id, request, timeout_ms=deadline.request_ms(), lowest=lowest)
        errors.raise_for_code(getattr(response, "error_code", 0), shown(getattr(response, "error_message", None) or ""))
        return response

    async def _node(self, to: Route | int, deadline: Deadline) -> int:
        if to is Route.ANY:
            return await self._client.any_node(Deadline(deadline.request_ms()))
        if to is Route.CONTROLLER:
            return await self._controller(deadline)
        if max(self._client.brokers.nodes, default=-1) < 0:
            # Only bootstrap servers are known. Their errors tell more than an unknown id.
            metadata = self._client.metadata
            await metadata.wait_newer(metadata.snapshot.generation, deadline.request_ms())
        return to

    async def _controller(self, deadline: Deadline) -> int:
        """Return the id of the controller, according to the metadata.

        While that broker is in doubt (see `Trust`), every second attempt goes to another broker. In KRaft, any broker
        forwards requests to the controller.
        """
        named = await self._client.controller(deadline.request_ms())
        failures = deadline.failures
        since_s = deadline.timeout_ms / 1000 - deadline.left_s()
        in_doubt = failures >= DOUBT_AFTER or (failures > 0 and since_s >= self._patience_s)
        if in_doubt and failures % 2:
            return await self._client.any_node(Deadline(deadline.request_ms()), {named})
        return named

    async def _exists(self, broker_id: int, deadline: Deadline) -> bool:
        """Return True if a broker that is not in the metadata exists but is down.

        Returns False if this cannot be determined now. Raises `BrokerIdNotRegisteredError` if the broker does not
        exist.
        """
        try:
            try:
                cluster = await self.once(Route.ANY, DescribeClusterRequest(include_fenced_brokers=True), deadline)
                known = {broker.broker_id for broker in cluster.brokers}
            except (errors.UnsupportedVersionError, errors.ClusterAuthorizationFailedError):
                # Before Kafka 4.0 (KIP-1073), a broker that is down appears only among the replicas of partitions.
                every = MetadataRequest(topics=None, allow_auto_topic_creation=False)
                found = await self.once(Route.ANY, every, deadline)
                known = {broker.node_id for broker in found.brokers}
                for topic in found.topics:
                    for partition in topic.partitions:
                        known.update(partition.replica_nodes)
        except errors.KafkaError as error:
            if not error.retriable:
                raise
            return False
        if broker_id not in known:
            text = f"there is no broker {broker_id}: the cluster has {', '.join(map(str, sorted(known)))}"
            raise errors.BrokerIdNotRegisteredError(text)
        return True

    async def broker_ids(self, deadline: Deadline) -> set[int]:
        return {broker.node_id for broker in (await self.metadata([], deadline)).brokers}

    async def metadata(self, topics: Iterable[str] | None, deadline: Deadline) -> MetadataResponse:
        """Request the metadata of these topics, or of all topics, from any broker. Does not create topics."""
        names = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=names, allow_auto_topic_creation=False)
        return await self.call(Route.ANY, request, deadline)

    async def metadata_of_another(
        self, topics: Iterable[str], asked: set[int], deadline: Deadline, doubted: Set[int] = frozenset()
    ) -> MetadataResponse:
        """Request metadata from a broker that is not in ``asked``, and add the broker to ``asked``.

        If ``asked`` contains all brokers, it is cleared first. Brokers in ``doubted`` are chosen last.
        """
        names = [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=names, allow_auto_topic_creation=False)
        failures = 0
        while True:
            try:
                if self._client.brokers.nodes.keys() <= asked | doubted:
                    asked.clear()
                node_id = await self._client.any_node(Deadline(deadline.request_ms()), asked | doubted)
                asked.add(node_id)
                return await self.once(node_id, request, deadline)
            except errors.KafkaError as error:
                if not error.retriable:
                    raise
                failures += 1
                await self.pause(failures, error, deadline)

    async def leaders(
        self, partitions: Collection[TopicPartition], asked: set[int], doubted: Set[int], deadline: Deadline
    ) -> dict[TopicPartition, int | errors.KafkaError]:
        """Request metadata, and return the leader's node id or an error for each partition.

        The metadata comes from a broker that is not in ``asked`` (see `metadata_of_another`).
        """
        response = await self.metadata_of_another({where.topic for where in partitions}, asked, deadline, doubted)
        leaders: dict[TopicPartition, int | errors.KafkaError] = {}
        known = {broker.node_id for broker in response.brokers}
        for topic in response.topics:
            for partition in topic.partitions:
                where = TopicPartition(topic.name or "", partition.partition_index)
                lost = errors.LeaderNotAvailableError(f"{where} currently has no leader")
                leaders[where] = partition.leader_id if partition.leader_id in known else lost
        codes = {topic.name: topic.error_code or UNKNOWN_TOPIC_OR_PARTITION for topic in response.topics}
        for where in partitions:
            if where not in leaders:
                leaders[where] = failure(codes.get(where.topic, UNKNOWN_TOPIC_OR_PARTITION), str(where))
        return {where: leaders[where] for where in partitions}

    async def pause(self, failures: int, error: errors.KafkaError, deadline: Deadline) -> None:
        """Wait for the backoff after this number of ``failures``, the last of which is ``error``.

        Raises `RequestTimedOutError` at once if the deadline would pass during the wait.
        """
        pause_s = self._backoff.after_s(error, failures)
        left_s = deadline.left_s()
        deadline.failures += 1
        deadline.note_failure(error)
        if left_s <= pause_s:
            text = f"not done within {deadline.timeout_ms:g} ms; the last try: {deadline.failure}"
            late = errors.RequestTimedOutError(text)
            late.__cause__ = deadline.failure
            note_unanswered(late, deadline.unanswered)
            raise late
        self._client.metadata.request_update()
        await anyio.sleep(pause_s)
