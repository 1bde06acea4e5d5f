"""SCRAM's key is derived in a thread if that takes long, and once for concurrent connections."""

from __future__ import annotations

import threading

import anyio
import pytest

from aiokafka_lead._core.connection.sasl import Credentials
from aiokafka_lead._core.connection.sasl.scram import MAX_ITERATIONS, SaltedPassword
from aiokafka_lead._io.connection.scram import INLINE_ITERATIONS, ScramLogin
from aiokafka_lead.config import ClientConfig
from aiokafka_lead.errors import ConfigError

pytestmark = pytest.mark.anyio


class Derivation(SaltedPassword):
    """Records the threads that derive a key."""

    threads: list[threading.Thread]

    def derive(self, password: str) -> bytes:
        self.threads.append(threading.current_thread())
        return super().derive(password)


async def test_connections_made_at_a_time_derive_one_key() -> None:
    credentials = Credentials("alice", "pencil")
    login = ScramLogin("SCRAM-SHA-256", credentials)
    wanted = Derivation("sha256", b"salt", INLINE_ITERATIONS + 1)
    wanted.threads = []
    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(login.derive, wanted)
    assert credentials.derived_keys == {wanted: SaltedPassword(*wanted).derive("pencil")}
    assert len(wanted.threads) == 1
    assert wanted.threads[0] is not threading.current_thread()


@pytest.mark.parametrize("iterations", [INLINE_ITERATIONS, INLINE_ITERATIONS + 1])
async def test_an_exchange_derives_what_is_large_in_a_thread(iterations: int) -> None:
    credentials = Credentials("alice", "pencil")
    exchange = ScramLogin("SCRAM-SHA-256", credentials).exchange("localhost")
    nonce = (await exchange.start()).decode().partition("r=")[2]
    challenge = f"r={nonce}more,s=c2FsdA==,i={iterations}".encode()
    others = 0

    async def run_others() -> None:
        nonlocal others
        while True:
            others += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(run_others)
        await anyio.lowlevel.checkpoint()
        before = others
        assert b",p=" in await exchange.respond(challenge)
        assert (others > before) == (iterations > INLINE_ITERATIONS)
        group.cancel_scope.cancel()


async def test_a_derivation_that_is_given_up_leaves_the_login_usable() -> None:
    credentials = Credentials("alice", "pencil")
    login = ScramLogin("SCRAM-SHA-256", credentials)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await login.derive(SaltedPassword("sha256", b"salt", MAX_ITERATIONS))
    wanted = SaltedPassword("sha256", b"salt", INLINE_ITERATIONS + 1)
    await login.derive(wanted)
    assert wanted in credentials.derived_keys


def test_delegation_tokens_are_for_scram() -> None:
    options = {"security_protocol": "SASL_PLAINTEXT", "sasl_plain_username": "id", "sasl_plain_password": "hmac"}
    ClientConfig.from_options("a", options | {"sasl_mechanism": "SCRAM-SHA-512", "sasl_delegation_token": True})
    with pytest.raises(ConfigError, match=r"^sasl_delegation_token needs SCRAM, not sasl_mechanism PLAIN"):
        ClientConfig.from_options("a", options | {"sasl_delegation_token": True})
    with pytest.raises(ConfigError, match=r"^sasl_delegation_token needs SCRAM"):
        ClientConfig.from_options("a", {"sasl_delegation_token": True})
