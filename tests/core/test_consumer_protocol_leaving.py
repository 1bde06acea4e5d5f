"""A member of a KIP-848 group that leaves or rejoins."""

from __future__ import annotations

import pytest

from aiokafka_lead._core.group.member import Lose, Revoke, Wait, Wanted
from aiokafka_lead.errors import (
    UnknownMemberIdError,
    UnreleasedInstanceIdError,
)

from .consumer_protocol_world import EVENTS, INTERVAL_S, Group, epoch_of, events


@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("i", -2)])
def test_leaving_gives_up_everything_first(instance_id: str | None, epoch: int) -> None:
    group = Group(group_instance_id=instance_id)
    group.assigned(0, 1)
    group.member.leave("stop", orderly=True, now=group.now)
    step = group.member.step(group.now)
    assert step == Revoke(events(0, 1), 8.0)
    assert isinstance(step, Revoke)
    assert epoch_of(group) == 1, "what is in hand is to be committed"
    group.now += INTERVAL_S
    group.answer(group.beat(), 2)
    assert epoch_of(group) == 2
    group.member.done(step, group.now)
    request = group.beat()
    assert (request.member_epoch, request.topic_partitions) == (epoch, None)
    assert group.member.heartbeat_at() is None
    assert group.member.step(group.now) == Wait(None)
    group.answer(request, epoch)
    assert group.member.heartbeat_at() is None
    assert epoch_of(group) is None
    group.member.join(group.now)
    assert group.beat().member_epoch == 0


def test_leaving_in_a_hurry_loses_everything() -> None:
    group = Group()
    group.assigned(0)
    group.now += INTERVAL_S
    out = group.beat()
    group.member.leave("max_poll_interval_ms", orderly=False, now=group.now)
    assert epoch_of(group) is None
    step = group.member.step(group.now)
    assert step == Lose(events(0), "max_poll_interval_ms")
    assert isinstance(step, Lose)
    assert group.beat().member_epoch == -1, "it does not wait for the answer to the heartbeat that is out"
    group.answer(out, 7, {EVENTS: [0, 1]})
    assert epoch_of(group) is None
    group.member.join(group.now)
    assert group.member.heartbeat_at() is None, "not before what it had has been dropped"
    group.member.done(step, group.now)
    assert group.beat().member_epoch == 0


def test_an_answer_that_comes_late_does_not_hold_up_leaving() -> None:
    group = Group()
    group.assigned(0)
    group.member.leave("stop", orderly=True, now=group.now)
    step = group.member.step(group.now)
    assert isinstance(step, Revoke)
    group.now += INTERVAL_S
    out = group.beat()
    group.member.done(step, group.now)
    group.answer(out, 2)
    assert epoch_of(group) is None
    assert group.beat().member_epoch == -1


def test_leaving_before_the_first_answer() -> None:
    group = Group()
    group.beat()
    group.member.leave("stop", orderly=True, now=group.now)
    assert group.beat().member_epoch == -1


def test_leaving_before_the_first_heartbeat_tells_nobody() -> None:
    group = Group()
    group.member.leave("stop", orderly=True, now=group.now)
    assert group.member.heartbeat_at() is None
    assert group.member.step(group.now) == Wait(None)


def test_fenced_while_leaving_does_not_come_back() -> None:
    group = Group()
    group.assigned(0)
    group.member.leave("stop", orderly=True, now=group.now)
    group.now += INTERVAL_S
    group.refuse(group.beat(), UnknownMemberIdError)
    step = group.member.step(group.now)
    assert isinstance(step, Lose)
    group.member.done(step, group.now)
    assert group.member.heartbeat_at() is None
    assert group.member.step(group.now) == Wait(None)


def test_a_subscription_while_leaving_joins_afterwards() -> None:
    group = Group()
    group.assigned(0)
    group.member.leave("unsubscribe", orderly=True, now=group.now)
    group.member.subscribe(Wanted(frozenset({"logs"})), group.now)
    step = group.member.step(group.now)
    assert isinstance(step, Revoke)
    group.member.done(step, group.now)
    assert group.beat().member_epoch == -1
    request = group.beat()
    assert (request.member_epoch, request.subscribed_topic_names) == (0, ["logs"])


def test_a_static_member_waits_for_its_predecessor_to_be_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    group = Group(group_instance_id="i", session_timeout_ms=20_000)
    began_at = group.now
    while group.now < began_at + 35:
        group.refuse(group.beat(), UnreleasedInstanceIdError)
        assert group.member.error is None
        assert group.member.kept_out == "another member of the group 'g' still has the group_instance_id 'i'"
        at = group.member.heartbeat_at()
        assert at is not None
        group.now = at
    group.refuse(group.beat(), UnreleasedInstanceIdError)
    assert isinstance(group.member.error, UnreleasedInstanceIdError)
    assert group.member.kept_out is None
    [warning] = caplog.records
    assert "another member of the group 'g' still has the group_instance_id 'i'" in warning.getMessage()


def test_who_subscribes_again_waits_for_its_predecessor_again() -> None:
    group = Group(group_instance_id="i", session_timeout_ms=20_000)
    group.refuse(group.beat(), UnreleasedInstanceIdError)
    group.member.leave("unsubscribe", orderly=True, now=group.now)
    group.beat()
    group.now += 3600
    group.member.subscribe(Wanted(frozenset({"logs"})), group.now)
    group.refuse(group.beat(), UnreleasedInstanceIdError)
    assert group.member.error is None
    assert group.member.kept_out is not None
