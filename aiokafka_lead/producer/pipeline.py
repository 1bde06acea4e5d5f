"""Overlapping transactions: each accepts records while earlier transactions are being committed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self

from .._io.client import Client, Unpicklable, configured
from .._io.transactions.pipeline import ChainedTransaction, Pipeline
from .._options.arguments import TIMEOUT
from .._options.checks import boolean, discreet, integer
from .._options.logs import client_log
from .._options.sent_types import K, V
from ..config import ProducerConfig
from ..errors import ConfigError, IllegalStateError, KafkaError
from ..health import ProducerHealth, TransactionHealth
from . import Producer
from .transaction import Transaction

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._options.serialization import Serializer
    from ..config import ProducerBaseOptions, SharedClient
    from ..metrics import ProducerMetrics


__all__ = ["TransactionPipeline"]

IN_FLIGHT = integer(2, 100)


class TransactionPipeline(Unpicklable, Generic[K, V]):
    """Pipeline of transactions: each accepts records while earlier transactions are being committed.

        async with TransactionPipeline("localhost:9092", transactional_id="copier-1") as pipeline:
            async for batch in consumer.batches():
                async with pipeline.transaction() as txn:
                    await txn.send_many("out", batch.values)
                    await txn.commit_batch(batch)

    A pipeline has ``in_flight`` producers (2 to 100, default: 2) on shared connections. Their transactional ids are
    ``transactional_id`` with ``-0``, ``-1`` and so on. Only one process at a time may use these ids. Each producer has
    the same options, which `ProducerOptions` describes.

    Leaving a block waits until all records of the transaction are stored, but it does not wait for the commit.
    Transactions are committed in order, so readers see them in order.

    If a transaction is not committed, all later transactions are aborted. The error is raised once, by a call of the
    open transaction or by the next `transaction`, `settle` or `stop`. By then, the consumers whose offsets were part of
    the aborted transactions have returned to the committed offsets, and read these records again. For other input,
    ``txn.outcome`` shows which transactions to repeat.

    A pipeline belongs to the event loop that started it. Only one block may be open at a time. All times are in
    milliseconds.
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
        """Check the options, without connecting.

        ``in_flight`` is the number of producers (2 to 100). Give either ``bootstrap_servers`` or a ``client``, whose
        connections the pipeline then uses, like `Client.transaction_pipeline`. Raises `ConfigError` or
        `ConfigTypeError` for an invalid option or a missing ``transactional_id``.
        """
        more = {"key_serializer": key_serializer, "value_serializer": value_serializer}
        config, parent = configured(ProducerConfig, bootstrap_servers, client, options, **more)
        if config.transactional_id is None:
            raise ConfigError("a TransactionPipeline needs a transactional_id")
        self._config = config
        self._client = Client(config, parent=parent)
        self._client.facade = type(self).__name__
        self._producers: list[Producer[K, V]] = []
        for number in range(IN_FLIGHT("in_flight", in_flight)):
            transactional_id, client_id = f"{config.transactional_id}-{number}", f"{config.client_id}-{number}"
            producer: Producer[Any, Any] = Producer.__new__(Producer)
            its_config = replace(config, transactional_id=transactional_id, client_id=client_id)
            producer._set_up(its_config, parent or self._client)
            producer._client.asks_coordinators_apart = True
            self._producers.append(producer)
        self._pipeline = Pipeline(self._client, self._producers, config.max_block_ms)
        self._log = client_log("producer", config.client_id)

    # --- start and stop ----------------------------------------------------------------------------------------------

    async def start(self, *, wait: bool = True, timeout_ms: float | None = None) -> None:
        """Connect to the cluster, take over the transactional ids, and abort their open transactions.

        ``wait``, ``timeout_ms`` and the errors are as in `Producer.start`.
        """
        await self._client.start(wait=boolean("wait", wait), timeout_ms=TIMEOUT("timeout_ms", timeout_ms))

    async def stop(self, timeout_ms: float | None = None) -> None:
        """Wait for the commits in flight, abort an open transaction, and close every connection.

        The call takes at most ``timeout_ms``. Without ``timeout_ms``, the limit for commits is ``max_block_ms``. The
        connections are closed even if the call raises an error. A cancelled call closes them without waiting for
        commits. The method may be called repeatedly.

        Raises the error of a transaction that was not committed, unless it was raised before, and
        `CommitOutcomeUnknownError` if a commit was not certain in time.
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
            self._log.warning("the latest transactions of the pipeline were not committed: %s", failure)

    # --- transactions ------------------------------------------------------------------------------------------------

    def transaction(self) -> PipelinedTransaction[K, V]:
        """Return the next transaction, for ``async with``; it has the methods of `Transaction`.

        Entering the block waits at most ``max_block_ms`` for a free producer, and then raises
        `TransactionTimedOutError`. It also raises the error of an earlier transaction that was not committed,
        `ProducerFencedError` if another process uses one of the transactional ids, and `IllegalStateError` if a block
        is already open.

        Leaving the block raises `TransactionAbortedError` if a record of the transaction could not be stored, as
        `Producer.commit_transaction` does. If the block raises an error or is cancelled, its transaction is aborted,
        but earlier transactions are still committed.
        """
        self._client.check()
        return PipelinedTransaction(self._pipeline)

    async def settle(self, *, timeout_ms: float | None = None) -> None:
        """Wait until no transaction is in flight.

        Raises `CommitOutcomeUnknownError` after ``timeout_ms`` (default: ``max_block_ms``); the commits continue, and
        the call may be repeated. Raises the error of a transaction that was not committed, unless it was raised before,
        and `IllegalStateError` if a block is open.
        """
        given = TIMEOUT("timeout_ms", timeout_ms)
        self._client.check()
        await self._pipeline.settle(self._config.max_block_ms if given is None else given)

    # --- state -------------------------------------------------------------------------------------------------------

    @property
    def client_id(self) -> str:
        """Name of the pipeline in the brokers' logs and quotas.

        The names of its producers are this name followed by ``-0``, ``-1`` and so on.
        """
        return self._config.client_id

    @property
    def transactional_id(self) -> str | None:
        """Common prefix of the producers' transactional ids."""
        return self._config.transactional_id

    async def partitions_for(self, topic: str, *, timeout_ms: float | None = None) -> frozenset[int]:
        """Return the numbers of the topic's partitions.

        The call waits at most ``timeout_ms`` (default: ``max_block_ms``) for metadata. Raises the errors of
        `Producer.partitions_for`.
        """
        self._client.check()
        return await self._producers[0].partitions_for(topic, timeout_ms=timeout_ms)

    def transaction_health(self) -> tuple[TransactionHealth, ...]:
        """Return the state of each producer's transactions; see `Producer.transaction_health`."""
        return tuple(producer.transaction_health() for producer in self._producers)

    def metrics(self) -> tuple[ProducerMetrics, ...]:
        """Return the metrics of each producer, in the order of their transactional ids."""
        return tuple(producer.metrics() for producer in self._producers)

    def health(self) -> tuple[ProducerHealth, ...]:
        """Return the health of each producer, in the order of their transactional ids; see `Producer.health`."""
        return tuple(producer.health() for producer in self._producers)

    @property
    def _takes_bytes(self) -> bool:
        return self._producers[0]._takes_bytes

    async def _abort_refused(self) -> None:
        """Abort uncommitted transactions for `Consumer.run`, which then reads their records again."""
        for producer in self._producers:
            await producer._abort_refused()

    def _take_failure(self) -> KafkaError | None:
        """Return the failure to `Consumer.run`, which reads the records again."""
        return self._pipeline.take_failure()


class PipelinedTransaction(Transaction[K, V], Generic[K, V]):
    """One transaction of a `TransactionPipeline`; see `TransactionPipeline.transaction`.

    It has the methods of `Transaction`. The producers of the pipeline take turns, so consecutive transactions have
    different producers.
    """

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
            raise IllegalStateError("no transaction is open: begin a transaction before you send")
        self._pipeline.check(self._chained)
