"""SCRAM credentials (KIP-554) and delegation tokens (KIP-48)."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import anyio

from .._core.admin import outcome
from .._core.connection.sasl.scram import HASHES, SaltedPassword
from .._io.admin_requests import Route
from .._options.arguments import byte_string, list_of
from .._options.checks import INT64_MAX, instance, integer, optional, short_text, text
from .._values import NamedTuple
from .._wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from .._wire.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from .._wire.messages.describe_delegation_token import DescribeDelegationTokenOwner, DescribeDelegationTokenRequest
from .._wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from .._wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from .._wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from ..errors import ConfigError, ConfigTypeError, KafkaError
from .acls import PRINCIPALS, principal
from .base import AdminArea


class ScramMechanism(IntEnum):
    """Mechanism of a SCRAM credential."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @classmethod
    def _missing_(cls, value: object) -> ScramMechanism:
        return cls.UNKNOWN


class ScramCredential(NamedTuple):
    """Mechanism and iterations of a user's SCRAM credential. Brokers never return the secret parts."""

    mechanism: ScramMechanism
    iterations: int


@dataclass(frozen=True, slots=True)
class ScramUpsertion:
    """New password of a user, for `AdminClient.alter_user_scram_credentials`.

    The broker receives a key that the client derives from the password, but not the password (KIP-554).
    """

    user: str
    password: str = field(repr=False)
    mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_512
    iterations: int = 8192
    """Number of iterations of the key derivation, from 4096 to 16384."""


@dataclass(frozen=True, slots=True)
class ScramDeletion:
    """Deletion of a user's credential for one mechanism."""

    user: str
    mechanism: ScramMechanism


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token that lets a client log in on behalf of the token's owner (KIP-48).

    Pass ``token_id`` and ``hmac`` to `Scram` with ``delegation_token=True``. All times are in milliseconds since 1970.
    """

    token_id: str
    """User name for the login."""
    hmac: bytes = field(repr=False)
    """Secret of the token. Its base64 encoding is the password for the login. It is also needed to renew and expire the
    token."""
    owner: str
    """Principal, such as ``"User:alice"``."""
    requester: str | None
    """Principal that requested the token; None before Kafka 3.3."""
    renewers: tuple[str, ...]
    """Principals that may renew the token in addition to its owner."""
    issued_ms: int
    """Time at which the token was created."""
    expires_ms: int
    """Time at which the token expires unless it is renewed."""
    max_ms: int
    """Latest expiry time that renewals can reach."""


_SALT_BYTES = 32
_MIN_ITERATIONS, _MAX_ITERATIONS = 4096, 16_384


def _alteration(name: str, value: Any) -> ScramUpsertion | ScramDeletion:
    if not isinstance(value, (ScramUpsertion, ScramDeletion)):
        raise ConfigTypeError(f"{name} must be a ScramUpsertion or ScramDeletion, not {type(value).__name__}")
    short_text(f"{name}.user", value.user)
    mechanism = instance(ScramMechanism, "a ScramMechanism")(f"{name}.mechanism", value.mechanism)
    if mechanism is ScramMechanism.UNKNOWN:
        raise ConfigError(f"{name}.mechanism must not be UNKNOWN")
    if isinstance(value, ScramUpsertion):
        text(f"{name}.password", value.password)
        integer(_MIN_ITERATIONS, _MAX_ITERATIONS)(f"{name}.iterations", value.iterations)
        return dataclasses.replace(value)
    return value


def _hmac(name: str, value: Any) -> bytes:
    """Check the argument ``name``, which must be the HMAC that identifies a token, and return it."""
    found = byte_string(name, value)
    if not found:
        raise ConfigError(f"{name} must be the HMAC of a token, which is not empty")
    return found


def _lifetime(name: str, value: Any) -> int:
    """Return a period in milliseconds. None becomes -1, which means the broker's default."""
    return -1 if value is None else integer(0, INT64_MAX)(name, value)


_USERS = optional(list_of("users", short_text))
_ALTERATIONS = list_of("alterations", _alteration)


