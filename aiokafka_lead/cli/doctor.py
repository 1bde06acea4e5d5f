"""``aiokafka-lead doctor``: finds problems of a cluster and of the connection to it, and suggests remedies."""

from __future__ import annotations

import ipaddress
import os
import re
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import anyio
import typer
from anyio.abc import SocketStream
from anyio.streams.tls import TLSStream

from .. import errors
from .._core.metadata.types import Broker, ClusterSnapshot
from .._io.connection.transport.anyio_transport import AnyioTransport
from .._io.connection.transport.dial import AddressInfo, race, resolve
from ..admin import AdminClient, ConfigResource, ConfigResourceType, TopicDescription
from ..config import ClientConfig
from .failures import Failed
from .places import span
from .registering import add
from .session import Session

Level = Literal["ok", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of a check: what was found and, unless the level is ``"ok"``, a remedy."""

    level: Level
    what: str
    cure: str = ""

    def row(self) -> dict[str, Any]:
        return {"level": self.level, "what": self.what, "cure": self.cure or None}


class Findings(list[Finding]):
    """All findings, in the order of the checks."""

    def ok(self, what: str) -> None:
        self.append(Finding("ok", what))

    def warning(self, what: str, cure: str) -> None:
        self.append(Finding("warning", what, cure))

    def error(self, what: str, cure: str) -> None:
        self.append(Finding("error", what, cure))

    @property
    def failed(self) -> bool:
        """True if any finding is an error."""
        return any(finding.level == "error" for finding in self)


_PATIENCE_S = 5.0


class _Refusals:
    """Collects the connection errors of a host's addresses."""

    def __init__(self) -> None:
        self._reasons: list[str] = []

    def begin(self, address: str, /) -> None:
        pass

    def refused(self, address: str, error: errors.KafkaConnectionError, /) -> None:
        cause = error.__cause__
        code = cause.errno if isinstance(cause, OSError) else None
        self._reasons.append(os.strerror(code).lower() if code else error.message)

    def __str__(self) -> str:
        """Return the distinct reasons, separated by commas."""
        return ", ".join(dict.fromkeys(self._reasons))


async def connect(addresses: Mapping[str, AddressInfo], refusals: _Refusals) -> SocketStream:
    """Connect to one of the addresses of a host. Store the failures of the others in ``refusals``.

    Raises `KafkaConnectionError` or TimeoutError if all of them fail.
    """
    with anyio.fail_after(_PATIENCE_S):
        _, stream = await race(addresses, AnyioTransport.connect, AnyioTransport.drop, refusals)
    return stream


async def speaks_tls(host: str, port: int) -> bool:
    """Return True if the server takes part in a TLS handshake, regardless of its certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # safe, because this connection carries no data
    try:
        with anyio.fail_after(_PATIENCE_S):
            stream = await connect(await resolve(host, port), _Refusals())
            try:
                await TLSStream.wrap(stream, hostname=host, ssl_context=context, standard_compatible=False)
            finally:
                await anyio.aclose_forcefully(stream)
    except ssl.SSLError as error:
        # Only a peer that speaks TLS sends an alert, for example because it requires a client certificate.
        return "ALERT" in str(error).upper()
    except (OSError, errors.KafkaConnectionError, anyio.EndOfStream, anyio.BrokenResourceError, TimeoutError):
        return False
    return True


async def login_failure(error: errors.KafkaError, config: ClientConfig, where: str, host: str, port: int) -> Finding:
    """Return a finding, with a remedy, for an error that occurred while a connection was set up.

    ``where`` describes the server in the finding.
    """
    protocol = config.security_protocol
    with_tls = protocol.endswith("SSL")
    if isinstance(error, errors.UnsupportedSaslMechanismError):
        return Finding(
            "error",
            f"{where}: SASL mechanism {config.sasl_mechanism} is not offered: {error}",
            "set sasl_mechanism to a mechanism that the broker offers (sasl.enabled.mechanisms)",
        )
    if isinstance(error, errors.SaslAuthenticationFailedError):
        return Finding(
            "error",
            f"{where}: the login failed: {error}",
            "check the user, password and mechanism; the broker's log has more details than its response",
        )
    tls_there = with_tls if config.proxy_url else await speaks_tls(host, port)
    if tls_there != with_tls:
        there, here = ("TLS", "SSL") if tls_there else ("no TLS", "PLAINTEXT")
        wanted = protocol.replace("PLAINTEXT", "SSL") if tls_there else protocol.replace("SSL", "PLAINTEXT")
        return Finding(
            "error",
            f"{where}: TLS mismatch: the listener speaks {there}, but security_protocol is {protocol}",
            f"set security_protocol to {wanted if wanted != protocol else here}, or use the port of another listener",
        )
    if isinstance(error, errors.SslAuthenticationError):
        return _certificate(error, where)
    return Finding(
        "error",
        f"{where}: {error}",
        "check that a Kafka broker listens at this address, with the protocol in security_protocol",
    )


def _certificate(error: errors.SslAuthenticationError, where: str) -> Finding:
    text = str(error)
    said = text.lower()
    if "expired" in said:
        cure = "renew the certificate; if it has not expired, correct the clock of this machine"
    elif "hostname" in said or "ip address mismatch" in said:
        cure = "use a certificate whose subjectAltName contains this host name or address"
    elif "self-signed" in said or "self signed" in said or "unable to get" in said:
        cure = "set ssl_cafile to the certificate of the authority that signed the broker's certificate"
    elif "alert" in said or "certificate required" in said:
        cure = "set ssl_certfile and ssl_keyfile to a client certificate that the broker accepts"
    else:
        cure = "compare the broker's certificate (openssl s_client -connect) with ssl_cafile"
    return Finding("error", f"{where}: TLS failed: {text}", cure)


_SKEW_MS = 1_000
_SLOW_MS = 250.0
_ROUND_TRIPS = 3
_NAMED_AT_MOST = 5
_STYLES = {"ok": "green", "warning": "yellow", "error": "bold red"}


def register(app: typer.Typer) -> None:
    """Add the command ``doctor`` to ``app``."""
    add(app, "doctor", doctor)


async def doctor(
    session: Session,
    watch: Annotated[str, typer.Option("--watch", help="How long to watch for leader moves.")] = "3s",
) -> None:
    """Find problems of the cluster and of the connection to it, and suggest remedies.

    Checks host names, advertised addresses, TLS, SASL, round trips, features, clocks and replicas. Exits with code 1 if
    it finds an error.
    """
    seconds = span("--watch", watch)
    config = session.config()
    findings = Findings()
    try:
        reached = await _bootstrap(session, config, findings) if await _proxy(config, findings) else None
        if reached is not None:
            async with session.admin(bootstrap_servers=reached) as admin:
                await _cluster(session, admin, findings, seconds)
    finally:  # after an error or a signal, the findings show the reason, or at least how far the checks got
        _show(session, findings)
    if findings.failed:
        raise Failed


def _show(session: Session, findings: Findings) -> None:
    if session.out.as_json:
        session.out.json([finding.row() for finding in findings])
        return
    for finding in findings:
        _print(session, finding)


def _print(session: Session, finding: Finding) -> None:
    session.out.marked(finding.level, _STYLES[finding.level], finding.what)
    if finding.cure:
        session.out.marked("     ->", "", finding.cure)


async def _proxy(config: ClientConfig, findings: Findings) -> bool:
    """Check the proxy, if the options name one. Return False if it cannot be reached.

    Brokers behind a proxy are checked only with Kafka requests.
    """
    if config.proxy_url is None:
        return True
    split = urlsplit(config.proxy_url)
    host, port = split.hostname or "", split.port or 0
    return await _reachable(_address(host, port), host, port, "proxy", findings)


async def _bootstrap(session: Session, config: ClientConfig, findings: Findings) -> str | None:
    """Check each bootstrap server separately. Return the address of the first usable server, or None."""
    usable: str | None = None
    first_id: str | None = None
    for host, port in config.bootstrap_servers:
        where = _address(host, port)
        if config.proxy_url is None and not await _reachable(where, host, port, "bootstrap server", findings):
            continue
        began = time.perf_counter()
        try:
            async with session.admin(bootstrap_servers=where) as admin:
                elapsed = (time.perf_counter() - began) * 1000
                cluster_id = _view(admin).cluster_id
        except errors.KafkaError as error:
            findings.append(await login_failure(error, config, where, host, port))
            continue
        if usable is None:
            usable, first_id = where, cluster_id
        if cluster_id == first_id:
            findings.ok(f"bootstrap server {where}: {_spoken(config)}, ready in {elapsed:.0f} ms")
        else:
            findings.error(
                f"bootstrap server {where} leads to cluster {cluster_id}, and {usable} to cluster {first_id}",
                "list only servers of one cluster; if you do, check the DNS names, proxies and load balancers",
            )
    return usable


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _spoken(config: ClientConfig) -> str:
    mechanism = "" if config.sasl_mechanism is None else f" with {config.sasl_mechanism}"
    return f"{config.security_protocol}{mechanism}"


async def _reachable(where: str, host: str, port: int, called: str, findings: Findings) -> bool:
    """Report whether the name resolves and a connection can be opened. Return True if both succeed."""
    try:
        with anyio.fail_after(_PATIENCE_S):
            addresses = await resolve(host, port)
    except (errors.KafkaConnectionError, TimeoutError) as error:
        findings.error(
            f"{called} {where}: the name {host} does not resolve: {_unresolved(error)}",
            "check the spelling, the DNS server and the search domain; `getent hosts` must find the name",
        )
        return False
    refusals = _Refusals()
    began = time.perf_counter()
    try:
        stream = await connect(addresses, refusals)
    except (errors.KafkaConnectionError, TimeoutError):
        findings.error(
            f"{called} {where} ({', '.join(addresses)}): connection failed: {str(refusals) or 'no answer'}",
            "start the broker if it is down; otherwise check the port, and firewalls on the way",
        )
        return False
    elapsed = (time.perf_counter() - began) * 1000
    await stream.aclose()
    findings.ok(f"{called} {where}: {', '.join(addresses)}, connected in {elapsed:.0f} ms")
    return True


def _unresolved(error: errors.KafkaConnectionError | TimeoutError) -> str:
    if isinstance(error, TimeoutError):
        return f"no name server answered within {_PATIENCE_S:g} s"
    cause = error.__cause__
    return cause.strerror if isinstance(cause, OSError) and cause.strerror else error.message


async def _cluster(session: Session, admin: AdminClient, findings: Findings, seconds: float) -> None:
    cluster = _view(admin)
    names = ", ".join(map(str, sorted(cluster.brokers)))
    findings.ok(f"cluster {cluster.cluster_id}: brokers {names}; controller {cluster.controller_id}")
    local = all(_is_local(host) for host, _ in session.config().bootstrap_servers)
    usable = [
        await _broker(session, broker, cluster.cluster_id, local, findings)
        for _, broker in sorted(cluster.brokers.items())
    ]
    if any(usable):
        await _versions(admin, findings)
        await _clock(admin, findings)
        await _replicas(admin, set(cluster.brokers), findings, seconds)


def _view(admin: AdminClient) -> ClusterSnapshot:
    """Return the metadata from the bootstrap server.

    A new metadata request could go to an advertised address, which may not work and has not been checked yet.
    """
    return admin._client.metadata.snapshot


async def _broker(session: Session, broker: Broker, cluster_id: str | None, local: bool, findings: Findings) -> bool:
    """Check this broker at its advertised address, which clients use after bootstrapping.

    Returns True if it responds there. ``local`` is True if the bootstrap servers are on this machine.
    """
    where = _address(broker.host, broker.port)
    called = f"advertised listener of broker {broker.node_id}"
    cure = (
        f"start broker {broker.node_id} if it is down; otherwise set its advertised.listeners to an address that"
        f" clients can reach, instead of {where}"
    )
    mine = Findings()
    direct = session.config().proxy_url is None
    if direct and not await _reachable(where, broker.host, broker.port, called, mine):
        hint = (
            "; only one of this address and the bootstrap address is local" if _is_local(broker.host) != local else ""
        )
        findings.error(mine[-1].what + hint, cure)
        return False
    round_trip_ms = 0.0
    try:
        async with session.admin(bootstrap_servers=where, metadata_cluster_check_enable=False) as admin:
            there = _view(admin).cluster_id
            if there != cluster_id:
                findings.error(f"{called} {where} leads to another cluster, {there}", cure)
                return False
            answering = await _answering(admin, broker.node_id)
            round_trip_ms = await _round_trip_ms(admin, broker.node_id)
        if answering is None:
            await _checked(session, where, broker.node_id)
    except errors.KafkaError as error:
        reason = error.__cause__ if isinstance(error.__cause__, errors.KafkaError) else error  # of the last attempt
        if not isinstance(reason, errors.MisroutedConnectionError):
            findings.append(await login_failure(reason, session.config(), where, broker.host, broker.port))
            return False
        answering = "another broker"
    if answering is not None:
        findings.error(
            f"{called} {where} leads to {answering}",
            f"check the DNS name, proxy or load balancer: {where} must lead to broker {broker.node_id}",
        )
        return False
    text = f"{called} {where}: round trip {round_trip_ms:.1f} ms"
    if round_trip_ms > _SLOW_MS:
        findings.warning(
            text, "no record is acknowledged faster than that; move the client closer, or use larger batches"
        )
    else:
        findings.ok(text)
    return True


async def _round_trip_ms(admin: AdminClient, broker_id: int) -> float:
    """Return the shortest of several round trips to a broker, in milliseconds."""
    times = []
    for _ in range(_ROUND_TRIPS):
        began = time.perf_counter()
        await admin.describe_features(broker_id=broker_id, timeout_ms=_PATIENCE_S * 1000)
        times.append((time.perf_counter() - began) * 1000)
    return min(times)


async def _answering(admin: AdminClient, broker_id: int) -> str | None:
    """Return the name of another broker that responds at this broker's address, or None if none was detected.

    A broker refuses to describe the configuration of another broker, and its error contains its own id. This needs
    DescribeConfigs permission on the cluster. Without it, the result is None.
    """
    try:
        resource = ConfigResource(ConfigResourceType.BROKER, str(broker_id))
        await admin.describe_configs([resource], names=["node.id"], timeout_ms=_PATIENCE_S * 1000)
    except errors.InvalidRequestError as error:
        named = re.search(r"expected (\d+)", error.message)
        return f"broker {named[1]}" if named else "another broker"
    except (errors.ClusterAuthorizationFailedError, errors.UnsupportedVersionError):
        pass
    return None


async def _checked(session: Session, where: str, broker_id: int) -> None:
    """Raise an error if another broker responds at this address (KIP-1242, from Kafka 4.4 on)."""
    checks = {"metadata_cluster_check_enable": True, "metadata_recovery_strategy": "rebootstrap"}
    async with session.admin(bootstrap_servers=where, **checks) as admin:
        await admin.describe_features(broker_id=broker_id, timeout_ms=_PATIENCE_S * 1000)


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _versions(admin: AdminClient, findings: Findings) -> None:
    features = await admin.describe_features()
    levels = ", ".join(f"{name} {level}" for name, level in sorted(features.finalized.items()))
    findings.ok(f"features: {levels or 'none finalized'}")


async def _clock(admin: AdminClient, findings: Findings) -> None:
    """Compare the clocks of this machine and of the controller.

    In the description of the quorum, the leader's ``last_caught_up_ms`` is the controller's current time.
    """
    try:
        began_ms = time.time() * 1000
        quorum = await admin.describe_metadata_quorum()
        ended_ms = time.time() * 1000
    except (errors.UnsupportedVersionError, errors.KafkaError):
        return  # before Kafka 3.3, or not authorized
    leader = next((each for each in quorum.voters if each.replica_id == quorum.leader_id), None)
    if leader is None or leader.last_caught_up_ms is None:
        return
    skew_ms = leader.last_caught_up_ms - (began_ms + ended_ms) / 2
    text = f"clock: the controller's clock is {abs(skew_ms):.0f} ms {'ahead' if skew_ms > 0 else 'behind'}"
    if abs(skew_ms) > _SKEW_MS + (ended_ms - began_ms):
        findings.warning(
            text, "run NTP on both machines: timestamps, retention, tokens and certificates depend on the clock"
        )
    else:
        findings.ok(text)


async def _replicas(admin: AdminClient, alive: set[int], findings: Findings, seconds: float) -> None:
    """Check that all replicas are alive and in sync, and that no leader moves within ``seconds``."""
    before = await admin.describe_topics()
    everything = [(topic, partition) for topic in before.values() for partition in topic.partitions]
    lost = [f"{topic.name}-{partition.partition}" for topic, partition in everything if partition.leader_id < 0]
    behind = [
        f"{topic.name}-{partition.partition}"
        for topic, partition in everything
        if len(partition.isr) < len(partition.replicas)
    ]
    dead = sorted({replica for _, partition in everything for replica in partition.replicas} - alive)
    for broker in dead:
        findings.error(
            f"broker {broker} has replicas, but is not in the cluster",
            f"start broker {broker}, or reassign its partitions",
        )
    if lost:
        findings.error(f"no leader: {_some(lost)}", "start the brokers with the in-sync replicas of these partitions")
    if behind:
        findings.warning(
            f"replicas out of sync: {_some(behind)}", "start the brokers that are down, and check the slow brokers"
        )
    if not lost and not behind:
        findings.ok(f"replicas: all {len(everything)} partitions have a leader and all their replicas in sync")
    await anyio.sleep(seconds)
    after = await admin.describe_topics()
    moved = _moves(before, after)
    if moved:
        text = f"leaders moved within {seconds:g} s: {_some(moved)}"
        findings.warning(
            text, "this is normal while brokers restart; if leaders keep moving, check the health of the brokers"
        )
    else:
        findings.ok(f"leaders: none moved within {seconds:g} s")


def _moves(before: dict[str, TopicDescription], after: dict[str, TopicDescription]) -> list[str]:
    old = {
        (topic.name, partition.partition): partition.leader_epoch
        for topic in before.values()
        for partition in topic.partitions
    }
    return [
        f"{topic.name}-{partition.partition}"
        for topic in after.values()
        for partition in topic.partitions
        if partition.leader_epoch > old.get((topic.name, partition.partition), partition.leader_epoch)
    ]


def _some(names: list[str]) -> str:
    rest = len(names) - _NAMED_AT_MOST
    return ", ".join(names[:_NAMED_AT_MOST]) + (f" and {rest} more" if rest > 0 else "")
