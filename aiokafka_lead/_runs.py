"""`Consumer.run`, and the parts shared with `ShareConsumer.run` and an outbox relay."""

from __future__ import annotations

import math
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from . import errors
from ._core.consumer.deserializers import bad_record
from ._core.consumer.subscription import SubscriptionKind
from ._options.checks import INT32_MAX
from ._options.logs import client_log

if TYPE_CHECKING:
    from ._core.run.options import HandlingConfig, RunConfig
    from ._io.client import Client
    from ._io.consumer.engine import ConsumerEngine
    from ._io.run.outgoing import DeadLetters
    from ._io.run.routing import Routing
    from ._io.run.service import Health, Steps
    from .config import ConsumerConfig
    from .config.run import DeadLetterProducer, RunOptions
    from .handlers import Handlers
    from .producer import Producer
    from .producer.pipeline import TransactionPipeline

Subscribe = Callable[[tuple[str, ...]], None]


async def run_consumer(
    consumer: _Attended,
    subscribe: Subscribe,
    engine: ConsumerEngine[Any, Any],
    handler: Callable[..., Awaitable[object]] | Handlers,
    exactly_once: Producer[Any, Any] | TransactionPipeline[Any, Any] | None,
    options: RunOptions,
) -> None:
    """Implement `Consumer.run`. Omitted options default to the consumer's options."""
    from ._core.run.exactly_once import checked_producer
    from ._core.run.options import RunConfig

    own, client, subscription = engine.config, engine.client, engine.subscription
    if engine.run.called:  # checked first, because leaving it ends the reading of retry topics
        raise errors.IllegalStateError("run() is already running")
    defaults: RunOptions = {} if own.dead_letter_topic is None else {"dead_letter_topic": own.dead_letter_topic}
    if own.on_bad_record != "raise":
        defaults["on_bad_record"] = own.on_bad_record
    config = RunConfig.from_options({**defaults, **options})
    if exactly_once is not None:
        checked_producer(exactly_once, config)
    read = None if subscription.kind is SubscriptionKind.PATTERN else subscription.topics
    routing = routing_of(handler, transactional=exactly_once is not None, read=read, subscribe=subscribe)
    check_apart(config.dead_letter_topic, subscription.topics, subscription.pattern)

    async def work() -> None:
        from ._io.run.runner import run
        from ._io.run.service import Steps, reached

        steps = Steps(client, config)
        if not await reached(client):
            return
        async with client.handling(), retry_topics(engine, config, own.group_id, routing, steps):
            if exactly_once is not None:
                from ._io.run.exactly_once import run_exactly_once

                await run_exactly_once(engine, config, routing, exactly_once, steps)
                return
            later = bool(config.retry_topics)
            async with outlets(client, config, own.group_id, steps, routing, later=later) as dead_letters:
                await run(engine, config, routing, dead_letters)

    engine.run.called = True
    engine.progress.waits()  # the application has no records in hand before the run begins
    try:
        await attended(consumer, own.close_timeout_ms, config, work)
    finally:
        engine.run.called = False
        engine.progress.progressed(time.monotonic())


def check_apart(dead_letter_topic: str | None, read: Collection[str], pattern: re.Pattern[str] | None = None) -> None:
    """Raise `ConfigError` if the run would read its own dead letters, which would fail again forever."""
    if dead_letter_topic is None:
        return
    matches = pattern is not None and pattern.fullmatch(dead_letter_topic) is not None
    if dead_letter_topic in read or matches:
        why = "matches its pattern" if matches else "is one of its topics"
        raise errors.ConfigError(
            f"dead_letter_topic must be a topic that the consumer does not read, but {dead_letter_topic} {why}"
        )


async def bury(client: Client, config: ConsumerConfig, failed: Sequence[errors.RecordDeserializationError]) -> None:
    """Wait until records that cannot be deserialized may be skipped. Their dead letters, if any, must be stored first.

    If a record in the dead-letter topic itself cannot be deserialized, raises its error. Otherwise, its dead letter
    would be read and fail next, and so on.
    """
    log = client_log("consumer", config.client_id)
    done = "was skipped"
    if config.on_bad_record == "dead_letter":
        for error in failed:
            if error.record.topic == config.dead_letter_topic:
                raise error
        from ._core.run.options import RunConfig
        from ._io.run.service import Steps

        handling = RunConfig.from_options({"dead_letter_topic": config.dead_letter_topic})
        async with outlets(client, handling, config.group_id, Steps(client, handling)) as dead_letters:
            if dead_letters is None:
                raise errors.ClientClosedError
            for error, sent in [(error, await dead_letters.send(error.record, error, 0)) for error in failed]:
                try:
                    await sent
                except errors.MessageTooLargeError:
                    await (await dead_letters.send(error.record, error, 0, brief=True))
        done = f"went to {config.dead_letter_topic}"
    for error in failed:
        log.warning("%s %s", bad_record(error), done)


