"""GSSAPI without the GSS-API: order of messages, negotiated options, and meaning of errors."""

from __future__ import annotations

import itertools

import pytest

from aiokafka_lead._core.connection.sasl.gssapi import Event, Phase, kerberos_error, layer_answer, phases
from aiokafka_lead._core.transitions import IllegalTransitionError
from aiokafka_lead.errors import KafkaConnectionError, SaslAuthenticationFailedError


@pytest.mark.parametrize("offer", [b"\x01\x00\x00\x00", b"\x01\x01\x00\x00", b"\x07\xff\xff\xff"])
def test_no_layer_is_taken_where_it_is_offered(offer: bytes) -> None:
    assert layer_answer(offer, "alice@TEST.LOCAL") == b"\x01\0\0\0alice@TEST.LOCAL"


@pytest.mark.parametrize(
    ("offer", "says"),
    [
        (b"\x00\x00\x00\x00", r"requires a security layer \(QOP bits 0\)"),
        (b"\x02\x01\x00\x00", r"requires a security layer \(QOP bits 2\)"),
        (b"\x06\x01\x00\x00", r"requires a security layer \(QOP bits 6\)"),
        (b"", "0 bytes long, not 4"),
        (b"\x01\x00\x00", "3 bytes long, not 4"),
        (b"\x01\x00\x00\x00x", "5 bytes long, not 4"),
    ],
)
def test_a_layer_or_no_offer_is_refused(offer: bytes, says: str) -> None:
    with pytest.raises(SaslAuthenticationFailedError, match=says):
        layer_answer(offer, "alice")


def test_the_order_of_messages() -> None:
    orders = [
        ([Event.ESTABLISHED, Event.CHOSEN, Event.ACCEPTED], Phase.DONE),
        ([Event.CONTINUED, Event.CONTINUED, Event.ESTABLISHED, Event.CHOSEN, Event.ACCEPTED], Phase.DONE),
    ]
    for events, end in orders:
        phase = phases.first
        for event in events:
            phase = phases.after(phase, event)
        assert phase is end
    possible = {(phase, event) for phase, row in phases.table.items() for event in row}
    for phase, event in set(itertools.product(Phase, Event)) - possible:
        with pytest.raises(IllegalTransitionError):
            phases.after(phase, event)


@pytest.mark.parametrize("unsigned", [False, True])
def test_what_may_be_over_in_a_moment_is_retriable(unsigned: bool) -> None:
    for code, retriable, says in (
        (-1765328228, True, "no KDC can be reached"),
        (-1765328347, True, "clocks"),
        (-1765328355, True, "not available"),
        (-1765328189, False, "run kinit, or set sasl_kerberos_keytab"),
        (-1765328352, False, "the ticket has expired"),
        (-1765328360, False, "sasl_kerberos_keytab is outdated"),
        (-1765328377, False, "sasl_kerberos_service_name"),
        (39756033, False, "No key"),
    ):
        error = kerberos_error("getting a ticket", code + (2**32 if unsigned and code < 0 else 0), "No key")
        assert type(error) is (KafkaConnectionError if retriable else SaslAuthenticationFailedError)
        assert error.retriable == retriable
        assert says in str(error)
        assert str(error).startswith("Kerberos, getting a ticket: ")
        assert "No key" in str(error)
