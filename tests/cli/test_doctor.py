"""``aiokafka-lead doctor`` names the fault and its remedy; ``configs``."""

from __future__ import annotations

import datetime
import socket
import ssl
from pathlib import Path

import pytest
import trustme
from anyio.from_thread import start_blocking_portal

from aiokafka_lead.testing import ClusterThread, EmbeddedCluster

from ..io.late_names import LateNames
from ..names import resolving
from ..proxies import proxy
from .conftest import CommandLine, Ran

NOW = datetime.datetime.now(datetime.UTC)


def context(ca: trustme.CA, *, expired: bool = False) -> ssl.SSLContext:
    """Return the TLS context of a broker."""
    until = NOW - datetime.timedelta(days=1) if expired else None
    certificate = ca.issue_cert("127.0.0.1", "localhost", not_after=until)
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(made)
    return made


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def doctor(cli: CommandLine, tmp_path: Path, ca: trustme.CA) -> Doctor:
    authority = tmp_path / "ca.pem"
    ca.cert_pem.write_to_path(authority)
    return Doctor(cli, authority)


class Doctor:
    """Runs the doctor against a cluster."""

    def __init__(self, cli: CommandLine, authority: Path) -> None:
        self._cli = cli
        self.authority = str(authority)

    def __call__(self, servers: str, *options: str) -> Ran:
        given = [word for option in options for word in ("-X", option)]
        return self._cli("doctor", "-b", servers, "--watch", "0s", "--json", *given)

    def error(self, servers: str, *options: str) -> dict[str, str]:
        """Return the only error."""
        ran = self(servers, *options)
        found: list[dict[str, str]] = [each for each in ran.json if each["level"] == "error"]
        assert (ran.code, len(found)) == (1, 1), ran.out + ran.err
        return found[0]


def test_a_healthy_cluster(doctor: Doctor, cli: CommandLine, cluster: ClusterThread) -> None:
    cluster.create_topic("healthy", 3)
    ran = doctor(cluster.bootstrap_servers)
    assert ran.code == 0, ran.out
    assert {each["level"] for each in ran.json} == {"ok"}
    text = cli.fine("doctor", "--watch", "0s").out
    assert "have a leader and all their replicas in sync" in text


def test_a_wrong_advertised_listener(doctor: Doctor) -> None:
    with ClusterThread(EmbeddedCluster(1, advertised_host="nowhere.invalid")) as cluster:
        port = cluster.bootstrap_servers.rpartition(":")[2]
        found = doctor.error(f"127.0.0.1:{port}")
    assert "advertised listener of broker 1 nowhere.invalid" in found["what"]
    assert "does not resolve" in found["what"]
    assert "advertised.listeners" in found["cure"]


@pytest.mark.parametrize("release", ["4.4", "older"])
def test_an_address_that_leads_to_another_broker(doctor: Doctor, release: str) -> None:
    with ClusterThread(EmbeddedCluster(3)) as cluster:
        if release == "older":
            cluster.max_versions = {"ApiVersions": 4}
        cluster.lead_astray(2, 3)
        where = cluster.address(2)
        found = doctor.error(cluster.address(1))
    assert found["what"] == f"advertised listener of broker 2 {where} leads to broker 3"
    assert found["cure"].endswith(f"{where} must lead to broker 2")


def test_a_misled_address_is_found_though_brokers_do_not_name_themselves(doctor: Doctor) -> None:
    with ClusterThread(EmbeddedCluster(3)) as cluster:
        cluster.max_versions = {"DescribeConfigs": -1}
        cluster.lead_astray(2, 3)
        found = doctor.error(cluster.address(1))
    assert found["what"].endswith("leads to another broker")


def test_bootstrap_servers_of_two_clusters(doctor: Doctor, cluster: ClusterThread) -> None:
    with ClusterThread(EmbeddedCluster(1, cluster_id="theirs")) as other:
        found = doctor.error(f"{cluster.address(1)},{other.address(1)}")
        assert found["what"].startswith(f"bootstrap server {other.address(1)} leads to cluster theirs")


def test_behind_a_proxy(doctor: Doctor, cluster: ClusterThread) -> None:
    port = cluster.address(1).rpartition(":")[2]
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(proxy()) as way:
        way.names["inside.test"] = "127.0.0.1"
        ran = doctor(f"inside.test:{port}", f"proxy_url=socks5://127.0.0.1:{way.port}")
        assert ran.code == 0, ran.out
        assert ran.json[0]["what"].startswith(f"proxy 127.0.0.1:{way.port}")
    found = doctor.error(f"inside.test:{port}", f"proxy_url=socks5://127.0.0.1:{way.port}")
    assert found["what"].startswith(f"proxy 127.0.0.1:{way.port}")


def test_tls_mismatch(doctor: Doctor, ca: trustme.CA, cluster: ClusterThread) -> None:
    with ClusterThread(EmbeddedCluster(1, ssl_context=context(ca))) as secured:
        found = doctor.error(secured.bootstrap_servers, "request_timeout_ms=3000")
        assert "TLS mismatch: the listener speaks TLS" in found["what"]
        assert "security_protocol to SSL" in found["cure"]
    found = doctor.error(
        cluster.address(1), "security_protocol=SSL", f"ssl_cafile={doctor.authority}", "request_timeout_ms=3000"
    )
    assert "TLS mismatch: the listener speaks no TLS" in found["what"]
    assert "security_protocol to PLAINTEXT" in found["cure"]


