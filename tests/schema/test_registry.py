"""Requests to a registry, and registries that fail: errors are typed, bounded, and contain no secret."""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import anyio
import pytest
import trustme

from aiokafka_lead.errors import (
    ConfigError,
    ConfigTypeError,
    IncompatibleSchemaError,
    InvalidSchemaError,
    KafkaError,
    SchemaNotFoundError,
    SchemaRegistryAuthenticationError,
    SchemaRegistryError,
    SchemaRegistryUnavailableError,
)
from aiokafka_lead.oidc import ClientCredentials
from aiokafka_lead.schema import Schema, SchemaReference, SchemaRegistry, SchemaSerializer
from aiokafka_lead.schema.json_schema import JsonFormat, JsonWriter
from aiokafka_lead.schema.types import ResolvedSchema
from aiokafka_lead.testing import EmbeddedSchemaRegistry, RegistryRequest

from ..leaks import everything
from ..names import STRANGE, Names, Stranger, needs_loopbacks
from ..oidc.identity_provider import IdentityProvider
from ..patience import again_if_late
from .material import LATER, ORDER, ORDER_TEXT, OTHER, order

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]

SECRET = "MARKED/+ secret"
LIST_TEXT = json.dumps({"type": "record", "name": "List", "fields": [{"name": "first", "type": "shop.Order"}]})


def text(schema: Any) -> Schema:
    return Schema(json.dumps(schema))


# --- a name with several addresses ---


