"""Configuration of a test cluster's nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from .certificates import Certificates

USER = "alice"
PASSWORD = "alice-secret"
"""The only user of the SASL listeners, in PLAIN and SCRAM."""


class Listener(Enum):
    """A broker's listener, by its name."""

    PLAINTEXT = "PLAINTEXT"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SSL = "SSL"
    SASL_SSL = "SASL_SSL"
    MUTUAL = "MUTUAL"
    """TLS that requires a client certificate."""
    PROXIED = "PROXIED"
    """Plaintext; brokers advertise another port for it, on which a proxy listens."""

    @property
    def protocol(self) -> str:
        """Return the security protocol in the form of clients' options."""
        return {Listener.MUTUAL: "SSL", Listener.PROXIED: "PLAINTEXT"}.get(self, self.value)


@dataclass(frozen=True, slots=True)
class Kerberos:
    """A realm that knows the service kafka on 127.0.0.1."""

    config: Path
    """Path of the krb5.conf."""
    keytab: Path
    """Keytab with the service's key."""


@dataclass(frozen=True, slots=True)
class TokenIssuer:
    """Issuer of the tokens that brokers accept for OAUTHBEARER."""

    keys: Path
    """Its public keys (JWKS)."""
    name: str
    """``iss`` of the tokens."""
    audience: str
    """``aud`` of the tokens."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the cluster: its id, its roles, and its listeners."""

    node_id: int
    is_controller: bool
    is_broker: bool
    controller_port: int | None
    """Set on controllers."""
    ports: Mapping[Listener, int]
    """Empty on a node that is only a controller."""
    is_spare: bool = False
    """True for a controller that does not vote until it is added to the quorum."""
    proxied_at: int = 0
    """The port advertised for `Listener.PROXIED`; 0 without."""

    def advertised(self, listener: Listener) -> int:
        """Return the port advertised to clients."""
        return self.proxied_at if listener is Listener.PROXIED else self.ports[listener]


_COMMON = {
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": ",".join(
        ["CONTROLLER:PLAINTEXT", *(f"{x.value}:{x.protocol}" for x in Listener)]
    ),
    "inter.broker.listener.name": Listener.PLAINTEXT.value,
    # Small and quick: few threads, small files, no waiting for group members.
    "group.initial.rebalance.delay.ms": "0",
    # Settings of the new group protocol (KIP-848): the defaults of 45 s and 5 s make tests of lost members wait.
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
    # The same for share groups (KIP-932), and locks short enough for tests.
    "group.share.assignment.interval.ms": "0",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.min.session.timeout.ms": "6000",
    "group.share.session.timeout.ms": "6000",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "log.index.size.max.bytes": "1048576",
    # Otherwise brokers delete records with old timestamps at each check, even in active segments.
    "log.retention.ms": "-1",
    "num.io.threads": "4",
    "num.network.threads": "2",
    "offsets.topic.num.partitions": "3",
    "share.coordinator.state.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    # Period of the coordinator's check for overdue transactions; the default of 10 s makes tests wait.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    # Followers serve consumers of their rack (KIP-392).
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    # Every 5 minutes the controller would return leaderships to restarted brokers, in the middle of other tests.
    "auto.leader.rebalance.enable": "false",
    # A dead broker is fenced after this; the default of 9 s makes tests of crashes wait.
    "broker.heartbeat.interval.ms": "1000",
    "broker.session.timeout.ms": "5000",
}


