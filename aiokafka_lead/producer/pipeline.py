"""Transactions that overlap: one is filled while those before it are being committed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self

from .._io.client import Client, configured
from .._io.transactions.pipeline import ChainedTransaction, Pipeline
from .._options.arguments import TIMEOUT
from .._options.checks import boolean, discreet, integer
from .._options.logs import client_log
from .._options.sent_types import K, V
from ..config import ProducerConfig, SharedClient
from ..errors import ConfigError, IllegalStateError, KafkaError
from ..health import ProducerHealth, TransactionHealth
from . import Producer
from .transaction import Transaction

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._options.serialization import Serializer
    from ..config import ProducerBaseOptions
    from ..metrics import ProducerMetrics


__all__ = ["TransactionPipeline"]

IN_FLIGHT = integer(2, 100)


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

    Belongs to the event loop that it was started on. One block is open at a time. All times are in milliseconds.
    """

    @discreet
    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] | None = None,
        *,
        client: SharedClient | None = None,
        in_flight: int = 2,
        key_serializer: Serializer[K] | None = None,
        value_serializer: Serializer[V] | None = None,
        **options: Unpack[ProducerBaseOptions],
    ) -> None:
        """Check the options; connects to nothing. Raises `ConfigError` or `ConfigTypeError`.

        With a ``client`` it uses that one's connections, and is what `Client.transaction_pipeline` makes.
        """
        more = {"key_serializer": key_serializer, "value_serializer": value_serializer}
        config, parent = configured(ProducerConfig, bootstrap_servers, client, options, **more)
        if config.transactional_id is None:
            raise ConfigError("transactional_id is needed for transactions")
        self._config = config
        self._client = Client(config, parent=parent)
        self._client.facade = type(self).__name__
        self._producers: list[Producer[K, V]] = []
        for number in range(IN_FLIGHT("in_flight", in_flight)):
            transactional_id, client_id = f"{config.transactional_id}-{number}", f"{config.client_id}-{number}"
            producer: Producer[K, V] = Producer.__new__(Producer)
            its_config = replace(config, transactional_id=transactional_id, client_id=client_id)
            producer._set_up(its_config, parent or self._client)
            producer._client.asks_coordinators_apart = True
            self._producers.append(producer)
        self._pipeline = Pipeline(self._client, self._producers, config.max_block_ms)
        self._log = client_log("producer", config.client_id)

    # --- its life ----------------------------------------------------------------------------------------------------

    async def start(self, *, wait: bool = True) -> None:
        """Connect to the cluster, and take over the transactional ids: what another process left open is aborted.

        Raises, and does without ``wait``, what `Producer.start` does.
        """
        await self._client.start(wait=boolean("wait", wait))

    async def stop(self, timeout_ms: float | None = None) -> None:
        """Wait for the commits of transactions in flight, abort an open one, and close every connection.

        All within ``timeout_ms``; without one, commits have ``max_block_ms``. Raises why one of them was not committed,
        where that was not raised before, and `CommitOutcomeUnknownError` if time was over first; all is closed then,
        too. May be called again. A cancelled stop waits for no commit, and closes.
        """
        await self._client.stop(TIMEOUT("timeout_ms", timeout_ms))
        failure = self._pipeline.take_failure()
        if failure is not None:
            raise failure

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

    async def settle(self, *, timeout_ms: float | None = None) -> None:
        """Wait until no transaction is in flight, at most for ``timeout_ms`` (``max_block_ms``).

        Raises why one was not committed, where that was not raised before; `CommitOutcomeUnknownError` after
        that time, and then may be called again; and `IllegalStateError` where a block is open.
        """
        given = TIMEOUT("timeout_ms", timeout_ms)
        self._client.check()
        await self._pipeline.settle(self._config.max_block_ms if given is None else given)

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

    async def partitions_for(self, topic: str, *, timeout_ms: float | None = None) -> frozenset[int]:
        """The topic's partitions; waits for metadata at most ``timeout_ms`` (``max_block_ms``)."""
        self._client.check()
        return await self._producers[0].partitions_for(topic, timeout_ms=timeout_ms)

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


class PipelinedTransaction(Transaction[K, V], Generic[K, V]):
    """One transaction of a `TransactionPipeline`; see there. Its producer is the one whose turn it is."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._number = 0
        self._fate = None
        self._chained: ChainedTransaction | None = None

    async def _begin(self) -> None:
        chained = self._chained = await self._pipeline.begin_transaction()
        self._producer: Any = chained.producer
        self._transactions = chained.transactions
        self._number = chained.number

    async def _commit(self) -> None:
        assert self._chained is not None
        await self._pipeline.commit(self._chained)

    async def _leave(self, error: BaseException) -> None:
        assert self._chained is not None
        await self._pipeline.leave(self._chained, error)

    def _check(self) -> None:
        if self._chained is None:
            raise IllegalStateError("no transaction is open: sends belong between its begin and its end")
        self._pipeline.check(self._chained)
