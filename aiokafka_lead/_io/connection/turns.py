"""The queue of tasks that wait to send a request on a connection."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ...errors import KafkaError
from ...errors.base import own_copy
from ..deadline import Deadline
from ..loop import Waiter


class TurnQueue:
    """A FIFO queue of the tasks that wait until a request can be sent.

    A task that gives up passes on its turn. Invariant: if a request can be sent, one task has been admitted, and it
    calls `admit` at the end of its turn.
    """

    def __init__(self, has_room: Callable[[], bool]) -> None:
        self._has_room = has_room
        self._waiting: deque[Waiter[None]] = deque()
        self._called = 0
        """Number of tasks that were admitted and have not run yet."""

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def empty(self) -> bool:
        """True if no task is waiting, and all admitted tasks have run."""
        return not self._waiting and not self._called

    async def wait(self, deadline: Deadline) -> None:
        """Wait until a request can be sent and it is this task's turn.

        Raises TimeoutError at the deadline (in monotonic seconds), or the error that was passed to `reject`.
        """
        turn: Waiter[None] = Waiter()
        self._waiting.append(turn)
        while True:
            try:
                try:
                    await turn.wait(deadline.left_s())
                finally:
                    self._called -= turn.done
            except BaseException:
                if turn in self._waiting:
                    self._waiting.remove(turn)
                self.admit()
                raise
            if self._has_room():
                return
            # A request that did not queue was sent instead. Wait again as the first in the queue.
            turn = Waiter()
            self._waiting.appendleft(turn)

    def admit(self) -> None:
        """Let the next waiting task continue, if a request can be sent."""
        if self._waiting and self._has_room():
            self._called += 1
            self._waiting.popleft().set_result(None)

    def reject(self, error: KafkaError) -> None:
        """Make all waiting tasks raise the error."""
        while self._waiting:
            self._called += 1
            self._waiting.popleft().set_error(own_copy(error))
