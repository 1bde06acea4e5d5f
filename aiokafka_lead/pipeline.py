"""Transactions that overlap: one is filled while those before it are being committed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, overload

import anyio

from ._accel import warn_if_plain
from ._core.producer.health import ProducerHealth
from ._core.transactions.state import TransactionHealth
from ._io.cancellation import to_the_end
from ._io.client import Client
from ._io.deadline import Deadline
from ._io.loop import Waiter
from ._io.transactions.pipeline import Pipeline
from ._io.transactions.pipelined import PipelinedTransaction
from ._options.arguments import TIMEOUT
from ._options.checks import boolean, discreet, integer
from ._options.logs import client_log
from ._options.sent_types import KS, VS, K, V
from .config import ProducerConfig
from .errors import ConfigError, KafkaError
from .producer import Producer

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._core.producer.metrics import ProducerMetrics
    from ._options.serialization import Serializer
    from .config import ProducerBaseOptions, ProducerOptions


__all__ = ["TransactionPipeline"]

IN_FLIGHT = integer(2, 100)

_RESERVE_SHARE = 0.2
_RESERVE_MS = 1500.0
"""Of a stop's time, what producers have after the transactions in flight: a part, and no more than so."""
_CLOSING_SHARE = 0.1
"""Of what is left then, what connections have after the producers."""


