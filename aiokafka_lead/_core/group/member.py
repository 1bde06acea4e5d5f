"""What a member of a consumer group decides, whatever protocol it speaks.

Two tasks drive one member: the one that rebalances asks for its next `step` and carries it out; the other sends its
heartbeats, which go on while a step waits for the application. Every method is synchronous, takes the time, and decides
at once. The caller of one wakes both tasks, so that a member calls nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ..._wire import Request, Response
from ...errors import KafkaError
from ...types import TopicPartition
from ..metadata.types import ClusterSnapshot

if TYPE_CHECKING:
    from .offsets import GroupIdentity

Partitions = frozenset[TopicPartition]


class Ask(NamedTuple):
    """Send this to the coordinator, which may take long to answer."""

    request: Request[Any]
    timeout_s: float
    held: bool = True
    """Whether the coordinator keeps the answer back, and thereby what comes behind on the same connection."""


class Revoke(NamedTuple):
    """Give up partitions: wait for the work in hand, commit, tell the listener, and forget them."""

    partitions: Partitions
    timeout_s: float
    """How long the work in hand may take."""


class Lose(NamedTuple):
    """Forget partitions at once: they may be others' already, so nothing of them is committed any more."""

    partitions: Partitions
    reason: str


class Assign(NamedTuple):
    """Take over partitions: begin to read them, and tell the listener."""

    partitions: Partitions
    """All that are owned now."""
    added: Partitions


class Wait(NamedTuple):
    """Nothing to do before this time; None: until something happens."""

    until: float | None
    refresh: bool = False
    """Whether newer metadata is what it waits for: ask for that."""


Step = Ask | Revoke | Lose | Assign | Wait


class Wanted(NamedTuple):
    """What the application subscribed to."""

    topics: frozenset[str]
    """The topics, or, of a pattern, those that this client found to match."""
    pattern: str | None = None
    """For brokers that match by themselves (KIP-848)."""


class GroupMember(Protocol):
    """A member, as the tasks see it."""

    @property
    def identity(self) -> GroupIdentity | None:
        """What its commits carry; None while it is no member."""
        ...

    @property
    def owned(self) -> Partitions:
        """Its partitions, as of the last `done`."""
        ...

    @property
    def error(self) -> KafkaError | None:
        """Why it is out of the group, where that is for the application to know."""
        ...

    @property
    def kept_out(self) -> str | None:
        """Why the group does not let it in yet, while it goes on trying."""
        ...

    @property
    def awaits(self) -> str | None:
        """What it waits for until it has its first assignment, even an empty one; None from then on."""
        ...

    @property
    def stable(self) -> bool:
        """A member with nothing to give up, to take over or to ask."""
        ...

    @property
    def out(self) -> bool:
        """No member, and with nothing to do about it."""
        ...

    @property
    def session_s(self) -> float:
        """How long the coordinator keeps a member from which it hears nothing, as far as the member knows."""
        ...

    @property
    def interest(self) -> frozenset[str]:
        """Topics that it needs metadata of, beyond those that it wants for itself."""
        ...

    @property
    def unknown_topics(self) -> bool:
        """Whether it is to own partitions of topics that metadata does not name: newer metadata is wanted."""
        ...

    def subscribe(self, wanted: Wanted, now: float) -> None:
        """Join with this subscription, or go on with it."""

    def topics_changed(self, snapshot: ClusterSnapshot, now: float) -> None:
        """The client learnt something of the cluster."""

    def leave(self, reason: str, *, orderly: bool, now: float) -> None:
        """Get out, until `subscribe` or `join`. Orderly: give up the partitions first; else lose them at once."""

    def join(self, now: float) -> None:
        """Get in again, after `leave` or an error that may have passed."""

    def step(self, now: float) -> Step:
        """What to do now. The same answer until it is done, unless something happens that matters more."""
        ...

    def answered(self, request: Request[Any], response: Response | None, error: KafkaError | None, now: float) -> None:
        """What became of an `Ask`."""

    def done(self, step: Revoke | Lose | Assign, now: float) -> None:
        """The step has been carried out."""

    def heartbeat_at(self) -> float | None:
        """When the next heartbeat is due; None: not before something happens."""
        ...

    def heartbeat_timeout_s(self) -> float:
        """How long to wait for a heartbeat's answer."""
        ...

    def heartbeat(self, now: float) -> Request[Any] | None:
        """The heartbeat to send, which thereby counts as sent."""
        ...

    def heartbeat_answered(
        self, request: Request[Any], response: Response | None, error: KafkaError | None, now: float
    ) -> None:
        """What became of a heartbeat."""

    def commit_refused(self, identity: GroupIdentity, error: KafkaError, now: float) -> None:
        """The coordinator does not take commits of this identity, and says why."""


class PollInterval:
    """The time since the application last came for records. A read that waits makes progress, for it is not to blame.

    Without a group nobody asks when it expires.
    """

    __slots__ = ("_mark", "_progressed_at", "_waiting", "interval_s", "oldest_work")

    def __init__(self, interval_s: float, now: float) -> None:
        self.interval_s = interval_s
        self._progressed_at = now
        self._waiting = False
        """Whether the application is within a read."""
        self.oldest_work: Callable[[], float | None] | None = None
        """Set while records are handled in parallel to reads: when the handler that began first did; None if none is
        at work. Then only that counts."""
        self._mark: Any = None
        """How far the application was at the last `look`."""

    def progressed(self, now: float) -> None:
        """The application wants more, or has finished something."""
        self._progressed_at = now
        self._waiting = False

    def waits(self) -> None:
        """The application waits for records, until `progressed`."""
        self._waiting = True

    def look(self, mark: object, now: float) -> None:
        """Iteration hands out records without telling: another ``mark``, such as their number, is progress."""
        if mark != self._mark:
            self._mark = mark
            self._progressed_at = now

    def expires_at(self) -> float | None:
        """When the application has taken too long; None while it waits."""
        if self.oldest_work is not None:
            began_at = self.oldest_work()
            return None if began_at is None else began_at + self.interval_s
        return None if self._waiting else self._progressed_at + self.interval_s
