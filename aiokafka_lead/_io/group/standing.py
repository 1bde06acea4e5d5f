"""A consumer's state in its group: the member, which makes the decisions, and notifications of changes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import anyio

from ..._core.group.member import Ask, GroupMember, Step, Wait
from ..._core.group.offsets import NOT_A_MEMBER, GroupIdentity
from ..._core.trust import DOUBT_AFTER
from ...errors import CommitFailedError, KafkaError, RebalanceInProgressError, StaleMemberEpochError
from ...errors.base import own_copy
from ...types import ConsumerGroupMetadata
from ..deadline import Deadline
from ..loop import News, Signal
from .heartbeats import GroupCoordinator, Heartbeats


class Standing:
    """The state of a consumer's group membership, as seen by the consumer and by the tasks of `GroupTask`.

    It also sends the member's requests, and decides whether a refused commit is retried.
    """

    def __init__(
        self,
        member: GroupMember,
        coordinator: GroupCoordinator,
        heartbeats: Heartbeats,
        group_instance_id: str | None,
        handover_wake: Signal,
        *,
        on_interest: Callable[[frozenset[str]], None],
        on_error: Callable[[], None],
        on_change: Callable[[], None],
    ) -> None:
        self.member = member
        self._coordinator = coordinator
        self.heartbeats = heartbeats
        self._group_instance_id = group_instance_id
        self._handover_wake = handover_wake
        self._on_interest = on_interest
        """Called with additional topics whose metadata the member needs."""
        self._on_error = on_error
        """Called when `check` has an error to raise."""
        self._on_change = on_change
        """Called when the member has changed."""
        self.rebalance_wake = Signal()
        self._changed = News()
        self._asking: tuple[Ask, anyio.CancelScope] | None = None
        """The request that the rebalancing task is waiting for, and the scope that ends the wait."""
        self.subscribed = False
        """True if the application has subscribed. Set by `GroupTask`."""
        self.assigned = False
        """True while the listener handles an assignment that need not be awaited. Set by `GroupTask`."""
        self._out_for: str | None = None
        """The reason why this consumer has left the group of its own accord, until the application reads again."""

    # --- state ------------------------------------------------------------------------------------------------------

    @property
    def wanted(self) -> bool:
        """True while the group assigns the consumer's partitions.

        It stays True until the consumer has left the group.
        """
        return self.subscribed or not self.member.out

    @property
    def out(self) -> bool:
        """True if the consumer is not in the group and owns none of its partitions."""
        return self.member.out

    @property
    def joined(self) -> bool:
        """True if the consumer is currently a member of the group."""
        return self.member.identity is not None

    @property
    def member_id(self) -> str | None:
        """The member id, or None if the consumer is not a member."""
        identity = self.member.identity
        return None if identity is None else identity.member_id

    @property
    def kept_out(self) -> str | None:
        """The reason why the group refuses the consumer for now, or None. The consumer keeps trying."""
        return self.member.kept_out

    @property
    def awaits(self) -> str | None:
        """The step that the first assignment is waiting for, or None once there is an assignment, even an empty one."""
        if not self.subscribed or self.assigned or self.member.awaits is None:
            return None
        what = self.member.awaits if self.joined or self.coordinator is not None else "the look-up of its coordinator"
        return f"the first assignment of its group (pending: {what})"

    @property
    def stable(self) -> bool:
        """True if the consumer is a member and knows of no rebalance."""
        return self.member.stable

    @property
    def identity(self) -> GroupIdentity | None:
        """The identity for commits, or None if the consumer is not a member."""
        return self.member.identity

    @property
    def metadata(self) -> ConsumerGroupMetadata:
        """The current membership, for offsets in transactions (KIP-447)."""
        member = self.member.identity or NOT_A_MEMBER._replace(group_instance_id=self._group_instance_id)
        return ConsumerGroupMetadata(
            self._coordinator.group_id, member.generation_or_epoch, member.member_id, member.group_instance_id
        )

    @property
    def session_s(self) -> float:
        """Seconds after which the coordinator removes a member without heartbeats. May be an estimate."""
        return self.member.session_s

    @property
    def last_heartbeat_at(self) -> float | None:
        """Time of the last acknowledged heartbeat (``time.monotonic()``), or None."""
        return self.heartbeats.last_at

    @property
    def coordinator(self) -> int | None:
        """Node id of the coordinator, or None if it is unknown."""
        return self._coordinator.node_id

    @property
    def coordinator_doubted_since(self) -> float | None:
        """Time since which no broker has served as coordinator, or None; see `GroupCoordinator.doubted_since`."""
        return self._coordinator.doubted_since

    @property
    def coordinator_said(self) -> str:
        """See `GroupCoordinator.said`."""
        return self._coordinator.said

    async def wait_until_out(self) -> None:
        """Wait until the consumer is not in the group, and the coordinator has responded to its last heartbeat."""
        while not self.member.out or self.heartbeats.asking:  # the last heartbeat may inform the coordinator
            await self._changed.wait()

    def check(self) -> None:
        """Raise the error that keeps the consumer out of the group, if any, and try to join again."""
        error = self.member.error
        if error is None and self._out_for is None:
            return
        self._out_for = None
        if self.subscribed:
            self.member.join(time.monotonic())
            self.notify()
        if error is not None:
            raise own_copy(error)

    # --- committing --------------------------------------------------------------------------------------------------

    def commits_as(self) -> GroupIdentity:
        """Return the identity for commits. Raises `CommitFailedError` if the consumer is not a member."""
        identity = self.member.identity
        if identity is None:
            why = self._out_for or "it has not joined yet, or has to join again"
            raise CommitFailedError(f"the consumer is currently not a member of its group: {why}")
        return identity

    async def refused(self, identity: GroupIdentity, error: KafkaError, times: int, deadline: Deadline) -> bool:
        """Handle the ``times``-th refusal of a commit. Return True if the commit should be retried.

        Waits for the requests of a rebalance, but not for the application, which may be waiting for this commit.
        """
        refused_at = time.monotonic()
        self.member.commit_refused(identity, error, refused_at)
        self.notify()
        while self.member.identity == identity and self._may_change(error, refused_at):
            try:
                await self._changed.wait(deadline.left_s())
            except TimeoutError:
                return False
        if self.member.identity == identity and isinstance(error, StaleMemberEpochError):
            return times < DOUBT_AFTER
        return self.member.identity is not None and (
            self.member.identity != identity or isinstance(error, RebalanceInProgressError)
        )

    def _may_change(self, error: KafkaError, refused_at: float) -> bool:
        """Return True if the rebalance is waiting for the coordinator and not for the application."""
        if isinstance(error, StaleMemberEpochError):
            # A response to a heartbeat sent after the refusal would contain a newer epoch.
            return self.heartbeats.confirmed_at < refused_at
        waits = self._asking is not None or isinstance(self.step(), Wait)
        return waits and not self.stable

    # --- events ------------------------------------------------------------------------------------------------------

    def notify(self) -> None:
        """Notify the consumer and its tasks of a change of the member's state."""
        self._on_interest(self.member.interest)
        if self.member.error is not None:
            self._on_error()
        self.rebalance_wake.set()
        self.heartbeats.wake.set()
        self._handover_wake.set()
        self._on_change()
        self._changed.tell()
        if self._asking is not None and self.step() is not self._asking[0]:
            self._asking[1].cancel()

    def step(self) -> Step:
        """Return the next step that the member must take, for the tasks to carry out."""
        return self.member.step(time.monotonic())

    async def ask(self, step: Ask) -> None:
        """Send the request of this step to the coordinator. Stop waiting if another step becomes necessary."""
        answer: tuple[Any, KafkaError | None] | None = None
        with anyio.CancelScope() as scope:
            self._asking = step, scope
            try:
                answer = await self._coordinator.ask(step.request, step.timeout_s, held=step.held)
            finally:
                self._asking = None
        if answer is not None:
            self.member.answered(step.request, *answer, time.monotonic())
        self.notify()

    def put_out(self, reason: str) -> None:
        """Leave the group for this reason, until the application reads again."""
        self._out_for = reason
        self.member.leave(reason, orderly=False, now=time.monotonic())
        self.notify()
