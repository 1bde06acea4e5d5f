"""Authentication with GSSAPI (Kerberos 5, RFC 4752), using the ``gssapi`` package.

Calls of that package send requests to the KDC and block, for up to 50 seconds if the KDC does not respond. They
therefore run in threads, and the time limit of the connection's setup applies to the waits for them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import anyio
import gssapi  # pyright: ignore[reportMissingImports]
from gssapi.raw.misc import GSSError  # pyright: ignore[reportMissingImports]

from ..._core.connection.sasl.gssapi import Event, Phase, kerberos_error, layer_answer, phases
from ..._values import NamedTuple
from ...config import ClientConfig
from ...errors import SaslAuthenticationFailedError
from ..threads import BlockingCalls

T = TypeVar("T")

AT_ONCE = 4
"""Maximum number of simultaneous calls per client."""

_FLAGS = (
    gssapi.RequirementFlag.mutual_authentication
    | gssapi.RequirementFlag.integrity
    | gssapi.RequirementFlag.out_of_sequence_detection
)
_SHOWN = 300
"""Maximum number of characters of the library's message in an error."""


class _Identity(NamedTuple):
    """The Kerberos principal whose tickets are used, and the keytab if there is one."""

    principal: str | None
    keytab: str | None

    @property
    def store(self) -> dict[str | bytes, str | bytes] | None:
        """The store of the tickets. None means the user's default cache, which ``kinit`` fills.

        With a keytab, the library gets tickets on demand, and renews them after half of their lifetime. The tickets
        stay in memory. All clients of the process with the same principal and keytab share them.
        """
        if self.keytab is None:
            return None
        name = hashlib.sha256(f"{self.principal}\0{self.keytab}".encode()).hexdigest()[:16]
        return {"client_keytab": f"FILE:{self.keytab}", "ccache": f"MEMORY:aiokafka-lead-{name}"}


class GssapiLogin:
    """The GSSAPI login with the tickets described by the options ``sasl_kerberos_*``. It belongs to one event loop."""

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
        """Return a handle to the tickets, after getting them if there are none.

        This is called for each connection, so a later ``kinit`` has an effect. Only one caller at a time sends requests
        to the KDC. Concurrent callers use its result.
        """
        async with self._one_at_a_time:
            return await self.call("getting a ticket", partial(_acquire, self._identity))

    async def call(self, doing: str, call: Callable[[], T]) -> T:
        """Make a call of the library in a thread, and return the result.

        The library's errors become errors of this package, whose text says what the client was ``doing``.
        """
        try:
            return await self._calls.run(call)
        except GSSError as error:
            raise kerberos_error(doing, error.min_code, _text_of(error)) from error


class GssapiExchange:
    """The messages of one authentication with a broker by GSSAPI (see `Exchange`)."""

    def __init__(self, login: GssapiLogin, service: str) -> None:
        self._login = login
        self._service = service
        self._phase = phases.first
        self._context: Any = None

    @property
    def done(self) -> bool:
        return self._phase is Phase.DONE

    async def start(self) -> bytes:
        """Return the ticket for the broker, and a proof that this client owns it."""
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
        """Respond to a challenge. Raises `SaslAuthenticationFailedError` if the broker does not prove its identity."""
        if self._phase is Phase.CONTEXT:
            return await self._step(challenge)
        if self._phase is Phase.LAYER:
            return await self._choose_layer(challenge)
        if challenge:
            raise SaslAuthenticationFailedError("the broker continued after the end of the GSSAPI exchange")
        self._after(Event.ACCEPTED)
        return b""

    def refused(self, reason: str) -> None:
        pass

    async def _step(self, token: bytes | None) -> bytes:
        answer: bytes | None = await self._login.call(f"with {self._service}", partial(self._context.step, token))
        if not self._context.complete:
            if not answer:
                raise SaslAuthenticationFailedError("the GSSAPI library returned no message for the broker")
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
    """Get tickets. Blocks.

    If the keytab cannot be used, looks for the reason, because the library only reports "no credentials".
    """
    name = None
    if identity.principal is not None:
        name = gssapi.Name(identity.principal, gssapi.NameType.kerberos_principal)
    try:
        credentials = gssapi.Credentials(name=name, usage="initiate", store=identity.store)
        credentials.lifetime  # noqa: B018 - makes the library search the ticket now
    except GSSError as error:
        if identity.keytab is not None and error.min_code == _NO_CACHE:
            gssapi.Credentials(name=name, usage="accept", store={"keytab": f"FILE:{identity.keytab}"})
        raise
    return credentials


def _answer_offer(context: Any, challenge: bytes) -> bytes:
    """Respond to the broker's offer of security layers. Blocks, but only briefly."""
    offer = context.unwrap(challenge).message
    wrapped: bytes = context.wrap(layer_answer(offer, str(context.initiator_name)), False).message
    return wrapped


_NO_CACHE = 2529639107
"""KRB5_FCC_NOFILE, as an unsigned number."""


def _text_of(error: GSSError) -> str:
    """Return the library's message for the minor status code of an error, because that code gives the reason."""
    return " ".join(error.get_all_statuses(error.min_code, False))[:_SHOWN]
