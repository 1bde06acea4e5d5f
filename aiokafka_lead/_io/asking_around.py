"""Requests to one broker after another, until one has answered. A slow broker does not delay the answer."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Container, Sequence
from typing import Protocol, TypeVar

import anyio

from .._core.inquiry import Inquiry, evades
from ..config import ClientConfig
from ..errors import KafkaConnectionError, KafkaError, RequestTimedOutError
from .connection.brokers import Brokers
from .connection.connection import Connection
from .deadline import Deadline
from .loop import Signal, uninterrupted

T = TypeVar("T")

SECOND_AFTER_S = 1.0
"""Seconds after which a second broker is asked if the first has not answered."""


class _Asking(Protocol):
    """The part of `Client` that this module uses."""

    config: ClientConfig
    brokers: Brokers

    async def any_node(self, deadline: Deadline, avoid: Container[int] = ()) -> int: ...


async def ask_in_turn(
    brokers: Brokers,
    following: Callable[[Container[int]], int | None],
    ask: Callable[[int], Awaitable[T]],
    timeout_s: float,
    *,
    next_after_s: float,
    next_after_failure: bool,
) -> tuple[tuple[int, T] | None, dict[int, KafkaError]]:
    """Ask nodes in turn. The next node is asked if one is slow or has failed.

    A node is slow after ``next_after_s`` seconds. After a failure, the next node is asked only if
    ``next_after_failure`` is True. ``following`` is called with the nodes asked so far, and returns the next node, or
    None if there is none at present. It is called until all nodes that were asked have failed. Returns the first answer
    and its node, or None, and the errors of the other nodes.
    """
    deadline = Deadline(timeout_s * 1000)
    answers: list[tuple[int, T]] = []
    errors: dict[int, KafkaError] = {}
    asked_at: dict[int, float] = {}
    progress = Signal()

    async def attempt(node_id: int) -> None:
        try:
            answers.append((node_id, await ask(node_id)))
        except KafkaError as error:
            errors[node_id] = error
            if not _is_out_of_reach(error):
                brokers.evaded(node_id, asked_at[node_id])
        progress.set()

    async with anyio.create_task_group() as attempts:
        while not answers and not deadline.passed:
            next_id = following(asked_at)
            if len(errors) == len(asked_at) and (next_id is None or (asked_at and not next_after_failure)):
                break
            if next_id is None and next_after_failure:
                # While one node has not answered, an unreachable one may have become reachable, so ask it again.
                next_id = following([node_id for node_id in asked_at if not _is_out_of_reach(errors.get(node_id))])
            if next_id is not None:
                errors.pop(next_id, None)
                asked_at[next_id] = time.monotonic()
                attempts.start_soon(uninterrupted(attempt), next_id)
            await progress.wait(min(next_after_s, deadline.left_s()))
        attempts.cancel_scope.cancel()
    answered_by = {node_id for node_id, _ in answers}
    for node_id, at in asked_at.items():
        passed_s = time.monotonic() - at
        if node_id not in errors and node_id not in answered_by:
            errors[node_id] = RequestTimedOutError(f"no answer within {passed_s * 1000:.0f} ms")
            if passed_s >= next_after_s:
                brokers.evaded(node_id, at)
    return (answers[0] if answers else None), errors


def _is_out_of_reach(error: KafkaError | None) -> bool:
    return isinstance(error, KafkaConnectionError)


def in_order(nodes: Sequence[int]) -> Callable[[Container[int]], int | None]:
    """Return a function for the argument ``following`` of `ask_in_turn`, which returns each of these nodes once."""
    following = iter(nodes)
    return lambda asked: next(following, None)


async def ask_anyone(
    client: _Asking,
    inquiries: Collection[Inquiry],
    ask: Callable[[Connection], Awaitable[T]],
    timeout_ms: float | None = None,
    avoid: Collection[int] = (),
) -> tuple[int, T]:
    """Ask the least loaded broker and, if it is slow, another one. Return the node that answered, and its answer.

    Brokers in ``avoid``, and those that ``inquiries`` avoid, are asked last. ``inquiries`` are notified of answers that
    do not help. Errors of ``ask`` are raised.
    """
    brokers = client.brokers
    deadline = Deadline(client.config.request_timeout_ms if timeout_ms is None else timeout_ms)
    now = time.monotonic()
    avoid = {*avoid, *(node_id for inquiry in inquiries for node_id in inquiry.avoid(brokers.nodes, now))}
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
        brokers, in_order(nodes), ask_node, deadline.left_s(), next_after_s=SECOND_AFTER_S, next_after_failure=False
    )
    now = time.monotonic()
    for node_id, error in errors.items():
        if evades(error):
            for inquiry in inquiries:
                inquiry.failed(node_id, error, asked_at[node_id], now)
    if answer is not None:
        brokers.informed(answer[0])
        return answer
    raise min(errors.values(), key=evades, default=RequestTimedOutError("no broker was asked"))
