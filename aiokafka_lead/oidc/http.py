"""HTTP requests to token endpoints, with limits for time and size.

The errors contain no secrets.
"""

from __future__ import annotations

import base64
import http.client
import io
import json
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from functools import partial
from ssl import SSLContext
from typing import Any

from .._options.addresses import Addresses, Search, without_root
from .._options.checks import Secret
from .._options.version import __version__
from .._values import NamedTuple
from ..errors import ConfigError, SaslAuthenticationFailedError, TokenProviderError
from ..errors.shown import shown

MAX_ANSWER_BYTES = 1024 * 1024
"""Maximum size of a response in bytes, twice the size of the largest tokens."""

MAX_ANSWER_PARTS = 10_000
"""Maximum number of objects, lists and items in a response, more than any response with a token has.

Parsing this many takes a few milliseconds, during which all other threads wait, including the event loop's."""

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_TEMPORARY_STATUS = (408, 425, 429)
_TEMPORARY_ERRORS = ("temporarily_unavailable", "server_error", "slow_down")


class Basic(NamedTuple):
    """A client's name and secret for HTTP Basic authentication."""

    name: str
    secret: str
    urlencoded: bool
    """True to URL-encode the name and the secret first (RFC 6749, 2.3.1)."""

    def header(self) -> str:
        """Return the value of the header ``Authorization``."""
        pair = [urllib.parse.quote_plus(part) if self.urlencoded else part for part in (self.name, self.secret)]
        return f"Basic {base64.b64encode(':'.join(pair).encode()).decode()}"

    def __repr__(self) -> str:
        return f"Basic({self.name!r})"


def checked_url(name: str, url: Any, *, allow_http: bool) -> str:
    """Return the URL of the argument ``name`` if secrets may be sent to it.

    Otherwise raises `ConfigError`, whose text contains no secrets.
    """
    if not isinstance(url, str):
        raise ConfigError(f"{name} must be a str, not {type(url).__name__}")
    url = Secret(url)  # also hidden in tracebacks that show the arguments of functions
    scheme, host, has_credentials = _looked_at(url)
    if scheme is None:
        raise ConfigError(f"{name} is not a URL")
    if has_credentials:
        raise ConfigError(f"{name} must not contain a user name or password")
    if scheme not in ("https", "http") or not host:
        schemes = "http:// or https://" if allow_http else "https://"
        raise ConfigError(f"{name} must begin with {schemes} and name a host")
    if scheme == "http" and host not in _LOOPBACK and not allow_http:
        raise ConfigError(
            f"{name} must begin with https://, because secrets are sent to {host}. To allow http, set allow_http=True"
        )
    return str(url)


def _looked_at(url: str) -> tuple[str | None, str | None, bool]:
    """Return a URL's scheme and host, and True if it contains credentials.

    The scheme is None for an invalid URL. Never raises an error.
    """
    try:
        parts = urllib.parse.urlsplit(str(url))
        _ = parts.port
        return parts.scheme, parts.hostname, "@" in parts.netloc
    except ValueError:
        return None, None, False


class Endpoint:
    """A token endpoint (RFC 6749). ``timeout_s`` limits the time of a whole exchange."""

    def __init__(self, url: str, ssl_context: SSLContext | None, timeout_s: float) -> None:
        self.url = url
        self.timeout_s = timeout_s
        self._exchange = Exchange(ssl_context, MAX_ANSWER_BYTES)

    def ask(self, form: Form) -> Mapping[str, Any]:
        """Send a form, and return the JSON response.

        Raises `SaslAuthenticationFailedError` if the endpoint rejects the request, and `TokenProviderError` if a retry
        may help. The message of either error contains the endpoint's URL and the reason.
        """
        answer = self._exchange.send(lambda: form.request(self.url), self.timeout_s)
        if isinstance(answer, str):
            raise TokenProviderError(f"the token endpoint {self.url} {answer}")
        content = json_of(answer.body) if _parts(answer.body) <= MAX_ANSWER_PARTS else None
        if answer.status == 200 and isinstance(content, dict):
            return content
        if answer.status == 200:
            raise TokenProviderError(f"the token endpoint {self.url} returned a body that is not a JSON object")
        reason = _reason(content)
        text = f"the token endpoint {self.url} answered {answer.status}{f': {reason}' if reason else ''}"
        error = content.get("error") if isinstance(content, dict) else None
        if may_pass(answer.status) or error in _TEMPORARY_ERRORS:
            raise TokenProviderError(text)
        if 300 <= answer.status < 400:
            text = f"{text}. Redirects are not followed: set the URL to which it redirects"
        raise SaslAuthenticationFailedError(text)


