"""ListConfigResources (KIP-714, KIP-1142): resources that have, or may have, a configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..._wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from ...errors import UnsupportedVersionError
from .._server.context import RequestContext

_CLIENT_METRICS = 16
_LISTS: dict[int, Callable[[RequestContext], Iterable[object]]] = {
    2: lambda context: context.engine.state.topics,
    4: lambda context: (node.node_id for node in context.engine.state.registered()),
    8: lambda context: (node.node_id for node in context.engine.state.registered()),
    _CLIENT_METRICS: lambda context: context.engine.client_metrics.names,
    32: lambda context: context.engine.groups.configs.names,
}
"""Lists by type: topics, brokers, their loggers, client metrics, groups."""


def list_config_resources(context: RequestContext, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    wanted = (request.resource_types or list(_LISTS)) if context.api_version > 0 else [_CLIENT_METRICS]
    if not all(kind in _LISTS for kind in wanted):
        return ListConfigResourcesResponse(error_code=UnsupportedVersionError.code)
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=str(name), resource_type=kind)
            for kind in dict.fromkeys(wanted)
            for name in _LISTS[kind](context)
        ]
    )


HANDLERS = {ListConfigResourcesRequest: list_config_resources}
