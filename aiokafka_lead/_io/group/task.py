"""The tasks of a consumer's membership in its group. They carry out the member's decisions."""

from __future__ import annotations

import math
import time
from functools import partial

import anyio

from ..._core.consumer.in_hand import PollInterval
from ..._core.consumer.prefetch import Prefetch
from ..._core.group.member import Ask, Assign, Lose, Revoke, Step, Wait, Wanted
from ..._core.latencies import Latencies
from ..._core.metadata.types import ClusterSnapshot, Moved
from ..._options.logs import client_log
from ...errors import IllegalStateError
from ..client import Client
from ..loop import in_task
from .handover import COMMIT_WITHIN_S, Handover
from .standing import Standing

LOOK_AT_MOST_EVERY_S = 1.0
"""Maximum interval in seconds between checks of ``max_poll_interval_ms``."""


class GroupTask:
    """Runs the tasks that own a group member: they rebalance, send heartbeats, and watch the application's progress."""

    def __init__(
        self,
        client: Client,
        standing: Standing,
        handover: Handover,
        prefetch: Prefetch,
        poll: PollInterval,
        rebalances: Latencies,
    ) -> None:
        self._client = client
        self._log = client_log("consumer", client.config.client_id)
        self._standing = standing
        self._member = standing.member
        self._handover = handover
        self._prefetch = prefetch
        self._rebalances = rebalances
        self._poll = poll
        self._look_every_s = min(LOOK_AT_MOST_EVERY_S, poll.interval_s / 4)
        """Interval in seconds at which the application's progress is checked."""
        self._running = False
        self._closing = False
        self._rebalancing = 0
        """The id of the rebalancing task, which calls the listener."""
        self._awaits_metadata = False
        """True while the member waits for newer metadata."""

    # --- calls of the application ------------------------------------------------------------------------------------

    def subscribe(self, wanted: Wanted, listener: object | None) -> None:
        """Join the group with this subscription, or change the subscription of the member."""
        if self._closing:
            return
        self._standing.subscribed = True
        self._handover.listener = listener
        if not self._running:
            self._running = True
            self._client.metadata.add_listener(self._on_metadata)
            self._poll.progressed(time.monotonic())
            self._member.topics_changed(self._client.metadata.snapshot, time.monotonic())
            for fn, name in (
                (self._rebalance, "kafka group"),
                (partial(self._standing.heartbeats.run, self._standing.notify), "kafka heartbeats"),
                (self._watch_progress, "kafka poll interval"),
            ):
                self._client.spawn(fn, name=name)
        self._member.subscribe(wanted, time.monotonic())
        self._standing.notify()

    def listen_apart(self) -> None:
        """Let the listener's callbacks run at any time except during a stop. The consumer's start does not wait for
        them.
        """
        self._handover.listen_within_s = math.inf
        self._handover.on_assigned = self._assigned

    def _assigned(self) -> None:
        self._standing.assigned = True
        self._standing.notify()

    def unsubscribe(self) -> None:
        """Give up the partitions and leave the group in the background."""
        if self._standing.subscribed:
            self._standing.subscribed = False
            if self._standing.stable:
                self._leave("the consumer unsubscribed")
            else:
                self._client.spawn(self._leave_when_committed, name="kafka leave")

    async def _leave_when_committed(self) -> None:
        await self._commit_while_joining(COMMIT_WITHIN_S)
        if not self._standing.subscribed:
            self._leave("the consumer unsubscribed")

    # --- stop --------------------------------------------------------------------------------------------------------

    def check_stop(self) -> None:
        """Raise an error if the rebalance listener is stopping the consumer.

        Leaving the group would wait for the listener.
        """
        if self._in_listener():
            raise IllegalStateError("a listener's callback cannot stop its consumer: stop it in another task")

    def check_wait(self) -> None:
        """Raise an error if a listener's callback is waiting for the assignment, which is waiting for the callback."""
        if self._in_listener():
            raise IllegalStateError(
                "a listener's callback cannot wait for the assignment, which waits for the callback"
            )

    def check_read(self) -> None:
        """Raise an error if a listener's callback is reading. The check is cheap.

        In a callback, no records of new and revoked partitions are available.
        """
        if self._in_listener():
            raise IllegalStateError("a listener's callback cannot read records: read after it has returned")

    def _in_listener(self) -> bool:
        return self._handover.tells and in_task() and anyio.get_current_task().id == self._rebalancing

    async def close(self, timeout_s: float) -> None:
        """Commit, give up the partitions, and leave the group, within ``timeout_s`` seconds.

        Static members do not leave.
        """
        if not self._running:
            return
        self._closing, self._standing.subscribed = True, False
        ends_at = time.monotonic() + timeout_s
        # The rest of the time is reserved for leaving the group.
        self._handover.hurry(ends_at - timeout_s * 0.4)
        await self._commit_while_joining(timeout_s)
        self._leave("the consumer is being closed")
        with anyio.move_on_after(max(0.0, ends_at - time.monotonic())):
            await self._standing.wait_until_out()

    async def _commit_while_joining(self, within_s: float) -> None:
        """Commit before leaving a group that is rebalancing.

        The response with the new generation will not be awaited.
        """
        if not self._standing.stable:
            await self._handover.commit_done(within_s)

    def _leave(self, reason: str) -> None:
        self._member.leave(reason, orderly=True, now=time.monotonic())
        self._standing.notify()

    # --- tasks -------------------------------------------------------------------------------------------------------

    def _on_metadata(self, snapshot: ClusterSnapshot, moved: Moved) -> None:
        if moved.partitions is None or moved.brokers or self._awaits_metadata:  # otherwise, only leaders have changed
            self._member.topics_changed(snapshot, time.monotonic())
        if moved.topics or self._awaits_metadata:
            self._standing.notify()

    async def _rebalance(self) -> None:
        """Carry out the member's steps one by one until cancelled."""
        member, handover, standing = self._member, self._handover, self._standing
        self._rebalancing = anyio.get_current_task().id
        since: float | None = None
        while True:
            error = member.error
            step = standing.step()
            if member.error is not error:
                standing.notify()  # the step has failed, for example because an assignor raised an error
            since = self._time_rebalance(since)
            match step:
                case Wait(until, refresh):
                    self._awaits_metadata = refresh
                    if refresh:
                        self._client.metadata.request_update()
                    await standing.rebalance_wake.wait(None if until is None else max(0.0, until - time.monotonic()))
                    continue
                case Ask():
                    await standing.ask(step)
                    continue
                case Revoke():
                    if not await handover.revoke(step, partial(self._is_next, step)):
                        continue
                case Lose():
                    await handover.lose(step)
                case Assign():
                    await handover.assign(step)
            member.done(step, time.monotonic())
            standing.assigned = False
            standing.notify()

    def _time_rebalance(self, since: float | None) -> float | None:
        """Return the start of the current rebalance, or None. ``since`` is the result of the previous call."""
        now = time.monotonic()
        if self._standing.out:
            return None
        if not self._standing.stable:
            return now if since is None else since
        if since is not None:
            self._rebalances.add(now - since)
        return None

    def _is_next(self, step: Step) -> bool:
        return self._standing.step() == step

    async def _watch_progress(self) -> None:
        poll = self._poll
        while True:
            await anyio.sleep(self._look_every_s)
            now = time.monotonic()
            poll.look(self._prefetch.records_taken, now)
            expires_at = poll.expires_at()
            if expires_at is not None and now >= expires_at and self._standing.joined:
                await self._expire()

    async def _expire(self) -> None:
        """Leave the group, because the application has not requested records for ``max_poll_interval_ms``.

        Records in hand must not be committed afterwards.
        """
        await self._handover.commit_done()
        # The application may have read during the commit.
        expires_at = self._poll.expires_at()
        if expires_at is None or time.monotonic() < expires_at:
            return
        reason = (
            f"the application did not request records for {self._poll.interval_s:g} s (max_poll_interval_ms): "
            "request fewer records at a time, or increase the limit"
        )
        self._log.warning("leaving the group: %s", reason)
        self._standing.put_out(reason)
