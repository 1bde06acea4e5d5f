"""HTTP requests to the nodes of a registry, in threads, with retries until a node answers or time is up."""

from __future__ import annotations

import json
import logging
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import anyio

from .. import errors
from .._core.backoff import Backoff
from .._io.connection.tls import Look, read_if_changed
from .._io.connection.token_source import Fetching, source_of
from .._io.loop import loop_token, spawn_host
from .._io.threads import BlockingCalls
from .._options.token import Token
from .._options.version import __version__
from ..errors.shown import shown
from ..oidc.http import Basic, Exchange, json_of, may_pass
from .options import RegistryConfig

MAX_ANSWER_BYTES = 16 * 1024 * 1024
"""Maximum size of a response in bytes, more than any schema that a registry accepts."""

AT_ONCE = 8
"""Maximum number of simultaneous requests."""

GRACE_S = 0.5
"""Seconds after its time limit until a thread is abandoned. It may hang while resolving a host name."""

_log = logging.getLogger("aiokafka_lead.schema")

INVALID_SCHEMA = 42201
_CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"

_BY_STATUS: dict[int, type[errors.SchemaRegistryError]] = {
    401: errors.SchemaRegistryAuthenticationError,
    403: errors.SchemaRegistryAuthenticationError,
    404: errors.SchemaNotFoundError,
    409: errors.IncompatibleSchemaError,
}


class Query(NamedTuple):
    """A request to the schema registry, independent of the node that it is sent to."""

    method: str
    path: tuple[str | int, ...]
    query: Mapping[str, str] = {}  # a NamedTuple's default, never changed
    body: Mapping[str, Any] | None = None
    anywhere: bool = False
    """True to try the other nodes if a node does not have the item, because followers receive schemas with a delay."""

    def request(self, base: str, headers: Mapping[str, str]) -> urllib.request.Request:
        """Return the HTTP request to the node at URL ``base``."""
        path = "/".join(urllib.parse.quote(str(part), safe="") for part in self.path)
        query = f"?{urllib.parse.urlencode(self.query)}" if self.query else ""
        data = None if self.body is None else json.dumps(self.body).encode()
        every = {
            "Accept": f"{_CONTENT_TYPE}, application/json",
            "User-Agent": f"aiokafka-lead/{__version__}",
            **({} if data is None else {"Content-Type": _CONTENT_TYPE}),
            **headers,
        }
        return urllib.request.Request(f"{base}/{path}{query}", data, every, method=self.method)


class _Spawner:
    """Starts tasks that outlive the call that started them."""

    def start_soon(self, func: Callable[..., Any], /, *args: Any, name: object = None) -> None:
        spawn_host(partial(func, *args), str(name))


