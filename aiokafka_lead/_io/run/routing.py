"""Calling the handlers of topics, in threads if requested, and sending their results."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from ..._core.run.binding import bound, bound_to_batch
from ..._core.run.later import Letter, RetryTopics
from ..._core.run.routes import Route, outgoing
from ..._values import NamedTuple
from ...config.run import Order
from ...errors import ConfigError

if TYPE_CHECKING:
    from ..._core.producer.delivery import Delivery

Handler = Callable[..., Awaitable[object]]

THREADS = 1_000_000
"""Effectively unlimited, because the number of concurrent handlers is limited elsewhere."""


class BatchRoute(NamedTuple):
    """A batch handler, and the function that converts records for it."""

    item: Callable[[Any], Any]
    """Returns the handler's item for a record. Raises `RecordDeserializationError`."""
    handle: Handler
    """Called with a list of items."""
    max_records: int
    max_wait_s: float


class Routing:
    """Calls the handler of each record's topic, and sends the results of handlers with an output topic."""

    def __init__(self, routes: Mapping[str | None, Route], *, transactional: bool) -> None:
        """Prepare the handlers.

        Raises `ConfigTypeError` if a handler has a parameter that matches no part of a record.
        """
        self.producer: Any = None
        """The producer of results outside of transactions. Set when the run begins."""
        self.retry_topics: RetryTopics | None = None
        """The retry topics, if the run has any. Set when the run begins."""
        self.partition_count: Callable[[str], int] = _none
        """Returns the known number of partitions of a retry topic."""
        self.make_retry_topics: Callable[[Iterable[str]], Awaitable[None]] = _nothing
        """Creates missing partitions of these retry topics, or of the retry topics of these topics."""
        self.as_bytes = True
        """False if a serializer converts results to bytes."""
        self.targets = frozenset(route.to for route in routes.values() if route.to is not None)
        self.batches: dict[str | None, BatchRoute] = {}
        """The batch handlers by topic. The key None means all topics without another handler."""
        self._transactional = transactional
        self._single: dict[str | None, Handler] = {}
        for topic, route in routes.items():
            if route.max_records is None:
                call = bound(self._async(route), transactional=transactional, model=route.model)
                self._single[topic] = self._publishing(route, call, lambda record: record.key)
            else:
                call, item = bound_to_batch(self._async(route), transactional=transactional, model=route.model)
                handle = self._publishing(route, call, lambda record: None)
                self.batches[topic] = BatchRoute(item, handle, route.max_records, route.max_wait_ms / 1000)
        only = [*self._single.values()] if routes.keys() == {None} else []
        self.handle: Handler = only[0] if only else self._by_topic()
        """Called with each record that has no batch handler and, if there is one, with its transaction."""

    async def send_letter(self, sender: Any, letter: Letter) -> Delivery:
        """Send a record to its retry topic, with a producer or a transaction.

        If the retry topic lacks the partition, creates it.
        """
        if letter.partition >= self.partition_count(letter.topic):
            await self.make_retry_topics([letter.topic])
        sent: Delivery = await sender.send(*letter)
        return sent

    def batch_of(self, topic: str) -> BatchRoute | None:
        """Return the batch handler for this topic, or None."""
        if self.retry_topics is not None:
            topic = self.retry_topics.original(topic)
        found = self.batches.get(topic)
        return self.batches.get(None) if found is None and topic not in self._single else found

    def order_of(self, order: Order) -> Callable[[str], Order] | None:
        """Return a function from topic to the order of its records, or None if all topics have ``order``.

        Records of a topic that is handled in batches have no order here, because `Gathering` keeps their order.
        """
        if not self.batches:
            return None
        return lambda topic: order if self.batch_of(topic) is None else "none"

    def _by_topic(self) -> Handler:
        find, rest = self._single.get, self._single.get(None, _nobody)

        def handle(record: Any, *txn: Any) -> Awaitable[object]:
            return find(record.topic, rest)(record, *txn)

        return handle

    @staticmethod
    def _async(route: Route) -> Handler:
        if not route.in_thread:
            return route.handler
        call, limiter = route.handler, anyio.CapacityLimiter(THREADS)

        @functools.wraps(call)
        async def handle(*given: Any, **named: Any) -> object:
            return await anyio.to_thread.run_sync(functools.partial(call, *given, **named), limiter=limiter)

        return handle

    def _publishing(self, route: Route, call: Handler, key_of: Callable[[Any], Any]) -> Handler:
        """Return a handler that sends the results of ``call`` to the topic of ``route.to``.

        It returns after the records are acknowledged, or at once within a transaction, which covers them.
        """
        if route.to is None:
            return call

        async def handle(record: Any, *txn: Any) -> None:
            result = await call(record, *txn)
            # Convert all results first. Otherwise, if a later conversion failed, a retry would send the earlier results
            # again.
            records = list(outgoing(route, result, key_of(record), as_bytes=self.as_bytes))
            if txn:
                sender = txn[0]
            else:  # use one producer for all of them, to keep their order
                sizes = [len(value or b"") + len(key or b"") for value, key in records]
                sender = await self.producer.sender(max(sizes, default=0))
            sent = [await sender.send(route.to, value, key) for value, key in records]
            if not txn:
                for delivery in sent:
                    await delivery

        return handle


def _none(topic: str) -> int:
    """Return 0, because there are no retry topics."""
    return 0


async def _nothing(topics: Iterable[str]) -> None:
    """Do nothing, because there are no retry topics."""


async def _nobody(record: Any, *txn: Any) -> None:
    raise ConfigError(f"no handler for {record.topic}: name it with on(), or all other topics with on() alone")
