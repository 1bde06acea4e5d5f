"""FindCoordinator (KIP-699), and the check that a request came to the right one."""

from __future__ import annotations

from ..._wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ...errors import (
    BrokerError,
    CoordinatorNotAvailableError,
    InvalidGroupIdError,
    InvalidRequestError,
    NotCoordinatorError,
    raise_for_code,
)
from .._server.context import RequestContext
from .._state.cluster import BrokerNode
from .._state.coordinators import GROUP, TRANSACTION
from .._state.topics import NO_LEADER

_BATCHED_FROM = 4


def find_coordinator(context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    response = FindCoordinatorResponse()
    if context.api_version < _BATCHED_FROM:
        try:
            node = _find(context, request.key_type, request.key)
        except BrokerError as error:
            response.error_code, response.error_message = error.code, error.message
            response.node_id, response.host, response.port = NO_LEADER, "", -1
        else:
            response.node_id, response.host, response.port = node.node_id, node.host, node.port
        return response
    for key in request.coordinator_keys:
        found = Coordinator(key=key)
        response.coordinators.append(found)
        try:
            node = _find(context, request.key_type, key)
        except BrokerError as error:
            found.error_code, found.error_message = error.code, error.message
            found.node_id, found.port = NO_LEADER, -1
        else:
            found.node_id, found.host, found.port = node.node_id, node.host, node.port
    return response


def _find(context: RequestContext, kind: int, key: str) -> BrokerNode:
    raise_for_code(context.fault_code(key))
    if kind not in (GROUP, TRANSACTION):
        raise InvalidRequestError(f"there are no coordinators of type {kind}")
    state = context.engine.state
    node_id = state.coordinators.of(kind, key)
    if not state.is_registered(node_id):
        raise CoordinatorNotAvailableError("The coordinator is not available.")
    return state.nodes[node_id]


def check_coordinator(context: RequestContext, kind: int, key: str) -> None:
    """Raise NotCoordinatorError at any broker other than the key's coordinator."""
    if kind == GROUP and not key:
        raise InvalidGroupIdError("a group needs an id")
    if kind == TRANSACTION and not key:
        raise InvalidRequestError("a transactional id must not be empty")
    if context.engine.state.coordinators.of(kind, key) != context.node.node_id:
        raise NotCoordinatorError(f"broker {context.node.node_id} does not coordinate {key}")


HANDLERS = {FindCoordinatorRequest: find_coordinator}
