"""What to send to a broker about metrics, and when (KIP-714; Java: ``ClientTelemetryReporter``)."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from random import random
from typing import NamedTuple
from uuid import UUID

from ..._records.layout import CODEC_NAMES
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
from ..transitions import Transitions


class Phase(Enum):
    """What is to be sent, or is under way."""

    SUBSCRIPTION_NEEDED = "subscription needed"
    SUBSCRIPTION_IN_PROGRESS = "subscription in progress"
    PUSH_NEEDED = "push needed"
    PUSH_IN_PROGRESS = "push in progress"
    TERMINATING_PUSH_NEEDED = "terminating push needed"
    """The client stops. A push may still be under way: its answer comes first."""
    TERMINATING_PUSH_IN_PROGRESS = "terminating push in progress"
    TERMINATED = "terminated"


class Event(Enum):
    """What leads from phase to phase."""

    ASK = "ask"
    """GetTelemetrySubscriptions was sent."""
    SUBSCRIBED = "subscribed"
    """The broker wants metrics."""
    ASK_AGAIN = "ask again"
    """The broker wants none, did not answer, or knows the subscription no more."""
    PUSH = "push"
    """PushTelemetry was sent."""
    PUSHED = "pushed"
    """It is over, and the next one comes with the same subscription."""
    CLOSE = "close"
    """The client stops, and has something to push before."""
    END = "end"
    """Nothing is sent any more: the client has stopped, or the broker refuses for good."""


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


DEFAULT_INTERVAL_S = 300.0
"""Where the broker names no interval that there could be (Java: ``DEFAULT_PUSH_INTERVAL_MS``)."""

_EVERYTHING = "*"
"""What brokers write for it (Java: ``ClientMetricsConfigs``); in the KIP it is an empty prefix."""


class Subscription(NamedTuple):
    """A subscription, which is the broker's answer to this very client."""

    subscription_id: int
    interval_s: float
    """From one push to the next."""
    codecs: tuple[str, ...]
    """In which payloads may come, the broker's favourite first, as far as they are known here."""
    max_bytes: int
    """The largest payload, after compression; 0 for no bound."""
    delta: bool
    """Whether counts are those since the last push, and not those since the start."""
    prefixes: tuple[str, ...]
    """The beginnings of the names of the metrics that are wanted."""

    @classmethod
    def from_response(cls, response: GetTelemetrySubscriptionsResponse) -> Subscription:
        """From an answer without an error."""
        known = [number for number in response.accepted_compression_types if 0 <= number < len(CODEC_NAMES)]
        return cls(
            response.subscription_id,
            response.push_interval_ms / 1000 if response.push_interval_ms > 0 else DEFAULT_INTERVAL_S,
            tuple(CODEC_NAMES[number] for number in known),
            max(0, response.telemetry_max_bytes),
            response.delta_temporality,
            tuple("" if prefix == _EVERYTHING else prefix for prefix in response.requested_metrics),
        )

    @property
    def wants_any(self) -> bool:
        """Whether any metric is wanted at all."""
        return bool(self.prefixes)

    def wants(self, name: str) -> bool:
        """Whether the metric of this name is wanted."""
        return name.startswith(self.prefixes)


_NO_ID = UUID(int=0)
"""Asks the broker for an id."""

_FIRST_RETRY_MS = 1_000
"""The first wait before a subscription is asked for again that no broker has answered."""


class _Then(Enum):
    """What follows from an error of the broker."""

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
"""Of others only those that may pass do not end it (Java: ``ClientTelemetryUtils.maybeFetchErrorIntervalMs``)."""


class Outcome(NamedTuple):
    """What an answer was."""

    error: KafkaError | None
    """Of the broker."""
    ended: bool
    """Whether it is for good."""


_FINE = Outcome(None, False)


