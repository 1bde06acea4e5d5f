"""Topics in use, and lookups of unknown topics."""

from __future__ import annotations

import math

from aiokafka_lead._core.backoff import Backoff
from aiokafka_lead._core.metadata.topics import DENIALS_TO_BELIEVE, LOOKUP_TICK_S, WARN_EVERY_S, TopicsInUse
from aiokafka_lead._core.trust import DOUBT_AFTER

IDLE_S = 300.0


def topics() -> TopicsInUse:
    return TopicsInUse(IDLE_S, Backoff(100, 1000, lambda: 0.5))


def test_kept_topics_stay_until_dropped() -> None:
    wanted = topics()
    wanted.keep(["a", "b"])
    assert wanted.expire(1e9) == []
    assert sorted(wanted.names()) == ["a", "b"]
    assert wanted.drop(["a"]) == ["a"]
    assert wanted.names() == ["b"]


def test_used_topics_expire_when_idle() -> None:
    wanted = topics()
    wanted.use("a")
    assert "a" in wanted
    assert wanted.expire(0.0) == []
    assert wanted.expire(IDLE_S - 1) == []
    assert wanted.expire(IDLE_S) == ["a"]
    assert "a" not in wanted


def test_using_a_topic_again_keeps_it() -> None:
    wanted = topics()
    for now in range(0, 10_000, 100):
        wanted.use("a")
        assert wanted.expire(float(now)) == []


def test_a_topic_both_kept_and_used_needs_both_to_end() -> None:
    wanted = topics()
    wanted.keep(["a"])
    wanted.use("a")
    wanted.expire(0.0)
    assert wanted.expire(2 * IDLE_S) == []
    assert "a" in wanted
    wanted.use("a")
    assert wanted.drop(["a"]) == []
    assert "a" in wanted


def test_no_stampede_for_an_unknown_topic() -> None:
    wanted = topics()
    for _ in range(1000):
        wanted.use("a")
        wanted.wait("a", 1.0)
    assert wanted.due(1.0) == ["a"]
    waits, now = [], 1.0
    for _ in range(6):
        wanted.missed("a", 1, now)
        for _ in range(10):
            wanted.wait("a", now)
        assert wanted.due(now) == []
        waits.append(wanted.next_due() - now)
        now = wanted.next_due()
    for wait, backoff_ms in zip(waits, [100, 200, 400, 800, 1000, 1000], strict=True):
        assert -1e-6 < wait - backoff_ms / 1000 < LOOKUP_TICK_S + 1e-6
    assert wanted.lookups("a") == 6


def test_a_found_topic_is_looked_up_no_more() -> None:
    wanted = topics()
    wanted.use("a")
    lookup = wanted.wait("a", 1.0)
    wanted.found("a")
    assert wanted.next_due() == math.inf
    wanted.leave("a", lookup)
    assert "a" in wanted


def test_calls_of_an_ended_lookup_do_not_leave_the_next_one() -> None:
    wanted = topics()
    first = wanted.wait("a", 1.0)
    assert wanted.wait("a", 1.0) is first
    wanted.found("a")
    wanted.leave("a", first)
    second = wanted.wait("a", 2.0)
    wanted.leave("a", first)
    assert wanted.due(2.0) == ["a"]
    assert wanted.leave("a", second) == 0
    assert wanted.next_due() == math.inf


def test_an_unknown_topic_is_given_up_with_the_last_who_waits() -> None:
    wanted = topics()
    wanted.use("a")
    lookup = wanted.wait("a", 1.0)
    wanted.wait("a", 1.0)
    wanted.missed("a", 1, 1.0)
    wanted.leave("a", lookup)
    assert wanted.next_due() < math.inf
    wanted.leave("a", lookup)
    assert wanted.next_due() == math.inf
    assert "a" not in wanted


def test_an_unknown_topic_that_is_kept_is_looked_for_on() -> None:
    wanted = topics()
    wanted.keep(["a"])
    wanted.look_up("a", 1.0)
    wanted.leave("a", wanted.wait("a", 1.0))
    assert wanted.due(1.0) == ["a"]
    wanted.drop(["a"])
    assert wanted.next_due() == math.inf


def test_a_topic_that_is_waited_for_does_not_expire() -> None:
    wanted = topics()
    wanted.use("a")
    wanted.wait("a", 0.0)
    wanted.expire(0.0)
    assert wanted.expire(2 * IDLE_S) == []


def test_lookups_of_many_unknown_topics_share_their_requests() -> None:
    wanted = topics()
    for number in range(1000):
        wanted.wait(f"unknown {number}", 1.0)
    now, requests = 1.0, 0
    while now < 11.0:
        for name in wanted.due(now):
            # Their answers arrive at different times.
            wanted.missed(name, 1, now + int(name.split()[1]) / 100_000)
        requests += 1
        now = wanted.next_due()
    assert requests <= 10 / LOOKUP_TICK_S


def test_rule_33_a_broker_that_keeps_denying_a_topic_is_asked_after_others() -> None:
    wanted = topics()
    wanted.look_up("a", 0.0)
    for _ in range(DOUBT_AFTER - 1):
        wanted.missed("a", 1, 0.0)
    assert wanted.doubted(["a", "b"], 0.0) == set()
    wanted.missed("a", 1, 0.0)
    assert wanted.doubted(["a", "b"], 0.0) == {1}
    assert wanted.doubted(["b"], 0.0) == set()
    wanted.found("a")
    assert wanted.doubted(["a"], 0.0) == set()


def test_rule_33_a_topic_that_several_brokers_deny_does_not_exist() -> None:
    wanted = topics()
    for node_id in range(DENIALS_TO_BELIEVE):
        for _ in range(DOUBT_AFTER):
            wanted.missed("a", node_id, 0.0)
    assert wanted.doubted(["a"], 0.0) == set()


def denied(wanted: TopicsInUse, name: str, since: float) -> list[float]:
    """Return the times of warnings while the topic is denied every 100 ms for 10 seconds."""
    times = [since + number / 10 for number in range(100)]
    return [now for now in times if wanted.missed(name, 1, now)]


def test_a_topic_that_is_denied_again_and_again_is_warned_of_once() -> None:
    wanted = topics()
    lookup = wanted.wait("a", 0.0)
    assert denied(wanted, "a", 0.0) == [1.0]
    wanted.leave("a", lookup)
    lookup = wanted.wait("a", 20.0)
    assert denied(wanted, "a", 20.0) == []  # nor if it has been forgotten meanwhile
    wanted.leave("a", lookup)
    wanted.wait("a", 2 * WARN_EVERY_S)
    assert denied(wanted, "a", 2 * WARN_EVERY_S) == [2 * WARN_EVERY_S + 1]


def test_few_denials_are_no_warning() -> None:
    wanted = topics()
    wanted.use("a")
    assert [wanted.missed("a", 1, now) for now in (0.0, 5.0, 10.0)] == [False] * 3
    assert wanted.missed("a", 1, 15.0)


def test_of_a_kept_topic_its_consumer_warns() -> None:
    wanted = topics()
    wanted.keep(["a"])
    assert denied(wanted, "a", 0.0) == []
