"""Log of the requests that the embedded brokers have received, for assertions."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import anyio

from .._options.checks import integer, milliseconds
from .._wire import Request
from .._wire.api_key import NAMES
from ..errors import ConfigError, ConfigTypeError

_KEYS = {name: key for key, name in NAMES.items()}


def api_key_of(api: str | int | type[Request[Any]]) -> int:
    """Return the number of an API, given as a name such as "Produce", a number or a request class."""
    if isinstance(api, str):
        if api not in _KEYS:
            raise ConfigError(f"api must be the name of an API, not {api!r}")
        return _KEYS[api]
    if isinstance(api, type) and issubclass(api, Request):
        return api.API_KEY
    if isinstance(api, bool) or not isinstance(api, int):
        raise ConfigTypeError(f"api must be a name, number or request class, not {type(api).__name__}")
    return api


@dataclass(slots=True)
class RequestRecord:
    """A request that a broker has received.

    - ``time``: `time.monotonic` when processing began.
    - ``answered``: `time.monotonic` of the response, or None before it.
    - ``request``: the decoded request. For Produce, it does not contain the records.
    - ``connection``: the number of the connection in the cluster.
    - ``user``: the client's SASL identity, or else the subject of its certificate (``"CN=alice,O=example"``).
    """

    broker: int
    connection: int
    api_key: int
    api: str
    version: int
    client_id: str | None
    correlation_id: int
    size_bytes: int
    time: float
    request: Any = field(repr=False)
    answered: float | None = None
    user: str | None = None


class RequestLog:
    """The latest requests, oldest first, and counts of all requests by API and broker."""

    def __init__(self, size: int) -> None:
        self._records: deque[RequestRecord] = deque(maxlen=size)
        self._counts: Counter[tuple[int, int]] = Counter()
        self._waiting: list[tuple[Callable[[], bool], anyio.Event]] = []

    def add(self, record: RequestRecord) -> None:
        self._records.append(record)
        self._counts[record.api_key, record.broker] += 1
        if self._waiting:
            for met, event in self._waiting:
                if met():
                    event.set()

    def clear(self) -> None:
        """Remove all requests and reset the counts."""
        self._records.clear()
        self._counts.clear()

    def select(
        self,
        api: str | int | type[Request[Any]] | None = None,
        *,
        broker: int | None = None,
        client_id: str | None = None,
        since: float | None = None,
    ) -> list[RequestRecord]:
        """Return the logged requests that match all given criteria, oldest first.

        ``api`` is a name such as "Fetch", a number or a request class. ``since`` is a time of `time.monotonic`. The log
        contains only the latest requests (``request_log_size``).
        """
        key = None if api is None else api_key_of(api)
        return [
            record
            for record in self
            if (key is None or record.api_key == key)
            and (broker is None or record.broker == broker)
            and (client_id is None or record.client_id == client_id)
            and (since is None or record.time >= since)
        ]

    def count(self, api: str | int | type[Request[Any]] | None = None, *, broker: int | None = None) -> int:
        """Return the number of requests of an API at a broker, since the start or `clear`.

        By default, all APIs and all brokers count. Requests that are no longer in the log are included.
        """
        key = None if api is None else api_key_of(api)
        return sum(
            number
            for (api_key, node_id), number in list(self._counts.items())
            if (key is None or api_key == key) and (broker is None or node_id == broker)
        )

    async def wait_for(
        self,
        api: str | int | type[Request[Any]] | None = None,
        *,
        broker: int | None = None,
        count: int = 1,
        timeout_ms: float = 10_000,
    ) -> None:
        """Wait until ``count`` requests have arrived since the start or `clear`.

        By default, all APIs and all brokers count. Raises TimeoutError if they do not arrive within ``timeout_ms``.
        """
        integer(0)("count", count)
        milliseconds()("timeout_ms", timeout_ms)

        def met() -> bool:
            return self.count(api, broker=broker) >= count

        if met():
            return
        waiting = met, anyio.Event()
        self._waiting.append(waiting)
        try:
            with anyio.fail_after(timeout_ms / 1000):
                await waiting[1].wait()
        finally:
            self._waiting.remove(waiting)

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[RequestRecord]:
        # The copy is made in one step, because another thread may add requests.
        return iter(list(self._records))


def partitions_of(request: Request[Any], name_of: Callable[[UUID], str | None]) -> list[tuple[str | None, int | None]]:
    """Return each topic and partition that a request names, as pairs.

    Each topic is also paired with None, which matches rules without a partition.
    """
    found: list[tuple[str | None, int | None]] = []
    for topic in getattr(request, "topic_data", None) or getattr(request, "topics", None) or ():
        if isinstance(topic, str):
            found.append((topic, None))
            continue
        name = getattr(topic, "name", None) or getattr(topic, "topic", None) or name_of(topic.topic_id)
        found.append((name, None))
        for part in getattr(topic, "partition_data", None) or getattr(topic, "partitions", None) or ():
            found.append((name, part if isinstance(part, int) else _index_of(part)))
    return found


def _index_of(part: Any) -> int | None:
    return next((getattr(part, name) for name in PARTITION_FIELDS if hasattr(part, name)), None)


PARTITION_FIELDS = ("index", "partition_index", "partition")
"""Names of the fields with a partition's number in the schemas of requests and responses."""
