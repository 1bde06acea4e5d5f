"""ApiVersions: the versions that this broker serves (KIP-35, KIP-511)."""

from __future__ import annotations

import re

from ..._wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ...errors import InvalidRequestError, RebootstrapRequiredError
from .._server.context import RequestContext

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def api_versions(context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    # From version 5 on a client names the intended broker (KIP-1242).
    means_cluster = request.cluster_id in (None, context.engine.state.cluster_id)
    if not means_cluster or request.node_id not in (-1, context.node.node_id):
        return ApiVersionsResponse(error_code=RebootstrapRequiredError.code)
    if context.api_version >= 3:
        software = (request.client_software_name, request.client_software_version)
        if not all(_SOFTWARE.fullmatch(text) for text in software):
            return ApiVersionsResponse(error_code=InvalidRequestError.code)
        context.connection.software = software
    return context.engine.apis.answer(context.api_version)


HANDLERS = {ApiVersionsRequest: api_versions}
