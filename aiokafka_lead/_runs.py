"""What `Consumer.run` and `ShareConsumer.run` have in common."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Protocol

from ._options.checks import INT32_MAX

if TYPE_CHECKING:
    from ._core.run.options import HandlingConfig
    from ._io.client import Client
    from ._io.run.dead_letters import DeadLetters
    from .health import ConsumerHealth

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
async def dead_letters_by(
    client: Client, config: HandlingConfig, group_id: str | None
) -> AsyncIterator[DeadLetters | None]:
    """The dead-letter topic of a run; None without one, or when the client was stopped while this began.

    Letters go through the producer that was given, or one that connects as the client does.
    """
    if config.dead_letter_topic is None:
        yield None
        return
    # Only now: without dead letters these imports cost nothing.
    from ._io.run.dead_letters import DeadLetters
    from .producer import Producer

    found: DeadLetters | None = None
    async with AsyncExitStack() as stack:
        with client.beginnings.within(math.inf):
            producer = config.dead_letter_producer
            if producer is None:
                beside = Producer._beside(client, max_request_size=INT32_MAX)
                producer = await stack.enter_async_context(beside)
            dead_letters = DeadLetters(producer, config.dead_letter_topic, group_id)
            await dead_letters.check()
            found = dead_letters
        yield found
