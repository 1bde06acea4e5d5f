"""Reports on stderr which brokers cannot be reached while a command waits for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Protocol

import anyio

from .._core.metadata.reachability import NodeState
from .._io.client import Client
from ..consumer import Consumer
from ..errors import KafkaError
from .failures import ExitCode, Failed

__all__ = ["BrokerWatch"]

_LOOK_EVERY_S = 0.25
_PATIENCE_S = 1.5
"""A shorter absence, during an election or a restart, is not worth a line."""

_SILENCE_S = 2.5
"""A broker that owes an answer for longer is absent, too: it is frozen, or the network swallows everything."""


class HasClient(Protocol):
    """A producer, consumer or admin client."""

    _client: Client


class BrokerWatch:
    """Checks the connections of a command's clients. Sends no requests to brokers itself."""

    def __init__(self, note: Callable[[str], None], timeout_s: float | None) -> None:
        """Begin without clients. After ``timeout_s`` without any broker `run` raises `Failed`; never for None."""
        self._note = note
        self._timeout_s = timeout_s
        self._clients: list[HasClient] = []
        self._away_since: dict[str, float] = {}
        self._told: dict[str, str] = {}
        self._stuck: set[str] = set()
        self._all_away_since: float | None = None

    def add(self, client: HasClient) -> None:
        """Watch this client's connections, too."""
        self._clients.append(client)

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            await anyio.sleep(_LOOK_EVERY_S)
            self._look(time.monotonic())

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
        """Return the reason for each absent broker, by its address, and the number of available ones."""
        away: dict[str, str] = {}
        ready: set[str] = set()
        for client in [each._client for each in self._clients if not each._client.stopping]:
            for node_id, node in client.brokers.nodes.items():
                where = f"{node.host}:{node.port}"
                state, error = client.brokers.state(node_id), client.brokers.last_error(node_id)
                silent = client.brokers.unanswered_s(node_id, now) >= _SILENCE_S
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
