"""DescribeConfigs, IncrementalAlterConfigs (KIP-339) and AlterConfigs, for topics; brokers have none to tell."""

from __future__ import annotations

from ..._wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from ..._wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from ..._wire.messages.incremental_alter_configs import (
    AlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ..._wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse as IncrementalResult,
)
from ...errors import BrokerError, InvalidConfigError, InvalidRequestError, UnknownServerError
from .._server.context import RequestContext
from .._state.configs import TOPIC_CONFIGS, ConfigType, split_list
from .._state.topics import Topic

_TOPIC = 2
_BROKER = 4
_FROM_TOPIC = 1
_FROM_DEFAULT = 5
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)


def describe_configs(context: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[_describe(context, resource, synonyms=request.include_synonyms) for resource in request.resources]
    )


def _describe(context: RequestContext, resource: DescribeConfigsResource, *, synonyms: bool) -> DescribeConfigsResult:
    result = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
    if resource.resource_type == _BROKER:
        return result
    try:
        topic = _topic(context, resource.resource_type, resource.resource_name)
    except BrokerError as error:
        result.error_code, result.error_message = error.code, error.message
        return result
    for name, definition in TOPIC_CONFIGS.items():
        if resource.configuration_keys and name not in resource.configuration_keys:
            continue
        value = topic.configs.get(name)
        source = _FROM_TOPIC if name in topic.configs.overrides else _FROM_DEFAULT
        result.configs.append(
            DescribeConfigsResourceResult(
                name=name,
                value=value,
                config_source=source,
                config_type=definition.type,
                synonyms=[DescribeConfigsSynonym(name=name, value=value, source=source)] if synonyms else [],
            )
        )
    return result


def _topic(context: RequestContext, resource_type: int, name: str) -> Topic:
    if resource_type != _TOPIC:
        raise InvalidRequestError(f"Unsupported resource type: {resource_type}")
    return context.engine.state.topic(name)


def incremental_alter_configs(
    context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    response = IncrementalAlterConfigsResponse()
    for resource in request.resources:
        result = IncrementalResult(
            resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None
        )
        response.responses.append(result)
        try:
            topic = _topic(context, resource.resource_type, resource.resource_name)
            changed = topic.configs.changed({config.name: _operate(topic, config) for config in resource.configs})
        except BrokerError as error:
            result.error_code, result.error_message = error.code, error.message
            continue
        if not request.validate_only:
            topic.configs = changed
    return response


def _operate(topic: Topic, config: AlterableConfig) -> str | None:
    """The value that an operation leaves; None for the default."""
    if config.config_operation == _DELETE:
        return None
    if config.value is None:
        raise InvalidRequestError(f"Null value for the config {config.name}")
    if config.config_operation == _SET:
        return config.value
    if config.config_operation not in (_APPEND, _SUBTRACT):
        raise UnknownServerError(f"Unknown config operation {config.config_operation}")
    definition = TOPIC_CONFIGS.get(config.name)
    if definition is None or definition.type is not ConfigType.LIST:
        raise InvalidConfigError(f"Config value append or subtract is not allowed for config key: {config.name}")
    present, given = split_list(topic.configs.get(config.name)), split_list(config.value)
    if config.config_operation == _APPEND:
        return ",".join(dict.fromkeys([*present, *given]))
    return ",".join(item for item in present if item not in given)


def alter_configs(context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """All of a topic's options at once: those that are not named go back to their defaults."""
    response = AlterConfigsResponse()
    for resource in request.resources:
        result = AlterConfigsResourceResponse(
            resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None
        )
        response.responses.append(result)
        try:
            topic = _topic(context, resource.resource_type, resource.resource_name)
            replaced = topic.configs.replaced(
                {config.name: config.value for config in resource.configs if config.value is not None}
            )
        except BrokerError as error:
            result.error_code, result.error_message = error.code, error.message
            continue
        if not request.validate_only:
            topic.configs = replaced
    return response


HANDLERS = {
    DescribeConfigsRequest: describe_configs,
    IncrementalAlterConfigsRequest: incremental_alter_configs,
    AlterConfigsRequest: alter_configs,
}