def server_properties(
    node: Node,
    nodes: Iterable[Node],
    folder: str,
    certificates: Certificates | None,
    kerberos: Kerberos | None,
    issuer: TokenIssuer | None,
    extra: Mapping[str, str],
) -> str:
    """Return the text of a node's ``server.properties``; ``extra`` comes last and wins."""
    everyone = list(nodes)
    brokers = sum(each.is_broker for each in everyone)
    copies = str(min(3, brokers))
    roles = [name for name, has in (("broker", node.is_broker), ("controller", node.is_controller)) if has]
    advertised = [f"{listener.value}://127.0.0.1:{node.advertised(listener)}" for listener in node.ports]
    listeners = [f"{listener.value}://127.0.0.1:{port}" for listener, port in node.ports.items()]
    listeners = [*listeners, *([f"CONTROLLER://127.0.0.1:{node.controller_port}"] if node.is_controller else [])]
    properties = {
        **_COMMON,
        **_quorum(everyone),
        "node.id": str(node.node_id),
        "process.roles": ",".join(roles),
        "listeners": ",".join(listeners),
        "log.dirs": folder,
        "broker.rack": f"rack-{node.node_id}",
        "min.insync.replicas": str(max(1, min(2, brokers - 1))),
        "offsets.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": copies,
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.replication.factor": copies,
    }
    if node.is_controller:
        properties |= {"default.replication.factor": copies, "num.partitions": "3"}
    if advertised:
        properties["advertised.listeners"] = ",".join(advertised)
    else:
        del properties["inter.broker.listener.name"]
    if node.ports.keys() - {Listener.PLAINTEXT, Listener.PROXIED}:
        properties |= _sasl(kerberos, issuer)
    if certificates is not None:
        properties |= _tls(certificates)
        properties["delegation.token.secret.key"] = "a secret of the brokers and the controller"
    properties |= extra
    return "".join(f"{name}={value}\n" for name, value in properties.items())


def _quorum(nodes: Iterable[Node]) -> dict[str, str]:
    """Return the settings that name the voters, or only the controllers if there is a spare one (KIP-853)."""
    controllers = [node for node in nodes if node.is_controller]
    voters = {node.node_id: f"127.0.0.1:{node.controller_port}" for node in controllers if not node.is_spare}
    if len(voters) < len(controllers):
        return {"controller.quorum.bootstrap.servers": ",".join(voters.values())}
    return {"controller.quorum.voters": ",".join(f"{node_id}@{address}" for node_id, address in voters.items())}


def _sasl(kerberos: Kerberos | None, issuer: TokenIssuer | None) -> dict[str, str]:
    security = "org.apache.kafka.common.security"
    logins = {
        "plain": f'{security}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
        "scram-sha-256": f"{security}.scram.ScramLoginModule required;",
        "scram-sha-512": f"{security}.scram.ScramLoginModule required;",
    }
    properties = {}
    if kerberos is not None:
        logins["gssapi"] = (
            "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
            f'keyTab="{kerberos.keytab}" principal="kafka/127.0.0.1";'
        )
        properties["sasl.kerberos.service.name"] = "kafka"
    if issuer is not None:
        logins["oauthbearer"] = f"{security}.oauthbearer.OAuthBearerLoginModule required;"
        validator = {
            "sasl.server.callback.handler.class": f"{security}.oauthbearer.OAuthBearerValidatorCallbackHandler",
            "sasl.oauthbearer.jwks.endpoint.url": issuer.keys.as_uri(),
            "sasl.oauthbearer.expected.issuer": issuer.name,
            "sasl.oauthbearer.expected.audience": issuer.audience,
        }
        properties |= {
            f"listener.name.{listener.value.lower()}.oauthbearer.{name}": value
            for listener in (Listener.SASL_PLAINTEXT, Listener.SASL_SSL)
            for name, value in validator.items()
        }
    properties["sasl.enabled.mechanisms"] = ",".join(logins).upper()
    return properties | {
        f"listener.name.{listener.value.lower()}.{mechanism}.sasl.jaas.config": login
        for listener in (Listener.SASL_PLAINTEXT, Listener.SASL_SSL)
        for mechanism, login in logins.items()
    }


def _tls(certificates: Certificates) -> dict[str, str]:
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.keystore),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
        "listener.name.ssl.ssl.client.auth": "requested",
        # The other listeners take TLS 1.3 as well.
        "listener.name.sasl_ssl.ssl.enabled.protocols": "TLSv1.2",
        "listener.name.mutual.ssl.client.auth": "required",
    }