class _Attended(Protocol):
    """The required methods of a client that `attended` runs: a consumer, a share consumer or a relay."""

    @property
    def client_id(self) -> str: ...

    async def stop(self, timeout_ms: float | None = None) -> None: ...

    def health(self) -> Health: ...


async def attended(
    consumer: _Attended, close_timeout_ms: float | None, config: HandlingConfig, work: Callable[[], Awaitable[None]]
) -> None:
    """Run ``work``, while handling signals and answering probes if the options request it."""
    if not config.attended:
        await work()
        return
    from ._io.run.service import Service

    stop = partial(consumer.stop, close_timeout_ms)
    await Service(config, stop, consumer.health, consumer.client_id).attend(work)


def routing_of(handler: Any, *, transactional: bool, read: Collection[str] | None, subscribe: Subscribe) -> Routing:
    """Return the handlers of a run, ready to be called.

    `Handlers` must cover the topics in ``read``, or None if these are unknown. If ``read`` is empty, the consumer
    subscribes to the handlers' topics. Raises `ConfigError` or `ConfigTypeError`.
    """
    from ._core.run.routes import Route, check_topics
    from ._io.run.routing import Routing
    from .handlers import Handlers

    if not isinstance(handler, Handlers):
        return Routing({None: Route(handler)}, transactional=transactional)
    routing = Routing(handler._routes, transactional=transactional)
    if read is not None and not read and handler.topics:
        subscribe(handler.topics)
    elif read is not None:
        check_topics(handler._routes, read)
    return routing


@asynccontextmanager
async def outlets(
    client: Client,
    config: HandlingConfig,
    group_id: str | None,
    steps: Steps,
    routing: Routing | None = None,
    *,
    later: bool = False,
) -> AsyncIterator[DeadLetters | None]:
    """Yield the outlet for the dead letters of a run, and prepare the producer of its results.

    The outlet is None if there is no dead-letter topic, or if the client is stopped during the wait. Unless the
    application has passed a producer for dead letters, a producer with the client's connection options sends both. With
    ``later``, it also sends records to retry topics.
    """
    targets = frozenset[str]() if routing is None else routing.targets
    if (config.dead_letter_topic is None and not targets and not later) or client.stopping:
        yield None
        return
    # Import this here, because runs without dead letters and results do not need it.
    from ._io.run.outgoing import BySize, DeadLetters, check_writable
    from .producer import Producer

    # Records may exceed the limits for new records, because brokers have already accepted them.
    unlimited = {"max_request_size": INT32_MAX, "buffer_memory": INT32_MAX}

    async def begun() -> Producer[Any, Any]:
        return await stack.enter_async_context(Producer._beside(client, max_request_size=INT32_MAX))

    async def compressing() -> Producer[Any, Any]:
        producer = Producer._beside(client, compression_type="gzip", **unlimited)
        await producer.start(wait=False)  # once the run has begun, it waits for brokers only in `send`
        stack.push_async_exit(producer)
        return producer

    found: DeadLetters | None = None
    async with AsyncExitStack() as stack:
        with client.beginnings.within(math.inf):
            producer: DeadLetterProducer | None = config.dead_letter_producer
            own: Any = None
            if producer is None or targets or later:
                own = BySize(await steps.take(begun), compressing)
            if config.dead_letter_topic is not None:
                dead_letters = DeadLetters(producer or own, config.dead_letter_topic, group_id)
                await steps.take(dead_letters.check)
                found = dead_letters
            for topic in targets:
                await steps.take(partial(check_writable, own._client, topic))
            if routing is not None:
                routing.producer = own
        yield found


