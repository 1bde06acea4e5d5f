"""Who may do what, and how much: ACLs, quotas, SCRAM credentials, delegation tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .. import _acls, _security
from .. import _security_checks as _checks
from ..acl_types import AclBinding, AclBindingFilter
from ..security_types import (
    ClientQuotaFilter,
    DelegationToken,
    QuotaEntity,
    ScramCredential,
    ScramDeletion,
    ScramUpsertion,
)
from .base import AdminArea

_EVERYTHING = AclBindingFilter()
_ALL_QUOTAS = ClientQuotaFilter()


class SecurityCalls(AdminArea):
    """Who may do what, and how much: ACLs, quotas, SCRAM credentials, delegation tokens."""

    async def describe_acls(
        self, acl_filter: AclBindingFilter = _EVERYTHING, *, timeout_ms: float | None = None
    ) -> list[AclBinding]:
        """The rules that agree with a filter; all of them by default. Raises `SecurityDisabledError` without any."""
        wanted = _checks.acl_filter("acl_filter", acl_filter)
        return await _acls.describe(self._calls, wanted, self._calls.deadline(timeout_ms))

    async def create_acls(self, bindings: Iterable[AclBinding], *, timeout_ms: float | None = None) -> None:
        """Add rules; those that are there already stay. Brokers know them shortly after this."""
        wanted = _checks.BINDINGS("bindings", bindings)
        await _acls.create(self._calls, wanted, self._calls.deadline(timeout_ms))

    async def delete_acls(
        self, filters: Iterable[AclBindingFilter], *, timeout_ms: float | None = None
    ) -> dict[AclBindingFilter, tuple[AclBinding, ...]]:
        """Delete the rules that agree with filters; the result is what went, by filter. An empty filter takes all."""
        wanted = _checks.ACL_FILTERS("filters", filters)
        return await _acls.delete(self._calls, wanted, self._calls.deadline(timeout_ms))

    async def describe_client_quotas(
        self, quota_filter: ClientQuotaFilter = _ALL_QUOTAS, *, timeout_ms: float | None = None
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Quotas by entity and name, such as ``producer_byte_rate`` (KIP-546)."""
        wanted = _checks.quota_filter("quota_filter", quota_filter)
        return await _security.describe_quotas(self._calls, wanted, self._calls.deadline(timeout_ms))

    async def alter_client_quotas(
        self,
        quotas: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        timeout_ms: float | None = None,
    ) -> None:
        """Set quotas by entity and name; None takes one away, and those that are not named stay (KIP-546).

        ``{(("client-id", "app"), ("user", "alice")): {"producer_byte_rate": 1e6}}``
        """
        wanted = _checks.QUOTAS("quotas", quotas)
        _checks.boolean("validate_only", validate_only)
        await _security.alter_quotas(self._calls, wanted, validate_only, self._calls.deadline(timeout_ms))

    async def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None, *, timeout_ms: float | None = None
    ) -> dict[str, tuple[ScramCredential, ...]]:
        """The SCRAM mechanisms of users, of all that have some unless some are named (KIP-554).

        Raises `ResourceNotFoundError` for a user that was named and has none.
        """
        named = _checks.USERS("users", users)
        return await _security.describe_scram(self._calls, named, self._calls.deadline(timeout_ms))

    async def alter_user_scram_credentials(
        self, alterations: Iterable[ScramUpsertion | ScramDeletion], *, timeout_ms: float | None = None
    ) -> None:
        """Set passwords of users, and delete credentials; the outcomes are by user (KIP-554)."""
        wanted = _checks.ALTERATIONS("alterations", alterations)
        await _security.alter_scram(self._calls, wanted, self._calls.deadline(timeout_ms))

    async def create_delegation_token(
        self,
        *,
        owner: str | None = None,
        renewers: Iterable[str] = (),
        max_lifetime_ms: int | None = None,
        timeout_ms: float | None = None,
    ) -> DelegationToken:
        """A token for this user, or for another ``owner`` (Kafka 3.3); principals are like ``"User:alice"`` (KIP-48).

        ``max_lifetime_ms`` is at most, and by default, the broker's. It is sent once: after a lost connection
        `describe_delegation_token` says whether there is one. Raises `DelegationTokenAuthDisabledError` and
        `DelegationTokenRequestNotAllowedError`.
        """
        whose = None if owner is None else _checks.principal("owner", owner)
        allowed = _checks.PRINCIPALS("renewers", renewers)
        lifetime_ms = _checks.lifetime("max_lifetime_ms", max_lifetime_ms)
        deadline = self._calls.deadline(timeout_ms)
        return await _security.create_token(self._calls, whose, allowed, lifetime_ms, deadline)

    async def renew_delegation_token(
        self, hmac: bytes, *, renew_period_ms: int | None = None, timeout_ms: float | None = None
    ) -> int:
        """Let a token live on; the result is when it expires now, in milliseconds since 1970.

        ``renew_period_ms`` is by default the broker's. Raises `DelegationTokenNotFoundError` and the like.
        """
        known = _checks.hmac("hmac", hmac)
        period_ms = _checks.lifetime("renew_period_ms", renew_period_ms)
        return await _security.renew_token(self._calls, known, period_ms, self._calls.deadline(timeout_ms))

    async def expire_delegation_token(
        self, hmac: bytes, *, expiry_period_ms: int | None = None, timeout_ms: float | None = None
    ) -> int:
        """Let a token end after so long, at once by default; the result is when it does."""
        known = _checks.hmac("hmac", hmac)
        period_ms = _checks.lifetime("expiry_period_ms", expiry_period_ms)
        return await _security.expire_token(self._calls, known, period_ms, self._calls.deadline(timeout_ms))

    async def describe_delegation_token(
        self, owners: Iterable[str] | None = None, *, timeout_ms: float | None = None
    ) -> list[DelegationToken]:
        """The tokens that this user may see, of all owners unless some are named."""
        named = None if owners is None else _checks.PRINCIPALS("owners", owners)
        return await _security.describe_tokens(self._calls, named, self._calls.deadline(timeout_ms))
