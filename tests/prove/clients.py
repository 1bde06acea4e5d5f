"""Interfaces of three clients for the processes of `tests.prove`: producers, transactions, and members of groups."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, NamedTuple, Protocol

from aiokafka_lead import Consumer, Producer, TopicPartition
from aiokafka_lead.errors import KafkaError, ProducerFencedError

__all__ = ["CLIENTS", "Failed", "Reading", "Servers", "Transacting", "Transaction", "Writing"]

Servers = dict[str, Any]
"""The option bootstrap_servers, and for this package also the options for TLS and a proxy."""

DELIVERY_TIMEOUT_MS = 120_000
SESSION_MS = 6000
COMMIT_MS = 500
_CALL_S = 60.0


class Failed(Exception):
    """A failed transaction. The text names the client's error."""

    def __init__(self, error: BaseException, *, is_final: bool) -> None:
        super().__init__(type(error).__name__)
        self.is_final = is_final
        """True if the producer cannot be used again."""


class Writing(Protocol):
    """An idempotent producer."""

    async def start(self) -> None: ...

    async def send(self, topic: str, partition: int, value: bytes) -> Awaitable[int]:
        """Return an awaitable of the offset, or raise."""
        ...

    async def stop(self) -> None: ...


class Transaction(Protocol):
    """A transaction, as a context manager that commits, or aborts after an exception. Raises `Failed`."""

    @property
    def outcome(self) -> str:
        """Return "committed", "aborted", or anything else if the client does not know."""
        ...

    async def send(self, topic: str, partition: int, value: bytes) -> None: ...

    async def __aenter__(self) -> Transaction: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Transacting(Protocol):
    """A transactional producer."""

    async def start(self) -> None: ...

    def transaction(self) -> Transaction: ...

    async def stop(self) -> None: ...


class Reading(Protocol):
    """A consumer, of committed records only."""

    async def start(self) -> None: ...

    async def read(self, timeout_ms: int) -> dict[int, list[tuple[int, bytes]]]:
        """Return offsets and values by partition."""
        ...

    async def stop(self) -> None: ...


class Client(NamedTuple):
    """A client's classes."""

    producer: Callable[[Servers], Writing]
    transactions: Callable[[Servers, str, int], Transacting]
    """Takes servers, transactional id and timeout in ms."""
    reader: Callable[[Servers, str, list[int] | str, str], Reading]
    """Takes servers, topic, partitions or a group, and the group's protocol."""
    protocols: tuple[str, ...] = ("classic", "consumer")
    """Group protocols that the client supports."""


# --- this package -----------------------------------------------------------------------------------------------------


class _Lead:
    def __init__(self, servers: Servers) -> None:
        self._producer: Producer[Any, Any] = Producer(**servers, delivery_timeout_ms=DELIVERY_TIMEOUT_MS)

    async def start(self) -> None:
        await self._producer.start(wait=False)

    async def send(self, topic: str, partition: int, value: bytes) -> Awaitable[int]:
        delivery = await self._producer.send(topic, value, partition=partition)

        async def offset() -> int:
            return (await delivery).offset

        return offset()

    async def stop(self) -> None:
        await self._producer.stop()


class _LeadTransaction:
    def __init__(self, producer: Producer[Any, Any]) -> None:
        self._txn = producer.transaction()

    @property
    def outcome(self) -> str:
        return self._txn.outcome or "open"

    async def send(self, topic: str, partition: int, value: bytes) -> None:
        try:
            await self._txn.send(topic, value, partition=partition)
        except KafkaError as error:
            raise Failed(error, is_final=isinstance(error, ProducerFencedError)) from error

    async def __aenter__(self) -> Transaction:
        try:
            await self._txn.__aenter__()
        except KafkaError as error:
            raise Failed(error, is_final=isinstance(error, ProducerFencedError)) from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._txn.__aexit__(kind, error, trace)
        except KafkaError as failure:
            raise Failed(failure, is_final=isinstance(failure, ProducerFencedError)) from failure


class _LeadTransactions:
    def __init__(self, servers: Servers, transactional_id: str, timeout_ms: int) -> None:
        self._producer: Producer[Any, Any] = Producer(
            **servers, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )

    async def start(self) -> None:
        await self._producer.start(wait=False)

    def transaction(self) -> Transaction:
        return _LeadTransaction(self._producer)

    async def stop(self) -> None:
        await self._producer.stop()