def test_a_wrong_mechanism_and_a_wrong_password(doctor: Doctor, cli: CommandLine) -> None:
    options = ("security_protocol=SASL_PLAINTEXT", "sasl_mechanism=SCRAM-SHA-256", "sasl_plain_username=alice")
    cli.environment["AIOKAFKA_LEAD_SASL_PLAIN_PASSWORD"] = "wrong"
    with ClusterThread(EmbeddedCluster(1, oauth_validator=lambda *_: None)) as cluster:
        found = doctor.error(cluster.bootstrap_servers, *options)
        assert "SCRAM-SHA-256 is not offered" in found["what"]
        assert "OAUTHBEARER" in found["what"]
        assert "sasl_mechanism" in found["cure"]
    with ClusterThread(EmbeddedCluster(1, sasl_users={"alice": "secret"})) as cluster:
        found = doctor.error(cluster.bootstrap_servers, *options)
        assert "the login failed" in found["what"]
        assert "password" in found["cure"]


def test_a_dead_broker(doctor: Doctor) -> None:
    with ClusterThread(EmbeddedCluster(2)) as cluster:
        cluster.create_topic("t", 2)
        alive, dead = cluster.address(1), cluster.address(2)
        cluster.stop_broker(2)
        ran = doctor(f"{dead},{alive}")
    errors = {each["what"]: each["cure"] for each in ran.json if each["level"] == "error"}
    assert ran.code == 1
    assert any(f"bootstrap server {dead}" in what and "connection failed" in what for what in errors)
    assert errors["broker 2 has replicas, but is not in the cluster"] == "start broker 2, or reassign its partitions"


def test_what_was_found_is_shown_although_the_checks_end_early(doctor: Doctor, cli: CommandLine) -> None:
    with ClusterThread(EmbeddedCluster(1)) as cluster:
        cluster.faults.add("Metadata", when=lambda record: record.request.topics is None, drop=True)
        ran = cli("doctor", "-b", cluster.bootstrap_servers, "--timeout", "1s", "--json")
    assert ran.code == 3, ran.err
    assert any(each["what"].startswith("features:") for each in ran.json), ran.out


def test_an_expired_certificate_and_an_unknown_authority(doctor: Doctor, ca: trustme.CA) -> None:
    options = ("security_protocol=SSL", f"ssl_cafile={doctor.authority}")
    with ClusterThread(EmbeddedCluster(1, ssl_context=context(ca, expired=True))) as cluster:
        found = doctor.error(cluster.bootstrap_servers, *options)
        assert "expired" in found["what"]
        assert "renew the certificate" in found["cure"]
    with ClusterThread(EmbeddedCluster(1, ssl_context=context(trustme.CA()))) as cluster:
        found = doctor.error(cluster.bootstrap_servers, *options)
        assert "ssl_cafile" in found["cure"]


def test_nobody_listens_and_nobody_is_called_so(doctor: Doctor) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        found = doctor.error(f"127.0.0.1:{closed.getsockname()[1]}")
    assert found["what"].endswith("connection failed: connection refused")
    assert "DNS" in doctor.error("nowhere.invalid:9092")["cure"]


def test_name_servers_that_are_silent(doctor: Doctor, cli: CommandLine) -> None:
    silent = LateNames(silent=True)
    with resolving(silent):
        try:
            assert doctor.error("kafka.test:9092")["what"].endswith("no name server answered within 5 s")
            assert cli("topics", "list", "-b", "kafka.test:9092", "--timeout", "1s").code == 3
            assert (silent.lookups["kafka.test"] > 1, silent.answered) == (True, 0)
        finally:
            silent.come()


def test_configs(cli: CommandLine, cluster: ClusterThread) -> None:
    cluster.create_topic("configured", 1)
    cli.fine("configs", "set", "topic", "configured", "retention.ms=1000", "cleanup.policy=compact", "--dry-run")
    assert cli.fine("configs", "show", "topic", "configured", "--json").json == []
    cli.fine("configs", "set", "topic", "configured", "retention.ms=1000", "cleanup.policy+=compact")
    found = {row["name"]: row["value"] for row in cli.fine("configs", "show", "topic", "configured", "--json").json}
    assert found == {"retention.ms": "1000", "cleanup.policy": "delete,compact"}
    cli.fine("configs", "set", "topic", "configured", "retention.ms-")
    assert "retention.ms" not in cli.fine("configs", "show", "topic", "configured").out
    assert "retention.ms" in cli.fine("configs", "show", "topic", "configured", "--all").out
    assert cli("configs", "show", "planet", "earth").code == 2
    nowhere = cli("configs", "show", "broker", "99")
    assert (nowhere.code, "no broker 99: the cluster has 1, 2, 3" in nowhere.err) == (1, True)
    assert cli("configs", "set", "topic", "configured", "retention.ms").code == 2
    assert cli("configs", "set", "topic", "configured", "retention.ms=soon").code == 1
