"""Time for which a run continues despite refusals."""

from __future__ import annotations

import logging

import pytest

from aiokafka_lead._core.run.refusals import CALM_S, Refusals
from aiokafka_lead._options.logs import client_log
from aiokafka_lead.config import ClientConfig
from aiokafka_lead.errors import GroupAuthorizationFailedError, KafkaError, TopicAuthorizationFailedError

CONFIG = ClientConfig.from_options("localhost", {"retry_backoff_ms": 100, "retry_backoff_max_ms": 1000})


def refusals(patience_ms: float) -> Refusals:
    return Refusals(patience_ms, CONFIG, client_log("consumer", "test"))


def test_without_patience_the_first_one_is_raised() -> None:
    error = GroupAuthorizationFailedError()
    with pytest.raises(GroupAuthorizationFailedError) as raised:
        refusals(0).bear(error, 5.0)
    assert raised.value is error


def test_they_are_borne_with_until_the_patience_is_used_up() -> None:
    bearing = refusals(60_000)
    assert bearing.bear(GroupAuthorizationFailedError("one"), 100.0) == pytest.approx(0.1, rel=0.3)
    assert bearing.bear(TopicAuthorizationFailedError("two"), 101.0) == pytest.approx(0.2, rel=0.3)
    assert bearing.problem(103.0) == "brokers have refused requests of run() for 3.0 s, and it retries: two"
    for at in range(102, 159, 3):
        assert bearing.bear(GroupAuthorizationFailedError(), at) <= 1.2
    assert bearing.bear(GroupAuthorizationFailedError(), 159.9) == pytest.approx(0.1)
    with pytest.raises(KafkaError, match="at last"):
        bearing.bear(GroupAuthorizationFailedError("at last"), 160.0)


def test_those_that_have_passed_do_not_count(caplog: pytest.LogCaptureFixture) -> None:
    bearing = refusals(60_000)
    with caplog.at_level(logging.WARNING):
        for at in (0.0, 50.0, 100.0, 150.0):
            bearing.bear(GroupAuthorizationFailedError("now and then"), at)
            bearing.bear(GroupAuthorizationFailedError("again"), at + 1)
            assert bearing.look_ms(60_000, at + 4) == pytest.approx((CALM_S - 3) * 1000)
            bearing.passed(at + 5)
            assert bearing.problem(at + 5) is not None
            assert bearing.problem(at + 1 + CALM_S) is None
            bearing.passed(at + 1 + CALM_S)
            assert bearing.look_ms(60_000, at + 20) == 60_000
    said = [record.getMessage().partition(": ")[2] for record in caplog.records]
    assert (
        said
        == [
            "brokers refuse requests of run(), which retries for up to 60 s: now and then",
            "brokers accept requests of run() again, after 2 refusals in 1.0 s",
        ]
        * 4
    )