class Transport:
    """Sends requests to the nodes of a registry, first to the node that answered last. Works on any event loop."""

    def __init__(self, config: RegistryConfig) -> None:
        self._config = config
        self._urls = list(config.urls)
        self._exchange: Exchange | None = None
        self._look: Look | None = None
        """State of the TLS files at the creation of the exchange."""
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._calls: WeakKeyDictionary[object, BlockingCalls] = WeakKeyDictionary()
        """Threads for the calls of each event loop."""

    async def ask(self, query: Query) -> Any:
        """Send a request, and return the parsed JSON of the response.

        Temporary failures are retried, at the next node. Raises a `SchemaRegistryError` for an error response,
        or `SchemaRegistryUnavailableError` if no node answers within ``timeout_ms``.
        """
        deadline = time.monotonic() + self._config.timeout_ms / 1000
        failures = 0
        renewed = False
        trouble: dict[str, str] = {}  # last error of each node
        while time.monotonic() < deadline:
            absent: _Said | None = None
            refused: _Said | None = None
            for url in tuple(self._urls):
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    break
                try:
                    token = await self._token(left_s)
                except errors.TokenProviderError as error:
                    trouble[url] = f"needs a token: {error.message}"
                    continue
                said = await self._attempt(url, query, token, min(left_s, self._config.request_timeout_ms / 1000))
                if isinstance(said, str) or may_pass(said.status):
                    trouble[url] = said if isinstance(said, str) else f"answered {said.status}{said.message}"
                    continue
                if said.status == 401 and token is not None and not renewed:
                    renewed = True
                    self._refused(token)
                    trouble[url] = "refused the token"
                    break
                if said.status == 401 or said.is_foreign:
                    refused = said
                    continue
                if said.status == 404 and query.anywhere:
                    absent = said
                    continue
                self._prefer(url)
                return said.content_for(query)
            else:
                last = absent or refused
                if last is not None:
                    return last.content_for(query)
                failures += 1
                wait_s = self._backoff.delay_s(failures)
                if time.monotonic() + wait_s >= deadline:
                    break
                await anyio.sleep(wait_s)
        why = "; ".join(f"{url} {each}" for url, each in trouble.items()) or "there was no time for a request"
        raise errors.SchemaRegistryUnavailableError(
            f"no schema registry has answered within {self._config.timeout_ms:.0f} ms: {why}"
        )

    def _prefer(self, url: str) -> None:
        if self._urls[0] != url:
            # Replace the list instead of changing it, because other threads may iterate over it.
            self._urls = [url, *(each for each in self._urls if each != url)]

    async def _attempt(self, url: str, query: Query, token: Token | None, timeout_s: float) -> _Said | str:
        loop = loop_token()
        calls = self._calls.get(loop)
        if calls is None:
            calls = self._calls[loop] = BlockingCalls("requests to schema registries", AT_ONCE)
        try:
            with anyio.move_on_after(timeout_s + GRACE_S):
                return await calls.run(partial(self._send, url, query, token, timeout_s))
        except errors.KafkaConnectionError as error:  # all threads are waiting for earlier requests
            return f"received no request: {error.message}"
        return f"has not answered within {timeout_s * 1000:.0f} ms"

    def _send(self, url: str, query: Query, token: Token | None, timeout_s: float) -> _Said | str:
        """Send a request, blocking the calling thread. Return the answer or, after a failure, the text of the error."""
        answer = self._newest_exchange().send(lambda: query.request(url, self._headers(token)), timeout_s)
        return answer if isinstance(answer, str) else _Said(url, answer.status, json_of(answer.body))

    def _newest_exchange(self) -> Exchange:
        """Return the exchange with the current TLS files, or the previous exchange if they are invalid."""
        material = self._config.tls_material()
        if material is None:
            self._exchange = self._exchange or Exchange(self._config.ssl_context, MAX_ANSWER_BYTES)
            return self._exchange
        try:
            look, context = read_if_changed(material, self._look)
        except errors.ConfigError as error:
            if self._exchange is None:
                raise
            _log.warning("could not reload the TLS files, so the previous ones stay in use: %s", error)
            return self._exchange
        if self._exchange is None or context is not None:
            self._exchange = Exchange(context, MAX_ANSWER_BYTES)
        self._look = look
        return self._exchange

    def _headers(self, token: Token | None) -> dict[str, str]:
        headers = dict(self._config.headers or {})
        if token is not None:
            headers["Authorization"] = f"Bearer {token.value}"
        elif self._config.basic_auth is not None:
            headers["Authorization"] = Basic(*self._config.basic_auth, urlencoded=False).header()
        return headers

    # --- tokens ---

    async def _token(self, timeout_s: float) -> Token | None:
        provider = self._config.token_provider
        if provider is None:
            return None
        try:
            return await source_of(provider).token(Fetching(_Spawner(), timeout_s, self._backoff))
        except errors.SaslAuthenticationFailedError as error:
            raise errors.SchemaRegistryAuthenticationError(f"no token for the schema registry: {error}") from None

    def _refused(self, token: Token) -> None:
        error = errors.SchemaRegistryAuthenticationError("the schema registry refused the token")
        source_of(self._config.token_provider).refused(token, error, self._backoff)


class _Said(NamedTuple):
    """A node's answer: its status, and its content as JSON if it is JSON."""

    url: str
    status: int
    content: Any
    """Parsed JSON, or None if the answer is not JSON."""

    def __repr__(self) -> str:
        return f"<answer {self.status} of {self.url}>"

    @property
    def is_foreign(self) -> bool:
        """True if the answer is not a registry's, but for example from a proxy or a node that is starting."""
        return self.content is None if 200 <= self.status < 300 else self._error("error_code") is None

    @property
    def message(self) -> str:
        """The registry's error message after a colon, or an empty text if there is none."""
        message = self._error("message")
        return f": {shown(str(message))}" if message else ""

    def content_for(self, query: Query) -> Any:
        """Return the content of a successful answer. Raises the `SchemaRegistryError` for an error."""
        if 200 <= self.status < 300:
            if self.content is None:
                raise errors.SchemaRegistryError(f"{self.url} answered, but not with JSON", status=self.status)
            return self.content
        code = self._error("error_code")
        asked = f"{query.method} /{'/'.join(str(part) for part in query.path)}"
        text = f"{self.url} answered {self.status} to {asked}{self.message}"
        if 300 <= self.status < 400:
            text = f"{text}; redirects are not followed, so set the URL to the target of the redirect"
        kind = _BY_STATUS.get(self.status, errors.SchemaRegistryError)
        if self.is_foreign and not issubclass(kind, errors.SchemaRegistryAuthenticationError):
            kind = errors.SchemaRegistryError
        if code == INVALID_SCHEMA:
            kind = errors.InvalidSchemaError
        raise kind(text, status=self.status, error_code=code if isinstance(code, int) else None)

    def _error(self, name: str) -> Any:
        return self.content.get(name) if isinstance(self.content, dict) else None
