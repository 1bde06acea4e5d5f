"""What `Consumer.run` and `ShareConsumer.run` have in common."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Protocol

from ._options.checks import INT32_MAX

if TYPE_CHECKING:
    from ._core.consumer.health import ConsumerHealth
    from ._core.run.dead_letter import DeadLetterProducer
    from ._core.run.options import HandlingConfig
    from ._io.client import Client

__all__ = ["attended", "dead_letters_by"]


class _Attended(Protocol):
    """A consumer, of either kind."""

    @property
    def client_id(self) -> str: ...

    async def stop(self, timeout_ms: float | None = None) -> None: ...

    def health(self) -> ConsumerHealth: ...


async def attended(
    consumer: _Attended, close_timeout_ms: float | None, config: HandlingConfig, work: Callable[[], Awaitable[None]]
) -> None:
    """Do the work, and meanwhile answer signals and probes, if the options ask for that."""
    if not config.attended:
        await work()
        return
    from ._io.run.service import Service

    stop = partial(consumer.stop, close_timeout_ms)
    await Service(config, stop, consumer.health, consumer.client_id).attend(work)


@asynccontextmanager
async def dead_letters_by(client: Client, config: HandlingConfig) -> AsyncIterator[DeadLetterProducer | None]:
    """What dead letters are sent through: the producer that was given, or one that connects as the client does."""
    if config.dead_letter_topic is None or config.dead_letter_producer is not None:
        yield config.dead_letter_producer
        return
    from .producer import Producer  # only now: without dead letters its import costs nothing

    async with Producer._beside(client, max_request_size=INT32_MAX) as producer:
        yield producer
