"""The context of every command: its clients, the destination of results, and reports of unreachable brokers."""

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
"""Its default: the time for which a healthy broker may leave a fetch unanswered."""

_START_TIMEOUT_MS = 10_000
"""Default for commands: a person waits for them. A profile may override it."""


class Session:
    """One run of a command."""

    def __init__(self, options: Mapping[str, Any], out: Output, timeout_s: float | None = None) -> None:
        """Begin a run; ``timeout_s`` bounds the time for which brokers may be unreachable or not answer."""
        self.options = {"client_id": _CLIENT_ID, **options}
        if timeout_s is not None:
            timeout_ms = timeout_s * 1000
            self.options |= {**dict.fromkeys(_TIMEOUTS, timeout_ms), _FETCH_WAIT: min(_FETCH_WAIT_MS, timeout_ms / 2)}
        self.options.setdefault("request_timeout_ms", _START_TIMEOUT_MS)
        self.out = out
        wait_ms = self.options.get(_FETCH_WAIT)
        wait_s = (wait_ms if isinstance(wait_ms, (int, float)) else _FETCH_WAIT_MS) / 1000  # others are refused later
        self.brokers = BrokerWatch(out.note, timeout_s, silence_s=_SILENCE_S + wait_s)
        self._failures: list[ExitCode] = []

    def beside(self, options: Mapping[str, Any]) -> Session:
        """Return a session of the same run on another cluster."""
        other = Session(options, self.out)
        other.options |= {name: self.options[name] for name in _TIMEOUTS if name in self.options}
        other.brokers, other._failures = self.brokers.beside(), self._failures
        return other

    def fail(self, text: str, code: ExitCode = ExitCode.FAILED) -> None:
        """Report the failure of an item among several: the command continues, and its exit code shows the failure."""
        self.out.error(text)
        self._failures.append(code)

    def raise_failures(self) -> None:
        """Raise `Failed` if any item has failed; an alert about lag has precedence."""
        if self._failures:
            raise Failed(code=ExitCode.LAG if ExitCode.LAG in self._failures else self._failures[0])

    @property
    def servers(self) -> Any:
        """The bootstrap servers as given."""
        return self.options["bootstrap_servers"]

    def config(self) -> ClientConfig:
        """Return the options common to all clients, checked."""
        given = self._given(ClientConfig)
        return ClientConfig.from_options(given.pop("bootstrap_servers"), given)

    def admin(self, **more: Any) -> AdminClient:
        """Return an admin client that is not started yet."""
        return self._watched(AdminClient(**{**self._given(AdminConfig), **more}))

    def producer(self, compression: str = "none", *, copies: bool = False, **more: Any) -> Producer[Any, Any]:
        """Return a producer that is not started yet. It is never transactional: it would fence a service's producer.

        ``copies``: it writes records that brokers have taken before, of any size unless an option limits it.
        """
        options: dict[str, Any] = {**self._given(ProducerConfig), "transactional_id": None, **more}
        if copies:
            options.setdefault("max_request_size", INT32_MAX)
        if compression != "none":
            options["compression_type"] = compression
        return self._watched(Producer(**options))

    def consumer(self, *topics: str, **more: Any) -> Consumer[Any, Any]:
        """Return a consumer that is not started yet. It commits only for a group in ``more``.

        A profile may name the group of a service, whose offsets other commands must not move. Without a group, the
        consumer skips only records that retention deleted before they were read.
        """
        alone = {"group_id": None, "group_instance_id": None, "auto_offset_reset": "earliest"}
        if "group_id" in more:
            alone = {}
        return self._watched(Consumer(*topics, **{**self._given(ConsumerConfig), **alone, **more}))

    def _watched(self, client: C) -> C:
        self.brokers.add(client)
        return client

    def _given(self, kind: type[ClientConfig]) -> dict[str, Any]:
        """Return the options that this client accepts: a profile may have options of other clients."""
        known = {field.name for field in dataclasses.fields(kind)}
        return {name: value for name, value in self.options.items() if name in known}


_LOOK_EVERY_S = 0.25
_PATIENCE_S = 1.5
"""Shorter absences in seconds, during an election or a restart, are not reported."""

_SILENCE_S = 2.0
"""A broker that does not answer for this many seconds, and the time that a fetch may wait, is absent, too: it is
frozen, or the network drops packets."""


class HasClient(Protocol):
    """A producer, consumer or admin client."""

    _client: Client


class BrokerWatch:
    """Checks the connections of a command's clients to a cluster. Sends no requests to brokers itself."""

    def __init__(self, note: Callable[[str], None], timeout_s: float | None, *, silence_s: float) -> None:
        """Begin without clients. After ``timeout_s`` without any broker, `run` raises `Failed`; never if it is None.

        ``silence_s``: the time without an answer after which a broker is absent.
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
        """Watch this client's connections, too."""
        self._clients.append(client)

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            await anyio.sleep(_LOOK_EVERY_S)
            for each in (self, *self._beside):
                each._look(time.monotonic())

    def _look(self, now: float) -> None:
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
        """Report topics that are gone, and partitions that do not advance: silence would look like no records."""
        found: dict[str, str] = {}
        for client in self._clients:
            if isinstance(client, Consumer) and not client._client.stopping:
                health = client.health()
                found |= {name: f"{name} is no longer there" for name in health.absent}
                if health.reachable:
                    found |= {str(where): text for where, text in health.stuck.items()}
        for name in found.keys() - self._stuck:
            self._note(found[name])
        self._stuck = set(found)

    def _found(self, now: float) -> tuple[dict[str, str], int]:
        """Return the reason for each absent broker, by its address, and the number of available brokers."""
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
