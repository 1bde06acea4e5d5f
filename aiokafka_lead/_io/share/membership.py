"""A share consumer's membership: the task that sends its heartbeats."""

from __future__ import annotations

import time
from collections.abc import Callable

import anyio

from ..._core.metadata.moved import Moved
from ..._core.metadata.types import ClusterSnapshot
from ..._core.share.member import ShareMember
from ...errors.base import own_copy
from ..client import Client
from ..group.asking import GroupCoordinator
from ..group.coordinators import Coordinators
from ..loop import News, Signal


class ShareMembership:
    """Owns the member."""

    def __init__(self, client: Client, member: ShareMember, group_id: str, changed: Callable[[], None]) -> None:
        self._client = client
        self._member = member
        self._coordinator = GroupCoordinator(Coordinators(client), group_id)
        self._changed = changed
        """Called when something has happened to the member."""
        self._wake = Signal()
        self._news = News()
        self.topics: tuple[str, ...] = ()
        """What is subscribed to."""
        self.last_heartbeat_at: float | None = None
        """When the coordinator acknowledged a heartbeat last (``time.monotonic()``)."""

    @property
    def joined(self) -> bool:
        """Whether the consumer is a member of its group now."""
        return self._member.joined

    @property
    def session_s(self) -> float:
        """How long the coordinator waits for heartbeats, about."""
        return self._member.session_s

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
        self._client.spawn(self._heartbeats, name="kafka share heartbeats")

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
            while not self._member.out or self._asking:
                await self._news.wait()

    # --- the task ----------------------------------------------------------------------------------------------------

    _asking = False
    """Whether a heartbeat is out."""

    def _on_metadata(self, snapshot: ClusterSnapshot, moved: Moved) -> None:
        self._member.topics_changed(snapshot)
        self.notify()

    def notify(self) -> None:
        """Something has happened to the member."""
        self._wake.set()
        self._news.tell()
        self._changed()

    async def _heartbeats(self) -> None:
        member = self._member
        while True:
            at = member.heartbeat_at()
            now = time.monotonic()
            if at is None or now < at:
                await self._wake.wait(None if at is None else at - now)
                continue
            request = member.heartbeat(now)
            if request is None:
                continue
            self._asking = True
            response, error = await self._coordinator.ask(request, member.heartbeat_timeout_s())
            self._asking = False
            if error is None and response is not None and not response.error_code:
                self.last_heartbeat_at = time.monotonic()
            member.heartbeat_answered(request, response, error, time.monotonic())
            if member.unknown_topics:
                self._client.metadata.request_update()
            self.notify()
