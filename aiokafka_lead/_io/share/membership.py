"""A share consumer's membership: the task that sends its heartbeats."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import anyio

from ..._core.metadata.moved import Moved
from ..._core.metadata.types import ClusterSnapshot
from ..._core.share.member import ShareMember
from ...errors.base import own_copy
from ..client import Client
from ..group.coordinators import Coordinators
from ..group.heartbeats import GroupCoordinator, Heartbeats
from ..loop import News


class ShareMembership:
    """Owns the member."""

    def __init__(self, client: Client, member: ShareMember, group_id: str, changed: Callable[[], None]) -> None:
        self._client = client
        self._member = member
        self._coordinator = GroupCoordinator(Coordinators(client), group_id)
        self._changed = changed
        """Called when the member has changed."""
        self._heartbeats = Heartbeats(member, self._coordinator, client.metadata.request_update)
        self._news = News()
        self.topics: tuple[str, ...] = ()
        """Subscribed topics."""

    @property
    def joined(self) -> bool:
        """True if the consumer is a member of its group now."""
        return self._member.joined

    @property
    def session_s(self) -> float:
        """Approximate time for which the coordinator waits for heartbeats."""
        return self._member.session_s

    @property
    def last_heartbeat_at(self) -> float | None:
        """Time of the last acknowledged heartbeat (``time.monotonic()``)."""
        return self._heartbeats.last_at

    @property
    def coordinator(self) -> int | None:
        """The group's coordinator, while it is known."""
        return self._coordinator.node_id

    # --- calls of the application ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Join, if there is a subscription, and send heartbeats from now on."""
        self._client.metadata.add_listener(self._on_metadata)
        self._member.topics_changed(self._client.metadata.snapshot)
        if self.topics:
            self._member.subscribe(self.topics, time.monotonic())
        self._client.spawn(partial(self._heartbeats.run, self.notify), name="kafka share heartbeats")

    def subscribe(self, topics: tuple[str, ...], *, started: bool) -> None:
        """Be a member with these topics; without topics, leave the group in the background."""
        before, self.topics = set(self.topics), topics
        metadata = self._client.metadata
        metadata.add_topics(set(topics) - before)
        metadata.remove_topics(before - set(topics))
        if not started:
            return
        if topics:
            self._member.subscribe(topics, time.monotonic())
        else:
            self._member.leave(time.monotonic())
        self.notify()

    def check(self) -> None:
        """Raise the reason for which the reading consumer cannot be in the group, and try again to join."""
        error = self._member.error
        if error is not None:
            self._member.join(time.monotonic())
            self.notify()
            raise own_copy(error)

    async def leave(self, timeout_s: float) -> None:
        """Notify the coordinator that the member leaves, within this time."""
        self._member.leave(time.monotonic())
        self.notify()
        with anyio.move_on_after(timeout_s):
            while not self._member.out or self._heartbeats.asking:
                await self._news.wait()

    # --- events ------------------------------------------------------------------------------------------------------

    def _on_metadata(self, snapshot: ClusterSnapshot, moved: Moved) -> None:
        self._member.topics_changed(snapshot)
        self.notify()

    def notify(self) -> None:
        """Called after a change to the member."""
        self._heartbeats.wake.set()
        self._news.tell()
        self._changed()
