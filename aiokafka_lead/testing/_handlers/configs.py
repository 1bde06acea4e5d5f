"""DescribeConfigs, IncrementalAlterConfigs (KIP-339) and AlterConfigs, for topics, groups and client metrics.

The embedded brokers have no configurations of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from ..._wire.messages import describe_configs as describe
from ..._wire.messages import incremental_alter_configs as alter
from ..._wire.messages import list_config_resources as resources
from ..._wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResourceResponse, AlterConfigsResponse
from ...errors import BrokerError, InvalidConfigError, InvalidRequestError, UnknownServerError, UnsupportedVersionError
from .._server.context import RequestContext
from .._state.client_metrics import DEFINITIONS, ClientMetrics
from .._state.configs import TOPIC_CONFIGS, ConfigType, GroupConfigs, split_list
from .._state.topics import Topic

_CLIENT_METRICS = 16
_LISTS: dict[int, Callable[[RequestContext], Iterable[object]]] = {
    2: lambda context: context.engine.state.topics,
    4: lambda context: (node.node_id for node in context.engine.state.registered()),
    8: lambda context: (node.node_id for node in context.engine.state.registered()),
    _CLIENT_METRICS: lambda context: context.engine.client_metrics.names,
    32: lambda context: context.engine.groups.configs.names,
}
"""Lists by type: topics, brokers, their loggers, client metrics, groups."""


def list_config_resources(
    context: RequestContext, request: resources.ListConfigResourcesRequest
) -> resources.ListConfigResourcesResponse:
    wanted = (request.resource_types or list(_LISTS)) if context.api_version > 0 else [_CLIENT_METRICS]
    if not all(kind in _LISTS for kind in wanted):
        return resources.ListConfigResourcesResponse(error_code=UnsupportedVersionError.code)
    return resources.ListConfigResourcesResponse(
        config_resources=[
            resources.ConfigResource(resource_name=str(name), resource_type=kind)
            for kind in dict.fromkeys(wanted)
            for name in _LISTS[kind](context)
        ]
    )


_TOPIC = 2
_BROKER = 4
_GROUP = 32
_FROM_TOPIC = 1
_FROM_CLIENT_METRICS = 7
_FROM_GROUP = 8
_FROM_DEFAULT = 5
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)


class _Owner(Protocol):
    """An object with configs: a topic, a group, or a subscription to clients' metrics."""

    source: int
    """Source, in DescribeConfigs, of options set for this owner."""
    overrides: Mapping[str, str]
    types: Mapping[str, ConfigType]

    def get(self, name: str) -> str: ...

    def checked(self, overrides: Mapping[str, str]) -> Callable[[], None]:
        """Return a function that replaces the owner's configs. Raises an error if they are invalid."""
        ...


class _TopicOwner:
    source = _FROM_TOPIC

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self.overrides: Mapping[str, str] = topic.configs.overrides
        self.types: Mapping[str, ConfigType] = {name: each.type for name, each in TOPIC_CONFIGS.items()}

    def get(self, name: str) -> str:
        return self._topic.configs.get(name)

    def checked(self, overrides: Mapping[str, str]) -> Callable[[], None]:
        configs = self._topic.configs.replaced(overrides)

        def apply() -> None:
            self._topic.configs = configs

        return apply


class _GroupOwner:
    source = _FROM_GROUP

    def __init__(self, configs: GroupConfigs, group_id: str) -> None:
        self._configs = configs
        self._group_id = group_id
        self.overrides = configs.overrides(group_id)
        self.types: Mapping[str, ConfigType] = {name: each.type for name, each in configs.definitions.items()}

    def get(self, name: str) -> str:
        return self._configs.get(self._group_id, name)

    def checked(self, overrides: Mapping[str, str]) -> Callable[[], None]:
        self._configs.check(self._group_id, overrides)
        return lambda: self._configs.replace(self._group_id, overrides)


class _ClientMetricsOwner:
    source = _FROM_CLIENT_METRICS

    def __init__(self, metrics: ClientMetrics, name: str) -> None:
        if not name:
            raise InvalidRequestError("Client metrics subscription name must not be empty")
        self._metrics = metrics
        self._name = name
        self.overrides = metrics.overrides(name)
        self.types: Mapping[str, ConfigType] = {option: each.type for option, each in DEFINITIONS.items()}

    def get(self, name: str) -> str:
        return self._metrics.get(self._name, name)

    def checked(self, overrides: Mapping[str, str]) -> Callable[[], None]:
        self._metrics.check(self._name, overrides)
        return lambda: self._metrics.replace(self._name, overrides)


