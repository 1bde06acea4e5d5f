"""Decides which requests about metrics to send to a broker, and when (KIP-714; Java: ``ClientTelemetryReporter``)."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from uuid import UUID

from ..._records.layout import CODEC_NAMES
from ..._values import NamedTuple
from ..._wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from ...errors import (
    InvalidRecordError,
    InvalidRequestError,
    KafkaError,
    TelemetryTooLargeError,
    ThrottlingQuotaExceededError,
    UnknownSubscriptionIdError,
    UnsupportedCompressionTypeError,
    UnsupportedVersionError,
    error_for_code,
)
from ..backoff import Backoff
from ..chance import random
from ..transitions import Transitions


class Phase(Enum):
    """Phases: the request to send, or in flight."""

    SUBSCRIPTION_NEEDED = "subscription needed"
    SUBSCRIPTION_IN_PROGRESS = "subscription in progress"
    PUSH_NEEDED = "push needed"
    PUSH_IN_PROGRESS = "push in progress"
    TERMINATING_PUSH_NEEDED = "terminating push needed"
    """The client stops. A push may still be in flight: its response comes first."""
    TERMINATING_PUSH_IN_PROGRESS = "terminating push in progress"
    TERMINATED = "terminated"


class Event(Enum):
    """Event that leads to another phase."""

    ASK = "ask"
    """GetTelemetrySubscriptions was sent."""
    SUBSCRIBED = "subscribed"
    """The broker asks for metrics."""
    ASK_AGAIN = "ask again"
    """The broker asks for no metrics, did not answer, or no longer has the subscription."""
    PUSH = "push"
    """PushTelemetry was sent."""
    PUSHED = "pushed"
    """The push has ended, and the next push uses the same subscription."""
    CLOSE = "close"
    """The client stops, and has to push first."""
    END = "end"
    """The client has stopped, or the broker refuses permanently."""


_END = {Event.END: Phase.TERMINATED}

TRANSITIONS = Transitions(
    "a client's metrics push",
    Phase.SUBSCRIPTION_NEEDED,
    {
        Phase.SUBSCRIPTION_NEEDED: {Event.ASK: Phase.SUBSCRIPTION_IN_PROGRESS, **_END},
        Phase.SUBSCRIPTION_IN_PROGRESS: {
            Event.SUBSCRIBED: Phase.PUSH_NEEDED,
            Event.ASK_AGAIN: Phase.SUBSCRIPTION_NEEDED,
            **_END,
        },
        Phase.PUSH_NEEDED: {
            Event.PUSH: Phase.PUSH_IN_PROGRESS,
            Event.CLOSE: Phase.TERMINATING_PUSH_NEEDED,
            **_END,
        },
        Phase.PUSH_IN_PROGRESS: {
            Event.PUSHED: Phase.PUSH_NEEDED,
            Event.ASK_AGAIN: Phase.SUBSCRIPTION_NEEDED,
            Event.CLOSE: Phase.TERMINATING_PUSH_NEEDED,
            **_END,
        },
        Phase.TERMINATING_PUSH_NEEDED: {
            Event.PUSHED: Phase.TERMINATING_PUSH_NEEDED,
            Event.PUSH: Phase.TERMINATING_PUSH_IN_PROGRESS,
            **_END,
        },
        Phase.TERMINATING_PUSH_IN_PROGRESS: _END,
        Phase.TERMINATED: {},
    },
)


INTERVALS_MS = range(100, 3_600_001)
"""Intervals that brokers accept (Java: ``ClientMetricsConfigs``)."""

DEFAULT_INTERVAL_S = 300.0
"""Interval if the broker sends an invalid interval (Java: ``DEFAULT_PUSH_INTERVAL_MS``)."""

_EVERYTHING = "*"
"""Brokers' name for all metrics (Java: ``ClientMetricsConfigs``); in the KIP it is an empty prefix."""


