"""The context of every command: clients of the chosen cluster, and the destination of results."""

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
"""Default for commands, because a person waits. A profile may override it."""


class Session:
    """One run of a command."""

    def __init__(self, options: Mapping[str, Any], out: Output, timeout_s: float | None = None) -> None:
        """Begin a run; ``timeout_s`` bounds the time that brokers may be away or leave a request unanswered."""
        self.options = {"client_id": _CLIENT_ID, **options}
        if timeout_s is not None:
            self.options |= dict.fromkeys(_TIMEOUTS, timeout_s * 1000)
        self.options.setdefault("request_timeout_ms", _START_TIMEOUT_MS)
        self.out = out
        self.brokers = BrokerWatch(out.note, timeout_s)
        self._failures: list[ExitCode] = []

    def beside(self, options: Mapping[str, Any]) -> Session:
        """Return a session of the same run on another cluster."""
        other = Session(options, self.out)
        other.options |= {name: self.options[name] for name in _TIMEOUTS if name in self.options}
        other.brokers, other._failures = self.brokers, self._failures
        return other

    def fail(self, text: str, code: ExitCode = ExitCode.FAILED) -> None:
        """Report the failure of one of several items: the command continues, and its exit code reports it."""
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

    def producer(self, **more: Any) -> Producer[Any, Any]:
        """Return a producer that is not started yet; never a transactional one, which would fence a service's."""
        options: dict[str, Any] = {**self._given(ProducerConfig), "transactional_id": None, **more}
        return self._watched(Producer(**options))

    def consumer(self, *topics: str, **more: Any) -> Consumer[Any, Any]:
        """Return a consumer that is not started yet; it commits for no group but one in ``more``.

        A profile may name the group of a service, whose offsets other commands must not move. Without a group, records
        that retention has deleted before they were read are passed over, and no others.
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