class SecurityCalls(AdminArea):
    """Admin calls for SCRAM credentials and delegation tokens."""

    async def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None, *, timeout_ms: float | None = None
    ) -> dict[str, tuple[ScramCredential, ...]]:
        """Return the SCRAM credentials of users, without secrets, as a tuple for each user (KIP-554).

        Each credential has a mechanism and a number of iterations. Without ``users``, the result contains all users
        with credentials. Raises `ResourceNotFoundError` if a given user has no credentials. The error's ``outcomes``
        contain the credentials of the other users.
        """
        named = _USERS("users", users)
        deadline = self._calls.deadline(timeout_ms)

        def read(
            response: DescribeUserScramCredentialsResponse,
        ) -> Iterator[tuple[str, tuple[ScramCredential, ...] | KafkaError]]:
            for result in response.results:
                found = tuple(
                    ScramCredential(ScramMechanism(each.mechanism), each.iterations) for each in result.credential_infos
                )
                yield result.user, outcome(found, result.error_code, f"user {result.user!r}", result.error_message)

        if named is None:
            everything = await self._calls.call(Route.ANY, DescribeUserScramCredentialsRequest(users=None), deadline)
            return {name: found for name, found in read(everything) if not isinstance(found, KafkaError)}

        def build(pending: Mapping[str, None]) -> DescribeUserScramCredentialsRequest:
            return DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in pending])

        return await self._calls.batch(dict.fromkeys(named), Route.ANY, build, read, deadline)

    async def alter_user_scram_credentials(
        self, alterations: Iterable[ScramUpsertion | ScramDeletion], *, timeout_ms: float | None = None
    ) -> None:
        """Set passwords and delete credentials of users (KIP-554).

            await admin.alter_user_scram_credentials([ScramUpsertion("alice", password)])

        Raises `UnacceptableCredentialError` if a broker rejects the name or the number of iterations,
        `ResourceNotFoundError` for the deletion of a credential that does not exist, and `DuplicateResourceError` for
        two alterations of one credential. The other users are still changed, and the error's ``outcomes`` map each user
        to None or the error.
        """
        wanted = _ALTERATIONS("alterations", alterations)
        deadline = self._calls.deadline(timeout_ms)
        by_user: dict[str, list[ScramCredentialUpsertion | ScramCredentialDeletion]] = {}
        for each in wanted:
            mine = by_user.setdefault(each.user, [])
            if isinstance(each, ScramDeletion):
                mine.append(ScramCredentialDeletion(name=each.user, mechanism=each.mechanism))
            else:
                mine.append(await anyio.to_thread.run_sync(_salted, each))

        def build(
            pending: Mapping[str, list[ScramCredentialUpsertion | ScramCredentialDeletion]],
        ) -> AlterUserScramCredentialsRequest:
            request = AlterUserScramCredentialsRequest()
            for alteration in (each for mine in pending.values() for each in mine):
                if isinstance(alteration, ScramCredentialDeletion):
                    request.deletions.append(alteration)
                else:
                    request.upsertions.append(alteration)
            return request

        def read(response: AlterUserScramCredentialsResponse) -> Iterator[tuple[str, KafkaError | None]]:
            for result in response.results:
                yield result.user, outcome(None, result.error_code, f"user {result.user!r}", result.error_message)

        await self._calls.batch(by_user, Route.CONTROLLER, build, read, deadline)

    async def create_delegation_token(
        self,
        *,
        owner: str | None = None,
        renewers: Iterable[str] = (),
        max_lifetime_ms: int | None = None,
        timeout_ms: float | None = None,
    ) -> DelegationToken:
        """Create a delegation token and return it (KIP-48).

        ``owner`` is a principal such as ``"User:alice"`` (default: this user); another user needs Kafka 3.3.
        ``renewers`` are principals that may renew the token in addition to its owner. ``max_lifetime_ms`` limits how
        long the token can be renewed (default and maximum: the setting of the brokers).

        The request is not repeated if its response is lost, because each attempt would create a token. Call
        `describe_delegation_token` to see if the token exists.

        Raises `DelegationTokenAuthDisabledError` if the brokers have no secret key for tokens, and
        `DelegationTokenRequestNotAllowedError` if this client has authenticated with a token, or with neither SASL nor
        a TLS certificate.
        """
        whose = None if owner is None else principal("owner", owner)
        who_may = PRINCIPALS("renewers", renewers)
        lifetime_ms = _lifetime("max_lifetime_ms", max_lifetime_ms)
        deadline = self._calls.deadline(timeout_ms)
        allowed = [CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in who_may]
        request = CreateDelegationTokenRequest(renewers=allowed, max_lifetime_ms=lifetime_ms)
        request.owner_principal_type, request.owner_principal_name = whose or (None, None)
        made = await self._calls.call(Route.CONTROLLER, request, deadline, repeatable=False)
        return DelegationToken(
            made.token_id,
            made.hmac,
            f"{made.principal_type}:{made.principal_name}",
            _requester(made.token_requester_principal_type, made.token_requester_principal_name),
            tuple(f"{each.principal_type}:{each.principal_name}" for each in allowed),
            made.issue_timestamp_ms,
            made.expiry_timestamp_ms,
            made.max_timestamp_ms,
        )

    async def renew_delegation_token(
        self, hmac: bytes, *, renew_period_ms: int | None = None, timeout_ms: float | None = None
    ) -> int:
        """Renew a token, and return its new expiry time in milliseconds since 1970.

        ``hmac`` identifies the token (`DelegationToken.hmac`). ``renew_period_ms`` is the new lifetime from now
        (default: the setting of the brokers).

        Raises `DelegationTokenNotFoundError`, `DelegationTokenExpiredError`, and `DelegationTokenOwnerMismatchError` if
        this user is neither the owner nor a renewer. An expired token cannot be renewed; create a new one.
        """
        known = _hmac("hmac", hmac)
        period_ms = _lifetime("renew_period_ms", renew_period_ms)
        deadline = self._calls.deadline(timeout_ms)
        request = RenewDelegationTokenRequest(hmac=known, renew_period_ms=period_ms)
        return (await self._calls.call(Route.CONTROLLER, request, deadline)).expiry_timestamp_ms

    async def expire_delegation_token(
        self, hmac: bytes, *, expiry_period_ms: int | None = None, timeout_ms: float | None = None
    ) -> int:
        """Set the expiry time of a token, and return it in milliseconds since 1970.

        The token expires ``expiry_period_ms`` from now (default: immediately). Raises the errors of
        `renew_delegation_token`.
        """
        known = _hmac("hmac", hmac)
        period_ms = _lifetime("expiry_period_ms", expiry_period_ms)
        deadline = self._calls.deadline(timeout_ms)
        request = ExpireDelegationTokenRequest(hmac=known, expiry_time_period_ms=period_ms)
        return (await self._calls.call(Route.CONTROLLER, request, deadline)).expiry_timestamp_ms

    async def describe_delegation_token(
        self, owners: Iterable[str] | None = None, *, timeout_ms: float | None = None
    ) -> list[DelegationToken]:
        """Return the tokens of these owners that this user may describe (default: of all owners).

        ``owners`` are principals such as ``"User:alice"``. The list is empty if there are no such tokens. Raises
        `DelegationTokenAuthDisabledError` if the brokers have no secret key for tokens.
        """
        named = None
        if owners is not None:
            checked = PRINCIPALS("owners", owners)
            named = [DescribeDelegationTokenOwner(principal_type=kind, principal_name=name) for kind, name in checked]
        deadline = self._calls.deadline(timeout_ms)
        response = await self._calls.call(Route.ANY, DescribeDelegationTokenRequest(owners=named), deadline)
        return [
            DelegationToken(
                token.token_id,
                token.hmac,
                f"{token.principal_type}:{token.principal_name}",
                _requester(token.token_requester_principal_type, token.token_requester_principal_name),
                tuple(f"{each.principal_type}:{each.principal_name}" for each in token.renewers),
                token.issue_timestamp,
                token.expiry_timestamp,
                token.max_timestamp,
            )
            for token in response.tokens
        ]


def _salted(wanted: ScramUpsertion) -> ScramCredentialUpsertion:
    """Return the salted password that a broker stores (RFC 5802, Hi)."""
    salt = secrets.token_bytes(_SALT_BYTES)
    hash_name = HASHES[wanted.mechanism.name.replace("_", "-")]
    return ScramCredentialUpsertion(
        name=wanted.user,
        mechanism=wanted.mechanism,
        iterations=wanted.iterations,
        salt=salt,
        salted_password=SaltedPassword(hash_name, salt, wanted.iterations).derive(wanted.password),
    )


def _requester(kind: str, name: str) -> str | None:
    return f"{kind}:{name}" if kind else None
