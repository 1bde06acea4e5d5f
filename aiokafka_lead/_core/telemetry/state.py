"""Telemetry requests: which to send to a broker, and when (KIP-714; Java: ``ClientTelemetryReporter``)."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from uuid import UUID

from ... import errors
from ..._records.layout import CODEC_NAMES
from ..._values import NamedTuple
from ..._wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from ..backoff import Backoff
from ..chance import random
from ..transitions import Transitions


class Phase(Enum):
    """Phases of the exchange, named after the request that is due or in flight."""

    SUBSCRIPTION_NEEDED = "subscription needed"
    SUBSCRIPTION_IN_PROGRESS = "subscription in progress"
    PUSH_NEEDED = "push needed"
    PUSH_IN_PROGRESS = "push in progress"
    TERMINATING_PUSH_NEEDED = "terminating push needed"
    """The client is closing. A push may still be in flight, and its response comes first."""
    TERMINATING_PUSH_IN_PROGRESS = "terminating push in progress"
    TERMINATED = "terminated"


class Event(Enum):
    """Events that move the exchange to another phase."""

    ASK = "ask"
    """The client sent GetTelemetrySubscriptions."""
    SUBSCRIBED = "subscribed"
    """The broker subscribed to metrics."""
    ASK_AGAIN = "ask again"
    """The broker subscribed to no metrics, did not answer, or no longer knows the subscription."""
    PUSH = "push"
    """The client sent PushTelemetry."""
    PUSHED = "pushed"
    """The push has ended, and the next push uses the same subscription."""
    CLOSE = "close"
    """The client is closing, and has to push its last metrics first."""
    END = "end"
    """The client has closed, or the broker has refused permanently."""


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
"""Push intervals in milliseconds that brokers accept (Java: ``ClientMetricsConfigs``)."""

DEFAULT_INTERVAL_S = 300.0
"""Push interval in seconds if the broker sends an invalid one (Java: ``DEFAULT_PUSH_INTERVAL_MS``)."""

_EVERYTHING = "*"
"""The name that brokers send for all metrics (Java: ``ClientMetricsConfigs``). The KIP specifies an empty prefix."""


class Subscription(NamedTuple):
    """A subscription to metrics, as the broker has returned it."""

    subscription_id: int
    interval_s: float
    """Seconds between two pushes."""
    codecs: tuple[str, ...]
    """Compression codecs that both sides support, in the broker's order of preference."""
    max_bytes: int
    """Maximum size of a payload after compression, or 0 for no limit."""
    delta: bool
    """True if counts cover the time since the last push. False if they cover the time since the client started."""
    prefixes: tuple[str, ...]
    """Prefixes of the names of the subscribed metrics."""

    @classmethod
    def from_response(cls, response: GetTelemetrySubscriptionsResponse) -> Subscription:
        """Return the subscription from a response without an error."""
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
        """True if at least one metric is subscribed."""
        return bool(self.prefixes)

    def wants(self, name: str) -> bool:
        """Return True if the metric with this name is subscribed."""
        return name.startswith(self.prefixes)


_NO_ID = UUID(int=0)
"""Client instance id that asks the broker for a new id."""

_FIRST_RETRY_MS = 1_000
"""Initial delay in milliseconds before the request for a subscription is repeated after a failure."""


class _Then(Enum):
    """Reactions to a broker's error: request the subscription again, or end the exchange."""

    ASK_AT_ONCE = "ask at once"
    ASK_AFTER_INTERVAL = "ask after the interval"
    END = "end"


_AFTER_ERROR: dict[type[errors.KafkaError], _Then] = {
    errors.UnknownSubscriptionIdError: _Then.ASK_AT_ONCE,
    errors.UnsupportedCompressionTypeError: _Then.ASK_AT_ONCE,
    errors.TelemetryTooLargeError: _Then.ASK_AFTER_INTERVAL,
    errors.ThrottlingQuotaExceededError: _Then.ASK_AFTER_INTERVAL,
    errors.InvalidRequestError: _Then.END,
    errors.InvalidRecordError: _Then.END,
    errors.UnsupportedVersionError: _Then.END,
}
"""Reactions to errors. Errors that are not listed here end the exchange unless they are retriable.

Java: ``ClientTelemetryUtils.maybeFetchErrorIntervalMs``.
"""


class Outcome(NamedTuple):
    """The error in a broker's response, if any, and its consequence."""

    error: errors.KafkaError | None
    """The broker's error, or None."""
    ended: bool
    """True if the error ends the exchange."""


_FINE = Outcome(None, False)


