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

    A consumer without a subscription subscribes to `topics` when it runs the handlers.
    """

    def __init__(self) -> None:
        self._routes: dict[str | None, Route] = {}

    @property
    def topics(self) -> tuple[str, ...]:
        """Topics with a separate handler, in the order of registration."""
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
        """Register the decorated function for these topics; without topics, for all topics without another handler.

        The names and annotations of its parameters determine its arguments (see `Consumer.run`). ``model`` is the type
        of the value for a function without annotations.

        ``to`` is the topic for the function's results. If the result is None, no record is sent; if it is a list, a
        record is sent for each item; any other result is sent as one record. bytes and str are sent unchanged, other
        values as JSON. A result has the key of the handled record, unless the function ``key`` returns another key for
        it. The handled record is done once all results are acknowledged. With ``exactly_once`` the results are part of
        the transaction.

        With ``in_thread``, for a plain function, each call runs in a separate thread, up to ``concurrency`` at once.

        With ``max_records``, the function handles batches. Its argument is a list of up to ``max_records`` records of
        one partition, parsed according to the annotation (``list[Order]``). A batch waits up to ``max_wait_ms`` (100)
        to fill. Each partition has one batch in progress at a time, which keeps the order. A failed batch is handled
        again. When its retries are exhausted, each of its records is handled alone, and only records that fail then are
        given up. With ``exactly_once`` a batch is part of one transaction and does not wait beyond
        ``max_transaction_ms``.

        Raises `ConfigError` for a topic that already has a handler.
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
