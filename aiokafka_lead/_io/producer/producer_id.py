"""The task that gets a producer its id, at the start and whenever it needs another one."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial

import anyio

from ..._core.backoff import Backoff
from ..._core.producer.accumulator import Accumulator
from ..._core.producer.answers import BatchAnswers
from ..._core.producer.idempotence import IdempotentSequencing
from ..._options.logs import ClientLog
from ..._wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ...config import ProducerConfig
from ...errors import KafkaError, error_for_code
from ..loop import Signal

__all__ = ["AskAny", "ProducerIds"]

_INT32_MAX = 2**31 - 1

AskAny = Callable[[InitProducerIdRequest], Awaitable[InitProducerIdResponse]]


class ProducerIds:
    """Of one producer, which is idempotent and not transactional."""

    def __init__(
        self, config: ProducerConfig, accumulator: Accumulator, answers: BatchAnswers, ask_any: AskAny, log: ClientLog
    ) -> None:
        """``ask_any`` sends a request to whichever broker has the least to do."""
        self._accumulator = accumulator
        self._answers = answers
        self._ask_any = ask_any
        self._log = log
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self.wanted = Signal()
        """Set where the producer has something to send and no id."""

    async def run(self, identity: IdempotentSequencing) -> None:
        """Until cancelled."""
        failures = 0
        while True:
            if identity.producer_id >= 0:
                failures = 0
                await self.wanted.wait()
                continue
            error = await self._get()
            if error is None:
                continue
            failures += 1
            if not error.retriable:
                self._answers.abort(partial(_no_producer_id, error), time.monotonic())
                await self.wanted.wait()
            await anyio.sleep(self._backoff.delay_s(failures))

    async def _get(self) -> KafkaError | None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_INT32_MAX)
        try:
            response = await self._ask_any(request)
        except KafkaError as error:
            return error
        if response.error_code:
            kind = error_for_code(response.error_code)
            level = logging.DEBUG if kind.retriable else logging.WARNING
            self._log.log(level, "no producer id: %s", kind().message, extra={"api": "InitProducerId"})
            return kind(f"InitProducerId: {kind().message}")
        self._accumulator.on_producer_id(response.producer_id, response.producer_epoch, time.monotonic())
        return None


def _no_producer_id(error: KafkaError, fate: str) -> KafkaError:
    return type(error)(f"no producer id could be had, so the records were {fate}: {error.message}")
