"""Where a consumer stands with its group: the member that decides, and what has to know when it did."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import anyio

from ..._core.group.member import Ask, GroupMember, Step, Wait
from ..._core.group.offsets import NOT_A_MEMBER, GroupIdentity
from ...errors import CommitFailedError, KafkaError, RebalanceInProgressError, StaleMemberEpochError
from ...errors.base import own_copy
from ...types import ConsumerGroupMetadata
from ..deadline import Deadline
from ..loop import News, Signal
from .coordinators import GroupCoordinator
from .heartbeats import Heartbeats


class Standing:
    """What others may know of the member. The tasks of `GroupTask` carry out what it decides."""

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
        """Called with the topics whose metadata the member needs beyond those that it wants for itself."""
        self._on_error = on_error
        """Called when there is something for `check` to raise."""
        self._on_change = on_change
        """Called when something has happened to the member."""
        self.rebalance_wake = Signal()
        self._changed = News()
        self._asking: tuple[Ask, anyio.CancelScope] | None = None
        """The request that the rebalancing task waits for."""
        self.subscribed = False
        """The application is subscribed. Written by `GroupTask`."""
        self._out_for: str | None = None
        """Why this consumer has put itself out of the group, until it reads again."""

    # --- what is known ----------------------------------------------------------------------------------------------

    @property
    def wanted(self) -> bool:
        """Whether the group assigns this consumer's partitions, until it has been left."""
        return self.subscribed or not self.member.out

    @property
    def out(self) -> bool:
        """Whether the consumer is not in the group, and owns nothing of it."""
        return self.member.out

    @property
    def joined(self) -> bool:
        """Whether the consumer is a member now."""
        return self.member.identity is not None

    @property
    def member_id(self) -> str | None:
        """What the group knows the consumer by; None while it is no member."""
        identity = self.member.identity
        return None if identity is None else identity.member_id

    @property
    def kept_out(self) -> str | None:
        """Why the group does not let the consumer in yet, while it goes on trying."""
        return self.member.kept_out

    @property
    def awaits(self) -> str | None:
        """What the member waits for until it has its first assignment, even an empty one; None from then on."""
        if not self.subscribed or self.member.awaits is None:
            return None
        what = self.member.awaits if self.joined or self.coordinator is not None else "its coordinator to be found"
        return f"a first assignment of the group, which waits for {what}"

    @property
    def stable(self) -> bool:
        """A member, and no rebalance under way as far as it knows."""
        return self.member.stable

    @property
    def identity(self) -> GroupIdentity | None:
        """What commits carry; None while it is no member."""
        return self.member.identity

    @property
    def metadata(self) -> ConsumerGroupMetadata:
        """The membership as it is now, for a transaction's offsets (KIP-447)."""
        member = self.member.identity or NOT_A_MEMBER._replace(group_instance_id=self._group_instance_id)
        return ConsumerGroupMetadata(
            self._coordinator.group_id, member.generation_or_epoch, member.member_id, member.group_instance_id
        )

    @property
    def session_s(self) -> float:
        """How long the coordinator keeps a member from which it hears nothing, as far as the member knows."""
        return self.member.session_s

    @property
    def last_heartbeat_at(self) -> float | None:
        """When the coordinator acknowledged a heartbeat last (``time.monotonic()``)."""
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
        """The application reads: raise why it cannot be in the group, and try again to be in it."""
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
        """What to commit as. Raises `CommitFailedError` while the consumer is no member."""
        identity = self.member.identity
        if identity is None:
            why = self._out_for or "it has not joined yet, or has to join again"
            raise CommitFailedError(f"the consumer is not a member of its group now: {why}")
        return identity

    async def refused(self, identity: GroupIdentity, error: KafkaError, deadline: Deadline) -> bool:
        """The coordinator does not take commits of this identity; whether another one is worth a try.

        Waits for a rebalance's requests, but not for the application: it may be the one that commits.
        """
        self.member.commit_refused(identity, error, time.monotonic())
        self.notify()
        while self.member.identity == identity and self._may_change(error):
            try:
                await self._changed.wait(deadline.left_s())
            except TimeoutError:
                return False
        return self.member.identity is not None and (
            self.member.identity != identity or isinstance(error, RebalanceInProgressError)
        )

    def _may_change(self, error: KafkaError) -> bool:
        """Whether the rebalance goes on by itself: it asks the coordinator, or waits for what comes without asking."""
        waits = self._asking is not None or isinstance(self.step(), Wait)
        return isinstance(error, StaleMemberEpochError) or (waits and not self.stable)

    # --- what happens to it ------------------------------------------------------------------------------------------

    def notify(self) -> None:
        """Something has happened to the member."""
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
        """What to do now."""
        return self.member.step(time.monotonic())

    async def ask(self, step: Ask) -> None:
        """Ask the coordinator, unless something else comes first."""
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
        """Leave the group, for a reason that the application brings about, until it reads again."""
        self._out_for = reason
        self.member.leave(reason, orderly=False, now=time.monotonic())
        self.notify()
