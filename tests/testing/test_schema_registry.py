"""The embedded schema registry, in requests that this package's client does not send."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest

from aiokafka_lead.testing import EmbeddedSchemaRegistry


@pytest.fixture
def registry() -> Iterator[EmbeddedSchemaRegistry]:
    with EmbeddedSchemaRegistry() as registry:
        yield registry


def ask(registry: EmbeddedSchemaRegistry, method: str, path: str, body: bytes | None = None) -> tuple[int, Any]:
    connection = HTTPConnection(urlsplit(registry.url).netloc, timeout=20)
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"null")
    finally:
        connection.close()


def register(registry: EmbeddedSchemaRegistry, subject: str, schema: object) -> int:
    body = json.dumps({"schema": json.dumps(schema)}).encode()
    return ask(registry, "POST", f"/subjects/{subject}/versions", body)[0]


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/schemas/ids/one", None, 404),
        ("PUT", "/config", b"{", 400),
        ("PUT", "/config", b"[]", 400),
        ("PUT", "/config", b"{}", 422),
        ("POST", "/subjects/s/versions", b"[1]", 422),
    ],
)
def test_every_request_is_answered(
    registry: EmbeddedSchemaRegistry, method: str, path: str, body: bytes | None, status: int
) -> None:
    assert ask(registry, method, path, body)[0] == status


def test_subjects_by_prefix_and_state(registry: EmbeddedSchemaRegistry) -> None:
    for subject in ("orders-value", "orders-key", "bills-value", "gone"):
        register(registry, subject, "string")
    assert ask(registry, "DELETE", "/subjects/gone") == (200, [1])
    live = ["bills-value", "orders-key", "orders-value"]
    for query, found in (("", live), ("?deleted=true", [live[0], "gone", *live[1:]]), ("?deletedOnly=true", ["gone"])):
        assert ask(registry, "GET", f"/subjects{query}") == (200, found)
    assert ask(registry, "GET", "/subjects?subjectPrefix=orders") == (200, ["orders-key", "orders-value"])
    assert ask(registry, "GET", "/subjects?subjectPrefix=:*:bills") == (200, ["bills-value"])


def test_the_latest_version_has_two_names(registry: EmbeddedSchemaRegistry) -> None:
    register(registry, "s", "int")
    register(registry, "s", "long")
    for version in ("latest", "-1"):
        assert ask(registry, "GET", f"/subjects/s/versions/{version}")[1]["version"] == 2


def test_incomplete_avro_is_refused(registry: EmbeddedSchemaRegistry) -> None:
    for schema in ({"type": "enum", "name": "E"}, {"type": "fixed", "name": "F"}):
        assert register(registry, "s", schema) == 422


def test_a_name_in_an_object_is_the_named_type(registry: EmbeddedSchemaRegistry) -> None:
    inner = {"type": "record", "name": "I", "fields": [{"name": "a", "type": "int"}]}
    for second in ("I", {"type": "I"}, "I"):
        fields = [{"name": "x", "type": inner}, {"name": "y", "type": second}]
        assert register(registry, "s", {"type": "record", "name": "R", "fields": fields}) == 200


def test_a_stopped_registry_keeps_its_port() -> None:
    """Otherwise, a registry of another test that runs at the same time could answer."""
    registry = EmbeddedSchemaRegistry()
    registry.start()
    address = urlsplit(registry.url)
    registry.stop()
    with pytest.raises(ConnectionRefusedError):
        ask(registry, "GET", "/subjects")
    with socket.socket() as other, pytest.raises(OSError):
        other.bind((address.hostname, address.port))
    with registry:
        assert ask(registry, "GET", "/subjects") == (200, [])
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind((address.hostname, address.port))