class Subscription(NamedTuple):
    """A subscription, which is the broker's response to this client."""

    subscription_id: int
    interval_s: float
    """Seconds from one push to the next."""
    codecs: tuple[str, ...]
    """Codecs that the broker accepts and this client has, in the broker's order of preference."""
    max_bytes: int
    """The largest payload, after compression; 0 for no limit."""
    delta: bool
    """True if counts cover the time since the last push, and not since the start."""
    prefixes: tuple[str, ...]
    """Beginnings of the names of subscribed metrics."""

    @classmethod
    def from_response(cls, response: GetTelemetrySubscriptionsResponse) -> Subscription:
        """Return the subscription of a response without an error."""
        known = [number for number in response.accepted_compression_types if 0 <= number < len(CODEC_NAMES)]
        return cls(
            response.subscription_id,
            response.push_interval_ms / 1000 if response.push_interval_ms in INTERVALS_MS else DEFAULT_INTERVAL_S,
            tuple(CODEC_NAMES[number] for number in known),
            max(0, response.telemetry_max_bytes),
            response.delta_temporality,
            tuple("" if prefix == _EVERYTHING else prefix for prefix in response.requested_metrics),
        )

    @property
    def wants_any(self) -> bool:
        """True if any metric is subscribed."""
        return bool(self.prefixes)

    def wants(self, name: str) -> bool:
        """Return True if the metric of this name is subscribed."""
        return name.startswith(self.prefixes)


_NO_ID = UUID(int=0)
"""The client instance id of a request for a new id."""

_FIRST_RETRY_MS = 1_000
"""First wait before the next request for a subscription after an unanswered request."""


class _Then(Enum):
    """Consequence of a broker's error."""

    ASK_AT_ONCE = "ask at once"
    ASK_AFTER_INTERVAL = "ask after the interval"
    END = "end"


_AFTER_ERROR: dict[type[KafkaError], _Then] = {
    UnknownSubscriptionIdError: _Then.ASK_AT_ONCE,
    UnsupportedCompressionTypeError: _Then.ASK_AT_ONCE,
    TelemetryTooLargeError: _Then.ASK_AFTER_INTERVAL,
    ThrottlingQuotaExceededError: _Then.ASK_AFTER_INTERVAL,
    InvalidRequestError: _Then.END,
    InvalidRecordError: _Then.END,
    UnsupportedVersionError: _Then.END,
}
"""Of all other errors, only retriable errors do not end it (Java: ``ClientTelemetryUtils.maybeFetchErrorIntervalMs``).
"""


class Outcome(NamedTuple):
    """Result of a response."""

    error: KafkaError | None
    """The broker's error."""
    ended: bool
    """True if it is permanent."""


_FINE = Outcome(None, False)


