"""Kafka clients of a FastAPI app.

They start and stop with the app, and its routes receive them as dependencies.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import anyio
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import JSONResponse

from . import errors
from ._core.run.exactly_once import checked_producer
from ._core.run.failures import kind_and_place, quotes_input
from ._core.run.options import HandlingConfig, RunConfig, ShareRunConfig
from ._io.cancellation import host_tasks
from ._io.deadline import Deadline
from ._options.checks import boolean, discreet
from ._replies import too_large, unavailable
from ._runs import routing_of
from .admin import AdminClient
from .client import Client
from .config import ClientConfig
from .handlers import Handlers
from .producer import Producer

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._scrapes import Scrapes
    from .config import AdminOptions, ClientOptions, ConsumerOptions, ProducerOptions
    from .config.run import RunOptions, ShareRunOptions
    from .config.share import ShareConsumerOptions
    from .consumer import Consumer
    from .outbox import Outbox, Relay, RelayOptions
    from .producer.pipeline import TransactionPipeline
    from .prometheus import KafkaCollector
    from .share import ShareConsumer

    AnyConsumer = Consumer[Any, Any] | ShareConsumer[Any, Any]

__all__ = ["Dependency", "Kafka"]

T = TypeVar("T")
Handler = Callable[..., Awaitable[object]] | Handlers
H = TypeVar("H", bound=Handler)

_HAS_PROMETHEUS = find_spec("prometheus_client") is not None

_log = logging.getLogger("aiokafka_lead.fastapi")


class Dependency(Generic[T]):
    """A client of the app, as a dependency: pass it to ``Depends(...)`` in a route."""

    def __init__(self, make: Callable[[Client], T]) -> None:
        self._make = make
        self.client: T | None = None
        """Set while the app is running."""

    async def __call__(self) -> T:
        """Return the client. Raises `IllegalStateError` if the app is not running."""
        if self.client is None:
            raise errors.IllegalStateError("the app is not running: pass FastAPI(lifespan=kafka.lifespan)")
        return self.client

    @asynccontextmanager
    async def _made(self, client: Client) -> AsyncIterator[T]:
        made = self.client = self._make(client)
        try:
            yield made
        finally:
            self.client = None


Transactional = Dependency[Producer[Any, Any]] | Dependency["TransactionPipeline[Any, Any]"]
"""A dependency that provides a client for transactions: a producer or a pipeline."""


class _Consuming:
    """A consumer whose records the app handles, with its handler and options."""

    def __init__(
        self,
        make: Callable[[Client], AnyConsumer],
        handler: Handler,
        options: Mapping[str, Any],
        exactly_once: Transactional | None,
    ) -> None:
        self.make = make
        self._handler = handler
        self._options = options
        self.exactly_once = exactly_once
        self.consumer: AnyConsumer | None = None
        self.ended: str | None = None
        """Reason why its records are no longer handled. None while they are handled."""

    async def run(self, consumer: AnyConsumer) -> None:
        """Handle records until the consumer is stopped. An error is stored for the health routes."""
        try:
            options = dict(self._options)
            if self.exactly_once is not None:
                options["exactly_once"] = await self.exactly_once()
            await consumer.run(self._handler, **options)
        except errors.ClientClosedError:
            return
        except Exception as error:
            self.ended = f"records are no longer handled: {kind_and_place(error)}"
            # A traceback shows the messages of all errors in the chain. It is left out if one of them quotes records.
            shown = None if quotes_input(error) else error
            _log.error("a consumer of the app has failed: %s", error, exc_info=shown)


class _Relaying:
    """An outbox that the app publishes while it runs."""

    def __init__(self, make: Callable[[Client], Relay]) -> None:
        self.dependency = Dependency(make)
        self.ended: str | None = None
        """Reason why the outbox is no longer published. None while it is published."""

    async def run(self, relay: Relay) -> None:
        """Publish the outbox until the relay is stopped."""
        try:
            await relay.run()
        except Exception as error:
            self.ended = f"the outbox is no longer published: {kind_and_place(error)}"
            _log.exception("a relay of the app has failed")


class Kafka:
    """The Kafka clients of a FastAPI app, on shared connections.

        kafka = Kafka("localhost:9092", client_id="orders-api", close_timeout_ms=10_000)
        orders = kafka.producer(linger_ms=0, delivery_timeout_ms=8_000, request_timeout_ms=5_000)

        app = FastAPI(lifespan=kafka.lifespan)
        app.include_router(kafka.router())

        @app.post("/orders")
        async def accept(order: bytes, producer: Annotated[Producer, Depends(orders)]):
            await producer.send_and_wait("orders", order)

    The app starts even if Kafka is down (unless ``wait`` is True), and becomes ready once a broker has been reached.
    When the app stops, running handlers finish, their offsets are committed, and pending records are sent, within
    ``close_timeout_ms`` (default: 10000). Each run of the app creates new clients, in each worker process.
    """

    @discreet
    def __init__(
        self, bootstrap_servers: str | Iterable[str], *, wait: bool = False, **options: Unpack[ClientOptions]
    ) -> None:
        """Check the options, which are the options of `Client`.

        With ``wait``, starting the app waits for Kafka and fails if no broker can be reached. Raises `ConfigError` or
        `ConfigTypeError` for an invalid option.
        """
        self._close_timeout_ms = options.setdefault("close_timeout_ms", 10_000)
        self._new_client = partial(Client, bootstrap_servers, **options)
        self._new_client()  # to report invalid options now
        self._wait = boolean("wait", wait)
        self._dependencies: list[Dependency[Any]] = []
        self._consuming: list[_Consuming] = []
        self._relaying: list[_Relaying] = []
        self._client: Client | None = None
        self._stopping = False
        self._scrapes: Scrapes | None = None
        """Set while the app runs with several workers."""
        self._servers = bootstrap_servers
        self._client_id = options.get("client_id", ClientConfig.client_id)
        self._counts: Counter[str] = Counter()

    # --- clients -----------------------------------------------------------------------------------------------------

    def producer(self, **options: Unpack[ProducerOptions]) -> Dependency[Producer[Any, Any]]:
        """Return a producer for ``Depends``.

            orders = kafka.producer(linger_ms=0)

            @app.post("/orders")
            async def accept(order: bytes, producer: Annotated[Producer, Depends(orders)]): ...

        `ProducerOptions` describes the options. Raises `ConfigError` or `ConfigTypeError` for an invalid option, and
        `IllegalStateError` if the app is running.
        """
        given: Any = self._named("producer", options)
        return self._dependency(lambda client: client.producer(**given))

    def transaction_pipeline(
        self, *, in_flight: int = 2, **options: Unpack[ProducerOptions]
    ) -> Dependency[TransactionPipeline[Any, Any]]:
        """Return a `TransactionPipeline` for ``Depends`` and for the argument ``exactly_once`` of `consumer`.

        ``in_flight`` is the number of producers of the pipeline. Only one of its transactions may be open at a time, so
        concurrent requests must wait for each other. `ProducerOptions` describes the other options. Raises the errors
        of `producer`.
        """
        given: Any = self._named("transaction_pipeline", options)
        return self._dependency(lambda client: client.transaction_pipeline(in_flight=in_flight, **given))

    def admin(self, **options: Unpack[AdminOptions]) -> Dependency[AdminClient]:
        """Return an admin client for ``Depends``; `AdminOptions` describes the options."""
        return self._dependency(lambda client: client.admin(**options))

    def consumer(
        self,
        *topics: str,
        run: RunOptions | None = None,
        exactly_once: Transactional | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> Callable[[H], H]:
        """Call the decorated handler with every record of these topics while the app runs.

            @kafka.consumer("orders", group_id="billing", run={"dead_letter_topic": "orders.failed"})
            async def bill(record): ...

        ``run`` has options of `Consumer.run`, except ``stop_on_signals``, because the app's server handles signals. For
        several topics, call the result with `Handlers` instead of decorating a function. Without ``topics``, the
        consumer subscribes to the topics that the handlers have when the app starts.

            kafka.consumer(group_id="billing")(handlers)

        ``exactly_once`` is the result of `producer` with a ``transactional_id``, or of `transaction_pipeline`. The
        handler then also receives a transaction. No other code or consumer may begin a transaction with that producer
        or pipeline. Each process of the app needs a different ``transactional_id``.

            copies = kafka.producer(transactional_id=f"copies-{socket.gethostname()}-{os.getpid()}")

            @kafka.consumer("orders", group_id="copier", exactly_once=copies)
            async def copy(record, txn): await txn.send("copies", record.value)

        Raises `ConfigError` or `ConfigTypeError` for an invalid option, and `IllegalStateError` if the app is running.
        """
        given: Any = self._named("consumer", options)
        if exactly_once is not None:
            if not isinstance(exactly_once, Dependency):
                raise errors.ConfigTypeError("exactly_once must be a result of producer() or transaction_pipeline()")
            checked_producer(exactly_once._make(self._new_client()), RunConfig.from_options(run or {}))

        def make(client: Client, names: tuple[str, ...]) -> AnyConsumer:
            return client.consumer(*names, **given)

        return self._handling(make, topics, RunConfig, run or {}, exactly_once)

    def share_consumer(
        self, *topics: str, run: ShareRunOptions | None = None, **options: Unpack[ShareConsumerOptions]
    ) -> Callable[[H], H]:
        """Call the decorated handler with every record of a share group while the app runs.

            @kafka.share_consumer("mails", group_id="mailers", run={"retries": 2})
            async def send_mail(record): ...

        ``run`` has options of `ShareConsumer.run`, except ``stop_on_signals``. For the use of `Handlers`, and for the
        errors, see `consumer`.
        """
        given: Any = self._named("share_consumer", options)

        def make(client: Client, names: tuple[str, ...]) -> AnyConsumer:
            return client.share_consumer(*names, **given)

        return self._handling(make, topics, ShareRunConfig, run or {})

    def relay(self, outbox: Outbox, database: Any, **options: Unpack[RelayOptions]) -> Dependency[Relay]:
        """Publish an outbox with a `Relay` while the app runs.

        ``database`` is the database of the outbox, as for `Relay`. Returns the relay for ``Depends``, so that routes
        can call `Relay.wake` after a commit. Any number of the app's processes may publish the outbox, because they
        share its shards. `RelayOptions` describes the options. Raises the errors of `producer`.
        """
        from .outbox import Relay  # imported here, so apps without outboxes do not load it

        def make(client: Client) -> Relay:
            return Relay(outbox, database, client, **options)

        make(self._new_client())  # to report invalid options now
        self._check_not_running()
        self._relaying.append(_Relaying(make))
        return self._relaying[-1].dependency

    def _handling(
        self,
        make: Callable[[Client, tuple[str, ...]], AnyConsumer],
        topics: tuple[str, ...],
        config: type[HandlingConfig],
        run: Mapping[str, Any],
        exactly_once: Transactional | None = None,
    ) -> Callable[[H], H]:
        """Return the decorator that registers a handler. Check all options now, before the app starts."""
        make(self._new_client(), topics)  # to report invalid options now
        if config.from_options(run).stop_on_signals:
            raise errors.ConfigError("stop_on_signals must not be set, because the server of the app handles signals")

        def register(handler: H) -> H:
            several: object = handler
            if not topics and not isinstance(several, Handlers):
                raise errors.ConfigError("the consumer has no topics: pass topics, or Handlers with topics")
            self._check_not_running()
            if exactly_once is not None and any(each.exactly_once is exactly_once for each in self._consuming):
                raise errors.ConfigError(
                    "another consumer already uses this exactly_once client: create one for each consumer"
                )
            routing_of(handler, transactional=exactly_once is not None, read=topics, subscribe=lambda names: None)

            def begin(client: Client) -> AnyConsumer:
                return make(client, several.topics if isinstance(several, Handlers) and not topics else topics)

            self._consuming.append(_Consuming(begin, handler, run, exactly_once))
            return handler

        return register

    def _named(self, kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options with a ``client_id`` that distinguishes clients of the same kind in metrics."""
        self._counts[kind] += 1
        number = self._counts[kind]
        base = self._client_id
        return {"client_id": base if number == 1 else f"{base}-{number}", **options}

    def _check_not_running(self) -> None:
        """Raise `IllegalStateError` while the app runs, because all its clients start together."""
        if self._client is not None:
            raise errors.IllegalStateError("the app is running: add clients and handlers before it starts")

    def _dependency(self, make: Callable[[Client], T]) -> Dependency[T]:
        make(self._new_client())
        self._check_not_running()
        dependency = Dependency(make)
        self._dependencies.append(dependency)
        return dependency

    # --- starting and stopping ---------------------------------------------------------------------------------------

    @asynccontextmanager
    async def lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        """Start the clients, and stop them at the end of the block.

        Pass the method as ``FastAPI(lifespan=kafka.lifespan)``, or enter it in another lifespan.
        """
        if self._client is not None:
            raise errors.IllegalStateError("another running app uses these clients: create another Kafka")
        client = self._client = self._new_client()
        self._stopping = False
        try:
            async with AsyncExitStack() as stack:
                await client.start(wait=self._wait)
                stack.push_async_callback(client.stop, self._close_timeout_ms)
                for dependency in self._dependencies:
                    made = await stack.enter_async_context(dependency._made(client))
                    await made.start(wait=self._wait)
                spawn = await stack.enter_async_context(host_tasks())
                if (directory := os.environ.get("PROMETHEUS_MULTIPROC_DIR")) and _HAS_PROMETHEUS:
                    from ._scrapes import Scrapes

                    self._scrapes = Scrapes(directory, repr((self._client_id, self._servers)), self._own_page)
                    stack.callback(self._scrapes.end)
                    await self._scrapes.listen()
                    spawn(self._scrapes.serve, "kafka metrics of other workers")
                for consuming in self._consuming:
                    consuming.ended = None
                    consuming.consumer = consuming.make(client)
                    await consuming.consumer.start(wait=self._wait)
                    spawn(partial(consuming.run, consuming.consumer), "kafka consumer of the app")
                for relaying in self._relaying:
                    relaying.ended = None
                    relay = await stack.enter_async_context(relaying.dependency._made(client))
                    spawn(partial(relaying.run, relay), "kafka outbox of the app")
                try:
                    yield
                finally:
                    self._stopping = True
                    with anyio.CancelScope(shield=True):
                        await self._stop(client)
        finally:
            self._client = self._scrapes = None

    async def _stop(self, client: Client) -> None:
        """Stop all clients within ``close_timeout_ms``.

        Relays use the producers of the client, so they are stopped first, within half of that time.
        """
        timeout_ms = self._close_timeout_ms
        deadline = None if timeout_ms is None else Deadline(timeout_ms)
        async with anyio.create_task_group() as stopping:
            for relay in self._relays():
                stopping.start_soon(relay.stop, None if timeout_ms is None else timeout_ms / 2)
        await client.stop(None if deadline is None else deadline.left_ms())

    # --- routes ------------------------------------------------------------------------------------------------------

    def router(self, prefix: str = "") -> APIRouter:
        """Return the routes ``GET /health/live``, ``GET /health/ready`` and ``GET /metrics``.

        Health routes return status 200, or 503 with a list of ``problems``. The app is live if no client has failed
        permanently and every consumer is live (`ConsumerHealth.live`). It is ready if, in addition, a broker has been
        reached once and the app is not being stopped. A temporary outage of the cluster does not make the app unready,
        but requests that need Kafka get 503. Metrics come from `KafkaCollector`; without the ``prometheus`` extra,
        there is no ``/metrics``.
        """
        router = APIRouter(prefix=prefix)

        @router.get("/health/live")
        async def live() -> JSONResponse:
            return self._page(self._problems())

        @router.get("/health/ready")
        async def ready() -> JSONResponse:
            problems = self._problems()
            if self._client is not None and not self._client.health().connected:
                problems.append("no broker has been reached yet")
            if self._stopping:
                problems.append("the app is being stopped")
            return self._page(problems)

        if _HAS_PROMETHEUS:
            router.add_api_route("/metrics", self._metrics, response_class=Response)
        return router

    async def _metrics(self, request: Request) -> Response:
        """Return the metrics for Prometheus in the requested format."""
        from prometheus_client import CollectorRegistry
        from prometheus_client.exposition import choose_encoder

        registry = CollectorRegistry()
        registry.register(self._collector() if self._scrapes is None else await self._scrapes.workers())
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(registry), media_type=content_type)

    def _own_page(self) -> str:
        from prometheus_client import CollectorRegistry, generate_latest

        registry = CollectorRegistry()
        registry.register(self._collector())
        return generate_latest(registry).decode()

    def _collector(self) -> KafkaCollector:
        from .prometheus import KafkaCollector

        return KafkaCollector(*self._running())

    def _relays(self) -> list[Relay]:
        relays = [relaying.dependency.client for relaying in self._relaying]
        return [relay for relay in relays if relay is not None]

    def _running(self) -> Iterator[Producer[Any, Any] | TransactionPipeline[Any, Any] | AnyConsumer | Relay]:
        yield from self._relays()
        for dependency in self._dependencies:
            if dependency.client is not None and not isinstance(dependency.client, AdminClient):
                yield dependency.client
        for consuming in self._consuming:
            if consuming.consumer is not None:
                yield consuming.consumer

    def handle_errors(self, app: FastAPI) -> None:
        """Let a request that fails with a `KafkaError` return status 413, 500, or 503 with Retry-After.

        - 413: the record is too large.
        - 500: a mistake of the program, such as wrong arguments or a record that cannot be serialized.
        - 503: any other error, including a serializer that cannot reach the schema registry. The record may or may not
          be stored, so clients should send an id with it.

        For the same errors, a WebSocket is closed with code 1009, 1011 or 1013. If the WebSocket was not accepted yet,
        the server answers 403. Brokers' messages name hosts and principals, so they are logged but not returned.
        """
        # Starlette's types allow a handler for requests or one for WebSockets, but not one for both.
        app.add_exception_handler(errors.MessageTooLargeError, too_large)  # type: ignore[arg-type]
        app.add_exception_handler(errors.KafkaError, unavailable)  # type: ignore[arg-type]

    def _problems(self) -> list[str]:
        if self._client is None:
            return ["the app is not running"]
        found = [] if self._stopping else list(self._client.health().problems)
        for consuming in self._consuming:
            if consuming.ended is not None:
                found.append(consuming.ended)
            elif consuming.consumer is not None and not self._stopping:
                found += consuming.consumer.health().own_problems
        return found + [relaying.ended for relaying in self._relaying if relaying.ended is not None]

    def _page(self, problems: list[str]) -> JSONResponse:
        """Return status 503 if there are problems, and otherwise 200.

        Stuck partitions are shown, but do not count, because a new process would not help.
        """
        consumers = [] if self._stopping else [each.consumer for each in self._consuming]
        healths = [consumer.health() for consumer in consumers if consumer is not None]
        stuck = [why for health in healths if health.reachable for why in health.stuck.values()]
        for relay in self._relays() if not self._stopping else ():
            stuck += relay.health().problems
        content = {"healthy": not problems and not stuck, "problems": [*problems, *stuck]}
        return JSONResponse(content, 503 if problems else 200)
