"""Telemetry requests and their timing: every answer of a broker, at every moment (KIP-714)."""

from __future__ import annotations

import random
from uuid import UUID, uuid4

import pytest

from aiokafka_lead._core.telemetry.state import TRANSITIONS, Phase, Subscription, TelemetryState
from aiokafka_lead._wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsResponse
from aiokafka_lead.errors import (
    InvalidRecordError,
    InvalidRequestError,
    KafkaConnectionError,
    TelemetryTooLargeError,
    ThrottlingQuotaExceededError,
    TopicAuthorizationFailedError,
    UnknownServerError,
    UnknownSubscriptionIdError,
    UnsupportedCompressionTypeError,
    UnsupportedVersionError,
)

from .test_transitions import pairs, taken

ID = UUID("6f6f6f6f-0000-4000-8000-000000000001")
NO_ID = UUID(int=0)
LOST = KafkaConnectionError("lost")


def answer(
    *, metrics: tuple[str, ...] = ("*",), interval_ms: int = 10_000, error: int = 0, given: UUID = ID, number: int = 7
) -> GetTelemetrySubscriptionsResponse:
    return GetTelemetrySubscriptionsResponse(
        error_code=error,
        client_instance_id=given,
        subscription_id=number,
        accepted_compression_types=[4, 9, 1],
        push_interval_ms=interval_ms,
        telemetry_max_bytes=1000,
        delta_temporality=True,
        requested_metrics=list(metrics),
    )


def subscribed(rng: float = 0.5) -> TelemetryState:
    """Return a client that is due to push its metrics in zstd 10 s after the time 100.0."""
    state = TelemetryState(lambda: rng)
    state.ask()
    state.subscribed(answer(), 100.0)
    return state


def test_the_first_request_asks_for_an_id_which_stays() -> None:
    state = TelemetryState()
    assert state.due_at == 0
    assert state.ask().client_instance_id == NO_ID
    state.subscribed(answer(metrics=()), 100.0)
    assert state.client_instance_id == ID
    assert state.ask().client_instance_id == ID
    state.subscribed(answer(given=NO_ID), 200.0)  # by the schema, an id that was not repeated
    assert state.client_instance_id == ID


def test_an_answer_without_an_id_is_none() -> None:
    state = TelemetryState()
    state.ask()
    state.subscribed(answer(given=NO_ID), 100.0)
    assert state.phase is Phase.SUBSCRIPTION_NEEDED
    assert 100.0 < state.due_at < 102.0


@pytest.mark.parametrize(("rng", "at"), [(0.0, 105.0), (0.5, 110.0), (1.0, 115.0)])
def test_the_first_push_is_spread_and_later_ones_keep_the_interval(rng: float, at: float) -> None:
    state = subscribed(rng)
    assert state.due_at == at
    assert not state.push("zstd")
    assert state.pushed(0, 120.0).error is None
    assert state.due_at == 130.0


def test_a_subscription_to_nothing_is_asked_for_again() -> None:
    state = TelemetryState()
    state.ask()
    assert state.may_push
    state.subscribed(answer(metrics=()), 100.0)
    assert state.phase is Phase.SUBSCRIPTION_NEEDED
    assert state.due_at == 110.0
    assert not state.may_push


@pytest.mark.parametrize("interval_ms", [0, -1, 1, 2**31 - 1])
def test_an_interval_that_cannot_be_is_five_minutes(interval_ms: int) -> None:
    state = TelemetryState(lambda: 0.5)
    state.ask()
    state.subscribed(answer(interval_ms=interval_ms), 100.0)
    assert state.due_at == 400.0


@pytest.mark.parametrize(
    ("error", "due_at"),
    [
        (UnknownSubscriptionIdError, 120.0),
        (UnsupportedCompressionTypeError, 120.0),
        (TelemetryTooLargeError, 130.0),
        (ThrottlingQuotaExceededError, 130.0),
        (UnknownServerError, None),
        (InvalidRequestError, None),
        (InvalidRecordError, None),
        (UnsupportedVersionError, None),
        (TopicAuthorizationFailedError, None),
    ],
)
def test_what_follows_from_an_error_of_a_push(error: type[UnknownServerError], due_at: float | None) -> None:
    state = subscribed()
    state.push("zstd")
    outcome = state.pushed(error.code, 120.0)
    assert type(outcome.error) is error
    assert outcome.ended == state.ended == (due_at is None)
    if due_at is not None:
        assert (state.phase, state.due_at) == (Phase.SUBSCRIPTION_NEEDED, due_at)
        assert state.ask().client_instance_id == ID


def test_a_broker_that_refuses_what_it_gave_is_not_asked_in_a_circle() -> None:
    state = subscribed()
    state.push("zstd")
    state.pushed(UnknownSubscriptionIdError.code, 120.0)
    assert state.due_at == 120.0
    state.ask()
    state.subscribed(answer(number=8), 120.0)
    state.push("zstd")
    state.pushed(UnknownSubscriptionIdError.code, 130.0)
    assert state.due_at == 140.0
    state.ask()
    state.subscribed(answer(number=9), 140.0)
    state.push("zstd")
    state.pushed(0, 150.0)  # accepted: the next refusal is a new one
    state.push("zstd")
    state.pushed(UnknownSubscriptionIdError.code, 160.0)
    assert state.due_at == 160.0


