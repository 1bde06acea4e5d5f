"""Common parts of `Consumer.run` and `ShareConsumer.run`."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Protocol

from ._options.checks import INT32_MAX

if TYPE_CHECKING:
    from ._core.consumer.health import ConsumerHealth
    from ._core.run.options import HandlingConfig
    from ._io.client import Client
    from ._io.run.dead_letters import DeadLetters

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
    """Yield the dead-letter topic of a run; None without one, or if the client was stopped meanwhile.

    Letters go through the given producer, or through a new one that connects like the client.
    """
    if config.dead_letter_topic is None:
        yield None
        return
    # Imported only now, so that runs without dead letters do not pay for it.
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
