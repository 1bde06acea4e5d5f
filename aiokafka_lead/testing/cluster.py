"""`EmbeddedCluster`: Kafka brokers in the caller's event loop, on real sockets."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import anyio.abc

from .._forks import detach_in_children
from .._options.arguments import list_of, map_of, string
from .._options.checks import Check, boolean, function, instance, integer, milliseconds, optional, path, text
from .._wire import Request
from ..errors import ConfigError, IllegalStateError
from . import _checks
from ._handlers import all_handlers
from ._server.apart import Apart
from ._server.apis import Apis
from ._server.broker import BrokerServer
from ._server.connection import ServerConnection, Transport
from ._server.engine import BrokerOptions, Engine
from ._server.sasl import OAuthValidator, SaslOptions
from ._server.timers import Timer, Timers
from ._server.transports import Listener, listen
from ._state.cluster import BrokerNode, ClusterState
from ._state.configs import DEFAULT_LEVELS, Features
from ._state.members import GroupOptions
from .cluster_controls import ClusterControls
from .request_log import api_key_of

_OPTIONS: dict[str, Check] = {
    "host": text,
    "ports": optional(list_of("ports", _checks.PORT)),
    "racks": optional(list_of("racks", optional(text))),
    "advertised_host": optional(text),
    "cluster_id": optional(text),
    "auto_create_topics": boolean,
    "num_partitions": integer(1),
    "default_replication_factor": optional(integer(1)),
    "topic_configs": optional(map_of("str to str", text, string)),
    "sasl_users": optional(map_of("user to password", text, text)),
    "oauth_validator": optional(function),
    "gssapi_keytab": optional(path),
    "sasl_session_ms": optional(milliseconds(1)),
    "ssl_context": optional(instance(ssl.SSLContext, "an ssl.SSLContext")),
    "max_versions": optional(map_of("API to version", lambda _, api: api_key_of(api), integer(-1))),
    "features": optional(map_of("feature to level", text, integer(0))),
    "groups": optional(instance(GroupOptions, "GroupOptions")),
    "client_telemetry": boolean,
    "failover_delay_ms": milliseconds(),
    "fetch_session_slots": integer(0),
    "bootstrap_port": optional(_checks.PORT),
    "request_log_size": integer(0),
}
"""Checks of `EmbeddedCluster`'s options, by name."""


