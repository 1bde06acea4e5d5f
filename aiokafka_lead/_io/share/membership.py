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
from ..group.coordinators import Coordinators, GroupCoordinator
from ..group.heartbeats import Heartbeats
from ..loop import News


class ShareMembership:
    """Owns the member."""

    def __init__(self, client: Client, member: ShareMember, group_id: str, changed: Callable[[], None]) -> None:
        self._client = client
        self._member = member
        self._coordinator = GroupCoordinator(Coordinators(client), group_id)
        self._changed = changed
        """Called when something has happened to the member."""
        self._heartbeats = Heartbeats(member, self._coordinator, client.metadata.request_update)
        self._news = News()
        self.topics: tuple[str, ...] = ()
        """What is subscribed to."""

    @property
    def joined(self) -> bool:
        """Whether the consumer is a member of its group now."""
        return self._member.joined

    @property
    def session_s(self) -> float:
        """How long the coordinator waits for heartbeats, about."""
        return self._member.session_s

    @property
    def last_heartbeat_at(self) -> float | None:
        """When the coordinator acknowledged a heartbeat last (``time.monotonic()``)."""
        return self._heartbeats.last_at

    @property
    def coordinator(self) -> int | None:
        """The group's coordinator, while it is known."""
        return self._coordinator.node_id

    # --- what the application wants ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Join, if something is subscribed to, and send heartbeats from now on."""
        self._client.metadata.add_listener(self._on_metadata)
        self._member.topics_changed(self._client.metadata.snapshot)
        if self.topics:
            self._member.subscribe(self.topics, time.monotonic())
        self._client.spawn(partial(self._heartbeats.run, self.notify), name="kafka share heartbeats")

    def subscribe(self, topics: tuple[str, ...], *, started: bool) -> None:
        """Be a member with these topics; with none, leave the group in the background."""
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
        """The application reads: raise why it cannot be in the group, and try again to be in it."""
        error = self._member.error
        if error is not None:
            self._member.join(time.monotonic())
            self.notify()
            raise own_copy(error)

    async def leave(self, timeout_s: float) -> None:
        """Tell the coordinator that the member leaves, within this time."""
        self._member.leave(time.monotonic())
        self.notify()
        with anyio.move_on_after(timeout_s):
            while not self._member.out or self._heartbeats.asking:
                await self._news.wait()

    # --- what happens to it ------------------------------------------------------------------------------------------

    def _on_metadata(self, snapshot: ClusterSnapshot, moved: Moved) -> None:
        self._member.topics_changed(snapshot)
        self.notify()

    def notify(self) -> None:
        """Something has happened to the member."""
        self._heartbeats.wake.set()
        self._news.tell()
        self._changed()