class TelemetryState:
    """Owns the phase, the subscription, and the id by which the brokers know this client.

    Java gives pushing up when a connection is lost, and loses what was counted in an interval whose push failed. Here
    another broker gets it with the next push.
    """

    def __init__(self, rng: Callable[[], float] = random) -> None:
        """``rng`` returns a number in [0, 1); give a seeded one to replay."""
        self.phase = TRANSITIONS.first
        self.client_instance_id: UUID | None = None
        """Given by the first broker that answered."""
        self.subscription: Subscription | None = None
        self.due_at = 0.0
        """When, in monotonic seconds, to send what the phase needs."""
        self._rng = rng
        self._backoff = Backoff(_FIRST_RETRY_MS, DEFAULT_INTERVAL_S * 1000, rng)
        self._failures = 0
        self._hurried = False
        """Whether a subscription was asked for at once since the last push that was taken."""
        self._codec = "none"
        """That of the push under way."""
        self._refused_codecs: set[str] = set()

    @property
    def ended(self) -> bool:
        """Whether nothing is sent any more."""
        return self.phase is Phase.TERMINATED

    @property
    def may_push(self) -> bool:
        """Whether a push may come, as far as is known."""
        return not self.ended and (self.subscription is None or self.subscription.wants_any)

    # --- the subscription --------------------------------------------------------------------------------------------

    def ask(self) -> GetTelemetrySubscriptionsRequest:
        """The request for a subscription, which goes out now."""
        self._take(Event.ASK)
        return GetTelemetrySubscriptionsRequest(client_instance_id=self.client_instance_id or _NO_ID)

    def hurry(self) -> None:
        """Somebody waits for `client_instance_id`: ask for it at once, if a wait for that is under way."""
        if self.client_instance_id is None and self.phase is Phase.SUBSCRIPTION_NEEDED:
            self.due_at = 0.0

    def subscribed(self, response: GetTelemetrySubscriptionsResponse, now: float) -> Outcome:
        """The broker has answered."""
        if self.phase is not Phase.SUBSCRIPTION_IN_PROGRESS:
            return _FINE  # the client was stopped meanwhile
        if response.error_code:
            return self._refused(response.error_code, now)
        if response.client_instance_id != _NO_ID:
            self.client_instance_id = response.client_instance_id
        elif self.client_instance_id is None:
            self.failed(InvalidRequestError("the broker gave no client instance id"), now)
            return _FINE
        self._failures = 0
        self.subscription = found = Subscription.from_response(response)
        if found.wants_any:
            self._take(Event.SUBSCRIBED)
            # Clients that started together shall not push together.
            self.due_at = now + found.interval_s * (0.5 + self._rng())
        else:
            self._take(Event.ASK_AGAIN)
            self.due_at = now + found.interval_s
        return _FINE

    # --- pushes ------------------------------------------------------------------------------------------------------

    @property
    def codec(self) -> str:
        """In which the payload of the next push is to come: the first that the broker accepts, and never refused."""
        codecs = () if self.subscription is None else self.subscription.codecs
        return next((codec for codec in codecs if codec not in self._refused_codecs), "none")

    def push(self, codec: str) -> bool:
        """A push goes out now, compressed so; whether it is the last one."""
        self._codec = codec
        self._take(Event.PUSH)
        return self.phase is Phase.TERMINATING_PUSH_IN_PROGRESS

    def pushed(self, error_code: int, now: float) -> Outcome:
        """The broker has answered a push."""
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

    # --- what goes wrong ---------------------------------------------------------------------------------------------

    def failed(self, error: KafkaError, now: float) -> None:
        """The request got no answer."""
        if self.phase is Phase.SUBSCRIPTION_IN_PROGRESS:
            self._failures += 1
            served = not isinstance(error, UnsupportedVersionError)
            self._ask_again(now + (self._backoff.delay_s(self._failures) if served else DEFAULT_INTERVAL_S))
        elif self.phase in (Phase.PUSH_IN_PROGRESS, Phase.TERMINATING_PUSH_NEEDED):
            self._next_push(now)
        elif self.phase is Phase.TERMINATING_PUSH_IN_PROGRESS:
            self._take(Event.END)

    def close(self, last_push: bool) -> None:
        """The client stops: push once more, where there is a subscription and the client has metrics."""
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
        # Once: a broker that refuses what it has just given is not asked in a circle.
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