@needs_loopbacks
@pytest.mark.parametrize("says", [None, b"", b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"])
@pytest.mark.parametrize("tls", [False, True])
@again_if_late(1_500, 8_000)
async def test_the_next_address_of_a_name_is_gone_to_and_stayed_at(
    timeout_ms: int, names: Names, says: bytes | None, tls: bool
) -> None:
    names["registry.test"] = ["127.0.0.3", STRANGE, "127.0.0.1"]
    authority = trustme.CA()
    server, context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("registry.test").configure_cert(server)
    authority.configure_trust(context)
    with EmbeddedSchemaRegistry(ssl_context=server if tls else None) as embedded:
        url = embedded.url.replace("127.0.0.1", "registry.test")
        options: dict[str, Any] = {"ssl_context": context} if tls else {}
        registry = SchemaRegistry(url, request_timeout_ms=timeout_ms, **options)
        with Stranger(int(url.rpartition(":")[2]), says) as stranger:
            await registry.register("orders-value", text(ORDER))
            registry.forget()
            await registry.register("orders-value", text(ORDER))
            assert stranger.visits == 1


# --- number of requests ---


async def test_those_that_ask_at_the_same_time_share_a_request_that_none_can_cancel(
    schema_registry: EmbeddedSchemaRegistry,
) -> None:
    registry = SchemaRegistry(schema_registry.url)
    found = await registry.register("orders-value", text(ORDER))
    assert found.id is not None
    registry.forget()
    schema_registry.requests.clear()
    schema_registry.hold()
    got: list[Schema] = []

    async def ask() -> None:
        assert found.id is not None
        got.append((await registry.schema(found.id)).schema)

    async with anyio.create_task_group() as tasks:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as first:
                first.start_soon(ask)
                for _ in range(20):
                    tasks.start_soon(ask)
                await anyio.lowlevel.checkpoint()
                await anyio.lowlevel.checkpoint()
                scope.cancel()
        schema_registry.release()
    assert got == [text(ORDER)] * 20
    await ask()
    assert schema_registry.asked("GET", f"/schemas/ids/{found.id}") == 1


async def test_what_does_not_exist_is_remembered_for_a_while(schema_registry: EmbeddedSchemaRegistry) -> None:
    registry = SchemaRegistry(schema_registry.url)
    for _ in range(5):
        with pytest.raises(SchemaNotFoundError) as raised:
            await registry.schema(99)
        assert (raised.value.status, raised.value.error_code) == (404, 40403)
    assert schema_registry.asked("GET", "/schemas/ids/99") == 2
    hasty = SchemaRegistry(schema_registry.url, absent_max_age_ms=0)
    for _ in range(2):
        with pytest.raises(SchemaNotFoundError):
            await hasty.schema(99)
    assert schema_registry.asked("GET", "/schemas/ids/99") == 6


async def test_what_is_registered_here_is_absent_no_longer(schema_registry: EmbeddedSchemaRegistry) -> None:
    registry = SchemaRegistry(schema_registry.url)
    serializer, deserializer = registry.avro_serializer(ORDER), registry.deserializer()
    reader = registry.deserializer()
    content = b"\x00\x00\x00\x00\x01\x02\x02c\x00"
    calls: list[Callable[[], Any]] = [
        lambda: registry.lookup("orders-value", text(ORDER)),
        lambda: registry.version("orders-value", 1),
        lambda: registry.latest("orders-value"),
        lambda: registry.schema(1),
        lambda: serializer.encode(order(1), "orders"),
        lambda: deserializer.decode(content),
    ]
    for call in calls:
        with pytest.raises(SchemaNotFoundError):
            await call()
    schema_registry.requests.clear()
    for call in calls:
        with pytest.raises(SchemaNotFoundError):
            await call()
    assert schema_registry.requests == []
    schema_registry.hold()
    async with anyio.create_task_group() as tasks:
        failed = anyio.Event()

        async def read_too_early() -> None:
            with contextlib.suppress(SchemaNotFoundError):
                await reader.decode(content)
            failed.set()

        tasks.start_soon(read_too_early)
        schema_registry.release()
        assert (await registry.register("orders-value", text(ORDER))).id == 1
        await failed.wait()
    for call in calls:
        await call()
    assert await reader.decode(content) == await deserializer.decode(content) == {**order(2), "id": 1, "customer": "c"}


async def test_a_known_schema_is_registered_without_another_request(schema_registry: EmbeddedSchemaRegistry) -> None:
    registry = SchemaRegistry(schema_registry.url)
    for _ in range(3):
        assert (await registry.register("orders-value", text(ORDER))).id == 1
        assert (await registry.latest("orders-value")).id == 1
        with pytest.raises(SchemaNotFoundError):
            await registry.schema(99)
    paths = ("/subjects/orders-value/versions", "/subjects/orders-value/versions/latest", "/schemas/ids/99")
    asked = [schema_registry.asked(method, path) for method, path in zip(("POST", "GET", "GET"), paths, strict=True)]
    assert asked == [1, 1, 2]


async def test_those_that_use_a_new_schema_at_the_same_time_share_its_writer_and_its_reader(
    schema_registry: EmbeddedSchemaRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    """Building them takes milliseconds, in which the event loop stands still."""
    made: list[ResolvedSchema] = []

    class Counting(JsonFormat):
        def writer(self, resolved: ResolvedSchema) -> JsonWriter:
            made.append(resolved)
            return super().writer(resolved)

    registry = SchemaRegistry(schema_registry.url)
    form = Counting({"type": "string", "pattern": r"[a&&b]"}, validate=False)
    serializer: SchemaSerializer[str] = SchemaSerializer(registry, form, auto_register=True)
    deserializer = registry.deserializer()
    written: list[bytes] = []
    read: list[str | None] = []

    async def write() -> None:
        written.append(await serializer.encode("a", "orders"))

    async def read_one() -> None:
        read.append(await deserializer.decode(written[0]))

    for each in (write, read_one):
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(each)
    assert (len(written), len(made)) == (20, 1)
    assert (read, len(caplog.messages)) == (["a"] * 20, 1)  # a reader warns of the pattern, which it does not know


async def test_a_schema_that_only_another_node_has_yet(schema_registry: EmbeddedSchemaRegistry) -> None:
    """Followers learn of a new schema a little later: a good record must not become a dead letter for that."""
    with EmbeddedSchemaRegistry() as follower:
        both = SchemaRegistry(f"{follower.url},{schema_registry.url}")
        content = (
            await SchemaRegistry(schema_registry.url).avro_serializer(ORDER, auto_register=True).encode(order(1), "t")
        )
        assert await both.deserializer().decode(content) == order(1)
        with pytest.raises(SchemaNotFoundError):
            await both.schema(99)
        assert follower.asked("GET", "/schemas/ids/99") == schema_registry.asked("GET", "/schemas/ids/99") == 2


class _Late(EmbeddedSchemaRegistry):
    """Learns of a schema only after the first request for it."""

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> tuple[int, Any]:
        if method == "GET" and not self.asked(method, target):
            self.requests.append(RegistryRequest(method, target, 404))
            return 404, {"error_code": 40403, "message": "Schema not found"}
        return super().answer(method, target, headers, body)


async def test_a_schema_that_is_there_a_little_later() -> None:
    with _Late() as late:
        content = await SchemaRegistry(late.url).avro_serializer(ORDER, auto_register=True).encode(order(1), "t")
        assert await SchemaRegistry(late.url).deserializer().decode(content) == order(1)


async def test_the_latest_version_is_asked_for_again_after_its_time(schema_registry: EmbeddedSchemaRegistry) -> None:
    registry = SchemaRegistry(schema_registry.url)
    await registry.register("orders-value", text(ORDER))
    other = SchemaRegistry(schema_registry.url, latest_max_age_ms=0)
    assert (await registry.latest("orders-value")).version == (await other.latest("orders-value")).version == 1
    await SchemaRegistry(schema_registry.url).register("orders-value", text(LATER))
    assert (await registry.latest("orders-value")).version == 1
    assert (await other.latest("orders-value")).version == 2


def test_one_registry_serves_one_event_loop_after_the_other(
    schema_registry: EmbeddedSchemaRegistry, anyio_backend: str
) -> None:
    registry = SchemaRegistry(schema_registry.url)
    registered = anyio.run(partial(registry.register, "orders-value", text(ORDER)), backend=anyio_backend)
    assert registered.id is not None
    assert anyio.run(registry.schema, registered.id, backend=anyio_backend).schema == text(ORDER)
    assert anyio.run(registry.subjects, backend=anyio_backend) == ["orders-value"]


def test_event_loops_that_use_one_registry_at_the_same_time_keep_few_threads(
    schema_registry: EmbeddedSchemaRegistry, anyio_backend: str
) -> None:
    registry = SchemaRegistry(schema_registry.url)
    together = threading.Barrier(2)

    async def ask() -> None:
        for _ in range(10):
            together.wait(30)
            assert await registry.subjects() == []

    before = set(threading.enumerate())
    with ThreadPoolExecutor(2) as pool:
        for running in [pool.submit(partial(anyio.run, ask, backend=anyio_backend)) for _ in range(2)]:
            running.result()
    assert sum("schema registries" in each.name for each in set(threading.enumerate()) - before) <= 4


# --- answers ---


async def test_the_whole_of_a_subjects_life(schema_registry: EmbeddedSchemaRegistry) -> None:
    registry = SchemaRegistry(schema_registry.url)
    first = await registry.register("orders-value", text(ORDER))
    assert await registry.register("orders-value", text(ORDER)) == first
    assert await registry.compatibility() == await registry.compatibility("orders-value") == "BACKWARD"
    with pytest.raises(IncompatibleSchemaError) as raised:
        await registry.register("orders-value", text(OTHER))
    assert raised.value.reasons == ("/id/: the reader's type string does not read long",)
    assert raised.value.status == 409
    assert await registry.incompatibilities("orders-value", text(OTHER)) == list(raised.value.reasons)
    assert await registry.incompatibilities("orders-value", text(LATER)) == []
    await registry.set_compatibility("NONE", "orders-value")
    assert await registry.compatibility("orders-value") == "NONE"
    assert await registry.versions("orders-value") == [1]
    await registry.register("orders-value", text(OTHER))
    assert (await registry.version("orders-value", 2)).schema == text(OTHER)
    assert (await registry.lookup("orders-value", text(OTHER))).version == 2
    spaced = Schema(ORDER_TEXT.replace(",", " , "))
    with pytest.raises(SchemaNotFoundError):
        await registry.lookup("orders-value", spaced)
    assert (await registry.lookup("orders-value", spaced, normalize=True)).version == 1
    await registry.delete_version("orders-value", 2)
    assert await registry.delete_subject("orders-value") == [1]
    assert await registry.subjects() == []
    assert await registry.subjects(deleted=True) == ["orders-value"]
    await registry.delete_subject("orders-value", permanent=True)
    assert await registry.subjects(deleted=True) == []
    with pytest.raises(SchemaNotFoundError):
        await registry.latest("orders-value")
    with pytest.raises(InvalidSchemaError):
        await registry.register("orders-value", Schema('{"type": "record"}'))


async def test_references_are_resolved_with_what_they_refer_to(schema_registry: EmbeddedSchemaRegistry) -> None:
    registry = SchemaRegistry(schema_registry.url)
    await registry.register("order", text(ORDER))
    reference = SchemaReference("shop.Order", "order", 1)
    await registry.register("list", Schema(LIST_TEXT, references=(reference,)))
    lists = {
        "type": "record",
        "name": "Lists",
        "fields": [{"name": "all", "type": {"type": "array", "items": "List"}}, {"name": "one", "type": "shop.Order"}],
    }
    schema = Schema(json.dumps(lists), references=(SchemaReference("List", "list", 1), reference))
    serializer = registry.avro_serializer(schema, auto_register=True)
    one = {"id": 1, "customer": "c", "note": None}
    value = {"all": [{"first": one}], "one": one}
    written = await serializer.encode(value, "lists")
    assert await SchemaRegistry(schema_registry.url).deserializer().decode(written) == value
    with pytest.raises(InvalidSchemaError):
        await registry.register("lists-value", Schema(LIST_TEXT, references=(SchemaReference("x", "missing", 1),)))


async def test_a_deleted_schema_is_still_read_with_its_references(schema_registry: EmbeddedSchemaRegistry) -> None:
    registry = SchemaRegistry(schema_registry.url)
    await registry.register("order", text(ORDER))
    schema = Schema(LIST_TEXT, references=(SchemaReference("shop.Order", "order", 1),))
    value = {"first": {"id": 1, "customer": "c", "note": None}}
    written = await registry.avro_serializer(schema, auto_register=True).encode(value, "lists")
    for delete in (registry.delete_subject("order"), registry.delete_version("order", 1)):
        with pytest.raises(SchemaRegistryError, match="references exist") as raised:
            await delete
        assert (raised.value.status, raised.value.error_code) == (422, 42206)
    assert await registry.delete_subject("lists-value") == await registry.delete_subject("order") == [1]
    assert await registry.deserializer().decode(written) == value
    with pytest.raises(SchemaNotFoundError):
        await registry.version("order", 1)


async def test_a_version_is_deleted_permanently_after_its_deletion(schema_registry: EmbeddedSchemaRegistry) -> None:
    registry = SchemaRegistry(schema_registry.url)
    await registry.register("orders-value", text(ORDER))
    await registry.register("orders-value", text(LATER))
    with pytest.raises(SchemaNotFoundError, match="was not deleted first"):
        await registry.delete_version("orders-value", 1, permanent=True)
    await registry.delete_version("orders-value", 1)
    await registry.delete_version("orders-value", 1, permanent=True)
    assert await registry.versions("orders-value") == [2]
    with pytest.raises(SchemaNotFoundError):
        await registry.delete_version("orders-value", 1, permanent=True)


@pytest.mark.parametrize("version", ["latest", -1, 0, True])
async def test_a_version_is_a_number(version: Any) -> None:
    """Others would name another schema later."""
    with pytest.raises((ConfigError, ConfigTypeError), match="version must be"):
        await SchemaRegistry("http://127.0.0.1:1").version("orders-value", version)


# --- failures ---


@again_if_late(300, 5_000)
async def test_a_registry_of_this_machine_needs_no_proxy(
    timeout_ms: int, schema_registry: EmbeddedSchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert await SchemaRegistry(schema_registry.url).subjects() == []
    with pytest.raises(SchemaRegistryUnavailableError, match="refused"):  # not an unknown name: it is the proxy's task
        await SchemaRegistry("http://registry.invalid", retry_backoff_ms=1, timeout_ms=timeout_ms).subjects()


async def test_another_registry_answers_where_one_is_gone(schema_registry: EmbeddedSchemaRegistry) -> None:
    gone = EmbeddedSchemaRegistry()
    gone.start()
    gone.stop()
    registry = SchemaRegistry(f"{gone.url},{schema_registry.url}")
    await registry.register("orders-value", text(ORDER))
    assert await registry.subjects() == ["orders-value"]
    schema_registry.stop()
    gone.start()
    try:
        assert await registry.subjects() == []
    finally:
        gone.stop()


async def test_a_registry_that_is_not_well_is_asked_again(schema_registry: EmbeddedSchemaRegistry) -> None:
    registry = SchemaRegistry(schema_registry.url, retry_backoff_ms=1)
    for status in (500, 503, 429):
        schema_registry.fail(status, count=3)
        assert await registry.subjects() == []
    assert len(schema_registry.requests) == 12


async def test_a_registry_that_does_not_answer_costs_no_more_than_the_deadline(
    schema_registry: EmbeddedSchemaRegistry,
) -> None:
    registry = SchemaRegistry(schema_registry.url, timeout_ms=400, request_timeout_ms=100, retry_backoff_ms=1)
    schema_registry.hold()
    with pytest.raises(SchemaRegistryUnavailableError, match="has not answered within"):
        await registry.subjects()
    schema_registry.release()
    schema_registry.stop()
    patient = SchemaRegistry(schema_registry.url, timeout_ms=2000, request_timeout_ms=2000)
    with pytest.raises(SchemaRegistryUnavailableError, match="cannot be reached"):
        await patient.subjects()


class _Proxy(EmbeddedSchemaRegistry):
    """A server that is no registry: its answers have a status, but no content of a registry's."""

    status = 200

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> tuple[int, Any]:
        self.requests.append(RegistryRequest(method, target, self.status))
        return self.status, None if self.status == 200 else {"message": "no such page"}


@pytest.mark.parametrize("status", [200, 302, 400, 401, 404, 405, 407])
async def test_a_server_that_is_no_registry_is_passed_over(
    schema_registry: EmbeddedSchemaRegistry, status: int
) -> None:
    proxy = _Proxy()
    proxy.status = status
    with proxy:
        registry = SchemaRegistry(f"{proxy.url},{schema_registry.url}")
        content = await registry.avro_serializer(ORDER, auto_register=True).encode(order(1), "orders")
        assert await registry.deserializer().decode(content) == order(1)
        assert len(proxy.requests) == 1  # later requests go to the registry first
        schema_registry.stop()
        with pytest.raises(SchemaRegistryError) as raised:
            await registry.subjects()
        assert raised.value.status == status


async def test_a_node_that_knows_no_credentials_is_passed_over(schema_registry: EmbeddedSchemaRegistry) -> None:
    schema_registry.fail(401, count=1_000_000)
    with EmbeddedSchemaRegistry() as other:
        registry = SchemaRegistry(f"{schema_registry.url},{other.url}", basic_auth=("orders", "secret"))
        assert await registry.subjects() == []
        other.fail(401)
        with pytest.raises(SchemaRegistryAuthenticationError):
            await registry.subjects()


async def test_the_text_of_a_failing_registry_is_shown() -> None:
    class Failing(EmbeddedSchemaRegistry):
        def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> tuple[int, Any]:
            return 500, {"error_code": 50001, "message": "Error in the backend data store"}

    with Failing() as failing:
        registry = SchemaRegistry(failing.url, timeout_ms=2000, retry_backoff_ms=60_000, retry_backoff_max_ms=60_000)
        with pytest.raises(SchemaRegistryUnavailableError, match="answered 500: Error in the backend data store"):
            await registry.subjects()


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, SchemaRegistryError),
        (401, SchemaRegistryAuthenticationError),
        (403, SchemaRegistryAuthenticationError),
        (404, SchemaRegistryError),  # without the registry's code it comes from another server
        (307, SchemaRegistryError),
        (200, SchemaRegistryError),
    ],
)
async def test_statuses_are_typed(
    schema_registry: EmbeddedSchemaRegistry, status: int, kind: type[SchemaRegistryError]
) -> None:
    schema_registry.fail(status)
    with pytest.raises(SchemaRegistryError) as raised:
        await SchemaRegistry(schema_registry.url).subjects()
    assert type(raised.value) is kind
    assert raised.value.status == status
    assert not raised.value.retriable


# --- credentials ---


async def test_basic_authentication() -> None:
    with EmbeddedSchemaRegistry(basic_auth=("orders", SECRET)) as server:
        registry = SchemaRegistry(server.url, basic_auth=("orders", SECRET))
        assert await registry.subjects() == []
        wrong = SchemaRegistry(server.url, basic_auth=("orders", f"{SECRET}!"))
        with pytest.raises(SchemaRegistryAuthenticationError) as raised:
            await wrong.subjects()
        assert SECRET not in everything(raised.value)
        assert SECRET not in repr(registry) + repr(registry._config) + repr(registry.deserializer())


async def test_a_token_is_fetched_once_and_anew_where_it_is_refused() -> None:
    provider = IdentityProvider({"orders": SECRET})
    with provider.running() as idp, EmbeddedSchemaRegistry(tokens=set()) as server:
        assert server.tokens is not None
        credentials = ClientCredentials(idp.url, "orders", SECRET)
        given: list[str] = []

        def token() -> str:
            made = credentials.token().value
            given.append(made)
            if len(given) != 2:
                server.tokens = {made}
            return made

        class Provider:
            def token(self) -> Any:
                return token()

        registry = SchemaRegistry(server.url, token_provider=Provider(), retry_backoff_ms=1)
        assert await registry.subjects() == []
        assert len(given) == 1
        server.tokens = set()
        with pytest.raises(SchemaRegistryAuthenticationError) as raised:
            await SchemaRegistry(server.url, token_provider=lambda: "refused", retry_backoff_ms=1).subjects()
        assert SECRET not in everything(raised.value)


async def test_a_provider_of_tokens_that_fails() -> None:
    with IdentityProvider({"orders": SECRET}).running() as idp, EmbeddedSchemaRegistry(tokens=set()) as server:
        registry = SchemaRegistry(server.url, token_provider=ClientCredentials(idp.url, "orders", "wrong"))
        with pytest.raises(SchemaRegistryAuthenticationError, match="no token"):
            await registry.subjects()


async def test_tls_with_certificates_of_both_sides(tmp_path: Any) -> None:
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    ca, own = tmp_path / "ca.pem", tmp_path / "own.pem"
    authority.cert_pem.write_to_path(ca)
    authority.issue_cert("orders.example.org").private_key_and_cert_chain_pem.write_to_path(own)
    with EmbeddedSchemaRegistry(ssl_context=context) as server:
        assert await SchemaRegistry(server.url, ssl_cafile=str(ca), ssl_certfile=str(own)).subjects() == []
        once: Any = {"retry_backoff_ms": 60_000, "retry_backoff_max_ms": 60_000}  # beyond the deadline
        with pytest.raises(SchemaRegistryUnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
            await SchemaRegistry(server.url, **once).subjects()
        with pytest.raises(SchemaRegistryUnavailableError):
            await SchemaRegistry(server.url, **once, ssl_cafile=str(ca)).subjects()


async def test_certificates_that_are_replaced(tmp_path: Any) -> None:
    ca, own = tmp_path / "ca.pem", tmp_path / "own.pem"

    def issued() -> ssl.SSLContext:
        """Write the files of a new authority; return the context of a server that accepts only these."""
        authority = trustme.CA()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        authority.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
        authority.cert_pem.write_to_path(ca)
        authority.issue_cert("orders.example.org").private_key_and_cert_chain_pem.write_to_path(own)
        return context

    later = issued()
    files = ca.read_bytes(), own.read_bytes()
    with EmbeddedSchemaRegistry(ssl_context=issued()) as first, EmbeddedSchemaRegistry(ssl_context=later) as second:
        registry = SchemaRegistry([first.url, second.url], ssl_cafile=str(ca), ssl_certfile=str(own))
        assert await registry.subjects() == []
        own.unlink()  # as in the middle of a change
        assert await registry.subjects() == []
        ca.write_bytes(files[0])
        own.write_bytes(files[1])
        assert await registry.subjects() == []
    assert (len(first.requests), len(second.requests)) == (2, 1)


@pytest.mark.parametrize("call", ["register", "lookup", "incompatibilities"])
async def test_a_schema_that_is_mere_text_is_refused_before_it_is_sent(call: str) -> None:
    with pytest.raises(ConfigTypeError, match="schema must be a Schema, not str"):
        await getattr(SchemaRegistry("http://127.0.0.1:1"), call)("orders-value", json.dumps(ORDER))


@pytest.mark.parametrize("subject", [None, "", 5, b"orders-value"])
async def test_a_subject_is_a_text(schema_registry: EmbeddedSchemaRegistry, subject: Any) -> None:
    """A function without a ``return`` would otherwise register "None"; an empty text would mean the global level."""
    registry = SchemaRegistry(schema_registry.url)
    serializer = registry.avro_serializer(ORDER, auto_register=True, subject=lambda *_: subject)
    calls: list[Callable[[], Any]] = [
        lambda: serializer.encode(order(1), "orders"),
        lambda: registry.register(subject, text(ORDER)),
        lambda: registry.lookup(subject, text(ORDER)),
        lambda: registry.incompatibilities(subject, text(ORDER)),
        lambda: registry.latest(subject),
        lambda: registry.version(subject, 1),
        lambda: registry.versions(subject),
        lambda: registry.delete_version(subject, 1),
        lambda: registry.delete_subject(subject),
    ]
    if subject is not None:  # the global level
        calls += [lambda: registry.set_compatibility("NONE", subject), lambda: registry.compatibility(subject)]
    for call in calls:
        with pytest.raises((ConfigError, ConfigTypeError), match="subject must"):
            await call()
    assert schema_registry.requests == []


async def _async_subject(*_: Any) -> str:
    return "orders"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: SchemaRegistry(""), "urls"),
        (lambda: SchemaRegistry("registry:8081"), "urls must begin with http:// or https://"),
        (lambda: SchemaRegistry("http://a:b@registry"), "user name or password"),
        (lambda: SchemaRegistry(7), "urls"),  # type: ignore[arg-type]
        (lambda: SchemaRegistry("http://registry", basic_auth=("a", SECRET)), "https://"),
        (lambda: SchemaRegistry("https://registry", basic_auth=SECRET), "basic_auth"),  # type: ignore[arg-type]
        (lambda: SchemaRegistry("https://registry", basic_auth=("a", SECRET), token_provider=lambda: ""), "cannot be"),
        (lambda: SchemaRegistry("https://registry", headers={"a": 1}), "headers"),  # type: ignore[dict-item]
        (lambda: SchemaRegistry("https://registry", timeout=1), "timeout"),  # type: ignore[call-arg]
        (lambda: SchemaRegistry("http://r").avro_serializer(ORDER, subject="topics"), "subject"),  # type: ignore[arg-type]
        (lambda: SchemaRegistry("http://r").avro_serializer(ORDER, subject=_async_subject), "subject"),  # type: ignore[arg-type]
        (lambda: SchemaRegistry("http://r").avro_serializer(auto_register=True), "auto_register"),
        (lambda: SchemaRegistry("http://r").avro_serializer({"type": "record"}), "Avro"),
        (lambda: SchemaRegistry("http://r").avro_serializer(b"bytes"), "Avro"),
        (lambda: SchemaRegistry("http://r").json_serializer({"type": 7}), "JSON Schema"),
        (lambda: SchemaRegistry("http://r").deserializer(7), "into"),  # type: ignore[call-overload]
    ],
)
def test_wrong_options_are_named_at_once(make: Callable[[], object], said: str) -> None:
    with pytest.raises((ConfigError, ConfigTypeError, InvalidSchemaError), match=said) as raised:
        make()
    assert isinstance(raised.value, KafkaError)
    assert SECRET not in everything(raised.value)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "array", "items": "shop.Order"}, [{"id": 1, "customer": "c", "note": None}]),
        (["null", "shop.Order"], {"id": 1, "customer": "c", "note": None}),
        ("shop.Order", {"id": 1, "customer": "c", "note": None}),
    ],
)
async def test_references_of_what_is_no_record(
    schema_registry: EmbeddedSchemaRegistry, schema: Any, value: Any
) -> None:
    registry = SchemaRegistry(schema_registry.url)
    await registry.register("order", text(ORDER))
    whole = Schema(json.dumps(schema), references=(SchemaReference("shop.Order", "order", 1),))
    written = await registry.avro_serializer(whole, auto_register=True).encode(value, "lists")
    assert await SchemaRegistry(schema_registry.url).deserializer().decode(written) == value