class Exchange:
    """Sends requests, and limits the size of the responses.

    If the host name has several addresses, and one refuses the connection, does not respond, or does not speak HTTP,
    the next address is tried.
    """

    def __init__(self, ssl_context: SSLContext | None, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        handlers = (_NoRedirect(), _Proxy(), _Http(), _Https(context=ssl_context))
        self._opener = urllib.request.build_opener(*handlers)
        self._addresses: dict[tuple[str, int], Addresses[str]] = {}

    def send(self, make: Callable[[], urllib.request.Request], timeout_s: float) -> Answer | str:
        """Send the request that ``make`` creates, and return the response, or the text of an error.

        ``make`` is called for each address that is tried. The call raises no exception, because the frames of a
        traceback would contain secrets.
        """
        dialling = _Dialling(self._addresses, timeout_s)
        while True:
            outcome = self._send(make(), dialling)
            if isinstance(outcome, Answer):
                dialling.answered(outcome)
                return outcome
            if not dialling.goes_on_after(outcome):
                return dialling.text(outcome)

    def _send(self, request: urllib.request.Request, dialling: _Dialling) -> Answer | _Failure:
        """Send the request to the next address of the host. Return the response or the failure."""
        request.dialling = dialling  # type: ignore[attr-defined]
        try:
            with self._opener.open(request, timeout=dialling.left_s()) as response:
                return Answer(response.status, self._read(response))
        except urllib.error.HTTPError as error:
            with error:
                try:
                    return Answer(error.code, self._read(error))
                except (OSError, http.client.HTTPException, _TooMuchError):
                    return Answer(error.code, b"")
        except TimeoutError:
            return _Failure("has not answered", silent=True)
        except urllib.error.URLError as error:
            if isinstance(error.reason, TimeoutError):
                return _Failure("has not answered", silent=True)
            return _Failure(f"cannot be reached: {shown(str(error.reason))}")
        except _TooMuchError:
            return _Failure(f"returned more than {self._most_bytes} bytes")
        except ValueError:  # its text contains the invalid header value, which is a secret
            return _Failure(
                "cannot be used: the URL, or the value of a header, contains characters that HTTP does not allow"
            )
        except (OSError, http.client.HTTPException) as error:
            return _Failure(f"cannot be used: {type(error).__name__}: {shown(str(error))}")

    def _read(self, response: Any) -> bytes:
        parts: list[bytes] = []
        size = 0
        while part := response.read1(65_536):
            size += len(part)
            if size > self._most_bytes:
                raise _TooMuchError
            parts.append(part)
        return b"".join(parts)


class _Failure(NamedTuple):
    text: str
    silent: bool = False


class _Dialling:
    """Connects for one request, to each address of a host name in turn."""

    def __init__(self, addresses: dict[tuple[str, int], Addresses[str]], timeout_s: float) -> None:
        self.deadline = time.monotonic() + timeout_s
        self._timeout_s = timeout_s
        self._addresses = addresses
        self._search: Search[str, Any] | None = None
        """The search, which the first `connect` creates because the target may be a proxy."""

    def left_s(self) -> float:
        """Return the remaining time in seconds. It is never 0, because a socket with timeout 0 does not block."""
        return max(0.001, self.deadline - time.monotonic())

    def connect(self, endpoint: tuple[str, int]) -> socket.socket:
        """Connect like `socket.create_connection`. The best address comes first, and each gets a share of the time."""
        search = self._search
        if search is None:
            infos = socket.getaddrinfo(*endpoint, type=socket.SOCK_STREAM)
            self._search = search = Search(self._addresses.setdefault(endpoint, Addresses()), self._timeout_s)
            search.found = {str(info[4][0]): info for info in infos}
        while True:
            candidates = search.candidates(1)
            address = next(iter(candidates), None)
            if address is None:
                raise OSError("the name has no address")
            search.begin(address)
            info = candidates[address]
            sock = socket.socket(*info[:3])
            try:
                sock.settimeout(min(self.left_s(), search.patience_s))
                sock.connect(info[4])
            except TimeoutError:
                sock.close()
                raise
            except OSError as error:
                sock.close()
                search.refused(address, f"cannot be reached: {error}")
                if not search.left() or time.monotonic() >= self.deadline:
                    raise
                continue
            search.reached(address)
            sock.settimeout(min(self.left_s(), search.patience_s))
            return sock

    def answered(self, answer: Answer) -> None:
        """Record the response of an address.

        After a server error (status 5xx), the next request uses another address.
        """
        if self._search is None:
            return
        if answer.status < 500:
            self._search.succeeded()
        else:
            self._search.failed(f"answered {answer.status}", silent=False)

    def goes_on_after(self, failure: _Failure) -> bool:
        """Return True if the request should be sent again to another address."""
        if self._search is None:
            return False
        self._search.failed(failure.text, silent=failure.silent)
        return self._search.left() and time.monotonic() < self.deadline

    def text(self, failure: _Failure) -> str:
        """Describe the error of each tried address."""
        if self._search is not None and len(self._search.found) > 1:
            return "; ".join(f"at {address} {text}" for address, text in self._search.errors.items())
        return f"{failure.text} within {self._timeout_s * 1000:.0f} ms" if failure.silent else failure.text


class _ByAddress(urllib.request.AbstractHTTPHandler):
    """Mixin that opens connections with the `_Dialling` of the request."""

    def do_open(self, http_class: Any, req: Any, **http_conn_args: Any) -> Any:
        return super().do_open(partial(_connection, http_class, req.dialling), req, **http_conn_args)


class _Http(_ByAddress, urllib.request.HTTPHandler):
    pass


class _Https(_ByAddress, urllib.request.HTTPSHandler):
    pass


def _connection(http_class: Any, dialling: _Dialling, host: str, **options: Any) -> Any:
    connection = http_class(host, **options)
    name = connection.host
    connection.host = without_root(name)  # TLS verifies this name
    connection._create_connection = lambda endpoint, *_: dialling.connect((name, endpoint[1]))
    connection.response_class = partial(_Response, dialling=dialling)
    return connection


class _Response(http.client.HTTPResponse):
    """A response that must arrive before the deadline of the request.

    A socket's timeout limits each read but not the number of reads. A server may send one byte at a time, or many
    interim responses.
    """

    def __init__(self, sock: socket.socket, *args: Any, dialling: _Dialling, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self.fp = io.BufferedReader(_Limited(self.fp.detach(), sock, dialling))


class _Limited(io.RawIOBase):
    """Raw stream that reads from a socket until a deadline."""

    def __init__(self, stream: io.RawIOBase, sock: socket.socket, dialling: _Dialling) -> None:
        self._stream = stream
        self._sock = sock
        self._dialling = dialling
        self._timeout_s = sock.gettimeout()
        """Time limit of each read."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if time.monotonic() >= self._dialling.deadline:
            raise TimeoutError
        left_s = self._dialling.left_s()
        self._sock.settimeout(left_s if self._timeout_s is None else min(left_s, self._timeout_s))
        return self._stream.readinto(buffer)

    def close(self) -> None:
        self._stream.close()
        super().close()


class Form:
    """The body of a request. Its fields do not appear in ``repr``."""

    def __init__(self, fields: Mapping[str, str], basic: Basic | None = None) -> None:
        self._fields = fields
        self._basic = basic

    def request(self, url: str) -> urllib.request.Request:
        headers = {
            "Accept": "application/json",
            "Content-Type": "application/x-www-form-urlencoded",
            "User-Agent": f"aiokafka-lead/{__version__}",
        }
        if self._basic is not None:
            headers["Authorization"] = self._basic.header()
        return urllib.request.Request(url, urllib.parse.urlencode(self._fields).encode(), headers, method="POST")


class Answer(NamedTuple):
    """The status of a response, and its body."""

    status: int
    body: bytes

    def __repr__(self) -> str:
        return f"<answer {self.status}, {len(self.body)} bytes>"


class _TooMuchError(Exception):
    """The response exceeds the maximum size."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Handler that rejects redirects, because they would send the secrets to an address that the user did not set."""

    def redirect_request(self, *_args: Any, **_kwargs: Any) -> None:
        return None


class _Proxy(urllib.request.ProxyHandler):
    """Uses the proxies of the environment (``HTTPS_PROXY``), except for addresses of this machine, as in Go."""

    def proxy_open(self, req: Any, proxy: str, type: str) -> Any:
        if urllib.parse.urlsplit(req.full_url).hostname in _LOOPBACK:
            return None
        return super().proxy_open(req, proxy, type)


def _parts(body: bytes) -> int:
    """Return an upper bound for the number of items in a JSON text, to refuse it before it is parsed."""
    return sum(map(body.count, (b"[", b"{", b",")))


def may_pass(status: int) -> bool:
    """Return True if the same request may succeed later, according to the HTTP status."""
    return status >= 500 or status in _TEMPORARY_STATUS


def json_of(body: bytes) -> Any:
    """Return the content of a JSON response, or None if it is not JSON."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _reason(content: Any) -> str:
    """Return the reason for a refusal, from the two error fields of RFC 6749."""
    if not isinstance(content, dict):
        return ""
    fields = (content.get(name) for name in ("error", "error_description"))
    return ": ".join(shown(text) for text in fields if isinstance(text, str) and text)