class EmbeddedCluster(ClusterControls):
    """A Kafka cluster for tests, demos and benchmarks. Use it as an asynchronous context manager.

        async with EmbeddedCluster(brokers=3, racks=["a", "b", "c"]) as cluster:
            cluster.create_topic("events", partitions=6)
            producer = Producer(cluster.bootstrap_servers)

    Brokers and their addresses:

    - ``brokers``: the number of brokers, with the ids 1, 2 and so on, or a sequence of ids (default: 3).
    - ``ports``, ``racks``: one item for each broker, in the same order. The default is free ports and no racks.
    - ``advertised_host``: the host that clients connect to, by default ``host``.
    - ``bootstrap_port``: opens `bootstrap_address` on this port (0: any free port). Like a load balancer, it connects
      to any running broker. It stays the same even if the addresses of all brokers change.
    - ``failover_delay_ms``: the time until the leaders of a killed broker move (default: 100).
    - ``fetch_session_slots``: the maximum number of fetch sessions of each broker (default: 1000, KIP-227); 0 disables
      them.

    Topics and groups:

    - ``auto_create_topics``: create missing topics on request (default: True), with ``num_partitions`` (default: 1) and
      ``default_replication_factor`` (default: 3, or the number of brokers if there are fewer).
    - ``topic_configs``: configs of all topics, which override Kafka's defaults.
    - ``groups``: a `GroupOptions`, with the brokers' options for groups.

    Security:

    - ``sasl_users``: a mapping from user to password. Requires SASL, with PLAIN or SCRAM.
    - ``oauth_validator``: requires SASL, with OAUTHBEARER. The function receives a token and its extensions. It returns
      the user, or a pair of the user and the token's expiry in seconds since the epoch. It returns None to reject the
      token.
    - ``gssapi_keytab``: the file with the key of the service. Requires SASL, with GSSAPI (the extra "gssapi"; clients
      also need a KDC).
    - ``sasl_session_ms``: the lifetime of SASL sessions (KIP-368).
    - ``ssl_context``: use TLS. The ``verify_mode`` of the context may request or require client certificates.

    Versions:

    - ``max_versions``: a mapping from API (name, number or request class) to its highest version, to imitate older
      brokers. -1 removes the API.
    - ``features``: levels of finalized features, which override the levels of Kafka 4. ``{"transaction.version": 0}``
      disables KIP-890.
    - ``client_telemetry``: accept clients' metrics (KIP-714). Real brokers need a plugin for this.

    Attributes:

    - ``requests``: a log of the last ``request_log_size`` requests.
    - ``faults``: injects failures.
    - ``transactions``, ``shares``: show and control transactions, and the records of share groups.
    - ``security``: creates delegation tokens and replaces certificates.
    - ``telemetry``: controls the subscriptions to clients' metrics, and keeps the pushed metrics.

    Records are kept in memory. One log serves all replicas of a partition, so acknowledged records are always
    replicated. For long runs, limit the logs: ``topic_configs={"retention.bytes": "10000000", "segment.bytes":
    "1000000"}``.

    Raises `ConfigError` or `ConfigTypeError` for an invalid option.
    """

    def __init__(
        self,
        brokers: int | Sequence[int] = 3,
        *,
        host: str = "127.0.0.1",
        ports: Sequence[int] | None = None,
        racks: Sequence[str | None] | None = None,
        advertised_host: str | None = None,
        cluster_id: str | None = None,
        auto_create_topics: bool = True,
        num_partitions: int = 1,
        default_replication_factor: int | None = None,
        topic_configs: Mapping[str, str] | None = None,
        sasl_users: Mapping[str, str] | None = None,
        oauth_validator: OAuthValidator | None = None,
        gssapi_keytab: str | os.PathLike[str] | None = None,
        sasl_session_ms: float | None = None,
        ssl_context: ssl.SSLContext | None = None,
        max_versions: Mapping[str | int | type[Request[Any]], int] | None = None,
        features: Mapping[str, int] | None = None,
        groups: GroupOptions | None = None,
        client_telemetry: bool = False,
        failover_delay_ms: float = 100,
        fetch_session_slots: int = 1000,
        bootstrap_port: int | None = None,
        request_log_size: int = 10_000,
    ) -> None:
        ids = _checks.broker_ids("brokers", brokers)
        if not ids or len(set(ids)) != len(ids):
            raise ConfigError(f"brokers must have at least one id, and each id once, not {brokers!r}")
        _checks.check_all(_OPTIONS, locals())
        for name, values in (("ports", ports), ("racks", racks)):
            if values is not None and len(values) != len(ids):
                raise ConfigError(f"{name} must have {len(ids)} items, one for each broker, not {len(values)}")
        self._host = host
        self._advertised_host = advertised_host or host
        self._failover_delay_ms = failover_delay_ms
        nodes = [
            BrokerNode(node_id, self._advertised_host, None if racks is None else racks[index], fetch_session_slots)
            for index, node_id in enumerate(ids)
        ]
        self._bootstrap_port = bootstrap_port
        self._wanted_ports = dict(zip(ids, ports or [0] * len(ids), strict=True))
        state = ClusterState(nodes, cluster_id, topic_configs or {})
        self._handlers = dict(all_handlers())
        sasl = SaslOptions(
            None if sasl_users is None else dict(sasl_users),
            oauth_validator,
            None if gssapi_keytab is None else os.fspath(gssapi_keytab),
            session_ms=sasl_session_ms,
        )
        levels = Features({**DEFAULT_LEVELS, **(features or {})})
        apis = Apis(self._handlers, levels, sasl=bool(sasl.exchanges), telemetry=client_telemetry)
        apis.max_versions.update(max_versions or {})
        options = BrokerOptions(
            auto_create_topics=auto_create_topics,
            num_partitions=num_partitions,
            replication_factor=default_replication_factor or min(3, len(ids)),
            sasl=sasl,
            ssl_context=ssl_context,
            groups=groups or GroupOptions(),
        )
        self._fetch_session_slots = fetch_session_slots
        self._timers = Timers()
        super().__init__(Engine(state, apis, options, self._timers, request_log_size))
        self._servers: dict[int, BrokerServer] = {}
        # Sockets that prevent other programs from taking the ports of stopped brokers.
        self._reserved: dict[int, socket.socket] = {}
        # Killed brokers that the controller has not noticed yet.
        self._failovers: dict[int, Timer] = {}
        self._bootstrap_listener: Listener | None = None
        self._task_group: anyio.abc.TaskGroup | None = None
        # The task that runs the brokers. None before the start.
        self._running: Apart | None = None
        self._begun: anyio.Event
        self._leaving: anyio.Event

    # --- start and stop ----------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._begun, self._leaving = anyio.Event(), anyio.Event()
        running = self._running = Apart(self._run, "embedded Kafka cluster")
        try:
            await self._begun.wait()
        except BaseException:
            await running.end()
            raise
        if running.error is not None:
            raise running.error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        failures: list[BaseException] = [*self._engine.failures]
        if self._running is not None:
            self._leaving.set()
            await self._running.wait()
            if self._running.error is not None:
                failures.append(self._running.error)
        if error is None and failures:
            # This creates an ExceptionGroup if all failures are Exceptions.
            raise BaseExceptionGroup("the embedded cluster failed", failures)

    async def _run(self) -> None:
        """Run the brokers until `_leaving` is set."""
        failure: Exception | None = None
        try:
            async with anyio.create_task_group() as tasks:
                self._task_group = tasks
                tasks.start_soon(self._timers.run)
                try:
                    await self._start()
                    self._begun.set()
                    await self._leaving.wait()
                except Exception as error:
                    failure = error  # raised below, because the group would wrap it
                finally:
                    await self._close()
                tasks.cancel_scope.cancel()
            if failure is not None:
                raise failure
        finally:
            self._begun.set()

    async def _start(self) -> None:
        assert self._task_group is not None
        for node in self._state.nodes.values():
            await self._serve(node, self._wanted_ports[node.node_id])
        if self._bootstrap_port is not None:
            self._bootstrap_listener = await listen(
                self._host, self._bootstrap_port, self._engine.options, self._connect_to_any, self._task_group
            )

    async def _serve(self, node: BrokerNode, port: int) -> None:
        """Start a broker for the first time, on this port (0: any free port)."""
        assert self._task_group is not None
        server = BrokerServer(self._engine, self._handlers, node, self._host, self._task_group)
        node.port = await server.start(port)
        self._servers[node.node_id] = server
        self._state.broker_back(node.node_id)

    def _connect_to_any(self, transport: Transport, peer: str) -> ServerConnection:
        running = [server for server in self._servers.values() if server.node.running]
        return (running or list(self._servers.values()))[0].connect(transport, peer)

    async def _close(self) -> None:
        for reserved in self._reserved.values():
            reserved.close()
        self._reserved.clear()
        with anyio.CancelScope(shield=True):
            if self._bootstrap_listener is not None:
                await self._bootstrap_listener.close()
            for server in self._servers.values():
                await server.stop(reset=True)

    # --- addresses ---------------------------------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """Addresses of all brokers, running or not, such as ``"127.0.0.1:9092,127.0.0.1:9093"``."""
        return ",".join(self.address(node_id) for node_id in self._state.nodes)

    def address(self, broker: int) -> str:
        """Return the address of a broker for clients, as ``"host:port"``.

        Raises `IllegalStateError` before the cluster has started.
        """
        node = self._server("broker", broker).node
        return _address(node.host, node.port)

    @property
    def bootstrap_address(self) -> str:
        """Address that connects to any running broker. Raises `ConfigError` without ``bootstrap_port``."""
        if self._bootstrap_listener is None:
            raise ConfigError("there is no bootstrap address: create the cluster with bootstrap_port")
        return _address(self._host, self._bootstrap_listener.port)

    @property
    def cluster_id(self) -> str:
        """Id of the cluster, as in Metadata responses."""
        return self._state.cluster_id

    @property
    def broker_ids(self) -> list[int]:
        """Ids of all brokers, running or not."""
        return list(self._state.nodes)

    def is_running(self, broker: int) -> bool:
        """Return True if the broker is running."""
        return self._broker("broker", broker).running

    def connection_count(self, broker: int) -> int:
        """Return the number of open connections of a broker."""
        return len(self._server("broker", broker).connections)

    def _server(self, what: str, broker: int) -> BrokerServer:
        node = self._broker(what, broker)
        if node.node_id not in self._servers:
            raise IllegalStateError("the cluster has not been started: use it as an asynchronous context manager")
        return self._servers[node.node_id]

    # --- brokers -----------------------------------------------------------------------------------------------------

    async def add_broker(self, broker: int | None = None, *, rack: str | None = None, port: int = 0) -> int:
        """Start another broker and return its id.

        ``broker`` is the id (default: the next id), ``rack`` its rack, and ``port`` its port (0: any free port). The
        broker has no replicas at first. Raises `ConfigError` if the id is already in use.
        """
        node_id: int = max(self._state.nodes) + 1 if broker is None else integer(0)("broker", broker)
        optional(text)("rack", rack)
        _checks.PORT("port", port)
        if node_id in self._state.nodes:
            raise ConfigError(f"broker {node_id} already exists")
        node = BrokerNode(node_id, self._advertised_host, rack, self._fetch_session_slots)
        self._state.nodes[node_id] = node
        try:
            await self._serve(node, port)
        except BaseException:
            del self._state.nodes[node_id]
            raise
        return node_id

    async def stop_broker(self, broker: int, *, drain_ms: float = 0) -> None:
        """Shut a broker down cleanly.

        Its leaders move first, and its connections close ``drain_ms`` later (default: 0). Until then, the broker
        answers requests and names the new leaders. Its records are kept for `start_broker`.
        """
        milliseconds()("drain_ms", drain_ms)
        if not self._broker("broker", broker).running:
            return
        self._state.broker_gone(broker)
        if drain_ms > 0:
            await anyio.sleep(drain_ms / 1000)
        await self._servers[broker].stop(reset=False)
        self._reserve(broker)

    async def kill_broker(self, broker: int, *, failover_delay_ms: float | None = None) -> None:
        """Kill a broker: its connections are reset immediately, and its leaders move after ``failover_delay_ms``.

        The default is the cluster's option ``failover_delay_ms``. The broker's records are kept for `start_broker`.
        """
        optional(milliseconds())("failover_delay_ms", failover_delay_ms)
        if not self._broker("broker", broker).running:
            return
        await self._servers[broker].stop(reset=True)
        self._reserve(broker)
        delay_ms = self._failover_delay_ms if failover_delay_ms is None else failover_delay_ms
        if delay_ms > 0:
            self._failovers[broker] = self._timers.call_later(delay_ms / 1000, lambda: self._fail_over(broker))
        else:
            self._state.broker_gone(broker)

    def _fail_over(self, broker: int) -> None:
        del self._failovers[broker]
        self._state.broker_gone(broker)

    async def start_broker(self, broker: int, *, port: int | None = None, host: str | None = None) -> None:
        """Start a stopped or killed broker, by default on its old port.

        ``port`` is another port (0: any free port), and ``host`` is another host name for clients.
        """
        optional(_checks.PORT)("port", port)
        optional(text)("host", host)
        server = self._server("broker", broker)
        node = server.node
        if node.running:
            return
        failover = self._failovers.pop(broker, None)
        if failover is not None:
            # The broker restarts before the failover, so its registration fences the previous instance.
            failover.cancel()
            self._state.broker_gone(broker)
        reserved = self._reserved.pop(broker, None)
        if reserved is not None:
            reserved.close()
        node.port = await server.start(node.port if port is None else port)
        node.host = node.host if host is None else host
        self._state.broker_back(broker)

    async def change_address(self, broker: int, *, port: int = 0, host: str | None = None) -> None:
        """Restart a broker on another port (0: any free port).

        ``host`` is a new host name that the broker advertises to clients.
        """
        _checks.PORT("port", port)
        optional(text)("host", host)
        await self.stop_broker(broker)
        old_port = self._state.nodes[broker].port
        await self.start_broker(broker, port=port, host=host)
        if port == 0 and self._state.nodes[broker].port == old_port:
            await self.change_address(broker, host=host)

    def lead_astray(self, broker: int, to: int, cluster: EmbeddedCluster | None = None) -> None:
        """Make the address of a broker connect to another broker ``to``, like a misconfigured proxy or DNS name.

        ``to`` is a broker of this cluster, or of another ``cluster`` in the same event loop. Connections to ``broker``
        are reset, and new connections reach ``to``. To end the misrouting, call this method with ``to=broker``. This
        call also resets the misrouted connections.
        """
        server = self._server("broker", broker)
        there = self if cluster is None else instance(EmbeddedCluster, "an EmbeddedCluster")("cluster", cluster)
        (server.leads_to or server).reset_connections()
        target = there._server("to", to)
        server.leads_to = None if target is server else target

    def _reserve(self, broker: int) -> None:
        """Keep the port of a stopped broker, so that connections are refused and no other program gets the port."""
        reserved = socket.socket(socket.AF_INET6 if ":" in self._host else socket.AF_INET, socket.SOCK_STREAM)
        detach_in_children(reserved)
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            reserved.bind((self._host, self._state.nodes[broker].port))
        except OSError:
            # Another program may now take the port; `start_broker` would report that.
            reserved.close()
        else:
            self._reserved[broker] = reserved


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
