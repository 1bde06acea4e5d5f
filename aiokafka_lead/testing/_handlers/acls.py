"""CreateAcls, DescribeAcls and DeleteAcls: rules are stored, but not enforced."""

from __future__ import annotations

from ..._wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from ..._wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ..._wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from ...errors import InvalidRequestError
from .._server.context import RequestContext
from .._state.acls import Rule, RuleFilter

_CLUSTER = 4
_CLUSTER_NAME = "kafka-cluster"


def create_acls(context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    response = CreateAclsResponse()
    for creation in request.creations:
        result = AclCreationResult(error_message=None)
        response.results.append(result)
        if creation.resource_type == _CLUSTER and creation.resource_name != _CLUSTER_NAME:
            result.error_code = InvalidRequestError.code
            result.error_message = f"The only valid name for the CLUSTER resource is {_CLUSTER_NAME}"
            continue
        context.engine.acls.add(
            Rule(
                creation.resource_type,
                creation.resource_name,
                creation.resource_pattern_type,
                creation.principal,
                creation.host,
                creation.operation,
                creation.permission_type,
            )
        )
    return response


def _filter(given: DescribeAclsRequest | DeleteAclsFilter) -> RuleFilter:
    return RuleFilter(
        given.resource_type_filter,
        given.resource_name_filter,
        given.pattern_type_filter,
        given.principal_filter,
        given.host_filter,
        given.operation,
        given.permission_type,
    )


def describe_acls(context: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    response = DescribeAclsResponse(error_message=None)
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for rule in context.engine.acls.found(_filter(request)):
        key = rule.resource_type, rule.name, rule.pattern
        if key not in resources:
            resources[key] = DescribeAclsResource(
                resource_type=rule.resource_type, resource_name=rule.name, pattern_type=rule.pattern
            )
        resources[key].acls.append(
            AclDescription(
                principal=rule.principal,
                host=rule.host,
                operation=rule.operation,
                permission_type=rule.permission,
            )
        )
    response.resources = list(resources.values())
    return response


def delete_acls(context: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    response = DeleteAclsResponse()
    for wanted in request.filters:
        gone = context.engine.acls.delete(_filter(wanted))
        matching = [
            DeleteAclsMatchingAcl(
                error_message=None,
                resource_type=rule.resource_type,
                resource_name=rule.name,
                pattern_type=rule.pattern,
                principal=rule.principal,
                host=rule.host,
                operation=rule.operation,
                permission_type=rule.permission,
            )
            for rule in gone
        ]
        response.filter_results.append(DeleteAclsFilterResult(error_message=None, matching_acls=matching))
    return response


HANDLERS = {
    CreateAclsRequest: create_acls,
    DescribeAclsRequest: describe_acls,
    DeleteAclsRequest: delete_acls,
}
