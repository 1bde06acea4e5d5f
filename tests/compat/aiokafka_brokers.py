"""Brokers for aiokafka's tests, which expect to start them in a container."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiokafka_lead.testing import ClusterThread, EmbeddedCluster, GroupOptions
from tests.kafka.harness import NEWEST, KafkaCluster, Listener

USERS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_test="test";'
PROPERTIES = {
    "num.partitions": "2",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": USERS,
    # As in the tests' container: a user without an access control list may do everything.
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",
}
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")


class Container:
    """Replaces the container of the tests: runs the only script that they call in it."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster

    def exec_run(self, command: str) -> tuple[int, bytes]:
        """Run ``kafka-acls.sh`` with these words; return its status and output."""
        _, *words = command.split()
        zookeeper = words.index("--authorizer-properties")
        words[zookeeper : zookeeper + 2] = ["--bootstrap-server", self._cluster.bootstrap()]
        result = self._cluster.tools.call("org.apache.kafka.tools.AclCommand", *words)
        return result.status, f"{result.stdout}{result.stderr}".encode()


class ScramUsers:
    """Creates users. The tests would create a user for both mechanisms in one request, which Kafka 4 refuses."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster

    def add_scram_user(self, username: str, password: str) -> None:
        """Let a user log in by both mechanisms."""
        for mechanism in SCRAM:
            change = ["--alter", "--add-config", f"{mechanism}=[password={password}]"]
            user = ["--entity-type", "users", "--entity-name", username]
            where = ["--bootstrap-server", self._cluster.bootstrap()]
            self._cluster.tools.run(self._cluster.release.config_tool, *where, *change, *user)


@dataclass(frozen=True, slots=True)
class Brokers:
    """Values that aiokafka's fixtures would provide."""

    port: int
    version: str
    cluster: KafkaCluster | None = None
    ssl_folder: Path | None = None

    def give(self, tests: Any) -> None:
        """Set them on a class of tests."""
        tests.kafka_host, tests.kafka_port = "127.0.0.1", self.port
        tests.hosts = [f"127.0.0.1:{self.port}"]
        tests.kafka_version = self.version
        tests.kerberos_utils = tests.acl_manager = tests.kafka_config = None
        if self.cluster is not None:
            tests.kafka_ssl_port = _port(self.cluster, Listener.SSL)
            tests.kafka_sasl_plain_port = _port(self.cluster, Listener.SASL_PLAINTEXT)
            tests.ssl_folder = self.ssl_folder
            tests.kafka_config = ScramUsers(self.cluster)
            # By now it is the checkout's, which has the commands for a container.
            from tests._testutil import ACLManager  # type: ignore[import-not-found]

            tests.acl_manager = ACLManager(Container(self.cluster), self.version)


@contextmanager
def embedded() -> Iterator[Brokers]:
    """Yield one broker of an embedded cluster."""
    cluster = EmbeddedCluster(brokers=1, num_partitions=2, groups=GroupOptions(min_session_timeout_ms=6000))
    with ClusterThread(cluster) as thread:
        yield Brokers(int(thread.bootstrap_servers.rpartition(":")[2]), "4.0.0")


@contextmanager
def kafka(brokers: int) -> Iterator[Brokers]:
    """Yield this many brokers of a real Apache Kafka, with users and access control lists."""
    cluster = KafkaCluster(NEWEST, brokers=brokers, secure=True, properties=PROPERTIES)
    try:
        cluster.start()
        yield Brokers(_port(cluster, Listener.PLAINTEXT), NEWEST.version, cluster, _ssl_folder(cluster))
    finally:
        cluster.stop()


def _port(cluster: KafkaCluster, listener: Listener) -> int:
    return int(cluster.address(1, listener).rpartition(":")[2])


def _ssl_folder(cluster: KafkaCluster) -> Path:
    """Write the certificates under the names that the tests use."""
    assert cluster.certificates is not None
    folder = cluster.folder / "ssl_cert"
    folder.mkdir()
    (folder / "ca.crt").symlink_to(cluster.certificates.authority)
    for name in ("client.crt", "client.key"):  # one file has both
        (folder / name).symlink_to(cluster.certificates.client_certificate)
    return folder
