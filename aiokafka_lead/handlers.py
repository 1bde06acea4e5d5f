"""Handlers of several topics for one consumer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ._core.run.routes import Route, checked_route
from ._options.arguments import topic_name
from .errors import ConfigError

__all__ = ["Handlers"]

H = TypeVar("H", bound=Callable[..., Any])


class Handlers:
    """Maps topics to the functions that handle their records, for `Consumer.run` and `ShareConsumer.run`.

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
        """Topics with a handler of their own, in the order of their registration."""
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
        """Register the decorated function for these topics, or without any for all topics without another handler.

        The names and annotations of its parameters determine its arguments (see `Consumer.run`); ``model`` is the type
        of the value for a function without annotations.

        ``to`` is the topic for its results: no record for None, one for each item of a list, and one for anything else.
        bytes and str are sent unchanged, everything else as JSON. A result has the key of the handled record, unless
        the function ``key`` returns another one for it. The handled record is done once all results are
        acknowledged; with ``exactly_once`` they are part of the transaction.

        ``in_thread`` is for a plain function: each call is in a thread of its own, up to ``concurrency`` at once.

        ``max_records`` makes it a handler of batches: it gets a list of up to that number of records of one partition,
        parsed as the annotation says (``list[Order]``). A batch waits for ``max_wait_ms`` (100) until it is full. A
        partition has one batch at work at a time, so that the order is kept. A batch that fails is handled again; when
        its retries are used up, each of its records alone, so that only those that fail then are given up. With
        ``exactly_once`` a batch is part of one transaction, and does not wait beyond ``max_transaction_ms``.

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
