"""The task that gets a producer its id, at the start and whenever it needs a new one."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Protocol

import anyio

from ..._core.backoff import Backoff
from ..._core.inquiry import Inquiry, evades
from ..._core.producer.accumulator import Accumulator
from ..._core.producer.answers import BatchAnswers
from ..._core.producer.idempotence import IdempotentSequencing
from ..._core.trust import patience_of
from ..._options.logs import ClientLog
from ..._wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ...config import ProducerConfig
from ...errors import KafkaError, error_for_code
from ..connection.connection import Connection
from ..loop import Signal

_INT32_MAX = 2**31 - 1


class AskAny(Protocol):
    """`ask_anyone`, for one client."""

    def __call__(
        self, inquiries: Collection[Inquiry], ask: Callable[[Connection], Awaitable[InitProducerIdResponse]], /
    ) -> Awaitable[tuple[int, InitProducerIdResponse]]: ...


class ProducerIds:
    """Ids of one idempotent, non-transactional producer."""

    def __init__(
        self, config: ProducerConfig, accumulator: Accumulator, answers: BatchAnswers, ask_any: AskAny, log: ClientLog
    ) -> None:
        """``ask_any`` asks the least loaded broker."""
        self._accumulator = accumulator
        self._answers = answers
        self._ask_any = ask_any
        self._log = log
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._inquiry = Inquiry(patience_of(config.retry_backoff_max_ms))
        self.wanted = Signal()
        """Set when the producer has records to send and no id."""

    async def run(self, identity: IdempotentSequencing) -> None:
        """Get ids until cancelled."""
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
            if not evades(error):
                self._answers.abort(partial(_no_producer_id, error), time.monotonic())
                await self.wanted.wait()
            await anyio.sleep(self._backoff.delay_s(failures))

    async def _get(self) -> KafkaError | None:
        try:
            _, response = await self._ask_any((self._inquiry,), _ask)
        except KafkaError as error:
            level = logging.DEBUG if error.retriable else logging.WARNING
            self._log.log(level, "no producer id: %s", error.message, extra={"api": "InitProducerId"})
            return error
        self._inquiry.settled()
        self._accumulator.on_producer_id(response.producer_id, response.producer_epoch, time.monotonic())
        return None


async def _ask(connection: Connection) -> InitProducerIdResponse:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_INT32_MAX)
    response = await connection.request(request)
    if response.error_code:
        kind = error_for_code(response.error_code)
        raise kind(f"InitProducerId: {kind().message}")
    return response


def _no_producer_id(error: KafkaError, fate: str) -> KafkaError:
    return type(error)(f"no producer id could be had, so the records were {fate}: {error.message}")