class TelemetryState:
    """Owns the phase, the subscription, and the client instance id.

    When Java loses a connection, it stops pushing. When a push fails, Java loses the counts of that interval. This
    client sends them with its next push, to another broker if necessary.
    """

    def __init__(self, rng: Callable[[], float] = random) -> None:
        """Start without a subscription.

        ``rng`` returns a number in [0, 1). Pass a seeded generator for reproducible behaviour.
        """
        self.phase = TRANSITIONS.first
        self.client_instance_id: UUID | None = None
        """Id assigned by the first broker that responded, or None."""
        self.subscription: Subscription | None = None
        self.due_at = 0.0
        """Time of the phase's next request, in monotonic seconds."""
        self._rng = rng
        self._backoff = Backoff(_FIRST_RETRY_MS, DEFAULT_INTERVAL_S * 1000, rng)
        self._failures = 0
        self._hurried = False
        """True if a subscription was requested ahead of time since the last accepted push."""
        self._codec = "none"
        """The codec of the push in flight."""
        self._refused_codecs: set[str] = set()

    @property
    def ended(self) -> bool:
        """True if no more requests will be sent."""
        return self.phase is Phase.TERMINATED

    @property
    def may_push(self) -> bool:
        """True if another push may follow the current one."""
        return not self.ended and (self.subscription is None or self.subscription.wants_any)

    # --- subscriptions -----------------------------------------------------------------------------------------------

    def ask(self) -> GetTelemetrySubscriptionsRequest:
        """Return the request for a subscription, which counts as sent."""
        self._take(Event.ASK)
        return GetTelemetrySubscriptionsRequest(client_instance_id=self.client_instance_id or _NO_ID)

    def hurry(self) -> None:
        """Make a delayed request due now, because a call is waiting for `client_instance_id`."""
        if self.client_instance_id is None and self.phase is Phase.SUBSCRIPTION_NEEDED:
            self.due_at = 0.0

    def subscribed(self, response: GetTelemetrySubscriptionsResponse, now: float) -> Outcome:
        """Process the response to the request for a subscription. Return its error, if any, and the consequence."""
        if self.phase is not Phase.SUBSCRIPTION_IN_PROGRESS:
            return _FINE  # the client has been closed in the meantime
        if response.error_code:
            return self._refused(response.error_code, now)
        if response.client_instance_id != _NO_ID:
            self.client_instance_id = response.client_instance_id
        elif self.client_instance_id is None:
            self.failed(errors.InvalidRequestError("the broker returned no client instance id"), now)
            return _FINE
        self._failures = 0
        self.subscription = found = Subscription.from_response(response)
        if found.wants_any:
            self._take(Event.SUBSCRIBED)
            # Spread the first pushes, because many clients may have started at the same time.
            self.due_at = now + found.interval_s * (0.5 + self._rng())
        else:
            self._take(Event.ASK_AGAIN)
            self.due_at = now + found.interval_s
        return _FINE

    # --- pushes ------------------------------------------------------------------------------------------------------

    @property
    def codec(self) -> str:
        """Codec for the next push: the first one that the broker accepts and has not refused."""
        codecs = () if self.subscription is None else self.subscription.codecs
        return next((codec for codec in codecs if codec not in self._refused_codecs), "none")

    def push(self, codec: str) -> bool:
        """Record that a push with this codec is being sent. Return True if it is the last push."""
        self._codec = codec
        self._take(Event.PUSH)
        return self.phase is Phase.TERMINATING_PUSH_IN_PROGRESS

    def pushed(self, error_code: int, now: float) -> Outcome:
        """Process the response to a push. Return its error, if any, and the consequence."""
        if self.ended:
            return _FINE  # the client has been closed in the meantime
        if self.phase is Phase.TERMINATING_PUSH_IN_PROGRESS:
            self._take(Event.END)
            return Outcome(_error(error_code), False)
        if not error_code:
            self._hurried = False
            self._next_push(now)
            return _FINE
        return self._refused(error_code, now)

    # --- failures ----------------------------------------------------------------------------------------------------

    def failed(self, error: errors.KafkaError, now: float) -> None:
        """Process a request without a response. It is repeated later, unless it was the last push."""
        if self.phase is Phase.SUBSCRIPTION_IN_PROGRESS:
            self._failures += 1
            served = not isinstance(error, errors.UnsupportedVersionError)
            self._ask_again(now + (self._backoff.delay_s(self._failures) if served else DEFAULT_INTERVAL_S))
        elif self.phase in (Phase.PUSH_IN_PROGRESS, Phase.TERMINATING_PUSH_NEEDED):
            self._next_push(now)
        elif self.phase is Phase.TERMINATING_PUSH_IN_PROGRESS:
            self._take(Event.END)

    def close(self, last_push: bool) -> None:
        """End the exchange. If there is a subscription and ``last_push`` is True, push the last metrics first."""
        if last_push and self.phase in (Phase.PUSH_NEEDED, Phase.PUSH_IN_PROGRESS):
            self._take(Event.CLOSE)
            self.due_at = 0.0
        elif self.phase not in (Phase.TERMINATING_PUSH_NEEDED, Phase.TERMINATING_PUSH_IN_PROGRESS, Phase.TERMINATED):
            self._take(Event.END)

    def _refused(self, error_code: int, now: float) -> Outcome:
        """Return the outcome of an error response, and decide when to request the subscription again, or to end."""
        error = _error(error_code)
        assert error is not None
        if isinstance(error, errors.UnsupportedCompressionTypeError):
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
        # Only once. If the broker refuses the subscription that it has just sent, asking again would be an endless
        # loop.
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


def _error(code: int) -> errors.KafkaError | None:
    return errors.error_for_code(code)() if code else None
