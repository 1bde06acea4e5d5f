"""Interface of a consumer group member, independent of the group protocol.

Two tasks drive a member. The rebalancing task gets the next `step` and carries it out. The heartbeat task sends the
heartbeats, even while a step waits for the application. All methods are synchronous and take the time as an argument.
After calling a method, the caller wakes both tasks, so a member needs no callbacks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ..._values import NamedTuple
from ..._wire import Request, Response
from ...errors import KafkaError
from ...types import TopicPartition
from ..metadata.types import ClusterSnapshot

if TYPE_CHECKING:
    from .offsets import GroupIdentity

Partitions = frozenset[TopicPartition]


class Ask(NamedTuple):
    """Step: send a request to the coordinator, which may take long to answer."""

    request: Request[Any]
    timeout_s: float
    held: bool = True
    """True if the coordinator may delay its response, and with it all later responses on the same connection."""


class Revoke(NamedTuple):
    """Step: give up partitions.

    Wait until their records are processed, commit, call the listener, and stop reading them.
    """

    partitions: Partitions
    timeout_s: float
    """Time limit in seconds for processing the records in hand."""


class Lose(NamedTuple):
    """Step: drop partitions at once. Other members may own them by now, so their offsets are not committed."""

    partitions: Partitions
    reason: str


class Assign(NamedTuple):
    """Step: take over partitions. Start reading them, and call the listener."""

    partitions: Partitions
    """All partitions that the member owns from now on."""
    added: Partitions


class Wait(NamedTuple):
    """Step: wait until this time, or until the next event if the time is None."""

    until: float | None
    refresh: bool = False
    """True if the member waits for newer metadata, which the caller has to request."""


Step = Ask | Revoke | Lose | Assign | Wait


class Wanted(NamedTuple):
    """The application's subscription: topics, or a pattern and the topics that match it."""

    topics: frozenset[str]
    """The subscribed topics. With a pattern, the topics that match it according to this client."""
    pattern: str | None = None
    """The pattern, for brokers that match patterns themselves (KIP-848), otherwise None."""


class GroupMember(Protocol):
    """The interface of a consumer group member, as used by its two tasks."""

    @property
    def identity(self) -> GroupIdentity | None:
        """The member id and generation or epoch for commits. None if it is not a member."""
        ...

    @property
    def owned(self) -> Partitions:
        """The partitions owned after the last step that the caller has carried out."""
        ...

    @property
    def error(self) -> KafkaError | None:
        """An error to report to the application, or None. Most such errors have ended the membership."""
        ...

    @property
    def kept_out(self) -> str | None:
        """The reason why the group does not admit the member yet, or None. The member keeps trying."""
        ...

    @property
    def awaits(self) -> str | None:
        """The event that the first assignment is waiting for, for messages.

        It is None after an assignment, even an empty one.
        """
        ...

    @property
    def stable(self) -> bool:
        """True if the client is a member with no partitions to give up or take over, and no request to send."""
        ...

    @property
    def out(self) -> bool:
        """True if the client is not a member, and no steps remain before it has left the group."""
        ...

    @property
    def session_s(self) -> float:
        """Seconds after which the coordinator removes a member that sends no heartbeats. May be an estimate."""
        ...

    @property
    def interest(self) -> frozenset[str]:
        """Topics whose metadata the member needs in addition to its subscription."""
        ...

    @property
    def unknown_topics(self) -> bool:
        """True if the assignment contains topic ids that are not in the metadata, so newer metadata is needed."""
        ...

    def subscribe(self, wanted: Wanted, now: float) -> None:
        """Join with this subscription, or change the subscription to it."""

    def topics_changed(self, snapshot: ClusterSnapshot, now: float) -> None:
        """Process newer metadata, which may contain new topics, partitions or topic ids."""

    def leave(self, reason: str, *, orderly: bool, now: float) -> None:
        """Leave the group until `subscribe` or `join` is called.

        If ``orderly`` is True, give up the partitions first. Otherwise, drop them at once.
        """

    def join(self, now: float) -> None:
        """Join again, after `leave` or after an error that may be temporary."""

    def step(self, now: float) -> Step:
        """Return the next step. It does not change until it is done, unless a more urgent step becomes due."""
        ...

    def answered(self, request: Request[Any], response: Response | None, error: KafkaError | None, now: float) -> None:
        """Process the response to an `Ask`, or the error if it failed."""

    def done(self, step: Revoke | Lose | Assign, now: float) -> None:
        """Record that the caller has carried out this step, so `step` returns the next one."""

    def heartbeat_at(self) -> float | None:
        """Return the time at which the next heartbeat is due, or None if it depends on another event."""
        ...

    def heartbeat_timeout_s(self) -> float:
        """Return the time limit in seconds for the response to a heartbeat."""
        ...

    def heartbeat(self, now: float) -> Request[Any] | None:
        """Return the heartbeat to send, and record it as sent."""
        ...

    def heartbeat_answered(
        self,
        request: Request[Any],
        response: Response | None,
        error: KafkaError | None,
        now: float,
        *,
        reconnected: bool = False,
    ) -> None:
        """Process the response to a heartbeat, or the error if it failed.

        ``reconnected`` is True if the heartbeat used a different connection from the previous heartbeat.
        """

    def commit_refused(self, identity: GroupIdentity, error: KafkaError, now: float) -> None:
        """Process the refusal of a commit that was sent with this identity, which may be outdated by now."""
