"""What every command is given: the clients of the cluster that was named, and where results go."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..admin import AdminClient
from ..config import AdminConfig, ClientConfig, ConsumerConfig, ProducerConfig
from ..consumer import Consumer
from ..producer import Producer
from .output import Output

__all__ = ["Session"]

_CLIENT_ID = "aiokafka-lead-cli"
_START_TIMEOUT_MS = 10_000
"""Of a command: a person waits for it. A profile may say otherwise."""


class Session:
    """One run of a command."""

    def __init__(self, options: Mapping[str, Any], out: Output) -> None:
        self.options = {"client_id": _CLIENT_ID, **options}
        self.options.setdefault("request_timeout_ms", _START_TIMEOUT_MS)
        self.out = out

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
        return AdminClient(**{**self._given(AdminConfig), **more})

    def producer(self, **more: Any) -> Producer[Any, Any]:
        """A producer that is not started yet."""
        return Producer(**{**self._given(ProducerConfig), **more})

    def consumer(self, *topics: str, **more: Any) -> Consumer[Any, Any]:
        """A consumer that is not started yet."""
        return Consumer(*topics, **{**self._given(ConsumerConfig), **more})

    def _given(self, kind: type[ClientConfig]) -> dict[str, Any]:
        """The options that this client takes: a profile may have some of another one's."""
        known = {field.name for field in dataclasses.fields(kind)}
        return {name: value for name, value in self.options.items() if name in known}
