"""The exchange before a connection is ready: versions first, then authentication."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..._core.connection.session import ENDLESS, session_of
from ..._options.version import __version__
from ..._values import NamedTuple
from ..._wire import ApiVersions, Request, make_codecs
from ..._wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ...config import ClientConfig
from ...errors import (
    KafkaConnectionError,
    MisroutedConnectionError,
    RebootstrapRequiredError,
    UnsupportedVersionError,
    raise_for_code,
)
from ..loop import Spawner, in_slices
from .connection import Connection
from .tls import TlsContexts, new_tls_contexts

if TYPE_CHECKING:
    from .login import Login

SOFTWARE_NAME = "aiokafka-lead"


class Security(NamedTuple):
    """Security options; one object serves all connections of a client."""

    tls: TlsContexts | None
    login: Login | None
    presents_certificate: bool = False
    """True if the ``ssl_*`` options name a certificate; one inside ``ssl_context`` is not detected."""

    @classmethod
    def from_config(cls, config: ClientConfig, tasks: Spawner) -> Security:
        """Create it from the ``security_protocol``, ``ssl_*`` and ``sasl_*`` options; logins may run tasks."""
        uses_tls = config.security_protocol.endswith("SSL")
        uses_sasl = config.security_protocol.startswith("SASL_")
        tls = new_tls_contexts(config) if uses_tls else None
        presents = config.ssl_certfile is not None or config.ssl_certdata is not None
        if not uses_sasl:
            return cls(tls, None, presents)
        from .login import new_login  # not imported without authentication, because it is slow

        return cls(tls, new_login(config, tasks), presents)


async def shake_hands(
    connection: Connection,
    security: Security,
    hot: Iterable[type[Request[Any]]] = (),
    cluster_id: str | None = None,
) -> None:
    """Make an open connection ready, and the codecs of ``hot`` requests, or raise `KafkaError`.

    With a ``cluster_id`` the broker is asked to refuse if it is another one, or belongs to another cluster: then
    `MisroutedConnectionError` is raised. Brokers before Kafka 4.4 do not know that question.
    """
    connection.stage = "ApiVersions"
    versions = await _negotiate(connection, security, cluster_id)
    offered = (request for request in hot if versions.supports(request))
    await in_slices(make_codecs((request, versions.version_for(request)) for request in offered))
    session = ENDLESS
    if security.login is not None:
        from .authentication import authenticate  # as above

        connection.stage = f"SASL {security.login.mechanism}"
        lifetime_ms, asked_at = await authenticate(connection, versions, security.login)
        session = session_of(lifetime_ms, asked_at, time.monotonic())
    connection.become_ready(versions, authenticated=security.login is not None, session=session)


async def _negotiate(connection: Connection, security: Security, cluster_id: str | None) -> ApiVersions:
    """Ask with the latest version, and with lower ones as long as the broker does not know them (KIP-511)."""
    request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=__version__)
    if cluster_id is not None and connection.node_id >= 0:  # bootstrap servers have no known broker ids
        request.cluster_id, request.node_id = cluster_id, connection.node_id
    version = ApiVersionsRequest.MAX_VERSION
    try:
        response = await connection.exchange(request, version)
        while response.error_code == UnsupportedVersionError.code and version > 0:
            version = _lower_version(response, version)
            response = await connection.exchange(request, version)
    except KafkaConnectionError as error:
        if type(error) is not KafkaConnectionError or security.presents_certificate:
            raise
        if security.tls is None:
            hint = 'if this listener uses TLS, set security_protocol to "SSL" or "SASL_SSL"'
        else:  # with TLS 1.3 a server may end the connection now, without a reason
            hint = "if this listener demands a client certificate, set ssl_certfile"
        raise KafkaConnectionError(f"{error.message}; {hint}", broker=connection.label) from error
    if response.error_code == UnsupportedVersionError.code:
        text = f"the broker refuses every version of ApiVersions, from {ApiVersionsRequest.MAX_VERSION} down to 0"
        raise UnsupportedVersionError(text, broker=connection.label)
    if response.error_code == RebootstrapRequiredError.code and request.cluster_id is not None:
        text = f"the address leads to another broker than {request.node_id}, or to another cluster than {cluster_id}"
        raise MisroutedConnectionError(text, broker=connection.label)
    raise_for_code(response.error_code, "the broker refused ApiVersions", connection.label)
    return ApiVersions.from_response(response)


def _lower_version(response: ApiVersionsResponse, asked: int) -> int:
    """Return the version to ask with next: the broker's highest, or 0 if that is unreadable (before 2.4: not sent)."""
    for api in response.api_keys:
        if api.api_key == ApiVersionsRequest.API_KEY and 0 <= api.max_version < asked:
            return api.max_version
    return 0
