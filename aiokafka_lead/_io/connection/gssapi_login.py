"""Logging in with GSSAPI, that is Kerberos 5 (RFC 4752), through the ``gssapi`` package.

Its calls ask the KDC and block for as long as that takes, 50 seconds where it is silent. So each runs in a thread, and
the connection's set-up timeout bounds the wait for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import anyio
import gssapi  # pyright: ignore[reportMissingImports]
from gssapi.raw.misc import GSSError  # pyright: ignore[reportMissingImports]

from ..._core.connection.sasl.gssapi import Event, Phase, kerberos_error, layer_answer, phases
from ...config import ClientConfig
from ...errors import SaslAuthenticationFailedError
from ..threads import BlockingCalls

__all__ = ["GssapiLogin"]

T = TypeVar("T")

AT_ONCE = 4
"""Calls of one client at a time."""

_FLAGS = (
    gssapi.RequirementFlag.mutual_authentication
    | gssapi.RequirementFlag.integrity
    | gssapi.RequirementFlag.out_of_sequence_detection
)
_SHOWN = 300
"""How much of what the library says goes into an error."""


class _Identity(NamedTuple):
    """Whose tickets are used."""

    principal: str | None
    keytab: str | None

    @property
    def store(self) -> dict[str | bytes, str | bytes] | None:
        """Where tickets come from; None for the user's own cache, which ``kinit`` fills.

        With a keytab, the library gets tickets when it needs them, and renews them after half of their life. They are
        kept in memory, for all clients of the process that are the same principal.
        """
        if self.keytab is None:
            return None
        name = hashlib.sha256(f"{self.principal}\0{self.keytab}".encode()).hexdigest()[:16]
        return {"client_keytab": f"FILE:{self.keytab}", "ccache": f"MEMORY:aiokafka-lead-{name}"}


class GssapiLogin:
    """GSSAPI with a ticket of the ``sasl_kerberos_*`` options; belongs to one event loop."""

    mechanism = "GSSAPI"
    readable = False

    def __init__(self, config: ClientConfig) -> None:
        self._service = config.sasl_kerberos_service_name
        self._domain = config.sasl_kerberos_domain_name
        self._identity = _Identity(config.sasl_kerberos_principal, config.sasl_kerberos_keytab)
        self._calls = BlockingCalls("Kerberos", AT_ONCE)
        self._one_at_a_time = anyio.Lock()

    def exchange(self, host: str) -> GssapiExchange:
        return GssapiExchange(self, f"{self._service}@{self._domain or host}")

    async def credentials(self) -> Any:
        """A handle to the tickets, which are fetched where there are none.

        Anew for each connection, so that what ``kinit`` did meanwhile counts; one caller at a time asks the KDC, and
        the next ones find what it got.
        """
        async with self._one_at_a_time:
            return await self.call("getting a ticket", partial(_acquire, self._identity))

    async def call(self, doing: str, call: Callable[[], T]) -> T:
        """What a call of the library returns, made in a thread; its errors become this client's own."""
        try:
            return await self._calls.run(call)
        except GSSError as error:
            raise kerberos_error(doing, error.min_code, _text_of(error)) from error


class GssapiExchange:
    """One authentication with one broker."""

    def __init__(self, login: GssapiLogin, service: str) -> None:
        self._login = login
        self._service = service
        self._phase = phases.first
        self._context: Any = None

    @property
    def done(self) -> bool:
        return self._phase is Phase.DONE

    async def start(self) -> bytes:
        """The ticket for the broker, with what proves that it is the client's."""
        credentials = await self._login.credentials()
        self._context = gssapi.SecurityContext(
            name=gssapi.Name(self._service, gssapi.NameType.hostbased_service),
            creds=credentials,
            usage="initiate",
            flags=_FLAGS,
            mech=gssapi.MechType.kerberos,
        )
        return await self._step(None)

    async def respond(self, challenge: bytes) -> bytes:
        """What the phase asks for; `SaslAuthenticationFailedError` for a broker that does not prove who it is."""
        if self._phase is Phase.CONTEXT:
            return await self._step(challenge)
        if self._phase is Phase.LAYER:
            return await self._choose_layer(challenge)
        if challenge:
            raise SaslAuthenticationFailedError("the broker goes on after the end of the GSSAPI exchange")
        self._after(Event.ACCEPTED)
        return b""

    async def _step(self, token: bytes | None) -> bytes:
        answer: bytes | None = await self._login.call(f"with {self._service}", partial(self._context.step, token))
        if not self._context.complete:
            if not answer:
                raise SaslAuthenticationFailedError("the GSSAPI exchange does not go on")
            self._after(Event.CONTINUED)
            return answer
        if not self._context.actual_flags & gssapi.RequirementFlag.mutual_authentication:
            raise SaslAuthenticationFailedError(
                f"the broker has not proved that it is {self._service} (Kerberos without mutual authentication)"
            )
        self._after(Event.ESTABLISHED)
        return answer or b""

    async def _choose_layer(self, challenge: bytes) -> bytes:
        answer = await self._login.call("agreeing on no layer", partial(_answer_offer, self._context, challenge))
        self._after(Event.CHOSEN)
        return answer

    def _after(self, event: Event) -> None:
        self._phase = phases.after(self._phase, event)


def _acquire(identity: _Identity) -> Any:
    """Blocks. The library says no more than "no credentials" where a keytab is of no use; this finds out why."""
    name = None
    if identity.principal is not None:
        name = gssapi.Name(identity.principal, gssapi.NameType.kerberos_principal)
    try:
        credentials = gssapi.Credentials(name=name, usage="initiate", store=identity.store)
        credentials.lifetime  # noqa: B018 - has the library look for the ticket now
    except GSSError as error:
        if identity.keytab is not None and error.min_code == _NO_CACHE:
            gssapi.Credentials(name=name, usage="accept", store={"keytab": f"FILE:{identity.keytab}"})
        raise
    return credentials


def _answer_offer(context: Any, challenge: bytes) -> bytes:
    """Blocks, though briefly."""
    offer = context.unwrap(challenge).message
    wrapped: bytes = context.wrap(layer_answer(offer, str(context.initiator_name)), False).message
    return wrapped


_NO_CACHE = 2529639107
"""KRB5_FCC_NOFILE, as an unsigned number."""


def _text_of(error: GSSError) -> str:
    """What the library says of its minor code, which is the one that means something."""
    return " ".join(error.get_all_statuses(error.min_code, False))[:_SHOWN]
