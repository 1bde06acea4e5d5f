"""The steps of a run before its first record."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import anyio

from ..._core.run.options import HandlingConfig
from ..._core.run.refusals import REFUSALS, Refusals
from ..._options.logs import client_log
from ...errors import KafkaConnectionError, KafkaTimeoutError, RequestTimedOutError

if TYPE_CHECKING:
    from ..client import Client

T = TypeVar("T")

AGAIN_S = 1.0
"""Pause in seconds before a step is repeated."""


async def reached(client: Client) -> bool:
    """Wait without a time limit until a broker was reached. Return False if the client is being stopped."""
    metadata = client.metadata
    with client.beginnings.within(math.inf):
        while not metadata.full_answers:
            with suppress(RequestTimedOutError):
                await metadata.wait_newer(metadata.snapshot.generation, client.config.request_timeout_ms)
    return not client.stopping


class Steps:
    """Takes the steps of a run, and repeats them after failures that the run would also tolerate later."""

    def __init__(self, client: Client, config: HandlingConfig) -> None:
        self._log = client_log("consumer", client.config.client_id)
        self._refusals = Refusals(config.refusal_patience_ms, client.config, self._log)

    async def take(self, step: Callable[[], Awaitable[T]]) -> T:
        """Return the result of a step. Raises errors other than outages, and refusals that last for too long."""
        outages = 0
        while True:
            try:
                return await step()
            except REFUSALS as error:
                await anyio.sleep(self._refusals.bear(error, time.monotonic()))
            except (KafkaConnectionError, KafkaTimeoutError) as error:
                outages += 1
                if outages == 1:
                    self._log.warning("run() waits for brokers before its first record: %s", error)
                await anyio.sleep(AGAIN_S)
