"""Access control lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from .._io.deadline import Deadline
from .._wire.messages.create_acls import AclCreation, CreateAclsRequest
from .._wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsFilterResult, DeleteAclsRequest
from .._wire.messages.describe_acls import DescribeAclsRequest
from ..errors import KafkaError
from ._calls import BY_CONTROLLER, Calls, Route, failure, outcome
from .acl_types import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPatternType,
    AclPermissionType,
    AclResourceType,
)


async def describe(calls: Calls, wanted: AclBindingFilter, deadline: Deadline) -> list[AclBinding]:
    """The rules that agree with a filter."""
    request = DescribeAclsRequest(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.resource_name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission_type,
    )
    response = await calls.call(Route.ANY, request, deadline)
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


async def create(calls: Calls, bindings: Iterable[AclBinding], deadline: Deadline) -> None:
    """Add rules; one that is there already stays."""

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
        response = await calls.call(Route.CONTROLLER, CreateAclsRequest(creations=creations), deadline)
        # Results are in the order of what was asked for, and name nothing.
        return {
            rule: outcome(None, result.error_code, str(rule), result.error_message)
            for rule, result in zip(pending, response.results, strict=False)
        }

    await calls.settle(dict.fromkeys(bindings), ask, BY_CONTROLLER, deadline)


async def delete(
    calls: Calls, filters: Iterable[AclBindingFilter], deadline: Deadline
) -> dict[AclBindingFilter, tuple[AclBinding, ...]]:
    """The rules that went, by the filter that they agreed with."""

    async def ask(
        pending: Mapping[AclBindingFilter, None],
    ) -> Mapping[AclBindingFilter, tuple[AclBinding, ...] | KafkaError]:
        wanted = [
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
        response = await calls.call(Route.CONTROLLER, DeleteAclsRequest(filters=wanted), deadline)
        return {each: _deleted(each, found) for each, found in zip(pending, response.filter_results, strict=False)}

    return await calls.settle(dict.fromkeys(filters), ask, BY_CONTROLLER, deadline)


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
