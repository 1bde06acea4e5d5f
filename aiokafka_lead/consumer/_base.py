"""Base of `Consumer`: its construction and the checks shared by its methods."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, overload

from .._core.consumer.consumed import TransactionPart
from .._core.consumer.partition_state import PartitionState
from .._core.consumer.reset_policy import ResetPolicy
from .._io.client import Client, Elsewhere, Facade, configured
from .._io.consumer.engine import HOT_REQUESTS, ConsumerEngine
from .._options import arguments
from .._options.checks import discreet
from .._options.read_types import K, V
from ..config import ConsumerConfig
from ..errors import IllegalStateError
from ..types import TopicPartition

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._io.group.membership import Membership
    from .._options.serialization import AsyncDeserializer, Deserializer
    from ..config import ConsumerBaseOptions, SharedClient


class ConsumerBase(Facade, Generic[K, V]):
    """Base class of `Consumer`, which creates its parts.

    The type parameters follow from the deserializers in the options.
    """

    if not TYPE_CHECKING:
        poll = Elsewhere("await getone() or await getmany()")

    @overload
    def __init__(
        self,
        *topics: str,
        bootstrap_servers: str | Iterable[str] | None = None,
        client: SharedClient | None = None,
        key_deserializer: AsyncDeserializer[K],
        value_deserializer: AsyncDeserializer[V],
        **options: Unpack[ConsumerBaseOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        *topics: str,
        bootstrap_servers: str | Iterable[str] | None = None,
        client: SharedClient | None = None,
        key_deserializer: AsyncDeserializer[K],
        value_deserializer: Deserializer[V] | None = None,
        **options: Unpack[ConsumerBaseOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        *topics: str,
        bootstrap_servers: str | Iterable[str] | None = None,
        client: SharedClient | None = None,
        key_deserializer: Deserializer[K] | None = None,
        value_deserializer: AsyncDeserializer[V],
        **options: Unpack[ConsumerBaseOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        *topics: str,
        bootstrap_servers: str | Iterable[str] | None = None,
        client: SharedClient | None = None,
        key_deserializer: Deserializer[K] | None = None,
        value_deserializer: Deserializer[V] | None = None,
        **options: Unpack[ConsumerBaseOptions],
    ) -> None: ...
    @discreet
    def __init__(
        self,
        *topics: str,
        bootstrap_servers: str | Iterable[str] | None = None,
        client: SharedClient | None = None,
        **options: Any,
    ) -> None:
        """Check the options, without connecting.

        The consumer subscribes to ``topics``, as `subscribe` does; without ``topics``, call `subscribe` or `assign`
        later. Give either ``bootstrap_servers`` or a ``client``, whose connections the consumer then uses, like
        `Client.consumer`. Raises `ConfigError` or `ConfigTypeError` for an invalid option.
        """
        config, parent = configured(ConsumerConfig, bootstrap_servers, client, options, *topics)
        self._config = config
        self._client = Client(config, HOT_REQUESTS, parent)
        self._client.facade = type(self).__name__
        self._engine: ConsumerEngine[K, V] = ConsumerEngine(self._client, config)
        if config.on_bad_record != "raise":
            from .._runs import bury

            self._engine.reader.bury = partial(bury, self._client, config)
        if topics:
            self._engine.subscribe(arguments.TOPICS("topics", topics))

    def _usable(self, timeout_ms: float | None) -> float:
        """Check that the consumer is running on this event loop, and return the timeout of a call in ms."""
        given: float | None = arguments.TIMEOUT("timeout_ms", timeout_ms)
        self._client.check()
        return self._config.default_api_timeout_ms if given is None else given

    def _states(self, partitions: Iterable[TopicPartition]) -> list[PartitionState]:
        return [self._engine.reading.positions.require(tp) for tp in arguments.PARTITIONS("partitions", partitions)]

    async def _seek_by(
        self, policy: ResetPolicy | None, partitions: Iterable[TopicPartition], timeout_ms: float | None
    ) -> None:
        """Continue from the offsets of the policy, or from committed offsets if it is None."""
        partitions = arguments.PARTITIONS("partitions", partitions)
        timeout_ms = self._usable(timeout_ms)
        reading = self._engine.reading
        states = self._states(partitions) if partitions else list(reading.positions)
        if policy is None:
            reading.go_back(states)
        else:
            for state in states:
                reading.reset(state, policy)
        await self._engine.readiness.wait_for_positions(states, timeout_ms)

    async def _offsets(
        self, partitions: Iterable[TopicPartition], timestamp: int, timeout_ms: float | None
    ) -> dict[TopicPartition, int]:
        timestamps = dict.fromkeys(arguments.PARTITIONS("partitions", partitions), timestamp)
        found = await self._engine.queries.offsets(timestamps, self._usable(timeout_ms))
        return {tp: found[tp].offset for tp in timestamps}

    def _transaction_part(self) -> TransactionPart:
        """Return the group through which `Transaction.send_offsets` commits this consumer's offsets."""
        self._client.check()
        commits = self._membership("committed offsets belong").commits
        from .._io.group.commits import GroupPart

        return GroupPart(commits)

    def _membership(self, what: str) -> Membership:
        if self._engine.membership is None:
            raise IllegalStateError(f"{what} to a group: set group_id")
        return self._engine.membership
