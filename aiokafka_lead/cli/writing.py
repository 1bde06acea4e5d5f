"""Writer for `produce`, `copy` and `replay`, with reports of failures and of the number of records written."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar

import anyio

from .._core.producer.delivery import Delivery
from .._io.loop import Signal
from ..admin import AdminClient, ConfigResource, ConfigResourceType
from ..errors import ConfigError, ConfigTypeError, KafkaError
from ..errors.shown import some_of
from ..producer import Producer
from ..types import TopicPartition
from .failures import ExitCode, Failed, exit_code, sentence, single
from .names import missing_topic
from .session import Session

P = TypeVar("P")

Place = tuple[TopicPartition, int]
"""A record's partition and offset."""

_IN_FLIGHT = 10_000
"""Maximum number of unacknowledged records. ``buffer_memory`` limits their size."""

_CREATED_WITHIN_S = {"true": 10.0, "false": 0.0}
"""Seconds to wait for a missing topic, for each value of ``auto.create.topics.enable``."""

_MAYBE_CREATED_WITHIN_S = 0.7
"""Seconds to wait for a missing topic if ``auto.create.topics.enable`` is unknown."""

_AUTO_CREATE = "auto.create.topics.enable"


@asynccontextmanager
async def writing(
    session: Session,
    producer: Producer[Any, Any],
    name: Callable[[P], str],
    *,
    acknowledged: Callable[[P], None] = lambda source: None,
    progress: Callable[[int], object] = lambda written: None,
) -> AsyncIterator[Writing[P]]:
    """Run a block that writes records, and wait at its end until all of them are acknowledged.

    If a record fails, the block is cancelled, even while it waits for input. `Failed` is raised after a report of the
    number of records written. Each record has a *source*, for example the number of its line; ``name`` returns the
    source's name for messages. ``acknowledged`` is called with the sources of acknowledged records, in order, until a
    record fails. ``progress`` is called repeatedly with the number of records written.
    """
    made = Writing(producer, name, acknowledged, progress)
    try:
        async with anyio.create_task_group() as beside:
            beside.start_soon(made.watch)
            yield made
            await made.settle()
            beside.cancel_scope.cancel()
    except Exception as error:
        cause = single(error)
        session.out.error(sentence(cause))  # before `end`, which may wait long for unreachable brokers
        try:
            await made.end()
        finally:
            made.collect()
            session.out.note(made.report())
        raise Failed(code=exit_code(cause)) from None
    except BaseException:  # a signal, or brokers that were unreachable for --timeout
        made.collect()
        if made.written or made.pending:
            session.out.note(made.report())
        raise


def at_offset(place: Place) -> str:
    """Return the name of a record in a topic, for messages."""
    where, offset = place
    return f"{where.topic}-{where.partition} at offset {offset}"


class Writing(Generic[P]):
    """Tracks the records that are sent but not acknowledged, with their sources; see `writing`."""

    def __init__(
        self,
        producer: Producer[Any, Any],
        name: Callable[[P], str],
        acknowledged: Callable[[P], None],
        progress: Callable[[int], object],
    ) -> None:
        self._producer = producer
        self._name = name
        self._acknowledged = acknowledged
        self._progress = progress
        self._pending: deque[tuple[P, Delivery]] = deque()
        self._sent = Signal()
        self._settled = Signal()
        self.written = 0

    @property
    def pending(self) -> int:
        """Number of records that were sent, but are not counted as written yet."""
        return len(self._pending)

    async def send(self, topic: str, record: Mapping[str, Any], source: P) -> None:
        """Send a record. Raises `Failed` if the producer does not accept it."""
        try:
            delivery = await self._producer.send(topic, **record)
        except (ConfigError, ConfigTypeError, KafkaError) as error:
            raise self._failed(self._name(source), error) from None
        self._pending.append((source, delivery))
        self._sent.set()

    async def watch(self) -> None:
        """Count acknowledged records, oldest first, until cancelled. Raises `Failed` for the first failed record."""
        while True:
            while self._pending:
                source, delivery = self._pending[0]
                if not delivery.done():
                    self._moved()
                try:
                    await delivery
                except KafkaError as error:
                    failed = self._refused() if error.collateral else []
                    names = some_of([self._name(each) for each, _ in failed] or [self._name(source)])
                    raise self._failed(names, failed[0][1] if failed else error) from None
                self._count()
            self._moved()
            await self._sent.wait()

    async def settle(self, *, leave: int = 0) -> None:
        """Wait until at most ``leave`` records are pending."""
        while len(self._pending) > leave:
            await self._settled.wait()

    async def keep_up(self) -> None:
        """Wait until at most `_IN_FLIGHT` records are pending."""
        await self.settle(leave=_IN_FLIGHT)

    def collect(self) -> None:
        """Count the records that are acknowledged by now, without waiting."""
        while self._pending and self._pending[0][1].done() and self._pending[0][1].exception() is None:
            self._count()

    async def end(self) -> None:
        """Wait until each record is acknowledged or has failed."""
        for _, delivery in self._pending:
            try:
                await delivery
            except KafkaError:
                pass

    def report(self) -> str:
        """Return a message with the numbers of written, unacknowledged and failed records."""
        done = [delivery for _, delivery in self._pending if delivery.done()]
        failed = sum(delivery.exception() is not None for delivery in done)
        doubtful = len(self._pending) - len(done)
        text = f"{self.written + len(done) - failed} records were written"
        return text + (f", and perhaps {doubtful} more" if doubtful else "") + (f"; {failed} failed" if failed else "")

    def _count(self) -> None:
        source, _ = self._pending.popleft()
        self.written += 1
        self._acknowledged(source)

    def _moved(self) -> None:
        self._progress(self.written)
        self._settled.set()

    def _refused(self) -> list[tuple[P, KafkaError]]:
        """Return the records that brokers rejected, without records that failed only because they shared a batch."""
        failed = [(source, delivery.exception()) for source, delivery in self._pending if delivery.done()]
        return [(source, error) for source, error in failed if error is not None and not error.collateral]

    @staticmethod
    def _failed(names: str, error: Exception) -> Failed:
        wrong = isinstance(error, (ConfigError, ConfigTypeError))
        return Failed(f"{names}: {sentence(error)}", ExitCode.FAILED if wrong else exit_code(error))


async def topic_to_write(session: Session, producer: Producer[Any, Any], topic: str) -> None:
    """Wait until the topic exists. Raises `Failed` if it is missing and brokers do not create it automatically."""
    async with session.admin() as admin:
        if topic in await admin.list_topics(include_internal=True):
            return
        creates = await _auto_create(admin)
        try:
            with anyio.fail_after(_CREATED_WITHIN_S.get(creates, _MAYBE_CREATED_WITHIN_S)):
                await producer.partitions_for(topic)
        except TimeoutError:
            raise await missing_topic(admin, topic) from None


async def _auto_create(admin: AdminClient) -> str:
    """Return the value of ``auto.create.topics.enable``, or ``""`` if the user is not authorized to read it."""
    try:
        brokers = (await admin.describe_cluster()).brokers
        resource = ConfigResource(ConfigResourceType.BROKER, str(brokers[0].node_id))
        entry = (await admin.describe_configs([resource]))[resource].get(_AUTO_CREATE)
    except KafkaError:
        return ""
    return "" if entry is None or entry.value is None else entry.value
