"""A real Apache Kafka cluster (KRaft) on this machine, for the length of a test run."""

from __future__ import annotations

import functools
import json
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final

import confluent_kafka
from confluent_kafka import ElectionType, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ...ports import PortPool
from . import java
from .certificates import Certificates
from .processes import Processes, freeze, wait_until
from .releases import NEWEST, Release
from .settings import PASSWORD, USER, Kerberos, Listener, Node, TokenIssuer, server_properties
from .tools import Tools

_CONTROLLER_ID: Final = 100
_SPARE_ID: Final = 101
CLUSTER_ID: Final = "YWlva2Fma2EtbGVhZC10ZQ"
_START_TIMEOUT_S: Final = 120
_CHANGE_TIMEOUT_S: Final = 90
"""Bound on changes that take brokers a moment, unless the machine stalls."""
_START_ATTEMPTS: Final = 3
_LOG_LINE: Final = 300
_ALLOWED_URLS: Final = "org.apache.kafka.sasl.oauthbearer.allowed.urls"


class KafkaCluster:
    """A controller and ``brokers`` brokers, one JVM each. If ``lean``, or with one broker, broker 1 is the controller.

    Brokers have the ids 1, 2, ... and the racks "rack-1", "rack-2", .... All methods block, and may be called from any
    thread.

    - ``secure``: each broker has all listeners of `Listener` instead of only PLAINTEXT.
    - ``kerberos``, ``issuer``: the SASL listeners also accept GSSAPI, or OAUTHBEARER.
    - ``properties``: added to every node's configuration.
    - ``plugin``: a Java source file, added to the class path.
    - ``heap_mib``, ``optimise``: for long runs, with a JVM that compiles well, but late.
    - ``spare``: an additional controller that does not vote yet; the quorum may be changed.
    - ``proxied``: brokers have the listener `Listener.PROXIED`.
    - ``flags``: options of the JVMs, instead of options for a quick start.
    """

    def __init__(
        self,
        release: Release,
        *,
        brokers: int = 3,
        lean: bool = False,
        secure: bool = False,
        kerberos: Kerberos | None = None,
        issuer: TokenIssuer | None = None,
        properties: Mapping[str, str] | None = None,
        plugin: Path | None = None,
        heap_mib: int = 384,
        optimise: bool = False,
        spare: bool = False,
        proxied: bool = False,
        cluster_id: str = CLUSTER_ID,
        flags: Sequence[str] | None = None,
    ) -> None:
        java.require_java()
        self.release: Final = release
        self._cluster_id: Final = cluster_id
        wanted = set(Listener) - {Listener.PROXIED} if secure else {Listener.PLAINTEXT}
        if proxied:
            wanted.add(Listener.PROXIED)
        self._listeners: Final = [each for each in Listener if each in wanted]
        self._properties: Final = dict(properties or {})
        self._plugin: Final = plugin
        self._processes: Final = Processes()
        self.folder: Final = self._processes.folder
        self._ports: Final = PortPool()
        self.tools: Final = Tools(release, self._processes, plugin)
        self.certificates: Final = Certificates.make(self.folder / "certificates") if secure else None
        self._kerberos: Final = kerberos
        self._issuer: Final = issuer
        self._nodes: Final = self._plan(brokers, lean or brokers == 1, spare)
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._flags: Final = [
            f"-Xmx{heap_mib}m",
            f"-Xms{heap_mib // 2}m",
            "-XX:+UseSerialGC",
            "-XX:-UsePerfData",
            *(quick_start(release) if flags is None else flags),
            *([] if kerberos is None else [f"-Djava.security.krb5.conf={kerberos.config}"]),
            *([] if issuer is None else [f"-D{_ALLOWED_URLS}={issuer.keys.as_uri()}"]),
            *([] if optimise else ["-XX:TieredStopAtLevel=1"]),
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.clients.NetworkClient=error",
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
        ]

    # --- the whole cluster ------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Format and start every node, and wait until all brokers are registered."""
        for node in self._nodes.values():
            self._write_properties(node)
        for node in self._nodes.values():
            self._format(node)
        for node in self._nodes.values():
            self._launch(node)
        self.wait_for_brokers()

    def stop(self) -> None:
        """Kill every node and remove all data. May be called again."""
        self._processes.close()
        self._ports.close()
        self._running.clear()

    def wait_for_brokers(self, timeout_s: float = _START_TIMEOUT_S) -> None:
        """Wait until the cluster's metadata names every broker that runs."""
        expected = {node_id for node_id in self._running if self._nodes[node_id].is_broker}
        admin = self.admin()

        def registered() -> bool:
            self._raise_if_ended()
            try:
                return set(admin.list_topics(timeout=2).brokers) == expected
            except KafkaException:
                return False

        for node_id in expected:
            port = self._nodes[node_id].ports[Listener.PLAINTEXT]
            wait_until(functools.partial(self._listens, port), f"broker {node_id} listens", timeout_s)
        wait_until(registered, f"brokers {sorted(expected)} are registered", timeout_s)

    def bootstrap(self, listener: Listener = Listener.PLAINTEXT) -> str:
        """Return the addresses of all brokers, for ``bootstrap_servers``."""
        return ",".join(self.address(node_id, listener) for node_id in self.broker_ids)

    def address(self, broker_id: int, listener: Listener = Listener.PLAINTEXT) -> str:
        """Return a broker's ``host:port``."""
        return f"127.0.0.1:{self._nodes[broker_id].advertised(listener)}"

    def behind_proxy(self, broker_id: int) -> tuple[int, int]:
        """Return the port at which a proxy must listen for a broker, and the port to which it must connect."""
        node = self._nodes[broker_id]
        return node.proxied_at, node.ports[Listener.PROXIED]

    @property
    def spare(self) -> tuple[int, int]:
        """Return the id and port of the controller that did not vote at the start."""
        (node,) = [node for node in self._nodes.values() if node.is_spare]
        assert node.controller_port is not None
        return node.node_id, node.controller_port

    @property
    def broker_ids(self) -> list[int]:
        """Return the ids of all brokers, running or not."""
        return [node.node_id for node in self._nodes.values() if node.is_broker]

    @property
    def node_ids(self) -> list[int]:
        """Return the ids of all nodes, the controller's included."""
        return list(self._nodes)

    # --- one broker -------------------------------------------------------------------------------------------------

    def kill(self, broker_id: int) -> None:
        """SIGKILL a broker, without a flush or a controlled shutdown."""
        self._processes.end(self._running.pop(broker_id), sig=signal.SIGKILL)

    def terminate(self, broker_id: int, timeout_s: float = 60) -> None:
        """SIGTERM a broker: it moves its leaderships and ends (controlled shutdown)."""
        self._processes.end(self._running.pop(broker_id), sig=signal.SIGTERM, timeout_s=timeout_s)

    def pause(self, broker_id: int) -> None:
        """SIGSTOP a broker: its connections stay open without answers."""
        freeze(self._running[broker_id])

    def resume(self, broker_id: int) -> None:
        """SIGCONT a broker that was paused."""
        self._running[broker_id].send_signal(signal.SIGCONT)

    def start_broker(self, broker_id: int) -> None:
        """Start a broker that was killed or terminated, on its old port and data; wait until it is registered."""
        self._launch(self._nodes[broker_id])
        self.wait_for_brokers()

    def start_missing(self) -> None:
        """Start every broker that does not run; wait until all are registered."""
        for broker_id in self.broker_ids:
            if broker_id not in self._running:
                self._launch(self._nodes[broker_id])
        self.wait_for_brokers()

    def properties_path(self, node_id: int) -> Path:
        """Return a node's configuration."""
        return self.folder / f"node-{node_id}.properties"

    def log(self, node_id: int, lines: int = 40) -> str:
        """Return the end of a node's log (warnings and errors), long lines cut, since fetch errors can be long."""
        path = self._log_path(node_id)
        if not path.exists():
            return ""
        return "\n".join(line[:_LOG_LINE] for line in path.read_text(errors="replace").splitlines()[-lines:])

    # --- topics -----------------------------------------------------------------------------------------------------

    def admin(self, bootstrap: str | None = None) -> AdminClient:
        """Create another library's admin client, so that a bug of this package cannot hide itself."""
        servers = bootstrap or self.bootstrap()
        return AdminClient({"bootstrap.servers": servers, "reconnect.backoff.max.ms": 500, "log_level": 0})

    def create_topic(
        self, name: str, *, partitions: int = 1, replication: int | None = None, config: Mapping[str, str] | None = None
    ) -> str:
        """Create a topic, wait until every partition has a leader on every broker that runs, and return its name."""
        copies = min(3, len(self._running)) if replication is None else replication
        topic = NewTopic(name, num_partitions=partitions, replication_factor=copies, config=dict(config or {}))
        admin = self.admin()
        self._carry_out(
            lambda: admin.create_topics([topic], operation_timeout=30)[name],
            confluent_kafka.KafkaError.TOPIC_ALREADY_EXISTS,
        )
        for asked in self._admins_of_brokers():
            self._wait_for_leaders(asked, name, partitions)
        return name

    def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until no broker that runs still knows it."""
        admin = self.admin()
        self._carry_out(
            lambda: admin.delete_topics([name], operation_timeout=30)[name],
            confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART,
        )
        asked = list(self._admins_of_brokers())
        wait_until(
            lambda: all(name not in self.known(broker).topics for broker in asked), f"{name} is gone", _CHANGE_TIMEOUT_S
        )

    def leader(self, topic: str, partition: int = 0) -> int:
        """Return the id of the broker that leads a partition now, or -1."""
        admin = self.admin()
        leader: int = self.known(admin, topic).topics[topic].partitions[partition].leader
        return leader

    def wait_in_sync(self, topic: str, timeout_s: float = 120) -> None:
        """Wait until every replica of a topic's partitions is in sync."""
        admin = self.admin()

        def in_sync() -> bool:
            partitions = self.known(admin, topic).topics[topic].partitions.values()
            return all(len(p.isrs) == len(p.replicas) for p in partitions)

        wait_until(in_sync, f"all replicas of {topic} are in sync", timeout_s)

    def move_leader(self, topic: str, partition: int) -> None:
        """Move one leader as `move_leaders` does."""
        self.move_leaders(topic, [partition])

    def move_leaders(self, topic: str, partitions: Iterable[int]) -> None:
        """Make the next replica of each partition the preferred one; then elect these in succession."""
        admin = self.admin()
        known = self.known(admin, topic).topics[topic].partitions
        wanted: dict[int, list[int]] = {}
        for partition in partitions:
            found = known[partition]
            replicas = [*found.replicas[1:], found.replicas[0]]
            while replicas[0] == found.leader:
                replicas = [*replicas[1:], replicas[0]]
            wanted[partition] = replicas
        moves = [{"topic": topic, "partition": number, "replicas": replicas} for number, replicas in wanted.items()]
        plan = {"version": 1, "partitions": moves}
        with tempfile.NamedTemporaryFile("w", dir=self.folder, suffix=".json") as file:
            json.dump(plan, file)
            file.flush()
            self.tools.run(
                self.release.reassign_tool,
                *("--bootstrap-server", self.bootstrap(), "--reassignment-json-file", file.name, "--execute"),
            )

        def planned() -> bool:
            known = self.known(admin, topic).topics[topic].partitions
            return all(known[number].replicas == replicas for number, replicas in wanted.items())

        def leads(broker_id: int, partition: int) -> bool:
            leader: int = self.known(admin, topic).topics[topic].partitions[partition].leader
            return leader == broker_id

        wait_until(planned, f"the replicas of {topic} are {wanted}", _CHANGE_TIMEOUT_S)
        for number, (leader, *_) in wanted.items():
            self._elect(admin, topic, number)
            led = functools.partial(leads, leader, number)
            wait_until(led, f"{leader} leads {topic}-{number}", _CHANGE_TIMEOUT_S)

    @staticmethod
    def known(client: AdminClient | confluent_kafka.Consumer, topic: str | None = None) -> Any:
        """Return a broker's metadata of a topic, or of all topics; retry if librdkafka loses the broker meanwhile."""
        deadline = time.monotonic() + _CHANGE_TIMEOUT_S
        while True:
            try:
                return client.list_topics(topic, timeout=30)
            except KafkaException:
                if time.monotonic() > deadline:
                    raise

    def _elect(self, admin: AdminClient, topic: str, partition: int) -> None:
        """Elect the preferred replica."""
        wanted = [confluent_kafka.TopicPartition(topic, partition)]
        for refusal in self._carry_out(lambda: admin.elect_leaders(ElectionType.PREFERRED, wanted)).values():
            # Not when the new leader is the leader already: election then fails with ELECTION_NOT_NEEDED.
            if refusal is not None and refusal.code() != confluent_kafka.KafkaError.ELECTION_NOT_NEEDED:
                raise KafkaException(refusal)

    @staticmethod
    def _carry_out(ask: Callable[[], Future[Any]], done_already: int | None = None) -> Any:
        """Send a request, and return the response. Retry if librdkafka loses the broker, and with it the response.

        ``done_already`` is the error of a retry which means that the first request was carried out.
        """
        dropped = 0
        while True:
            try:
                return ask().result(60)
            except KafkaException as error:
                code = error.args[0].code()
                if code == confluent_kafka.KafkaError._DESTROY_BROKER and dropped < 5:
                    dropped += 1
                    continue
                if not dropped or code != done_already:
                    raise
                return None

    # --- implementation ---------------------------------------------------------------------------------------------

    def _admins_of_brokers(self) -> Iterator[AdminClient]:
        for broker_id in self._running:
            if self._nodes[broker_id].is_broker:
                yield self.admin(self.address(broker_id))

    def _plan(self, brokers: int, lean: bool, spare: bool) -> dict[int, Node]:
        nodes = {}
        if not lean:
            nodes[_CONTROLLER_ID] = Node(_CONTROLLER_ID, True, False, self._ports.take(), {})
        for node_id in range(1, brokers + 1):
            ports = {listener: self._ports.take() for listener in self._listeners}
            proxied_at = self._ports.take() if Listener.PROXIED in ports else 0
            controls = lean and node_id == 1
            controller_port = self._ports.take() if controls else None
            nodes[node_id] = Node(node_id, controls, True, controller_port, ports, proxied_at=proxied_at)
        if spare:
            nodes[_SPARE_ID] = Node(_SPARE_ID, True, False, self._ports.take(), {}, is_spare=True)
        return nodes

    def _write_properties(self, node: Node) -> None:
        data = str(self.folder / f"data-{node.node_id}")
        doors = (self.certificates, self._kerberos, self._issuer)
        text = server_properties(node, self._nodes.values(), data, *doors, self._properties)
        self.properties_path(node.node_id).write_text(text)

    def _format(self, node: Node) -> None:
        arguments = ["format", "-t", self._cluster_id, "-c", str(self.properties_path(node.node_id))]
        if node.is_controller and any(each.is_spare for each in self._nodes.values()):
            arguments.append("--no-initial-controllers" if node.is_spare else "--standalone")
        if self.certificates is not None and self.release.scram:
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                arguments += ["--add-scram", f"{mechanism}=[name={USER},password={PASSWORD}]"]
        self.tools.run("kafka.tools.StorageTool", *arguments)

    def _launch(self, node: Node) -> None:
        command = ["java", *self._flags, "-cp", java.class_path(self.release, self._plugin), "kafka.Kafka"]
        command.append(str(self.properties_path(node.node_id)))
        with self._log_path(node.node_id).open("ab") as log:
            self._running[node.node_id] = self._processes.start(command, log=log)

    def _log_path(self, node_id: int) -> Path:
        return self.folder / f"node-{node_id}.log"

    def _raise_if_ended(self) -> None:
        for node_id, process in self._running.items():
            if process.poll() is not None:
                raise RuntimeError(f"node {node_id} ended with status {process.returncode}:\n{self.log(node_id)}")

    def _listens(self, port: int) -> bool:
        self._raise_if_ended()
        with socket.socket() as sock:
            sock.settimeout(1)
            return sock.connect_ex(("127.0.0.1", port)) == 0

    @staticmethod
    def _wait_for_leaders(admin: AdminClient, topic: str, partitions: int) -> None:
        def led() -> bool:
            # A request by name would create a topic that this broker does not know yet.
            found = KafkaCluster.known(admin).topics.get(topic)
            known = {} if found is None else found.partitions
            return len(known) == partitions and all(p.leader >= 0 and len(p.isrs) > 0 for p in known.values())

        wait_until(led, f"every partition of {topic} has a leader", _CHANGE_TIMEOUT_S)


def quick_start(release: Release) -> list[str]:
    """Return flags by which a broker starts in two thirds of its processor time, from an archive of classes.

    Creating the archive takes one start, which pays off for the release that most clusters run.
    """
    if release != NEWEST:
        return []
    archive = java.CACHE / f"classes-{release}-{java.version()}.jsa"
    with java.lock(archive.stem):
        if not archive.exists():
            made = archive.with_suffix(".partial")
            cluster = KafkaCluster(release, brokers=1, flags=[f"-XX:ArchiveClassesAtExit={made}"])
            try:
                cluster.start()
                cluster.terminate(1, timeout_s=300)  # writing the archive takes a busy machine a while
            finally:
                cluster.stop()
            made.rename(archive)
    return [f"-XX:SharedArchiveFile={archive}"]