class _LeadReader:
    def __init__(self, servers: Servers, topic: str, of: list[int] | str, protocol: str) -> None:
        wanted: dict[str, Any] = {"isolation_level": "read_committed"}
        if isinstance(of, str):
            wanted |= {"group_id": of, "group_protocol": protocol, "auto_commit_interval_ms": COMMIT_MS}
            wanted |= {"session_timeout_ms": SESSION_MS} if protocol == "classic" else {}
        self._consumer: Consumer[Any, Any] = Consumer(**servers, auto_offset_reset="earliest", **wanted)
        if isinstance(of, str):
            self._consumer.subscribe([topic])
        else:
            self._consumer.assign([TopicPartition(topic, partition) for partition in of])

    async def start(self) -> None:
        await self._consumer.start(wait=False)

    async def read(self, timeout_ms: int) -> dict[int, list[tuple[int, bytes]]]:
        return _pairs(await self._consumer.getmany(timeout_ms=timeout_ms))

    async def stop(self) -> None:
        await self._consumer.stop()


def _pairs(found: Any) -> dict[int, list[tuple[int, bytes]]]:
    return {tp.partition: [(each.offset, each.value) for each in records] for tp, records in found.items()}


# --- aiokafka ---------------------------------------------------------------------------------------------------------


async def _started(client: Any) -> None:
    """Start a client of aiokafka, whose start fails while no bootstrap server answers."""
    import aiokafka.errors

    while True:
        try:
            await client.start()
        except aiokafka.errors.KafkaError:
            await asyncio.sleep(0.5)
        else:
            return


class _Aiokafka:
    def __init__(self, servers: Servers, transactional_id: str | None = None, timeout_ms: int = 60_000) -> None:
        import aiokafka

        self._producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=servers["bootstrap_servers"],
            enable_idempotence=True,
            request_timeout_ms=DELIVERY_TIMEOUT_MS,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
        )

    async def start(self) -> None:
        await _started(self._producer)

    async def send(self, topic: str, partition: int, value: bytes) -> Awaitable[int]:
        future = await self._producer.send(topic, value, partition=partition)

        async def offset() -> int:
            return int((await future).offset)

        return offset()

    def transaction(self) -> Transaction:
        return _AiokafkaTransaction(self._producer)

    async def stop(self) -> None:
        await self._producer.stop()


class _PeerTransaction:
    """Transaction of a client with calls to begin, commit and abort, which raise ``errors``."""

    errors: type[BaseException]

    def __init__(self, producer: Any) -> None:
        self.producer = producer
        self.outcome = "open"

    async def begin(self) -> None:
        raise NotImplementedError

    async def commit(self) -> None:
        raise NotImplementedError

    async def abort(self) -> None:
        raise NotImplementedError

    async def __aenter__(self) -> Any:
        try:
            await self.begin()
        except self.errors as error:
            raise Failed(error, is_final=True) from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            try:
                await self.commit()
            except self.errors as failure:
                error = failure
            else:
                self.outcome = "committed"
                return
        try:
            await self.abort()
        except self.errors as failure:
            self.outcome = "unknown"
            raise Failed(failure, is_final=True) from error
        self.outcome = "aborted"
        if isinstance(error, self.errors):
            raise Failed(error, is_final=False) from error


class _AiokafkaTransaction(_PeerTransaction):
    def __init__(self, producer: Any) -> None:
        import aiokafka.errors

        self.errors = aiokafka.errors.KafkaError
        super().__init__(producer)

    async def begin(self) -> None:
        await self.producer.begin_transaction()

    async def send(self, topic: str, partition: int, value: bytes) -> None:
        try:
            await self.producer.send(topic, value, partition=partition)
        except self.errors as error:
            raise Failed(error, is_final=False) from error

    async def commit(self) -> None:
        await self.producer.commit_transaction()

    async def abort(self) -> None:
        await self.producer.abort_transaction()


class _AiokafkaReader:
    def __init__(self, servers: Servers, topic: str, of: list[int] | str, protocol: str) -> None:
        import aiokafka

        common: dict[str, Any] = {"bootstrap_servers": servers["bootstrap_servers"], "auto_offset_reset": "earliest"}
        common |= {"isolation_level": "read_committed"}
        if isinstance(of, str):
            group = {"group_id": of, "auto_commit_interval_ms": COMMIT_MS, "session_timeout_ms": SESSION_MS}
            self._consumer = aiokafka.AIOKafkaConsumer(topic, **common, **group)
        else:
            self._consumer = aiokafka.AIOKafkaConsumer(**common)
            self._consumer.assign([aiokafka.TopicPartition(topic, partition) for partition in of])

    async def start(self) -> None:
        await _started(self._consumer)

    async def read(self, timeout_ms: int) -> dict[int, list[tuple[int, bytes]]]:
        return _pairs(await self._consumer.getmany(timeout_ms=timeout_ms))

    async def stop(self) -> None:
        await self._consumer.stop()


