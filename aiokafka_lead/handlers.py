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
    """Mapping from topics to the functions that handle their records, for `Consumer.run` and `ShareConsumer.run`.

        handlers = Handlers()

        @handlers.on("orders", to="invoices", key=lambda invoice: invoice.customer)
        async def bill(order: Order) -> Invoice: ...

        @handlers.on("refunds", "chargebacks")
        async def refund(record: ConsumerRecord) -> None: ...

        await consumer.run(handlers)

    If the consumer has no subscription, `run` subscribes it to `topics`.
    """

    def __init__(self) -> None:
        self._routes: dict[str | None, Route] = {}

    @property
    def topics(self) -> tuple[str, ...]:
        """Topics with their own handler, in the order of registration."""
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
        """Register the decorated function as the handler of these topics.

        Without topics, it handles all topics that have no other handler. The names and annotations of its parameters
        determine its arguments (see `Consumer.run`). For a function without annotations, ``model`` is the type of the
        value.

        - ``to``: topic for the results of the function. A list becomes one record for each item, and any other result
          one record, except None. bytes and str are sent unchanged, other values as JSON. The handled record is done
          once all results are acknowledged. With ``exactly_once``, the results are part of the transaction.
        - ``key``: function that takes a result and returns its key. By default, a result has the key of the handled
          record.
        - ``in_thread``: call a plain function in a separate thread, for up to ``concurrency`` records at once.
        - ``max_records``: pass a list of up to this many records of one partition, parsed according to the annotation
          (``list[Order]``).
        - ``max_wait_ms``: maximum time that such a batch waits to fill (default: 100). With ``exactly_once``, it waits
          ``max_transaction_ms`` at most.

        Each partition has one batch in progress at a time, so the order is kept. A batch that fails is handled again.
        After its last retry, each of its records is handled alone, and a record that fails alone is given up. With
        ``exactly_once``, a batch is part of one transaction.

        Raises `ConfigError` for a topic that already has a handler.
        """
        names: tuple[str | None, ...] = tuple(topic_name("topics", topic) for topic in topics) or (None,)
        target = None if to is None else topic_name("to", to)

        def register(handler: H) -> H:
            route = checked_route(Route(handler, model, target, key, in_thread, max_records, max_wait_ms))
            for name in names:
                if name in self._routes:
                    taken = "the other topics already have" if name is None else f"topic {name} already has"
                    raise ConfigError(f"{taken} a handler")
            self._routes.update(dict.fromkeys(names, route))
            return handler

        return register
