"""Failing handshakes, and the login that these tests use."""

from __future__ import annotations

import pytest

from aiokafka_lead._core.metadata.reachability import NodeState
from aiokafka_lead.errors import KafkaError

from .script import LONG_BACKOFF, Handler, client, serve

PASSWORD = "top-secret"
SASL = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "alice",
    "sasl_plain_password": PASSWORD,
}


async def failure(handler: Handler, **options: object) -> KafkaError:
    """Return the error of a connect to such a server."""
    async with serve(handler) as port, client(port, **LONG_BACKOFF, **options) as brokers:
        with pytest.raises(KafkaError) as caught:
            await brokers.get(1)
        assert f"1 (127.0.0.1:{port})" in str(caught.value)
        assert PASSWORD not in str(caught.value)
        assert brokers.state(1) is NodeState.BACKOFF
        assert type(brokers.last_error(1)) is type(caught.value)
        return caught.value
