"""Access control lists: rules that allow or deny operations on resources (KIP-11, KIP-290)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from .._core.admin import BY_CONTROLLER, failure, outcome
from .._io.admin_requests import Route
from .._options.arguments import list_of
from .._options.checks import instance, optional, short_text
from .._wire.messages.create_acls import AclCreation, CreateAclsRequest
from .._wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsFilterResult, DeleteAclsRequest
from .._wire.messages.describe_acls import DescribeAclsRequest
from ..errors import ConfigError, KafkaError
from .base import AdminArea


class _Known(IntEnum):
    """Enumeration whose member 0 represents every value that this client does not know."""

    @classmethod
    def _missing_(cls, value: object) -> _Known | None:
        return cls(0) if isinstance(value, int) else None


class AclOperation(_Known):
    """Operation that a rule allows or denies (Java: ``AclOperation``)."""

    UNKNOWN = 0
    ANY = 1
    """Matches every operation. Only for filters."""
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermissionType(_Known):
    """Effect of a rule. A rule that denies takes precedence over every rule that allows."""

    UNKNOWN = 0
    ANY = 1
    """Matches both effects. Only for filters."""
    DENY = 2
    ALLOW = 3


class AclResourceType(_Known):
    """Type of the resource that a rule applies to (Java: ``ResourceType``)."""

    UNKNOWN = 0
    ANY = 1
    """Matches every type. Only for filters."""
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    """The cluster, whose name is always ``"kafka-cluster"``."""
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclPatternType(_Known):
    """Type of match between the resource name in a rule and the names of resources (KIP-290)."""

    UNKNOWN = 0
    ANY = 1
    """Matches rules of every pattern type that have this resource name. Only for filters."""
    MATCH = 2
    """Matches rules of every pattern type that apply to the resource with this name. Only for filters."""
    LITERAL = 3
    """The rule applies to the resource with this name, or to all resources if the name is ``"*"``."""
    PREFIXED = 4
    """The rule applies to all resources whose names begin with this prefix."""


@dataclass(frozen=True, slots=True)
class AclBinding:
    """A rule that allows or denies a principal an operation on a resource.

        AclBinding(AclResourceType.TOPIC, "events", "User:alice", AclOperation.READ)

    By default, the rule allows the operation from every host, on the resource with exactly this name.
    """

    resource_type: AclResourceType
    resource_name: str
    principal: str
    """User, for example ``"User:alice"``, or ``"User:*"`` for all users."""
    operation: AclOperation
    permission_type: AclPermissionType = AclPermissionType.ALLOW
    host: str = "*"
    """Address from which the user connects, or ``"*"`` for all addresses."""
    pattern_type: AclPatternType = AclPatternType.LITERAL


@dataclass(frozen=True, slots=True)
class AclBindingFilter:
    """Filter that selects the rules with all given attributes.

        AclBindingFilter(resource_type=AclResourceType.TOPIC, principal="User:alice")

    An attribute that is None or ``ANY`` (the default) matches every value, so a filter without attributes matches all
    rules.
    """

    resource_type: AclResourceType = AclResourceType.ANY
    resource_name: str | None = None
    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission_type: AclPermissionType = AclPermissionType.ANY
    host: str | None = None
    pattern_type: AclPatternType = AclPatternType.ANY


_EVERYTHING = AclBindingFilter()
_KINDS = {
    "resource_type": AclResourceType,
    "operation": AclOperation,
    "permission_type": AclPermissionType,
    "pattern_type": AclPatternType,
}


_OPERATIONS_NOT_ASKED = -(2**31)
_ONLY_IN_FILTERS = ("UNKNOWN", "ANY", "MATCH")


def _kinds(name: str, given: AclBinding | AclBindingFilter) -> None:
    for part, kind in _KINDS.items():
        instance(kind, f"an {kind.__name__}")(f"{name}.{part}", getattr(given, part))


def _acl_filter(name: str, value: Any) -> AclBindingFilter:
    """Check the argument ``name``, which must be a filter of rules, and return it."""
    wanted: AclBindingFilter = instance(AclBindingFilter, "an AclBindingFilter")(name, value)
    _kinds(name, wanted)
    for part in ("resource_name", "principal", "host"):
        optional(short_text)(f"{name}.{part}", getattr(wanted, part))
    return wanted


def _binding(name: str, value: Any) -> AclBinding:
    rule: AclBinding = instance(AclBinding, "an AclBinding")(name, value)
    _kinds(name, rule)
    for part in _KINDS:
        if getattr(rule, part).name in _ONLY_IN_FILTERS:
            raise ConfigError(f"{name}.{part} must not be {getattr(rule, part).name}, which is only for filters")
    for part in ("resource_name", "host"):
        short_text(f"{name}.{part}", getattr(rule, part))
    principal(f"{name}.principal", rule.principal)
    return rule


def principal(name: str, value: Any) -> tuple[str, str]:
    """Check a principal such as ``"User:alice"``, and return its type and its name."""
    kind, separator, who = short_text(name, value).partition(":")
    if not separator or not kind or not who:
        raise ConfigError(f"{name} must be a principal like 'User:alice', not {value!r}")
    return kind, who


_ACL_FILTERS = list_of("AclBindingFilter", _acl_filter)
_BINDINGS = list_of("AclBinding", _binding)
PRINCIPALS = list_of("principals", principal)


class AclCalls(AdminArea):
    """Admin calls for access control lists."""

    async def describe_acls(
        self, acl_filter: AclBindingFilter = _EVERYTHING, *, timeout_ms: float | None = None
    ) -> list[AclBinding]:
        """Return the rules that match a filter (default: all rules).

        The list is empty if no rule matches. Raises `SecurityDisabledError` if the brokers have no authorizer.
        """
        wanted = _acl_filter("acl_filter", acl_filter)
        deadline = self._calls.deadline(timeout_ms)
        request = DescribeAclsRequest(
            resource_type_filter=wanted.resource_type,
            resource_name_filter=wanted.resource_name,
            pattern_type_filter=wanted.pattern_type,
            principal_filter=wanted.principal,
            host_filter=wanted.host,
            operation=wanted.operation,
            permission_type=wanted.permission_type,
        )
        response = await self._calls.call(Route.ANY, request, deadline)
        return [
            AclBinding(
                AclResourceType(resource.resource_type),
                resource.resource_name,
                rule.principal,
                AclOperation(rule.operation),
                AclPermissionType(rule.permission_type),
                rule.host,
                AclPatternType(resource.pattern_type),
            )
            for resource in response.resources
            for rule in resource.acls
        ]

    async def create_acls(self, bindings: Iterable[AclBinding], *, timeout_ms: float | None = None) -> None:
        """Add rules. A rule that already exists is left unchanged.

        Brokers may apply the new rules only a moment after this call returns.

        Raises `SecurityDisabledError` if the brokers have no authorizer, and `InvalidRequestError` if they reject a
        rule. The other rules are still added, and the error's ``outcomes`` map each rule to None or its error.
        """
        wanted = _BINDINGS("bindings", bindings)
        deadline = self._calls.deadline(timeout_ms)

        async def ask(pending: Mapping[AclBinding, None]) -> Mapping[AclBinding, KafkaError | None]:
            creations = [
                AclCreation(
                    resource_type=rule.resource_type,
                    resource_name=rule.resource_name,
                    resource_pattern_type=rule.pattern_type,
                    principal=rule.principal,
                    host=rule.host,
                    operation=rule.operation,
                    permission_type=rule.permission_type,
                )
                for rule in pending
            ]
            response = await self._calls.call(Route.CONTROLLER, CreateAclsRequest(creations=creations), deadline)
            # The response has one result for each rule, in the order of the request and without names.
            return {
                rule: outcome(None, result.error_code, str(rule), result.error_message)
                for rule, result in zip(pending, response.results, strict=False)
            }

        await self._calls.settle(dict.fromkeys(wanted), ask, BY_CONTROLLER, deadline)

    async def delete_acls(
        self, filters: Iterable[AclBindingFilter], *, timeout_ms: float | None = None
    ) -> dict[AclBindingFilter, tuple[AclBinding, ...]]:
        """Delete all rules that match any of the filters, and return the deleted rules by filter.

        An empty filter, ``AclBindingFilter()``, deletes every rule. The result omits rules that an earlier attempt
        deleted if the response to that attempt was lost.

        Raises `SecurityDisabledError` if the brokers have no authorizer. An error's ``outcomes`` contain the deleted
        rules of the other filters.
        """
        wanted = _ACL_FILTERS("filters", filters)
        deadline = self._calls.deadline(timeout_ms)

        async def ask(
            pending: Mapping[AclBindingFilter, None],
        ) -> Mapping[AclBindingFilter, tuple[AclBinding, ...] | KafkaError]:
            asked = [
                DeleteAclsFilter(
                    resource_type_filter=each.resource_type,
                    resource_name_filter=each.resource_name,
                    pattern_type_filter=each.pattern_type,
                    principal_filter=each.principal,
                    host_filter=each.host,
                    operation=each.operation,
                    permission_type=each.permission_type,
                )
                for each in pending
            ]
            response = await self._calls.call(Route.CONTROLLER, DeleteAclsRequest(filters=asked), deadline)
            return {each: _deleted(each, found) for each, found in zip(pending, response.filter_results, strict=False)}

        return await self._calls.settle(dict.fromkeys(wanted), ask, BY_CONTROLLER, deadline)


def _deleted(wanted: AclBindingFilter, found: DeleteAclsFilterResult) -> tuple[AclBinding, ...] | KafkaError:
    for code, message in ((found.error_code, found.error_message), *_failures(found)):
        if code:
            return failure(code, str(wanted), message)
    return tuple(
        AclBinding(
            AclResourceType(rule.resource_type),
            rule.resource_name,
            rule.principal,
            AclOperation(rule.operation),
            AclPermissionType(rule.permission_type),
            rule.host,
            AclPatternType(rule.pattern_type),
        )
        for rule in found.matching_acls
    )


def _failures(found: DeleteAclsFilterResult) -> Iterator[tuple[int, str | None]]:
    for rule in found.matching_acls:
        yield rule.error_code, rule.error_message


def operations_of(bits: int) -> frozenset[AclOperation] | None:
    """Return the operations in the bit field of a description, or None if they were not requested (KIP-430)."""
    if bits == _OPERATIONS_NOT_ASKED:
        return None
    return frozenset(each for each in AclOperation if each > AclOperation.ANY and bits >> each & 1)
