"""A consumer's standing in its group: the deciding member, and notifications of its decisions."""

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
    """The visible state of the member. The tasks of `GroupTask` carry out its decisions."""

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
        """The request that the rebalancing task awaits."""
        self.subscribed = False
        """True if the application is subscribed. Written by `GroupTask`."""
        self._out_for: str | None = None
        """Reason for which this consumer has left the group by itself, until it reads again."""

    # --- state ------------------------------------------------------------------------------------------------------

    @property
    def wanted(self) -> bool:
        """True while the group assigns this consumer's partitions, until it has left."""
        return self.subscribed or not self.member.out

    @property
    def out(self) -> bool:
        """True if the consumer is not in the group, and owns none of its partitions."""
        return self.member.out

    @property
    def joined(self) -> bool:
        """True if the consumer is a member now."""
        return self.member.identity is not None

    @property
    def member_id(self) -> str | None:
        """The group's id of the consumer; None while it is not a member."""
        identity = self.member.identity
        return None if identity is None else identity.member_id

    @property
    def kept_out(self) -> str | None:
        """Reason for which the group refuses the consumer for now, while it keeps trying."""
        return self.member.kept_out

    @property
    def awaits(self) -> str | None:
        """Step for which the member waits until it has its first assignment, even an empty one; None from then on."""
        if not self.subscribed or self.member.awaits is None:
            return None
        what = self.member.awaits if self.joined or self.coordinator is not None else "its coordinator to be found"
        return f"a first assignment of the group, which waits for {what}"

    @property
    def stable(self) -> bool:
        """True for a member without a known rebalance in progress."""
        return self.member.stable

    @property
    def identity(self) -> GroupIdentity | None:
        """Identity in commits; None while it is not a member."""
        return self.member.identity

    @property
    def metadata(self) -> ConsumerGroupMetadata:
        """The current membership, for a transaction's offsets (KIP-447)."""
        member = self.member.identity or NOT_A_MEMBER._replace(group_instance_id=self._group_instance_id)
        return ConsumerGroupMetadata(
            self._coordinator.group_id, member.generation_or_epoch, member.member_id, member.group_instance_id
        )

    @property
    def session_s(self) -> float:
        """Time for which the coordinator keeps a silent member, as far as the member knows."""
        return self.member.session_s

    @property
    def last_heartbeat_at(self) -> float | None:
        """Time of the last acknowledged heartbeat (``time.monotonic()``)."""
        return self.heartbeats.last_at

    @property
    def coordinator(self) -> int | None:
        """The coordinator's node id, if it is known."""
        return self._coordinator.node_id

    @property
    def coordinator_doubted_since(self) -> float | None:
        """See `GroupCoordinator.doubted_since`."""
        return self._coordinator.doubted_since

    @property
    def coordinator_said(self) -> str:
        """See `GroupCoordinator.said`."""
        return self._coordinator.said

    async def wait_until_out(self) -> None:
        """Return when the consumer has left the group; at once if it was not in it."""
        while not self.member.out:
            await self._changed.wait()

    def check(self) -> None:
        """Raise the reason for which the reading consumer cannot be in the group, and try again to join."""
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
        """Return the identity for commits. Raises `CommitFailedError` while the consumer is not a member."""
        identity = self.member.identity
        if identity is None:
            why = self._out_for or "it has not joined yet, or has to join again"
            raise CommitFailedError(f"the consumer is not a member of its group now: {why}")
        return identity

    async def refused(self, identity: GroupIdentity, error: KafkaError, times: int, deadline: Deadline) -> bool:
        """Handle a commit's refusal, the ``times``-th one; return True if another attempt is worthwhile.

        Waits for a rebalance's requests, but not for the application, which may be waiting for this commit.
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
        """Return True if the rebalance continues by itself: it asks the coordinator, or waits for it."""
        if isinstance(error, StaleMemberEpochError):
            # The answer to a heartbeat that was sent later has the newer epoch, if there is one.
            return self.heartbeats.confirmed_at < refused_at
        waits = self._asking is not None or isinstance(self.step(), Wait)
        return waits and not self.stable

    # --- events ------------------------------------------------------------------------------------------------------

    def notify(self) -> None:
        """Called after a change to the member."""
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
        """Return the next step."""
        return self.member.step(time.monotonic())

    async def ask(self, step: Ask) -> None:
        """Ask the coordinator, unless another step becomes necessary first."""
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
        """Leave the group, for a reason caused by the application, until it reads again."""
        self._out_for = reason
        self.member.leave(reason, orderly=False, now=time.monotonic())
        self.notify()