# --- confluent-kafka --------------------------------------------------------------------------------------------------


class _Confluent:
    def __init__(self, servers: Servers, **more: Any) -> None:
        import confluent_kafka

        common = {"bootstrap.servers": servers["bootstrap_servers"], "enable.idempotence": True, "log_level": 0}
        timeout = {} if more else {"delivery.timeout.ms": DELIVERY_TIMEOUT_MS}
        self._producer = confluent_kafka.Producer({**common, **timeout, **more})
        self._is_transactional = bool(more)
        self._error = confluent_kafka.KafkaException
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)

    def _poll(self) -> None:
        while not self._ended.is_set():
            self._producer.poll(0.05)

    async def start(self) -> None:
        self._thread.start()
        while self._is_transactional:
            try:
                await asyncio.to_thread(self._producer.init_transactions, _CALL_S)
            except self._error as error:
                if not error.args[0].retriable():
                    raise
            else:
                return

    async def send(self, topic: str, partition: int, value: bytes) -> Awaitable[int]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[int] = loop.create_future()

        def told(error: Any, message: Any) -> None:
            if error is None:
                loop.call_soon_threadsafe(future.set_result, message.offset())
            else:
                loop.call_soon_threadsafe(future.set_exception, self._error(error))

        self._producer.produce(topic, value, partition=partition, on_delivery=told)
        return future

    def transaction(self) -> Transaction:
        return _ConfluentTransaction(self._producer)

    async def stop(self) -> None:
        await asyncio.to_thread(self._producer.flush, DELIVERY_TIMEOUT_MS / 1000)
        self._ended.set()


def _confluent_transactions(servers: Servers, transactional_id: str, timeout_ms: int) -> Transacting:
    return _Confluent(servers, **{"transactional.id": transactional_id, "transaction.timeout.ms": timeout_ms})


class _ConfluentTransaction(_PeerTransaction):
    def __init__(self, producer: Any) -> None:
        import confluent_kafka

        self.errors = confluent_kafka.KafkaException
        super().__init__(producer)

    async def begin(self) -> None:
        self.producer.begin_transaction()

    async def send(self, topic: str, partition: int, value: bytes) -> None:
        try:
            self.producer.produce(topic, value, partition=partition)
        except self.errors as error:
            raise Failed(error, is_final=False) from error

    async def commit(self) -> None:
        await self._repeat(self.producer.commit_transaction)

    async def abort(self) -> None:
        await self._repeat(self.producer.abort_transaction)

    async def _repeat(self, call: Callable[[float], None]) -> None:
        """Repeat a call while its error is retriable."""
        while True:
            try:
                return await asyncio.to_thread(call, _CALL_S)
            except self.errors as error:
                if not error.args[0].retriable():
                    raise


class _ConfluentReader:
    def __init__(self, servers: Servers, topic: str, of: list[int] | str, protocol: str) -> None:
        import confluent_kafka

        config: dict[str, Any] = {
            "bootstrap.servers": servers["bootstrap_servers"],
            "group.id": of if isinstance(of, str) else "none",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "log_level": 0,
        }
        if isinstance(of, str):
            config |= {"group.protocol": protocol, "auto.commit.interval.ms": COMMIT_MS}
            config |= {"session.timeout.ms": SESSION_MS} if protocol == "classic" else {}
            self._consumer = confluent_kafka.Consumer(config)
            self._consumer.subscribe([topic])
        else:
            self._consumer = confluent_kafka.Consumer(config | {"enable.auto.commit": False})
            beginnings = [confluent_kafka.TopicPartition(topic, p, confluent_kafka.OFFSET_BEGINNING) for p in of]
            self._consumer.assign(beginnings)

    async def start(self) -> None:
        pass

    async def read(self, timeout_ms: int) -> dict[int, list[tuple[int, bytes]]]:
        found: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
        for message in await asyncio.to_thread(self._consumer.consume, 500, timeout_ms / 1000):
            if message.error() is None:
                found[message.partition() or 0].append((message.offset() or 0, message.value() or b""))
        return found

    async def stop(self) -> None:
        await asyncio.to_thread(self._consumer.close)


CLIENTS: dict[str, Client] = {
    "aiokafka-lead": Client(_Lead, _LeadTransactions, _LeadReader),
    "aiokafka": Client(_Aiokafka, _Aiokafka, _AiokafkaReader, ("classic",)),
    "confluent-kafka": Client(_Confluent, _confluent_transactions, _ConfluentReader),
}
