"""ACLs (which are stored but not enforced), SASL logins, and the push of clients' metrics (KIP-714)."""

from __future__ import annotations

from ... import errors
from ..._records.layout import CODEC_IDS
from ..._wire.messages import delete_acls as delete
from ..._wire.messages import describe_acls as describe
from ..._wire.messages import get_telemetry_subscriptions as subscriptions
from ..._wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from ..._wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from ..._wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ..._wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from .._server.context import RequestContext
from .._state.acls import Rule, RuleFilter
from .._state.client_metrics import TelemetryPush, codec_name


def handshake(context: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    mechanisms = list(context.engine.options.sasl.exchanges)
    try:
        context.connection.authentication.begin(request.mechanism)
    except (errors.IllegalSaslStateError, errors.UnsupportedSaslMechanismError) as error:
        return SaslHandshakeResponse(error_code=error.code, mechanisms=mechanisms)
    return SaslHandshakeResponse(mechanisms=mechanisms)


def authenticate(context: RequestContext, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    authentication = context.connection.authentication
    try:
        answer = authentication.step(request.auth_bytes)
    except errors.SaslAuthenticationFailedError as error:
        # Like a real broker, close the connection after the response.
        context.engine.defer(context.connection.close)
        return SaslAuthenticateResponse(error_code=error.code, error_message=error.message)
    return SaslAuthenticateResponse(auth_bytes=answer, session_lifetime_ms=authentication.lifetime_ms)


def _about(context: RequestContext) -> dict[str, str]:
    """Return the properties of this client that subscriptions use to select clients."""
    address, _, port = context.connection.peer.rpartition(":")
    name, version = context.connection.software
    return {
        "client_id": context.client_id or "",
        "client_software_name": name,
        "client_software_version": version,
        "client_source_address": address,
        "client_source_port": port,
    }


def get_telemetry_subscriptions(
    context: RequestContext, request: subscriptions.GetTelemetrySubscriptionsRequest
) -> subscriptions.GetTelemetrySubscriptionsResponse:
    metrics = context.engine.client_metrics
    try:
        client_instance_id, wanted = metrics.subscription(
            context.node.node_id, request.client_instance_id, _about(context)
        )
    except errors.BrokerError as error:
        return subscriptions.GetTelemetrySubscriptionsResponse(error_code=error.code)
    return subscriptions.GetTelemetrySubscriptionsResponse(
        client_instance_id=client_instance_id,
        subscription_id=wanted.subscription_id,
        accepted_compression_types=[CODEC_IDS[name] for name in metrics.accepted],
        push_interval_ms=wanted.interval_ms,
        telemetry_max_bytes=metrics.max_bytes,
        delta_temporality=metrics.delta,
        requested_metrics=list(wanted.metrics),
    )


def push_telemetry(context: RequestContext, request: PushTelemetryRequest) -> PushTelemetryResponse:
    push = TelemetryPush(
        context.node.node_id,
        context.client_id or "",
        request.client_instance_id,
        request.subscription_id,
        request.terminating,
        codec_name(request.compression_type),
        bytes(request.metrics),
    )
    try:
        context.engine.client_metrics.push(push, _about(context))
    except errors.BrokerError as error:
        return PushTelemetryResponse(error_code=error.code)
    return PushTelemetryResponse()


_CLUSTER = 4
_CLUSTER_NAME = "kafka-cluster"


def create_acls(context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    response = CreateAclsResponse()
    for creation in request.creations:
        result = AclCreationResult(error_message=None)
        response.results.append(result)
        if creation.resource_type == _CLUSTER and creation.resource_name != _CLUSTER_NAME:
            result.error_code = errors.InvalidRequestError.code
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


def _filter(given: describe.DescribeAclsRequest | delete.DeleteAclsFilter) -> RuleFilter:
    return RuleFilter(
        given.resource_type_filter,
        given.resource_name_filter,
        given.pattern_type_filter,
        given.principal_filter,
        given.host_filter,
        given.operation,
        given.permission_type,
    )


def describe_acls(context: RequestContext, request: describe.DescribeAclsRequest) -> describe.DescribeAclsResponse:
    response = describe.DescribeAclsResponse(error_message=None)
    resources: dict[tuple[int, str, int], describe.DescribeAclsResource] = {}
    for rule in context.engine.acls.found(_filter(request)):
        key = rule.resource_type, rule.name, rule.pattern
        if key not in resources:
            resources[key] = describe.DescribeAclsResource(
                resource_type=rule.resource_type, resource_name=rule.name, pattern_type=rule.pattern
            )
        resources[key].acls.append(
            describe.AclDescription(
                principal=rule.principal,
                host=rule.host,
                operation=rule.operation,
                permission_type=rule.permission,
            )
        )
    response.resources = list(resources.values())
    return response


def delete_acls(context: RequestContext, request: delete.DeleteAclsRequest) -> delete.DeleteAclsResponse:
    response = delete.DeleteAclsResponse()
    for wanted in request.filters:
        gone = context.engine.acls.delete(_filter(wanted))
        matching = [
            delete.DeleteAclsMatchingAcl(
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
        response.filter_results.append(delete.DeleteAclsFilterResult(error_message=None, matching_acls=matching))
    return response


HANDLERS = {
    CreateAclsRequest: create_acls,
    describe.DescribeAclsRequest: describe_acls,
    delete.DeleteAclsRequest: delete_acls,
    SaslHandshakeRequest: handshake,
    SaslAuthenticateRequest: authenticate,
    subscriptions.GetTelemetrySubscriptionsRequest: get_telemetry_subscriptions,
    PushTelemetryRequest: push_telemetry,
}
