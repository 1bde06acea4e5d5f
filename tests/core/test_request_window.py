"""Useful number of requests in flight to a broker that serves them in order."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from statistics import mode

import pytest

from aiokafka_lead._core.producer.request_window import MANY_BYTES, TRY_AFTER, RequestWindow

NEAR_S = 0.0001


class Line:
    """A broker that serves the requests of a connection in order, and a client that always has one to send."""

    def __init__(self, way_s: float = NEAR_S, opening_s: float | None = None, looks_every_s: float = 0.0) -> None:
        """Set the line up: ``opening_s`` defaults to ``way_s``; the client's loop runs every ``looks_every_s``."""
        self.window = RequestWindow(way_s if opening_s is None else opening_s)
        self._way_s = way_s
        self._looks_every_s = looks_every_s
        self._now = 0.0
        self._free_at = 0.0
        self._sent = 0
        self._under_way: deque[tuple[float, float]] = deque()
        """For each request, when it is answered, and when it was sent."""

    def serve(self, count: int, serves_s: float | Callable[[int], float], limit: int = 100) -> list[int]:
        """Return the number of requests in flight at each of ``count`` answers; the last requests stay in flight."""
        depths: list[int] = []
        while len(depths) < count:
            while not self.window.is_full() and len(self._under_way) < limit:
                takes_s = serves_s(self._sent) if callable(serves_s) else serves_s
                self._sent += 1
                self._free_at = max(self._free_at, self._now + self._way_s / 2) + takes_s
                self._under_way.append((self._free_at + self._way_s / 2, self._now))
                self.window.sent()
            self._now = self._under_way[0][0]
            if self._looks_every_s:
                self._now = math.ceil(self._now / self._looks_every_s) * self._looks_every_s
            while self._under_way and self._under_way[0][0] <= self._now:
                depths.append(len(self._under_way))
                self.window.answered(self._under_way.popleft()[1], self._now)
        return depths


def depth(way_s: float, serves_s: float, limit: int = 100, *, opening_s: float | None = None) -> int:
    """Return the most frequent number of requests in flight at an answer, after a while."""
    return mode(Line(way_s, opening_s).serve(400, serves_s, limit)[200:])


@pytest.mark.parametrize("serves_s", [0.0002, 0.001, 0.015])
def test_a_near_broker_has_one_request_at_work_and_one_next(serves_s: float) -> None:
    assert depth(NEAR_S, serves_s) == 2


def test_a_far_broker_has_as_many_as_it_serves_on_the_way() -> None:
    assert depth(0.05, 0.01) in (6, 7)
    assert depth(0.05, 0.001, limit=5) == 5


def test_rule_15_a_far_broker_with_much_else_to_do_has_as_many_as_it_serves_on_the_way() -> None:
    assert depth(NEAR_S, 0.1) == 1
    assert depth(0.01, 0.1) == 1
    assert depth(0.02, 0.1) == 2
    assert depth(0.4, 0.1) in (5, 6)


def test_a_far_broker_behind_a_proxy_that_is_near_has_as_many_as_others() -> None:
    """A connection to the proxy opens at once, however far the broker is behind it."""
    assert depth(0.15, 0.002, limit=5, opening_s=NEAR_S) == 5


def test_a_far_broker_behind_a_proxy_that_is_near_had_much_else_to_do() -> None:
    line = Line(0.15, NEAR_S)
    assert mode(line.serve(30, 0.5)[10:]) == 1
    assert mode(line.serve(200, 0.002, limit=5)[100:]) == 5


def test_what_makes_the_opening_long_hides_no_broker_with_much_else_to_do() -> None:
    line = Line(opening_s=1.0)
    line.serve(20, 0.001)
    assert mode(line.serve(100, 0.1)[10:]) == 1


@pytest.mark.parametrize("slow", [0, 7])
def test_one_slow_answer_shows_nothing(slow: int) -> None:
    assert min(Line().serve(40, lambda number: 0.4 if number == slow else 0.001)) >= 2


@pytest.mark.parametrize("looks_every_s", [0.025, 0.1])
def test_a_client_that_is_late_itself_takes_no_broker_for_slow(looks_every_s: float) -> None:
    """It sees the answers to all requests in its window at once."""
    line = Line(looks_every_s=looks_every_s)
    assert max(line.serve(400, 0.001, limit=5)[200:]) == 5


def test_rule_15_a_broker_that_has_much_else_to_do_gets_one_at_a_time_for_as_long_as_it_has() -> None:
    line = Line()
    assert mode(line.serve(20, 0.001)) == 2
    assert mode(line.serve(20, 0.015)) == 2
    assert set(line.serve(20, 0.05)[4:]) == {1}
    assert set(line.serve(10, 0.015)[1:]) == {1}
    assert set(line.serve(20, 0.009)[4:]) == {2}


def test_less_and_less_often_a_broker_that_was_never_quick_gets_two_again() -> None:
    depths = Line().serve(1000, 0.1)
    assert [sum(depth > 1 for depth in depths[since:][:250]) for since in (0, 250, 500, 750)] == [10, 2, 2, 2]


def test_a_broker_that_is_slow_from_the_first_answer_on_gets_one_at_a_time_after_two() -> None:
    assert set(Line().serve(TRY_AFTER, 0.2)[2:]) == {1}


def test_a_broker_that_is_slow_between_pauses_of_the_client_gets_one_at_a_time() -> None:
    window = RequestWindow()
    for sent_at in (0.0, 1.0):
        window.sent()
        assert not window.is_full()
        window.answered(sent_at, sent_at + 0.2)
    window.sent()
    assert window.is_full()


def test_a_broker_that_becomes_slow_gets_fewer() -> None:
    window = RequestWindow()
    now = 0.0
    for _ in range(20):
        while not window.is_full():
            window.sent()
        now += 0.001
        window.answered(now - 0.01, now)
    assert not window.is_full()
    for _ in range(30):
        now += 0.015
        window.answered(now - 0.1, now)
        window.sent()
    assert window.is_full()
    for _ in range(20):
        window.lost()
    window.sent()
    assert not window.is_full()


def test_full_batches_go_at_once_but_few_of_them_wait_for_a_broker_with_much_else_to_do() -> None:
    near, busy = Line(), Line()
    near.serve(20, 0.001)
    busy.serve(20, 0.1)
    for line in (near, busy):
        while not line.window.is_full():
            line.window.sent()
    assert not near.window.is_full(16_384)
    assert busy.window.is_full(16_384)
    assert not busy.window.is_full(MANY_BYTES)


def test_a_lost_request_is_under_way_no_longer() -> None:
    window = RequestWindow()
    window.sent()
    assert not window.is_full()
    window.sent()
    assert window.is_full()
    window.lost()
    assert not window.is_full()