@asynccontextmanager
async def retry_topics(
    engine: ConsumerEngine[Any, Any], config: RunConfig, group_id: str | None, routing: Routing, steps: Steps
) -> AsyncIterator[None]:
    """In the block, let the consumer read the retry topics of its partitions. Missing retry topics are created.

    Raises `ConfigError` if retry topics are impossible, and the error of a missing topic that cannot be created.
    """
    if not config.retry_topics:
        yield
        return
    from ._core.run.later import RetryTopics

    kind = engine.subscription.kind
    if group_id is None:
        raise errors.ConfigError("retry_topics need a group_id, which is part of their names")
    if kind not in (SubscriptionKind.TOPICS, SubscriptionKind.ASSIGNED):
        raise errors.ConfigError("retry_topics need a subscription to topics by name, not by pattern")
    found = RetryTopics(group_id, config.retry_topics)

    async def make(topics: Iterable[str]) -> None:
        await _make_retry_topics(engine.client, {topic: found.names[topic] for topic in map(found.original, topics)})

    def keep(topics: Iterable[str]) -> None:
        engine.client.metadata.add_topics([name for topic in topics for name in found.names[topic]])

    async def make_and_keep(topics: Iterable[str]) -> None:
        try:
            await make(topics)
        except (
            errors.KafkaError
        ) as error:  # only log it here, because it is raised when a record must wait in that topic
            client_log("consumer", engine.config.client_id).warning("the retry topics do not exist yet: %s", error)
        keep(topics)

    def follow() -> None:
        new = [topic for topic in engine.subscription.topics if topic not in found.names]
        if new:
            found.add(new)
            engine.reading.accompany(found.names)
            engine.client.spawn(make_and_keep, new, name="kafka retry topics")

    found.add(engine.subscription.topics)
    with engine.client.beginnings.within(math.inf):
        await steps.take(partial(make, found.names))
    keep(found.names)
    engine.reading.accompany(found.names)
    routing.retry_topics = found
    routing.make_retry_topics = make
    routing.partition_count = lambda topic: engine.client.metadata.snapshot.partition_count(topic)
    engine.run.on_subscription = follow
    try:
        yield
    finally:
        engine.run.on_subscription = None
        engine.reading.accompany({})
        engine.client.metadata.remove_topics([name for names in found.names.values() for name in names])


async def _make_retry_topics(client: Client, wanted: Mapping[str, Sequence[str]]) -> None:
    """Create the missing retry topics of each topic, and their missing partitions.

    Raises the errors of `MetadataActor.topic` for a topic that brokers do not know, `TopicAuthorizationFailedError` for
    a retry topic that the client may not read or write, and other errors of the cluster with the names of the topics in
    a note.
    """
    from ._core.run.later import RETRY_TOPIC_CONFIG
    from ._io.admin import Calls
    from ._io.run.outgoing import MISSING_AFTER_MS, READ, WRITE, check_rights, described
    from .admin import outcomes_of
    from .admin.topics import NewTopic, TopicCalls

    counts = {origin: len((await client.metadata.topic(origin, MISSING_AFTER_MS)).partitions) for origin in wanted}
    answers = await described(client, [name for names in wanted.values() for name in names])
    there = {topic.name: len(topic.partitions) for topic in answers if not topic.error_code}
    for answer in answers:
        check_rights(answer, READ, WRITE)
    missing: list[NewTopic] = []
    grown: dict[str, int] = {}
    for origin, names in wanted.items():
        partitions = counts[origin]
        missing += [NewTopic(name, partitions, topic_configs=RETRY_TOPIC_CONFIG) for name in names if name not in there]
        grown.update((name, partitions) for name in names if there.get(name, partitions) < partitions)
    topics = TopicCalls()
    topics._calls = Calls(client, client.config.request_timeout_ms)
    try:
        # Another member may have created some of them in the meantime.
        for made in (await outcomes_of(topics.create_topics(missing))).values():
            if isinstance(made, errors.KafkaError) and not isinstance(made, errors.TopicAlreadyExistsError):
                raise made
        for name, count in grown.items():
            with suppress(errors.InvalidPartitionsError):
                await topics.create_partitions({name: count})
    except errors.KafkaError as error:
        names = ", ".join([*(topic.name for topic in missing), *grown])
        error.add_note(f"retry topics that cannot be created, or lack partitions: {names}")
        raise
    if missing or grown:
        client.metadata.request_update()
