"""The requests that make a connection ready: API versions, and then authentication."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ... import errors
from ..._core.connection.session import ENDLESS, session_of
from ..._options.version import __version__
from ..._values import NamedTuple
from ..._wire import ApiVersions, Request, make_codecs
from ..._wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ..._wire.messages.metadata import MetadataRequest
from ...config import ClientConfig
from ..loop import Spawner, in_slices
from .connection import Connection

if TYPE_CHECKING:
    from .login import Login
    from .tls import TlsContexts

SOFTWARE_NAME = "aiokafka-lead"

API_VERSIONS = "ApiVersions"
"""Stage in which a connection waits for the broker's API versions."""

OLDER_VERSION = 3
"""Version of ApiVersions for brokers that close the connection on unknown versions.

It is the first version that contains the client's name (KIP-511).
"""

FIRST_VERSION_THAT_REFUSES = 5
"""First version of ApiVersions with the ids of broker and cluster, for which other brokers refuse it (KIP-1242)."""

FIRST_VERSION_WITH_CLUSTER_ID = 2
"""First version of Metadata with the cluster id."""


class Security(NamedTuple):
    """Security settings of all connections of a client."""

    tls: TlsContexts | None
    login: Login | None
    presents_certificate: bool = False
    """True if the ``ssl_*`` options contain a client certificate. A certificate in ``ssl_context`` is not detected."""

    @classmethod
    def from_config(cls, config: ClientConfig, tasks: Spawner) -> Security:
        """Return the settings for the options ``security_protocol``, ``ssl_*`` and ``sasl_*``.

        ``tasks`` runs the background tasks of logins.
        """
        uses_tls = config.security_protocol.endswith("SSL")
        uses_sasl = config.security_protocol.startswith("SASL_")
        tls = None
        if uses_tls:
            from .tls import new_tls_contexts

            tls = new_tls_contexts(config)
        presents = config.ssl_certfile is not None or config.ssl_certdata is not None
        if not uses_sasl:
            return cls(tls, None, presents)
        from .login import new_login

        return cls(tls, new_login(config, tasks), presents)


class Expected(NamedTuple):
    """The cluster to which a connection must lead, and how this is checked."""

    cluster_id: str
    checked: bool
    """True if the broker should check its own id and its cluster id (KIP-1242).

    Brokers before Kafka 4.4 cannot do this, and are asked for their cluster id instead.
    """
    has_led_astray: bool
    """True if the cluster id should be requested in any case, because the address has led to another cluster before."""


async def shake_hands(
    connection: Connection,
    security: Security,
    hot: Iterable[type[Request[Any]]] = (),
    expected: Expected | None = None,
    *,
    older: bool = False,
) -> None:
    """Make an open connection ready, and create the codecs of the ``hot`` requests. Raises `KafkaError`.

    If ``older`` is True, the first version of ApiVersions is `OLDER_VERSION`. Raises `MisroutedConnectionError` if a
    check finds another broker, or another cluster than ``expected``.
    """
    if connection.node_id < 0:
        expected = None  # bootstrap servers have no known broker ids, and may belong to any cluster
    connection.stage = API_VERSIONS
    first = OLDER_VERSION if older else ApiVersionsRequest.MAX_VERSION
    versions, asked = await _negotiate(connection, security, expected, first)
    offered = (request for request in hot if versions.supports(request))
    await in_slices(make_codecs((request, versions.version_for(request)) for request in offered))
    session = ENDLESS
    if security.login is not None:
        from .login import authenticate

        connection.stage = f"SASL {security.login.mechanism}"
        lifetime_ms, asked_at = await authenticate(connection, versions, security.login)
        session = session_of(lifetime_ms, asked_at, time.monotonic())
    if expected is not None and (expected.has_led_astray or (expected.checked and asked < FIRST_VERSION_THAT_REFUSES)):
        connection.stage = "Metadata"
        await _confirm(connection, versions, expected.cluster_id)
    connection.become_ready(versions, authenticated=security.login is not None, session=session)


async def _negotiate(
    connection: Connection, security: Security, expected: Expected | None, version: int
) -> tuple[ApiVersions, int]:
    """Request the API versions, first with ``version``, then with lower versions if necessary (KIP-511).

    Returns the broker's API versions, and the version of the request that was answered.
    """
    request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=__version__)
    if expected is not None and expected.checked:
        request.cluster_id, request.node_id = expected.cluster_id, connection.node_id
    try:
        response = await connection.exchange(request, version)
        while response.error_code == errors.UnsupportedVersionError.code and version > 0:
            version = _lower_version(response, version)
            response = await connection.exchange(request, version)
    except errors.KafkaConnectionError as error:
        if type(error) is not errors.KafkaConnectionError or security.presents_certificate:
            raise
        if security.tls is None:
            hint = 'if this listener uses TLS, set security_protocol to "SSL" or "SASL_SSL"'
        else:  # with TLS 1.3, a server may close the connection at this point without giving a reason
            hint = "if this listener demands a client certificate, set ssl_certfile"
        raise errors.KafkaConnectionError(f"{error.message}; {hint}", broker=connection.label) from error
    if response.error_code == errors.UnsupportedVersionError.code:
        text = f"the broker refuses every version of ApiVersions, from {ApiVersionsRequest.MAX_VERSION} down to 0"
        raise errors.UnsupportedVersionError(text, broker=connection.label)
    if response.error_code == errors.RebootstrapRequiredError.code and request.cluster_id is not None:
        broker, cluster = request.node_id, request.cluster_id
        text = f"the address leads to another broker than {broker}, or to another cluster than {cluster}"
        raise errors.MisroutedConnectionError(text, broker=connection.label)
    text = "the broker refused ApiVersions"
    try:
        errors.raise_for_code(response.error_code, text, connection.label)
    except errors.UnknownServerError as error:
        # The broker may still be starting, so the client connects again, as Java does.
        raise errors.KafkaConnectionError(f"{text}: {type(error)().message}", broker=connection.label) from error
    return ApiVersions.from_response(response), version


def may_lack_version(connection: Connection, error: errors.KafkaError) -> bool:
    """Return True if the broker may have closed the connection because it does not know the version of ApiVersions.

    Azure Event Hubs and some proxies do this. Apache Kafka brokers answer such a request with an error (KIP-511).
    """
    return connection.stage == API_VERSIONS and type(error) is errors.KafkaConnectionError


def has_newer_version(versions: ApiVersions) -> bool:
    """Return True if the broker supports a later version of ApiVersions than `OLDER_VERSION`."""
    return versions.supports(ApiVersionsRequest, OLDER_VERSION + 1)


def _lower_version(response: ApiVersionsResponse, asked: int) -> int:
    """Return the next version to try after version ``asked`` was refused.

    It is the broker's highest version, or 0 if the response contains none (brokers before 2.4).
    """
    for api in response.api_keys:
        if api.api_key == ApiVersionsRequest.API_KEY and 0 <= api.max_version < asked:
            return api.max_version
    return 0


async def _confirm(connection: Connection, versions: ApiVersions, cluster_id: str) -> None:
    """Raise `MisroutedConnectionError` if the broker does not belong to the expected cluster."""
    version = versions.version_for(MetadataRequest) if versions.supports(MetadataRequest) else 0
    if version < FIRST_VERSION_WITH_CLUSTER_ID:
        return
    found = (await connection.exchange(MetadataRequest(topics=[]), version)).cluster_id
    if found not in (None, cluster_id):
        text = f"the address leads to another cluster than {cluster_id}: to {found}"
        raise errors.MisroutedConnectionError(text, broker=connection.label)
