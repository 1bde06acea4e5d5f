"""ApiVersions: what this broker serves (KIP-35, KIP-511)."""

from __future__ import annotations

import re

from ..._wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ...errors import InvalidRequestError
from .._server.context import RequestContext

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def api_versions(context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    if context.api_version >= 3:
        software = (request.client_software_name, request.client_software_version)
        if not all(_SOFTWARE.fullmatch(text) for text in software):
            return ApiVersionsResponse(error_code=InvalidRequestError.code)
        context.connection.software = software
    return context.engine.apis.answer(context.api_version)


HANDLERS = {ApiVersionsRequest: api_versions}