def _owner(context: RequestContext, resource_type: int, name: str) -> _Owner:
    if resource_type == _GROUP:
        return _GroupOwner(context.engine.groups.configs, name)
    if resource_type == _CLIENT_METRICS:
        return _ClientMetricsOwner(context.engine.client_metrics, name)
    if resource_type != _TOPIC:
        raise InvalidRequestError(f"Unsupported resource type: {resource_type}")
    return _TopicOwner(context.engine.state.topic(name))


def describe_configs(
    context: RequestContext, request: describe.DescribeConfigsRequest
) -> describe.DescribeConfigsResponse:
    return describe.DescribeConfigsResponse(
        results=[_describe(context, resource, synonyms=request.include_synonyms) for resource in request.resources]
    )


def _describe(
    context: RequestContext, resource: describe.DescribeConfigsResource, *, synonyms: bool
) -> describe.DescribeConfigsResult:
    """Return the configs of one resource, or an error."""
    result = describe.DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
    if resource.resource_type == _BROKER:
        own = context.node.node_id
        if resource.resource_name not in ("", str(own)):
            result.error_code = InvalidRequestError.code
            text = f"Unexpected broker id, expected {own} or empty string, but received {resource.resource_name}"
            result.error_message = text
        return result
    try:
        owner = _owner(context, resource.resource_type, resource.resource_name)
    except BrokerError as error:
        result.error_code, result.error_message = error.code, error.message
        return result
    for name, kind in owner.types.items():
        if resource.configuration_keys and name not in resource.configuration_keys:
            continue
        value = owner.get(name)
        source = owner.source if name in owner.overrides else _FROM_DEFAULT
        result.configs.append(
            describe.DescribeConfigsResourceResult(
                name=name,
                value=value,
                config_source=source,
                config_type=kind,
                synonyms=[describe.DescribeConfigsSynonym(name=name, value=value, source=source)] if synonyms else [],
            )
        )
    return result


def incremental_alter_configs(
    context: RequestContext, request: alter.IncrementalAlterConfigsRequest
) -> alter.IncrementalAlterConfigsResponse:
    response = alter.IncrementalAlterConfigsResponse()
    for resource in request.resources:
        result = alter.AlterConfigsResourceResponse(
            resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None
        )
        response.responses.append(result)
        try:
            _each_once([config.name for config in resource.configs])
            owner = _owner(context, resource.resource_type, resource.resource_name)
            merged = dict(owner.overrides)
            for config in resource.configs:
                value = _operate(owner, config)
                if value is None:
                    merged.pop(config.name, None)
                else:
                    merged[config.name] = value
            apply = owner.checked(merged)
        except BrokerError as error:
            result.error_code, result.error_message = error.code, error.message
            continue
        if not request.validate_only:
            apply()
    return response


def _each_once(names: list[str]) -> None:
    if len(set(names)) < len(names):
        raise InvalidRequestError("Error due to duplicate config keys")


def _operate(owner: _Owner, config: alter.AlterableConfig) -> str | None:
    """Return the value after an operation, or None for the default."""
    if config.config_operation == _DELETE:
        if owner.source == _FROM_TOPIC and config.name not in owner.types:
            raise InvalidConfigError(f"Unknown topic config name: {config.name}")
        return None
    if config.value is None:
        raise InvalidRequestError(f"Null value for the config {config.name}")
    if config.config_operation == _SET:
        return config.value
    if config.config_operation not in (_APPEND, _SUBTRACT):
        raise UnknownServerError(f"Unknown config operation {config.config_operation}")
    if owner.types.get(config.name) is not ConfigType.LIST:
        raise InvalidConfigError(f"Config value append or subtract is not allowed for config key: {config.name}")
    present, given = split_list(owner.get(config.name)), split_list(config.value)
    if config.config_operation == _APPEND:
        return ",".join(dict.fromkeys([*present, *given]))
    return ",".join(item for item in present if item not in given)


def alter_configs(context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Replace all configs. Configs that the request does not name are reset to their defaults."""
    response = AlterConfigsResponse()
    for resource in request.resources:
        result = AlterConfigsResourceResponse(
            resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None
        )
        response.responses.append(result)
        try:
            _each_once([config.name for config in resource.configs])
            owner = _owner(context, resource.resource_type, resource.resource_name)
            apply = owner.checked(
                {config.name: config.value for config in resource.configs if config.value is not None}
            )
        except BrokerError as error:
            result.error_code, result.error_message = error.code, error.message
            continue
        if not request.validate_only:
            apply()
    return response


HANDLERS = {
    describe.DescribeConfigsRequest: describe_configs,
    alter.IncrementalAlterConfigsRequest: incremental_alter_configs,
    AlterConfigsRequest: alter_configs,
    resources.ListConfigResourcesRequest: list_config_resources,
}
