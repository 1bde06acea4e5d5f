"""A consumer's membership in its group: the tasks that do what the member decides."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio

from ..._core.consumer.in_hand import InHand
from ..._core.group.member import Ask, Assign, GroupMember, Lose, Revoke, Step, Wait, Wanted
from ..._core.group.offsets import Membership
from ..._core.group.poll_interval import PollInterval
from ..._core.metadata.types import ClusterSnapshot
from ..._options.logs import client_log
from ...errors import CommitFailedError, IllegalStateError, KafkaError, RebalanceInProgressError, StaleMemberEpochError
from ...errors.base import own_copy
from ...types import TopicPartition
from ..client import Client
from ..connection.connection import Lane
from ..loop import Signal, Waiter, in_task
from .asking import GroupCoordinator
from .handover import Handover

__all__ = ["GroupTask"]


class GroupTask:
    """Owns the member. One task rebalances, one sends heartbeats, one watches the application's progress."""

    def __init__(
        self,
        client: Client,
        member: GroupMember,
        coordinator: GroupCoordinator,
        handover: Handover,
        in_hand: InHand,
        poll: PollInterval,
        look_every_s: float,
    ) -> None:
        self.on_interest: Callable[[frozenset[str]], None] = _ignore
        """Told which topics' metadata the member needs beyond those that it wants for itself."""
        self.on_error: Callable[[], None] = _nothing
        """Called when there is something for `check` to raise."""
        self.on_change: Callable[[], None] = _nothing
        """Called when something has happened to the member."""
        self._client = client
        self._log = client_log("consumer", client.config.client_id)
        self._member = member
        self._coordinator = coordinator
        self._handover = handover
        self._in_hand = in_hand
        self._poll = poll
        self._look_every_s = look_every_s
        """How often the application's progress is looked at."""
        self._running = False
        self._wanted = False
        """The application is subscribed."""
        self._closing = False
        self._rebalance_wake = Signal()
        self._heartbeat_wake = Signal()
        self._rebalancing = 0
        """The task that rebalances, which calls the listener."""
        self._asking: tuple[Ask, anyio.CancelScope] | None = None
        """The request that the rebalancing task waits for."""
        self._changed: Waiter[None] = Waiter()
        """Done at the next event."""
        self._out_for: str | None = None
        """Why this consumer has put itself out of the group, until it reads again."""
        self.last_heartbeat_at: float | None = None
        """When the coordinator acknowledged a heartbeat last (``time.monotonic()``)."""

    # --- what others ask and tell ------------------------------------------------------------------------------------

    @property
    def wanted(self) -> bool:
        """Whether the group assigns this consumer's partitions, until it has been left."""
        return self._wanted or not self._member.out

    @property
    def out(self) -> bool:
        """Whether the consumer is not in the group, and owns nothing of it."""
        return self._member.out

    @property
    def joined(self) -> bool:
        """Whether the consumer is a member now."""
        return self._member.membership is not None

    @property
    def kept_out(self) -> str | None:
        """Why the group does not let the consumer in yet, while it goes on trying."""
        return self._member.kept_out

    @property
    def awaits(self) -> str | None:
        """What the member waits for until it has its first assignment, even an empty one; None from then on."""
        if not self._wanted or self._member.awaits is None:
            return None
        what = self._member.awaits if self.joined or self.coordinator is not None else "its coordinator to be found"
        return f"a first assignment of the group, which waits for {what}"

    @property
    def stable(self) -> bool:
        """A member, and no rebalance under way as far as it knows."""
        return self._member.stable

    @property
    def membership(self) -> Membership | None:
        """What commits carry; None while it is no member."""
        return self._member.membership

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """The partitions that it may commit: its own, until they are lost or the listener has let go of them."""
        return self._handover.assigned

    @property
    def session_s(self) -> float:
        """How long the coordinator keeps a member from which it hears nothing, as far as the member knows."""
        return self._member.session_s

    @property
    def coordinator(self) -> int | None:
        """The coordinator's node id, if it is known."""
        return self._coordinator.node_id

    def subscribe(self, wanted: Wanted, listener: object | None) -> None:
        """Join the group, or go on with another subscription."""
        if self._closing:
            return
        self._wanted = True
        self._handover.listener = listener
        if not self._running:
            self._running = True
            self._client.metadata.add_listener(self._on_metadata)
            self._poll.progressed(time.monotonic())
            self._member.topics_changed(self._client.metadata.snapshot, time.monotonic())
            for fn, name in (
                (self._rebalance, "kafka group"),
                (self._heartbeats, "kafka heartbeats"),
                (self._watch_progress, "kafka poll interval"),
            ):
                self._client.spawn(fn, name=name)
        self._member.subscribe(wanted, time.monotonic())
        self._notify()

    def tell_late(self, is_late: Callable[[TopicPartition], bool]) -> None:
        """Ask this whether a partition was made while its topic was read already."""
        self._handover.is_late = is_late

    def unsubscribe(self) -> None:
        """Give up the partitions and leave the group, in the background."""
        if self._wanted:
            self._wanted = False
            self._member.leave("the consumer unsubscribed", orderly=True, now=time.monotonic())
            self._notify()

    async def wait_until_out(self) -> None:
        """Return when the consumer has left the group; at once if it was not in it."""
        while not self._member.out:
            await self._changed.wait()

    def check(self) -> None:
        """The application reads: raise why it cannot be in the group, and try again to be in it."""
        error = self._member.error
        if error is None and self._out_for is None:
            return
        self._out_for = None
        if self._wanted:
            self._member.join(time.monotonic())
            self._notify()
        if error is not None:
            raise own_copy(error)

    # --- committing --------------------------------------------------------------------------------------------------

    def commits_as(self) -> Membership:
        """The membership to commit with. Raises `CommitFailedError` if there is none."""
        membership = self._member.membership
        if membership is None:
            why = self._out_for or "it has not joined yet, or has to join again"
            raise CommitFailedError(f"the consumer is not a member of its group now: {why}")
        return membership

    async def refused(self, membership: Membership, error: KafkaError, deadline: float) -> bool:
        """The coordinator does not take commits of this membership; whether another one is worth a try.

        Waits for a rebalance's requests, but not for the application: it may be the one that commits.
        """
        self._member.commit_refused(membership, error, time.monotonic())
        self._notify()
        while self._member.membership == membership and self._may_change(error):
            try:
                await self._changed.wait(max(0.0, deadline - time.monotonic()))
            except TimeoutError:
                return False
        return self._member.membership is not None and (
            self._member.membership != membership or isinstance(error, RebalanceInProgressError)
        )

    def _may_change(self, error: KafkaError) -> bool:
        return self._asking is not None or isinstance(error, StaleMemberEpochError)

    # --- the end -----------------------------------------------------------------------------------------------------

    def check_stop(self) -> None:
        """Raise if who stops the consumer is its own listener, for which leaving the group would wait."""
        if self._in_listener():
            raise IllegalStateError(
                "a listener's callback cannot stop its consumer: let it return, and another task stop"
            )

    def check_wait(self) -> None:
        """Raise if a listener's callback waits for the assignment, which waits for the callback in turn."""
        if self._in_listener():
            raise IllegalStateError("a listener's callback is part of the assignment, and cannot wait for it")

    def _in_listener(self) -> bool:
        return bool(self._rebalancing) and in_task() and anyio.get_current_task().id == self._rebalancing

    async def close(self, timeout_s: float) -> None:
        """Give up the partitions, commit, leave the group (but for static members): all of it within this time."""
        if not self._running:
            return
        self._closing, self._wanted = True, False
        # Leaving needs its part of the time, too.
        self._handover.hurry(time.monotonic() + timeout_s * 0.6)
        self._member.leave("the consumer is being closed", orderly=True, now=time.monotonic())
        self._notify()
        with anyio.move_on_after(timeout_s):
            await self.wait_until_out()

    # --- the tasks ---------------------------------------------------------------------------------------------------

    def _notify(self) -> None:
        """Something has happened to the member."""
        self.on_interest(self._member.interest)
        if self._member.error is not None:
            self.on_error()
        self._rebalance_wake.set()
        self._heartbeat_wake.set()
        self._handover.wake.set()
        self.on_change()
        changed, self._changed = self._changed, Waiter()
        changed.set_result(None)
        if self._asking is not None and self._member.step(time.monotonic()) is not self._asking[0]:
            self._asking[1].cancel()

    def _on_metadata(self, snapshot: ClusterSnapshot) -> None:
        self._member.topics_changed(snapshot, time.monotonic())
        self._notify()

    async def _rebalance(self) -> None:
        member, handover = self._member, self._handover
        self._rebalancing = anyio.get_current_task().id
        while True:
            step = member.step(time.monotonic())
            match step:
                case Wait(until):
                    await self._rebalance_wake.wait(None if until is None else max(0.0, until - time.monotonic()))
                    continue
                case Ask():
                    await self._ask(step)
                    continue
                case Revoke():
                    if not await handover.revoke(step, partial(self._is_next, step)):
                        continue
                case Lose():
                    await handover.lose(step)
                case Assign():
                    await handover.assign(step)
            member.done(step, time.monotonic())
            self._notify()

    def _is_next(self, step: Step) -> bool:
        return self._member.step(time.monotonic()) == step

    async def _ask(self, step: Ask) -> None:
        lane = Lane.REBALANCE if step.held else Lane.COORDINATOR
        answer: tuple[Any, KafkaError | None] | None = None
        with anyio.CancelScope() as scope:
            self._asking = step, scope
            try:
                answer = await self._coordinator.ask(step.request, step.timeout_s, lane)
            finally:
                self._asking = None
        if answer is not None:
            self._member.answered(step.request, *answer, time.monotonic())
        self._notify()

    async def _heartbeats(self) -> None:
        member = self._member
        while True:
            at = member.heartbeat_at()
            now = time.monotonic()
            if at is None or now < at:
                await self._heartbeat_wake.wait(None if at is None else at - now)
                continue
            request = member.heartbeat(now)
            if request is None:
                continue
            response, error = await self._coordinator.ask(request, member.heartbeat_timeout_s())
            if error is None and response is not None and not response.error_code:
                self.last_heartbeat_at = time.monotonic()
            member.heartbeat_answered(request, response, error, time.monotonic())
            if member.unknown_topics:
                self._client.metadata.request_update()
            self._notify()

    async def _watch_progress(self) -> None:
        poll = self._poll
        while True:
            await anyio.sleep(self._look_every_s)
            now = time.monotonic()
            poll.look(self._in_hand.last_taken(), now)
            expires_at = poll.expires_at()
            if expires_at is not None and now >= expires_at and self.joined:
                await self._expire()

    async def _expire(self) -> None:
        """The application takes too long: leave, and let nothing that it has in hand be committed any more."""
        await self._handover.commit_done()
        expires_at = self._poll.expires_at()
        if expires_at is None or time.monotonic() < expires_at:
            return
        self._out_for = (
            f"the application did not come back for records within {self._poll.interval_s:g} s "
            "(max_poll_interval_ms): handle fewer at a time, or allow more time"
        )
        self._log.warning("leaving the group: %s", self._out_for)
        self._member.leave(self._out_for, orderly=False, now=time.monotonic())
        self._notify()


def _ignore(interest: frozenset[str]) -> None:
    pass


def _nothing() -> None:
    pass