def test_a_codec_that_was_refused_is_not_used_again() -> None:
    state = subscribed()
    for codec in ("zstd", "gzip", "none"):
        assert state.codec == codec
        state.push(codec)
        state.pushed(UnsupportedCompressionTypeError.code, 120.0)
        state.ask()
        state.subscribed(answer(), 120.0)


def test_a_lost_request_is_sent_again_to_another_broker() -> None:
    state = subscribed()
    state.push("zstd")
    state.failed(LOST, 120.0)
    assert (state.phase, state.due_at) == (Phase.PUSH_NEEDED, 130.0)
    state = TelemetryState(lambda: 0.5)
    waits = []
    for _ in range(12):
        state.ask()
        state.failed(LOST, 100.0)
        waits.append(state.due_at - 100.0)
    assert waits[:3] == [1.0, 2.0, 4.0]
    assert waits[-1] == 300.0
    state.hurry()
    assert state.due_at == 0
    state.ask()
    state.failed(UnsupportedVersionError(), 100.0)
    assert state.due_at == 400.0


def test_it_ends_at_once_without_a_subscription_or_without_metrics() -> None:
    state = TelemetryState()
    state.close(True)
    assert state.ended
    state = TelemetryState()
    state.ask()
    state.close(True)
    state.subscribed(answer(), 100.0)
    state.failed(LOST, 100.0)
    assert state.ended
    assert state.subscription is None
    for in_progress in (False, True):
        state = subscribed()
        if in_progress:
            state.push("zstd")
        state.close(False)
        assert state.ended
        state.pushed(0, 120.0)


def test_the_last_push_goes_out_at_once_and_once() -> None:
    state = subscribed()
    state.close(True)
    assert state.due_at == 0
    assert state.push("zstd")
    state.close(True)
    assert not state.pushed(ThrottlingQuotaExceededError.code, 120.0).ended
    assert state.ended


@pytest.mark.parametrize("code", [0, TelemetryTooLargeError.code, None])
def test_a_push_under_way_is_waited_for_before_the_last_one(code: int | None) -> None:
    state = subscribed()
    state.push("zstd")
    state.close(True)
    if code is None:
        state.failed(LOST, 120.0)
    else:
        state.pushed(code, 120.0)
    assert (state.phase, state.due_at) == (Phase.TERMINATING_PUSH_NEEDED, 0.0)
    assert state.push("zstd")
    state.failed(LOST, 121.0)
    assert state.ended


def test_no_last_push_for_a_subscription_that_is_no_more() -> None:
    state = subscribed()
    state.push("zstd")
    state.close(True)
    assert state.pushed(UnknownSubscriptionIdError.code, 120.0).ended
    assert state.ended


@pytest.mark.parametrize(
    ("requested", "wanted"),
    [
        ((), []),
        (("",), ["org.apache.kafka.producer.x", "own.x"]),
        (("*",), ["org.apache.kafka.producer.x", "own.x"]),
        (("org.apache.kafka.producer.",), ["org.apache.kafka.producer.x"]),
        (("org.apache.kafka.consumer.", "own"), ["own.x"]),
        (("producer",), []),
    ],
)
def test_metrics_are_chosen_by_the_beginnings_of_their_names(requested: tuple[str, ...], wanted: list[str]) -> None:
    subscription = Subscription.from_response(answer(metrics=requested))
    names = ["org.apache.kafka.producer.x", "own.x"]
    assert [name for name in names if subscription.wants(name)] == wanted
    assert subscription.wants_any == bool(requested)
    assert subscription.codecs == ("zstd", "gzip"), "in the broker's order, the unknown one left out"


class Walk:
    """A client, a broker and a network, all erratic."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.now = 0.0
        self.state = TelemetryState(rng.random)

    def walk(self) -> None:
        acts = [self.send] * 6 + [self.answer] * 6 + [self.lose, self.hurry]
        for _ in range(60):
            self.now += self.rng.choice([0.0, 1.0, 500.0])
            self.rng.choice(acts)()
        self.state.close(self.rng.random() < 0.8)
        for _ in range(10):
            self.rng.choice([self.send, self.answer, self.lose])()

    def send(self) -> None:
        if self.state.phase is Phase.SUBSCRIPTION_NEEDED:
            self.state.ask()
        elif self.state.phase is Phase.PUSH_NEEDED or (
            self.state.phase is Phase.TERMINATING_PUSH_NEEDED and self.rng.random() < 0.5
        ):
            self.state.push(self.state.codec)

    def answer(self) -> None:
        code = self.rng.choice([0] * 6 + [42, 87, 117, 118, 89, 76])
        if self.state.phase is Phase.SUBSCRIPTION_IN_PROGRESS:
            metrics = self.rng.choice([(), ("*",), ("*",)])
            self.state.subscribed(
                answer(error=code, metrics=metrics, given=self.rng.choice([NO_ID, uuid4()])), self.now
            )
        elif self.state.phase not in (Phase.SUBSCRIPTION_NEEDED, Phase.PUSH_NEEDED):
            self.state.pushed(code, self.now)

    def lose(self) -> None:
        self.state.failed(LOST, self.now)

    def hurry(self) -> None:
        self.state.hurry()


def test_a_walk_takes_each_transition_and_none_beside_the_table() -> None:
    with taken(TRANSITIONS) as found:
        for seed in range(300):
            Walk(random.Random(seed)).walk()
    assert found == pairs(TRANSITIONS)
    assert {after for state in TRANSITIONS.table.values() for after in state.values()} == set(Phase)
