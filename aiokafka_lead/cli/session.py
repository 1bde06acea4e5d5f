"""What every command is given: the clients of the cluster that was named, and where results go."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from ..admin import AdminClient
from ..config import AdminConfig, ClientConfig, ConsumerConfig, ProducerConfig
from ..consumer import Consumer
from ..producer import Producer
from .failures import ExitCode, Failed
from .output import Output
from .watch import BrokerWatch

__all__ = ["Session"]

C = TypeVar("C", AdminClient, Consumer[Any, Any], Producer[Any, Any])

_CLIENT_ID = "aiokafka-lead-cli"
_TIMEOUTS = ("request_timeout_ms", "default_api_timeout_ms")
_START_TIMEOUT_MS = 10_000
"""Of a command: a person waits for it. A profile may say otherwise."""


class Session:
    """One run of a command."""

    def __init__(self, options: Mapping[str, Any], out: Output, timeout_s: float | None = None) -> None:
        """``timeout_s``: for how long brokers may be away, and keep an answer waiting."""
        self.options = {"client_id": _CLIENT_ID, **options}
        if timeout_s is not None:
            self.options |= dict.fromkeys(_TIMEOUTS, timeout_s * 1000)
        self.options.setdefault("request_timeout_ms", _START_TIMEOUT_MS)
        self.out = out
        self.brokers = BrokerWatch(out.note, timeout_s)
        self._failures: list[ExitCode] = []

    def beside(self, options: Mapping[str, Any]) -> Session:
        """The same run of a command, on another cluster."""
        other = Session(options, self.out)
        other.options |= {name: self.options[name] for name in _TIMEOUTS if name in self.options}
        other.brokers, other._failures = self.brokers, self._failures
        return other

    def fail(self, text: str, code: ExitCode = ExitCode.FAILED) -> None:
        """Tell of one of several things that failed: the others go on, and the command's exit code says so."""
        self.out.error(text)
        self._failures.append(code)

    def raise_failures(self) -> None:
        """Raise `Failed` if something of several has failed."""
        if self._failures:
            raise Failed(code=self._failures[0])

    @property
    def servers(self) -> Any:
        """As they were given."""
        return self.options["bootstrap_servers"]

    def config(self) -> ClientConfig:
        """The options that all clients have, checked."""
        given = self._given(ClientConfig)
        return ClientConfig.from_options(given.pop("bootstrap_servers"), given)

    def admin(self, **more: Any) -> AdminClient:
        """An admin client that is not started yet."""
        return self._watched(AdminClient(**{**self._given(AdminConfig), **more}))

    def producer(self, **more: Any) -> Producer[Any, Any]:
        """A producer that is not started yet."""
        return self._watched(Producer(**{**self._given(ProducerConfig), **more}))

    def consumer(self, *topics: str, **more: Any) -> Consumer[Any, Any]:
        """A consumer that is not started yet."""
        return self._watched(Consumer(*topics, **{**self._given(ConsumerConfig), **more}))

    def _watched(self, client: C) -> C:
        self.brokers.add(client)
        return client

    def _given(self, kind: type[ClientConfig]) -> dict[str, Any]:
        """The options that this client takes: a profile may have some of another one's."""
        known = {field.name for field in dataclasses.fields(kind)}
        return {name: value for name, value in self.options.items() if name in known}