class TransactionPipeline(Generic[K, V]):
    """Transactions one after the other, each of which is filled while those before it are being committed.

        async with TransactionPipeline("localhost:9092", transactional_id="copier-1") as pipeline:
            async for batch in consumer.batches():
                async with pipeline.transaction() as txn:
                    await txn.send_many("out", batch.values)
                    await txn.commit_batch(batch)

    It has ``in_flight`` producers (2 to 100), which share connections; their transactional ids are ``transactional_id``
    with ``-0``, ``-1`` and so on, and belong to one process at a time. Options are those of `ProducerOptions`, and hold
    for each of them.

    The end of a block waits until all that the transaction took is stored, and not for its commit: that follows as soon
    as the transaction before it is committed, so that readers see them in order. If one is not committed, all that
    began after it are aborted. Its error is raised once: from a call of the open transaction, or from the next
    `transaction`, `settle` or `stop`. Consumers have gone back then, and what was read for these transactions comes
    again; without a consumer, ``txn.outcome`` says of each whether it has to be done again.

    `Client.transaction_pipeline` makes one on connections that it shares with others.

    Belongs to the event loop that it was started on. One block is open at a time. All times are in milliseconds.
    """

    _own_client: Client | None = None
    """None where it shares one."""

    @overload
    def __init__(
        self: TransactionPipeline[KS, bytes],
        bootstrap_servers: str | Iterable[str],
        *,
        in_flight: int = 2,
        key_serializer: Serializer[KS],
        value_serializer: None = None,
        **options: Unpack[ProducerBaseOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: TransactionPipeline[bytes, VS],
        bootstrap_servers: str | Iterable[str],
        *,
        in_flight: int = 2,
        key_serializer: None = None,
        value_serializer: Serializer[VS],
        **options: Unpack[ProducerBaseOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: TransactionPipeline[KS, VS],
        bootstrap_servers: str | Iterable[str],
        *,
        in_flight: int = 2,
        key_serializer: Serializer[KS],
        value_serializer: Serializer[VS],
        **options: Unpack[ProducerBaseOptions],
    ) -> None: ...
    @overload
    def __init__(
        self, bootstrap_servers: str | Iterable[str], *, in_flight: int = 2, **options: Unpack[ProducerOptions]
    ) -> None: ...
    @discreet
    def __init__(self, bootstrap_servers: str | Iterable[str], *, in_flight: int = 2, **options: Any) -> None:
        """Check the options; connects to nothing. Raises `ConfigError` or `ConfigTypeError`."""
        config = ProducerConfig.from_options(bootstrap_servers, options)
        self._own_client = Client(config)
        self._own_client.facade = type(self).__name__
        self._set_up(config, in_flight, self._own_client)

    def _set_up(self, config: ProducerConfig, in_flight: int, client: Client) -> None:
        """On connections that are its own, or those of others, too."""
        if config.transactional_id is None:
            raise ConfigError("transactional_id is needed for transactions")
        self._config = config
        self._producers: list[Producer[K, V]] = []
        for number in range(IN_FLIGHT("in_flight", in_flight)):
            transactional_id, client_id = f"{config.transactional_id}-{number}", f"{config.client_id}-{number}"
            producer: Producer[Any, Any] = Producer.__new__(Producer)
            producer._set_up(replace(config, transactional_id=transactional_id, client_id=client_id), client)
            producer._client.stop_facade = self.stop
            producer._client.asks_coordinators_apart = True
            self._producers.append(producer)
        self._client = self._producers[0]._client
        """Usable for as long as the pipeline is."""
        self._pipeline = Pipeline(self._producers, config.max_block_ms)
        self._log = client_log("producer", config.client_id)
        self._stopped: Waiter[None] | None = None
        """Made by the first `stop`, done when that has ended."""

    # --- its life ----------------------------------------------------------------------------------------------------

    async def start(self, *, wait: bool = True) -> None:
        """Connect to the cluster, and take over the transactional ids: what another process left open is aborted.

        Raises, and does without ``wait``, what `Producer.start` does.
        """
        warn_if_plain()
        wait = boolean("wait", wait)
        try:
            if self._own_client is not None:
                await self._own_client.start(wait=wait)
            for producer in self._producers:
                await producer.start(wait=wait)
        except BaseException:
            await self._stop_all(0)
            raise

    async def stop(self, timeout_ms: float | None = None) -> None:
        """Wait for the commits of transactions in flight, abort an open one, and close every connection.

        All within ``timeout_ms``; without one, commits have ``max_block_ms``. Raises why one of them was not committed,
        where that was not raised before, and `CommitOutcomeUnknownError` if time was over first; all is closed then,
        too. May be called again. A cancelled stop waits for no commit, and closes.
        """
        timeout_ms = TIMEOUT("timeout_ms", timeout_ms)
        if not (self._own_client or self._client).begin_stop():
            return
        if self._stopped is not None:
            await self._stopped.done_within(None if timeout_ms is None else timeout_ms / 1000)
            return
        self._stopped = Waiter()
        deadline = None if timeout_ms is None else Deadline(timeout_ms)
        within_ms = self._config.max_block_ms
        if timeout_ms is not None:
            within_ms = timeout_ms - min(timeout_ms * _RESERVE_SHARE, _RESERVE_MS)
        try:
            await self._pipeline.finish(within_ms / 1000)
        finally:
            try:
                await self._stop_all(None if deadline is None else deadline.left_ms())
            finally:
                self._stopped.set_result(None)
        failure = self._pipeline.take_failure()
        if failure is not None:
            raise failure

    async def _stop_all(self, timeout_ms: float | None) -> None:
        share_ms = None if timeout_ms is None else timeout_ms * (1 - _CLOSING_SHARE)

        async def stop() -> None:
            async with anyio.create_task_group() as stopping:
                for producer in self._producers:
                    stopping.start_soon(producer.stop, share_ms)

        try:
            await to_the_end(stop, "kafka pipeline's end")
        finally:
            self._pipeline.close()
            if self._own_client is not None:
                await self._own_client.stop(None if timeout_ms is None else timeout_ms * _CLOSING_SHARE)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.stop(self._config.close_timeout_ms)
        except KafkaError as failure:
            if kind is None:
                raise
            self._log.warning("the latest transactions were not committed: %s", failure)

    # --- transactions ------------------------------------------------------------------------------------------------

    def transaction(self) -> PipelinedTransaction[K, V]:
        """The next transaction, for ``async with``; see `Transaction` for what it takes.

        It begins when one of the producers is free, within ``max_block_ms``. Entering the block raises why one before
        was not committed; `ProducerFencedError` once another process has one of the ids; `TransactionTimedOutError`;
        and `IllegalStateError` where a block is open already. Leaving it raises `TransactionAbortedError` where
        something of the transaction could not be stored, as `Producer.commit_transaction` does. A block that raises, or
        is cancelled, aborts; those before it are committed all the same.
        """
        self._client.check()
        return PipelinedTransaction(self._pipeline)

    async def settle(self) -> None:
        """Wait until no transaction is in flight.

        Raises why one was not committed, where that was not raised before; `CommitOutcomeUnknownError` after
        ``max_block_ms``, and then may be called again; and `IllegalStateError` where a block is open.
        """
        self._client.check()
        await self._pipeline.settle()

    # --- the rest ----------------------------------------------------------------------------------------------------

    @property
    def client_id(self) -> str:
        """What brokers' logs and quotas call these producers; in this client's they have it with ``-0``, ``-1``."""
        return self._config.client_id

    @property
    def transactional_id(self) -> str | None:
        """What the transactional ids begin with."""
        return self._config.transactional_id

    @property
    def takes_bytes(self) -> bool:
        """Whether keys and values are sent as they are: there are no serializers."""
        return self._producers[0].takes_bytes

    async def partitions_for(self, topic: str) -> set[int]:
        """The topic's partitions; waits for metadata at most ``max_block_ms``."""
        return await self._producers[0].partitions_for(topic)

    def transaction_health(self) -> tuple[TransactionHealth, ...]:
        """How each producer's transactions are doing; see `Producer.transaction_health`."""
        return tuple(producer.transaction_health() for producer in self._producers)

    def metrics(self) -> tuple[ProducerMetrics, ...]:
        """What each producer has done so far, in numbers."""
        return tuple(producer.metrics() for producer in self._producers)

    def health(self) -> tuple[ProducerHealth, ...]:
        """Whether each producer makes progress; see `Producer.health`."""
        return tuple(producer.health() for producer in self._producers)

    async def _abort_refused(self) -> None:
        """For `Consumer.run`: it has its records again when those are aborted that are not committed."""
        for producer in self._producers:
            await producer._abort_refused()

    def _take_failure(self) -> KafkaError | None:
        """For `Consumer.run`, which has its records again."""
        return self._pipeline.take_failure()