class TelemetryState:
    """Owns the phase, the subscription, and the id with which brokers identify this client.

    Java stops pushing when a connection is lost, and loses the counts of an interval if its push fails. Here another
    broker gets them with the next push.
    """

    def __init__(self, rng: Callable[[], float] = random) -> None:
        """Begin without a subscription. ``rng`` returns a number in [0, 1); pass a seeded generator to replay."""
        self.phase = TRANSITIONS.first
        self.client_instance_id: UUID | None = None
        """Id assigned by the first broker that answered; None before."""
        self.subscription: Subscription | None = None
        self.due_at = 0.0
        """Time, in monotonic seconds, of the phase's next request."""
        self._rng = rng
        self._backoff = Backoff(_FIRST_RETRY_MS, DEFAULT_INTERVAL_S * 1000, rng)
        self._failures = 0
        self._hurried = False
        """True if a subscription was requested early since the last accepted push."""
        self._codec = "none"
        """Codec of the push in flight."""
        self._refused_codecs: set[str] = set()

    @property
    def ended(self) -> bool:
        """True if no more requests are sent."""
        return self.phase is Phase.TERMINATED

    @property
    def may_push(self) -> bool:
        """True if a push may follow, as far as known."""
        return not self.ended and (self.subscription is None or self.subscription.wants_any)

    # --- the subscription --------------------------------------------------------------------------------------------

    def ask(self) -> GetTelemetrySubscriptionsRequest:
        """Return the request for a subscription; it counts as sent."""
        self._take(Event.ASK)
        return GetTelemetrySubscriptionsRequest(client_instance_id=self.client_instance_id or _NO_ID)

    def hurry(self) -> None:
        """Send a waiting request at once, because a call waits for `client_instance_id`."""
        if self.client_instance_id is None and self.phase is Phase.SUBSCRIPTION_NEEDED:
            self.due_at = 0.0

    def subscribed(self, response: GetTelemetrySubscriptionsResponse, now: float) -> Outcome:
        """Process the broker's answer to the request for a subscription."""
        if self.phase is not Phase.SUBSCRIPTION_IN_PROGRESS:
            return _FINE  # the client was stopped meanwhile
        if response.error_code:
            return self._refused(response.error_code, now)
        if response.client_instance_id != _NO_ID:
            self.client_instance_id = response.client_instance_id
        elif self.client_instance_id is None:
            self.failed(InvalidRequestError("the broker returned no client instance id"), now)
            return _FINE
        self._failures = 0
        self.subscription = found = Subscription.from_response(response)
        if found.wants_any:
            self._take(Event.SUBSCRIBED)
            # Clients that started together should not push together.
            self.due_at = now + found.interval_s * (0.5 + self._rng())
        else:
            self._take(Event.ASK_AGAIN)
            self.due_at = now + found.interval_s
        return _FINE

    # --- pushes ------------------------------------------------------------------------------------------------------

    @property
    def codec(self) -> str:
        """Codec of the next push: the first that the broker accepts, and has never refused."""
        codecs = () if self.subscription is None else self.subscription.codecs
        return next((codec for codec in codecs if codec not in self._refused_codecs), "none")

    def push(self, codec: str) -> bool:
        """Record that a push with this codec is sent now; return True if it is the last push."""
        self._codec = codec
        self._take(Event.PUSH)
        return self.phase is Phase.TERMINATING_PUSH_IN_PROGRESS

    def pushed(self, error_code: int, now: float) -> Outcome:
        """Process the broker's answer to a push."""
        if self.ended:
            return _FINE  # the client was stopped meanwhile
        if self.phase is Phase.TERMINATING_PUSH_IN_PROGRESS:
            self._take(Event.END)
            return Outcome(_error(error_code), False)
        if not error_code:
            self._hurried = False
            self._next_push(now)
            return _FINE
        return self._refused(error_code, now)

    # --- failures ----------------------------------------------------------------------------------------------------

    def failed(self, error: KafkaError, now: float) -> None:
        """Process the failure of a request without a response."""
        if self.phase is Phase.SUBSCRIPTION_IN_PROGRESS:
            self._failures += 1
            served = not isinstance(error, UnsupportedVersionError)
            self._ask_again(now + (self._backoff.delay_s(self._failures) if served else DEFAULT_INTERVAL_S))
        elif self.phase in (Phase.PUSH_IN_PROGRESS, Phase.TERMINATING_PUSH_NEEDED):
            self._next_push(now)
        elif self.phase is Phase.TERMINATING_PUSH_IN_PROGRESS:
            self._take(Event.END)

    def close(self, last_push: bool) -> None:
        """Stop, after a last push if there is a subscription and the client has metrics."""
        if last_push and self.phase in (Phase.PUSH_NEEDED, Phase.PUSH_IN_PROGRESS):
            self._take(Event.CLOSE)
            self.due_at = 0.0
        elif self.phase not in (Phase.TERMINATING_PUSH_NEEDED, Phase.TERMINATING_PUSH_IN_PROGRESS, Phase.TERMINATED):
            self._take(Event.END)

    def _refused(self, error_code: int, now: float) -> Outcome:
        error = _error(error_code)
        assert error is not None
        if isinstance(error, UnsupportedCompressionTypeError):
            self._refused_codecs.add(self._codec)
        then = _AFTER_ERROR.get(type(error), _Then.ASK_AFTER_INTERVAL if error.retriable else _Then.END)
        closing = self.phase is Phase.TERMINATING_PUSH_NEEDED
        if then is _Then.END or (closing and then is _Then.ASK_AT_ONCE):
            self._take(Event.END)
            return Outcome(error, True)
        if closing:
            self._take(Event.PUSHED)
            return Outcome(error, False)
        interval_s = DEFAULT_INTERVAL_S if self.subscription is None else self.subscription.interval_s
        # Only once: a broker that refuses the subscription that it has just sent must not be asked in a loop.
        at_once = then is _Then.ASK_AT_ONCE and not self._hurried
        self._hurried = self._hurried or at_once
        self._ask_again(now if at_once else now + interval_s)
        return Outcome(error, False)

    def _ask_again(self, at: float) -> None:
        self._take(Event.ASK_AGAIN)
        self.due_at = at

    def _next_push(self, now: float) -> None:
        closing = self.phase is Phase.TERMINATING_PUSH_NEEDED
        self._take(Event.PUSHED)
        assert self.subscription is not None
        self.due_at = 0.0 if closing else now + self.subscription.interval_s

    def _take(self, event: Event) -> None:
        self.phase = TRANSITIONS.after(self.phase, event)


def _error(code: int) -> KafkaError | None:
    return error_for_code(code)() if code else None
