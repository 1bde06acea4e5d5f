"""Quotas (KIP-546), SCRAM credentials (KIP-554) and delegation tokens (KIP-48)."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Iterator, Mapping

import anyio

from .._io.deadline import Deadline
from .._wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from .._wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from .._wire.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from .._wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from .._wire.messages.describe_delegation_token import DescribeDelegationTokenOwner, DescribeDelegationTokenRequest
from .._wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from .._wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from .._wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from ..errors import KafkaError
from ._calls import Calls, Route, outcome
from .security_types import (
    ClientQuotaFilter,
    DelegationToken,
    QuotaEntity,
    ScramCredential,
    ScramDeletion,
    ScramMechanism,
    ScramUpsertion,
)

_EXACT, _DEFAULT, _SPECIFIED = 0, 1, 2
_SALT_BYTES = 32
_HASHES = {ScramMechanism.SCRAM_SHA_256: "sha256", ScramMechanism.SCRAM_SHA_512: "sha512"}


async def describe_quotas(
    calls: Calls, wanted: ClientQuotaFilter, deadline: Deadline
) -> dict[QuotaEntity, dict[str, float]]:
    """Quotas by entity and name."""
    components = [
        ComponentData(entity_type=kind, match_type=_DEFAULT if name is None else _EXACT, match=name)
        for kind, name in wanted.entity.items()
    ]
    components += [
        ComponentData(entity_type=kind, match_type=_SPECIFIED, match=None) for kind in sorted(wanted.any_name_of)
    ]
    request = DescribeClientQuotasRequest(components=components, strict=wanted.strict)
    response = await calls.call(Route.ANY, request, deadline)
    return {
        tuple(sorted((part.entity_type, part.entity_name) for part in entry.entity)): {
            value.key: value.value for value in entry.values
        }
        for entry in response.entries or ()
    }


async def alter_quotas(
    calls: Calls, changes: Mapping[QuotaEntity, Mapping[str, float | None]], validate_only: bool, deadline: Deadline
) -> None:
    """Set quotas; None takes one away."""

    def build(pending: Mapping[QuotaEntity, Mapping[str, float | None]]) -> AlterClientQuotasRequest:
        entries = [
            RequestEntryData(
                entity=[RequestEntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in quotas.items()],
            )
            for entity, quotas in pending.items()
        ]
        return AlterClientQuotasRequest(entries=entries, validate_only=validate_only)

    def read(response: AlterClientQuotasResponse) -> Iterator[tuple[QuotaEntity, KafkaError | None]]:
        for entry in response.entries:
            entity = tuple(sorted((part.entity_type, part.entity_name) for part in entry.entity))
            yield entity, outcome(None, entry.error_code, _called(entity), entry.error_message)

    await calls.batch(changes, Route.CONTROLLER, build, read, deadline)


def _called(entity: QuotaEntity) -> str:
    return ", ".join(f"{kind} {'(default)' if name is None else repr(name)}" for kind, name in entity)


async def describe_scram(
    calls: Calls, users: Iterable[str] | None, deadline: Deadline
) -> dict[str, tuple[ScramCredential, ...]]:
    """The credentials of users; None asks for all users that have some."""

    def read(
        response: DescribeUserScramCredentialsResponse,
    ) -> Iterator[tuple[str, tuple[ScramCredential, ...] | KafkaError]]:
        for result in response.results:
            found = tuple(
                ScramCredential(ScramMechanism(each.mechanism), each.iterations) for each in result.credential_infos
            )
            yield result.user, outcome(found, result.error_code, f"user {result.user!r}", result.error_message)

    if users is None:
        everything = await calls.call(Route.ANY, DescribeUserScramCredentialsRequest(users=None), deadline)
        return {name: found for name, found in read(everything) if not isinstance(found, KafkaError)}

    def build(pending: Mapping[str, None]) -> DescribeUserScramCredentialsRequest:
        return DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in pending])

    return await calls.batch(dict.fromkeys(users), Route.ANY, build, read, deadline)


async def alter_scram(calls: Calls, alterations: Iterable[ScramUpsertion | ScramDeletion], deadline: Deadline) -> None:
    """Set and delete credentials; a user is the item, and all of one's alterations succeed or fail together."""
    by_user: dict[str, list[ScramCredentialUpsertion | ScramCredentialDeletion]] = {}
    for each in alterations:
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

    await calls.batch(by_user, Route.CONTROLLER, build, read, deadline)


def _salted(wanted: ScramUpsertion) -> ScramCredentialUpsertion:
    """What a broker keeps of a password (RFC 5802, Hi)."""
    salt = secrets.token_bytes(_SALT_BYTES)
    password = wanted.password.encode()
    salted = hashlib.pbkdf2_hmac(_HASHES[wanted.mechanism], password, salt, wanted.iterations)
    return ScramCredentialUpsertion(
        name=wanted.user,
        mechanism=wanted.mechanism,
        iterations=wanted.iterations,
        salt=salt,
        salted_password=salted,
    )


async def create_token(
    calls: Calls,
    owner: tuple[str, str] | None,
    renewers: Iterable[tuple[str, str]],
    max_lifetime_ms: int,
    deadline: Deadline,
) -> DelegationToken:
    """A new token. Sent once: a try whose answer was lost may have made one."""
    allowed = [CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in renewers]
    request = CreateDelegationTokenRequest(renewers=allowed, max_lifetime_ms=max_lifetime_ms)
    request.owner_principal_type, request.owner_principal_name = owner or (None, None)
    made = await calls.once(Route.CONTROLLER, request, deadline)
    return DelegationToken(
        made.token_id,
        made.hmac,
        f"{made.principal_type}:{made.principal_name}",
        _principal(made.token_requester_principal_type, made.token_requester_principal_name),
        tuple(f"{each.principal_type}:{each.principal_name}" for each in allowed),
        made.issue_timestamp_ms,
        made.expiry_timestamp_ms,
        made.max_timestamp_ms,
    )


async def renew_token(calls: Calls, hmac: bytes, renew_period_ms: int, deadline: Deadline) -> int:
    """When the token expires now."""
    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=renew_period_ms)
    return (await calls.call(Route.CONTROLLER, request, deadline)).expiry_timestamp_ms


async def expire_token(calls: Calls, hmac: bytes, expiry_period_ms: int, deadline: Deadline) -> int:
    """When the token expires now."""
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=expiry_period_ms)
    return (await calls.call(Route.CONTROLLER, request, deadline)).expiry_timestamp_ms


async def describe_tokens(
    calls: Calls, owners: Iterable[tuple[str, str]] | None, deadline: Deadline
) -> list[DelegationToken]:
    """The tokens of owners that this user may see."""
    named = None
    if owners is not None:
        named = [DescribeDelegationTokenOwner(principal_type=kind, principal_name=name) for kind, name in owners]
    response = await calls.call(Route.ANY, DescribeDelegationTokenRequest(owners=named), deadline)
    return [
        DelegationToken(
            token.token_id,
            token.hmac,
            f"{token.principal_type}:{token.principal_name}",
            _principal(token.token_requester_principal_type, token.token_requester_principal_name),
            tuple(f"{each.principal_type}:{each.principal_name}" for each in token.renewers),
            token.issue_timestamp,
            token.expiry_timestamp,
            token.max_timestamp,
        )
        for token in response.tokens
    ]


def _principal(kind: str, name: str) -> str | None:
    return f"{kind}:{name}" if kind else None
