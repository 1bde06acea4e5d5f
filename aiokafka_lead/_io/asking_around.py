"""Asks brokers the same, one after the other, and takes the first answer: no broker is waited for alone."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING, TypeVar

import anyio

from .._core.inquiry import Inquiry, evades
from ..errors import KafkaError, RequestTimedOutError
from .connection.connection import Connection
from .deadline import Deadline
from .loop import Signal, uninterrupted

if TYPE_CHECKING:
    from .client import Client

__all__ = ["ask_anyone", "ask_in_turn"]

T = TypeVar("T")

SECOND_AFTER_S = 1.0
"""When a second broker is asked what any broker can answer, while the first says nothing."""


async def ask_in_turn(
    nodes: Sequence[int],
    ask: Callable[[int], Awaitable[T]],
    timeout_s: float,
    *,
    hedge_after_s: float,
    after_failure: bool,
) -> tuple[tuple[int, T] | None, dict[int, KafkaError]]:
    """Ask these nodes in this order: the next when the one before is slow, and, with ``after_failure``, has failed.

    Returns the first answer with its node, or None, and why the others that were asked did not answer.
    """
    deadline = Deadline(timeout_s * 1000)
    answers: list[tuple[int, T]] = []
    errors: dict[int, KafkaError] = {}
    asked: list[int] = []
    progress = Signal()

    async def attempt(node_id: int) -> None:
        try:
            answers.append((node_id, await ask(node_id)))
        except KafkaError as error:
            errors[node_id] = error
        progress.set()

    async with anyio.create_task_group() as attempts:
        while not answers and not deadline.passed:
            if len(errors) == len(asked) and asked and not (after_failure and len(asked) < len(nodes)):
                break
            if len(asked) < len(nodes):
                attempts.start_soon(uninterrupted(attempt), nodes[len(asked)])
                asked.append(nodes[len(asked)])
            left_s = deadline.left_s()
            await progress.wait(min(hedge_after_s, left_s) if len(asked) < len(nodes) else left_s)
        attempts.cancel_scope.cancel()
    for node_id in asked:
        if node_id not in errors and not (answers and answers[0][0] == node_id):
            errors[node_id] = RequestTimedOutError("no answer in time")
    return (answers[0] if answers else None), errors


async def ask_anyone(
    client: Client,
    inquiries: Collection[Inquiry],
    ask: Callable[[Connection], Awaitable[T]],
    timeout_ms: float | None = None,
) -> tuple[int, T]:
    """Ask whichever broker has the least to do, and a second one if that is slow; return the answer and its node.

    ``inquiries`` say which brokers are to be avoided, and hear of those that did not help. Raises the error of ``ask``.
    """
    brokers = client.brokers
    deadline = Deadline(client.config.request_timeout_ms if timeout_ms is None else timeout_ms)
    now = time.monotonic()
    avoid = {node_id for inquiry in inquiries for node_id in inquiry.avoid(brokers.nodes, now)}
    first = await client.any_node(deadline, avoid)
    second = brokers.least_loaded(avoid={*avoid, first})
    asked_at: dict[int, float] = {}

    async def ask_node(node_id: int) -> T:
        asked_at[node_id] = time.monotonic()
        for inquiry in inquiries:
            inquiry.asks(node_id)
        return await ask(await brokers.get(node_id, timeout_ms=deadline.left_ms()))

    nodes = [first] if second is None or second == first else [first, second]
    answer, errors = await ask_in_turn(
        nodes, ask_node, deadline.left_s(), hedge_after_s=SECOND_AFTER_S, after_failure=False
    )
    now = time.monotonic()
    for node_id, error in errors.items():
        if evades(error):
            brokers.evaded(node_id, asked_at[node_id])
            for inquiry in inquiries:
                inquiry.failed(node_id, error, asked_at[node_id], now)
    if answer is not None:
        brokers.informed(answer[0])
        return answer
    raise min(errors.values(), key=evades, default=RequestTimedOutError("no broker was asked"))
