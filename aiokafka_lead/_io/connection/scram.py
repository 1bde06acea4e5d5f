"""Authentication with SCRAM. The key is derived once for all connections, in a thread if that is slow."""

from __future__ import annotations

from functools import partial

import anyio

from ..._core.connection.sasl import Credentials
from ..._core.connection.sasl.scram import HASHES, SaltedPassword, Scram, keep_key
from ..threads import BlockingCalls

INLINE_ITERATIONS = 8192
"""Number of iterations up to which the key is derived without a thread, because it takes a few milliseconds.

Kafka's default is 4096.
"""


class ScramLogin:
    """The login with a name and a password, or with a delegation token (KIP-48). Belongs to one event loop."""

    def __init__(self, mechanism: str, credentials: Credentials) -> None:
        self.mechanism = mechanism
        self.readable = False
        self._credentials = credentials
        self._calls = BlockingCalls("SCRAM", at_once=1)
        self._one_at_a_time = anyio.Lock()

    def exchange(self, host: str) -> ScramExchange:
        return ScramExchange(self, Scram(self._credentials, HASHES[self.mechanism]))

    async def derive(self, wanted: SaltedPassword) -> None:
        """Derive the key from the password and keep it for later connections.

        The derivation takes long and runs in a thread. Connections that need the key at the same time wait for it.
        """
        async with self._one_at_a_time:
            if wanted not in self._credentials.derived_keys:
                key = await self._calls.run(partial(wanted.derive, self._credentials.password))
                keep_key(self._credentials, wanted, key)


class ScramExchange:
    """The authentication of one connection with SCRAM. A key with many iterations is derived in a thread."""

    def __init__(self, login: ScramLogin, scram: Scram) -> None:
        self._login = login
        self._scram = scram

    @property
    def done(self) -> bool:
        return self._scram.done

    async def start(self) -> bytes:
        return self._scram.start()

    async def respond(self, challenge: bytes) -> bytes:
        while True:
            wanted = self._scram.missing_key(challenge)
            if wanted is None or wanted.iterations <= INLINE_ITERATIONS:
                return self._scram.respond(challenge)
            await self._login.derive(wanted)

    def refused(self, reason: str) -> None:
        pass
