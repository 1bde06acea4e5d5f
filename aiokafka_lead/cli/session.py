"""Context of a command: creates its clients and reports brokers that become unreachable."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

import anyio

from .._core.metadata.reachability import NodeState
from .._io.client import Client
from .._options.checks import INT32_MAX
from ..admin import AdminClient
from ..config import AdminConfig, ClientConfig, ConsumerConfig, ProducerConfig
from ..consumer import Consumer
from ..errors import KafkaError
from ..producer import Producer
from .failures import ExitCode, Failed
from .output import Output

C = TypeVar("C", AdminClient, Consumer[Any, Any], Producer[Any, Any])

_CLIENT_ID = "aiokafka-lead-cli"
_TIMEOUTS = ("request_timeout_ms", "default_api_timeout_ms")
_FETCH_WAIT = "fetch_max_wait_ms"
_FETCH_WAIT_MS = 500.0
"""Default of ``fetch_max_wait_ms``. A healthy broker may hold a fetch response for this time."""

_START_TIMEOUT_MS = 10_000
"""Default of ``request_timeout_ms`` in commands, shorter than in the clients because a person is waiting."""


class Session:
    """The context of one run of a command: options, output, clients, and failures of single items."""

    def __init__(self, options: Mapping[str, Any], out: Output, timeout_s: float | None = None) -> None:
        """Create the context.

        ``timeout_s`` is the value of ``--timeout``. The command fails if no broker is reachable, or none answers, for
        this number of seconds.
        """
        self.options = {"client_id": _CLIENT_ID, **options}
        if timeout_s is not None:
            timeout_ms = timeout_s * 1000
            self.options |= {**dict.fromkeys(_TIMEOUTS, timeout_ms), _FETCH_WAIT: min(_FETCH_WAIT_MS, timeout_ms / 2)}
        self.options.setdefault("request_timeout_ms", _START_TIMEOUT_MS)
        self.out = out
        wait_ms = self.options.get(_FETCH_WAIT)
        # A value of another type raises ConfigError when a client is created.
        wait_s = (wait_ms if isinstance(wait_ms, (int, float)) else _FETCH_WAIT_MS) / 1000
        self.brokers = BrokerWatch(out.note, timeout_s, silence_s=_SILENCE_S + wait_s)
        self._failures: list[ExitCode] = []

    def beside(self, options: Mapping[str, Any]) -> Session:
        """Return a session of the same command for another cluster."""
        other = Session(options, self.out)
        other.options |= {name: self.options[name] for name in _TIMEOUTS if name in self.options}
        other.brokers, other._failures = self.brokers.beside(), self._failures
        return other

    def fail(self, text: str, code: ExitCode = ExitCode.FAILED) -> None:
        """Report that one of several items failed. The command continues, and ends with this exit code."""
        self.out.error(text)
        self._failures.append(code)

    def raise_failures(self) -> None:
        """Raise `Failed` if any item has failed. `ExitCode.LAG` takes precedence over the first failure."""
        if self._failures:
            raise Failed(code=ExitCode.LAG if ExitCode.LAG in self._failures else self._failures[0])

    @property
    def servers(self) -> Any:
        """The ``bootstrap_servers`` option."""
        return self.options["bootstrap_servers"]

    def config(self) -> ClientConfig:
        """Return the validated options that all clients have in common. Raises `ConfigError` for an invalid option."""
        given = self._given(ClientConfig)
        return ClientConfig.from_options(given.pop("bootstrap_servers"), given)

    def admin(self, **more: Any) -> AdminClient:
        """Return an admin client, not yet started. ``more`` overrides options."""
        return self._watched(AdminClient(**{**self._given(AdminConfig), **more}))

    def producer(self, compression: str = "none", *, copies: bool = False, **more: Any) -> Producer[Any, Any]:
        """Return a producer, not yet started. ``more`` overrides options.

        The producer ignores ``transactional_id``: with the id of a service it would fence the service's producer. With
        ``copies``, record size is unlimited by default, because brokers have already accepted these records.
        """
        options: dict[str, Any] = {**self._given(ProducerConfig), "transactional_id": None, **more}
        if copies:
            options.setdefault("max_request_size", INT32_MAX)
        if compression != "none":
            options["compression_type"] = compression
        return self._watched(Producer(**options))

    def consumer(self, *topics: str, **more: Any) -> Consumer[Any, Any]:
        """Return a consumer, not yet started. ``more`` overrides options.

        The consumer ignores a group id that is not in ``more``: a profile may name the group of a service, and the
        command must not commit offsets for it. Without a group, the consumer continues at the earliest offset if
        retention has deleted its position.
        """
        alone = {"group_id": None, "group_instance_id": None, "auto_offset_reset": "earliest"}
        if "group_id" in more:
            alone = {}
        return self._watched(Consumer(*topics, **{**self._given(ConsumerConfig), **alone, **more}))

    def _watched(self, client: C) -> C:
        self.brokers.add(client)
        return client

    def _given(self, kind: type[ClientConfig]) -> dict[str, Any]:
        """Return the options that this kind of client accepts. A profile may contain options of other clients."""
        known = {field.name for field in dataclasses.fields(kind)}
        return {name: value for name, value in self.options.items() if name in known}


_LOOK_EVERY_S = 0.25
_PATIENCE_S = 1.5
"""Shortest outage that is reported, in seconds. A leader election, for example, causes shorter ones."""

_SILENCE_S = 2.0
"""Seconds without a response, in addition to the wait of a fetch, after which a connected broker counts as unreachable.
Its process may be suspended, or the network may be dropping packets.
"""


class HasClient(Protocol):
    """A producer, consumer or admin client, whose connections `BrokerWatch` reads."""

    _client: Client


class BrokerWatch:
    """Reports unreachable brokers. It watches the clients' connections and sends no requests."""

    def __init__(self, note: Callable[[str], None], timeout_s: float | None, *, silence_s: float) -> None:
        """Create a watch without clients.

        `run` raises `Failed` after ``timeout_s`` seconds without any reachable broker; None waits without a limit. A
        broker counts as unreachable after ``silence_s`` seconds without a response.
        """
        self._note = note
        self._silence_s = silence_s
        self._timeout_s = timeout_s
        self._clients: list[HasClient] = []
        self._away_since: dict[str, float] = {}
        self._told: dict[str, str] = {}
        self._stuck: set[str] = set()
        self._all_away_since: float | None = None
        self._beside: list[BrokerWatch] = []

    def beside(self) -> BrokerWatch:
        """Return a watch of another cluster, which runs with this one."""
        other = BrokerWatch(self._note, self._timeout_s, silence_s=self._silence_s)
        self._beside.append(other)
        return other

    def add(self, client: HasClient) -> None:
        """Watch the connections of this client."""
        self._clients.append(client)

    async def run(self) -> None:
        """Watch until cancelled. Raises `Failed` after the timeout without any reachable broker."""
        while True:
            await anyio.sleep(_LOOK_EVERY_S)
            for each in (self, *self._beside):
                each._look(time.monotonic())

    def _look(self, now: float) -> None:
        """Report brokers that have become unreachable, and those that have returned.

        Raises `Failed` if no broker has been reachable for the time limit.
        """
        self._look_at_partitions()
        away, reachable = self._found(now)
        self._away_since = {where: self._away_since.get(where, now) for where in away}
        news = {
            where: why
            for where, why in away.items()
            if now - self._away_since[where] >= _PATIENCE_S and where not in self._told
        }
        if news:
            self._told |= news
            all_away = "no broker can be reached" if reachable == 0 else "cannot be reached"
            self._note(f"{all_away}: {_listed(news.items())}")
        back = [where for where in self._told if where not in away]
        for where in back:
            del self._told[where]
        if back and reachable:
            self._note(f"can be reached again: {', '.join(back)}")
        if not away or reachable:
            self._all_away_since = None
            return
        if self._all_away_since is None:
            self._all_away_since = now
        if self._timeout_s is not None and now - self._all_away_since >= self._timeout_s:
            text = f"no broker could be reached for {self._timeout_s:g} s: {_listed(away.items())}"
            raise Failed(text, ExitCode.UNREACHABLE)

    def _look_at_partitions(self) -> None:
        """Report deleted topics, and partitions that do not advance. Otherwise, they would seem to have no records."""
        found: dict[str, str] = {}
        for client in self._clients:
            if isinstance(client, Consumer) and not client._client.stopping:
                health = client.health()
                found |= {name: f"topic {name} no longer exists" for name in health.absent}
                if health.reachable:
                    found |= {str(where): text for where, text in health.stuck.items()}
        for name in found.keys() - self._stuck:
            self._note(found[name])
        self._stuck = set(found)

    def _found(self, now: float) -> tuple[dict[str, str], int]:
        """Return the unreachable brokers, as a dict from address to reason, and the number of reachable brokers."""
        away: dict[str, str] = {}
        ready: set[str] = set()
        for client in [each._client for each in self._clients if not each._client.stopping]:
            for node_id, node in client.brokers.nodes.items():
                where = f"{node.host}:{node.port}"
                state, error = client.brokers.state(node_id), client.brokers.last_error(node_id)
                silent = client.brokers.unanswered_s(node_id, now) >= self._silence_s
                if state is NodeState.READY and not silent:
                    ready.add(where)
                elif silent:
                    away[where] = "no answer"
                elif error is not None:
                    away[where] = _why(error)
                elif state is NodeState.CONNECTING:
                    away[where] = "no answer"
        return {where: why for where, why in away.items() if where not in ready}, len(ready)


def _listed(away: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{where} ({why})" for where, why in away)


def _why(error: KafkaError) -> str:
    """Return one line that describes the error."""
    return (getattr(error, "message", "") or str(error) or type(error).__name__).splitlines()[0]
