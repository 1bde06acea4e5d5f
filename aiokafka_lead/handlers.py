"""Handlers of several topics, which one consumer runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ._core.run.routes import Route, checked_route
from ._options.arguments import topic_name
from .errors import ConfigError

__all__ = ["Handlers"]

H = TypeVar("H", bound=Callable[..., Any])


class Handlers:
    """Says which function handles the records of which topic, for `Consumer.run` and `ShareConsumer.run`.

        handlers = Handlers()

        @handlers.on("orders", to="invoices", key=lambda invoice: invoice.customer)
        async def bill(order: Order) -> Invoice: ...

        @handlers.on("refunds", "chargebacks")
        async def refund(record: ConsumerRecord) -> None: ...

        await consumer.run(handlers)

    A consumer that reads nothing yet subscribes to `topics` when it runs them.
    """

    def __init__(self) -> None:
        self._routes: dict[str | None, Route] = {}

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that have a handler of their own, in the order in which they were named."""
        return tuple(topic for topic in self._routes if topic is not None)

    def on(
        self,
        *topics: str,
        model: Any = None,
        to: str | None = None,
        key: Callable[[Any], str | bytes | None] | None = None,
        in_thread: bool = False,
        max_records: int | None = None,
        max_wait_ms: float = 100,
    ) -> Callable[[H], H]:
        """Have the function below handle the records of these topics; without any, of all that no other names.

        What a handler's parameters get, their names and annotations say (see `Consumer.run`); ``model`` says it for one
        that has no annotation.

        ``to`` is a topic that what the handler returns is sent to: nothing for None, each item of a list, or else one
        record. bytes and str are sent as they are, everything else as JSON. Its key is what the function ``key`` makes
        of what was returned, or without one the key of the record that was handled. That record is done once these are
        acknowledged; with ``exactly_once`` they are part of the transaction.

        ``in_thread`` is for a plain function: each call is in a thread of its own, as many at once as ``concurrency``
        allows.

        ``max_records`` makes it a handler of batches: it gets a list of up to so many records of one partition, or of
        what its annotation makes of them (``list[Order]``). A batch waits for ``max_wait_ms`` (100) until it is full.
        Each partition has one batch at work at a time, so that their order is kept. One that fails is handled again as
        a whole; when its retries are used up, record by record, so that only those that fail alone are given up.

        Raises `ConfigError` for a topic that has a handler already.
        """
        names: tuple[str | None, ...] = tuple(topic_name("topics", topic) for topic in topics) or (None,)
        target = None if to is None else topic_name("to", to)

        def register(handler: H) -> H:
            route = checked_route(Route(handler, model, target, key, in_thread, max_records, max_wait_ms))
            for name in names:
                if name in self._routes:
                    raise ConfigError(f"{'the other topics have' if name is None else name + ' has'} a handler already")
            self._routes.update(dict.fromkeys(names, route))
            return handler

        return register
