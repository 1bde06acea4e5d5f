"""A schema registry for tests, in the process of the test: Confluent's REST API on a real socket, no JVM."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import threading
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from .._forks import detach_in_children
from ._registry import Refusal, Store, Stored

_CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"


class RegistryRequest(NamedTuple):
    """A request that the registry has received."""

    method: str
    path: str
    status: int
    """HTTP status of the response."""


class EmbeddedSchemaRegistry:
    """A schema registry in a separate thread: schemas, subjects, versions, references and compatibility.

        with EmbeddedSchemaRegistry() as registry:
            SchemaRegistry(registry.url)

    - ``compatibility``: the default compatibility level of subjects. Only Avro schemas are checked; JSON Schema and
      Protobuf always count as compatible.
    - ``basic_auth``: the name and the secret that the registry requires.
    - ``tokens``: the bearer tokens that the registry accepts. They may be changed at any time.
    - ``ssl_context``: enables TLS.
    - ``port``: the port on 127.0.0.1. The default is a free port.
    - ``guids``: False leaves out the GUIDs of schemas, as Apicurio and older registries do.

    Rules of schemas (``ruleSet``) are stored, but not applied.
    """

    def __init__(
        self,
        *,
        compatibility: str = "BACKWARD",
        basic_auth: tuple[str, str] | None = None,
        tokens: set[str] | None = None,
        ssl_context: ssl.SSLContext | None = None,
        port: int = 0,
        guids: bool = True,
    ) -> None:
        self.tokens = tokens
        """Accepted bearer tokens. None means that no token is required."""
        self.requests: list[RegistryRequest] = []
        """Requests that the registry has received, in order."""
        self._store = Store(compatibility)
        self._basic = basic_auth
        self._guids = guids
        self._tls = ssl_context
        self._faults: list[int] = []
        self._lock = threading.Lock()
        self._open = threading.Event()
        self._open.set()
        self._server: _Server | None = None
        self._port = port
        self._reserved: weakref.finalize[..., EmbeddedSchemaRegistry] | None = None
        """Closes the socket that prevents other programs from taking the port of the stopped registry."""

    @property
    def url(self) -> str:
        """Base URL of the registry, such as ``"http://127.0.0.1:8081"``."""
        return f"{'http' if self._tls is None else 'https'}://127.0.0.1:{self._port}"

    def __enter__(self) -> EmbeddedSchemaRegistry:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._give_up_port()

    def start(self) -> None:
        """Start listening. After `stop`, the address and the schemas are the same as before.

        Raises OSError if another program uses the port.
        """
        self._give_up_port()
        server = _Server(("127.0.0.1", self._port), _handler(self))
        if self._tls is not None:
            server.socket = self._tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        detach_in_children(server.socket)
        self._port = server.server_address[1]
        self._server = server
        threading.Thread(target=server.serve_forever, args=(0.02,), name="schema registry", daemon=True).start()

    def stop(self) -> None:
        """Stop listening, so that connections are refused. The schemas are kept."""
        server, self._server = self._server, None
        self._open.set()
        if server is not None:
            server.shutdown()
            server.server_close()
            self._keep_port()

    def _keep_port(self) -> None:
        reserved = socket.socket()
        detach_in_children(reserved)
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved = weakref.finalize(self, reserved.close)
        with suppress(OSError):  # another program has already taken the port; `start` would report that
            reserved.bind(("127.0.0.1", self._port))

    def _give_up_port(self) -> None:
        if self._reserved is not None:
            self._reserved()

    def fail(self, status: int, count: int = 1) -> None:
        """Answer the next ``count`` requests with this HTTP status. With ``count=0``, cancel pending failures."""
        self._faults[:] = [*self._faults, *[status] * count] if count else []

    def hold(self) -> None:
        """Hold all requests without a response until `release`."""
        self._open.clear()

    def release(self) -> None:
        """Answer the held requests and all later requests."""
        self._open.set()

    def asked(self, method: str, path: str) -> int:
        """Return the number of received requests with this method and path."""
        return sum((each.method, each.path) == (method, path) for each in self.requests)

    # --- answering, in the server's threads ---

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> tuple[int, Any]:
        """Return the status and the content of the response to a request. Internal."""
        self._open.wait()
        parts = urlsplit(target)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        path = [unquote(part) for part in parts.path.strip("/").split("/")]
        with self._lock:
            try:
                if self._faults:
                    status, content = self._faults.pop(0), None
                elif not self._admits(headers.get("Authorization")):
                    raise Refusal(401, 40101, "Unauthorized")
                else:
                    status, content = 200, self._content(method, path, query, body)
            except Refusal as refusal:
                status, content = refusal.status, {"error_code": refusal.code, "message": refusal.message}
            self.requests.append(RegistryRequest(method, parts.path, status))
        return status, content

    def _admits(self, given: str | None) -> bool:
        if self._basic is not None:
            return given == f"Basic {base64.b64encode(':'.join(self._basic).encode()).decode()}"
        return self.tokens is None or (given or "").removeprefix("Bearer ") in self.tokens

    def _content(self, method: str, path: list[str], query: dict[str, str], body: bytes) -> Any:
        """Process a request for a path of Confluent's REST API. Return the content of the response.

        Raises `Refusal` if the registry refuses the request or does not know the path.
        """
        store = self._store
        normalize = query.get("normalize") == "true"
        match method, path:
            case "GET", ["schemas", "ids", name] if name.isdecimal():
                return self._described(store.by_id(int(name)))
            case "GET", ["schemas", "guids", guid] if self._guids:
                return self._described(store.by_guid(guid))
            case "GET", ["schemas", "types"]:
                return ["JSON", "PROTOBUF", "AVRO"]
            case "GET", ["subjects"]:
                prefix = query.get("subjectPrefix", "").removeprefix(":*:")
                live = [] if query.get("deletedOnly") == "true" else store.names(prefix)
                also = "true" in (query.get("deleted"), query.get("deletedOnly"))
                return sorted([*live, *(store.names(prefix, deleted=True) if also else ())])
            case "POST", ["subjects", subject]:
                store.subject(subject)
                known = store.lookup(subject, _sent(body), normalize=normalize)
                if known is None:
                    raise Refusal(404, 40403, "Schema not found")
                return self._version(subject, *known)
            case "GET", ["subjects", subject, "versions"]:
                return store.subject(subject).live()
            case "POST", ["subjects", subject, "versions"]:
                schema = _sent(body)
                schema_id = store.register(subject, schema, normalize=normalize)
                return {"id": schema_id, **({"guid": store.by_id(schema_id).guid} if self._guids else {})}
            case "GET", ["subjects", subject, "versions", version]:
                return self._version(subject, *store.version(subject, version, deleted=query.get("deleted") == "true"))
            case "DELETE", ["subjects", subject]:
                return store.delete(subject, permanent=query.get("permanent") == "true")
            case "DELETE", ["subjects", subject, "versions", version]:
                return store.delete_version(subject, version, permanent=query.get("permanent") == "true")
            case "POST", ["compatibility", "subjects", subject, "versions", version]:
                store.version(subject, version)
                reasons = store.incompatibilities(subject, _sent(body), version)
                return {"is_compatible": not reasons, **({"messages": reasons} if "verbose" in query else {})}
            case "GET", ["config", *name] if len(name) <= 1:
                own = store.subjects[name[0]].level if name and name[0] in store.subjects else None
                if name and own is None and query.get("defaultToGlobal") != "true":
                    raise Refusal(404, 40408, f"Subject '{name[0]}' has no compatibility level of its own")
                return {"compatibilityLevel": own or store.level}
            case "PUT", ["config", *name] if len(name) <= 1:
                level = _fields(body).get("compatibility")
                store.set_level(name[0] if name else None, level)
                return {"compatibility": level}
        raise Refusal(404, 404, "HTTP 404 Not Found")

    def _described(self, schema: Stored) -> dict[str, Any]:
        return {
            "schema": schema.text,
            "schemaType": schema.kind,
            "references": [
                {"name": name, "subject": subject, "version": version} for name, subject, version in schema.references
            ],
            **({"guid": schema.guid} if self._guids else {}),
            **({"ruleSet": json.loads(schema.rule_set)} if schema.rule_set else {}),
        }

    def _version(self, subject: str, version: int, schema_id: int) -> dict[str, Any]:
        described = self._described(self._store.by_id(schema_id))
        return {"subject": subject, "version": version, "id": schema_id, **described}


def _fields(body: bytes) -> dict[str, Any]:
    try:
        content = json.loads(body)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise Refusal(400, 400, "HTTP 400 Bad Request")
    return content


def _sent(body: bytes) -> Stored:
    """Return the schema in the body of a request. Raises `Refusal` if there is none."""
    try:
        content = json.loads(body)
        references = tuple((each["name"], each["subject"], each["version"]) for each in content.get("references", ()))
        rule_set = json.dumps(content["ruleSet"]) if content.get("ruleSet") else ""
        return Stored(content["schema"], content.get("schemaType", "AVRO"), references, rule_set)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Refusal(422, 42201, "Invalid schema: the request has none") from None


class _Server(ThreadingTCPServer):
    """Serves each connection in a thread. Unlike `http.server.HTTPServer`, it does not ask a resolver for its name."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128


def _handler(registry: EmbeddedSchemaRegistry) -> Callable[..., BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, content = registry.answer(self.command, self.path, dict(self.headers.items()), body)
            data = b"" if content is None else json.dumps(content).encode()
            self.close_connection = True
            with suppress(ConnectionError):  # the client has closed the connection
                self.send_response(status)
                self.send_header("Content-Type", _CONTENT_TYPE)
                self.send_header("Content-Length", str(len(data)))
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815  # http.server's names

        def log_message(self, format: str, *args: Any) -> None:
            """Ignore the message, because ``requests`` already contains the request."""

    return Handler
