"""Fault injection: rules that select requests and define the faults for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar
from uuid import UUID

from .._options.arguments import topic_name
from .._options.checks import INT16_MAX, Check, boolean, function, instance, integer, milliseconds, optional, text
from .._wire import ApiKey, Request, Response
from ..errors import BrokerError, ConfigError, ConfigTypeError
from ._checks import check_all
from .request_log import PARTITION_FIELDS, RequestRecord, api_key_of, partitions_of

T = TypeVar("T")

HTTP_ANSWER = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
"""Response of a web server to a Kafka client, for the argument ``garbage`` of `Faults.add`."""

TLS_ALERT = b"\x15\x03\x03\x00\x02\x02\x46"
"""Response of a TLS listener to a plaintext client, for the argument ``garbage`` of `Faults.add`."""


class Caller(Protocol):
    """Calls a function in the thread of the cluster, and returns its result."""

    def __call__(self, function: Callable[[], T], /) -> T: ...


@dataclass(frozen=True)
class Hint:
    """A leader that a broker names in its response instead of the current leader (KIP-951).

    ``leader_id`` and ``leader_epoch`` default to the correct values. ``endpoint`` is the address of the leader in the
    response. None means the real address of a known broker, and ``()`` means no address.
    """

    leader_id: int | None = None
    leader_epoch: int | None = None
    endpoint: tuple[str, int] | tuple[()] | None = None


@dataclass
class Fault:
    """A rule created by `Faults.add`.

    ``struck`` is the number of requests that it has affected so far. `remove` ends the rule and releases the requests
    that it holds.
    """

    api_key: int | None
    broker: int | None
    topic: str | None
    partition: int | None
    client_id: str | None
    when: Callable[[RequestRecord], bool] | None
    # Number of requests that the rule will still affect; None means all.
    count: int | None
    skip: int
    after: bool
    delay_ms: float
    hold: bool
    drop: bool
    disconnect: bool
    error_code: int | None
    whole: bool
    garbage: bytes | Callable[[bytes], bytes] | None
    throttle_time_ms: int
    hint: Hint | None
    # Runs a function in the event loop of the cluster.
    _call: Caller = field(repr=False)
    struck: int = field(default=0, init=False)
    _held: list[Callable[[], None]] = field(default_factory=list, init=False)

    @property
    def spent(self) -> bool:
        """True if the rule has ended, or has already affected ``count`` requests."""
        return self.count is not None and self.count <= 0

    def concerns(self, record: RequestRecord, request: Request[Any], name_of: Callable[[UUID], str | None]) -> bool:
        """Return True if the rule applies to a request. ``name_of`` returns the name for a topic id."""
        if self.spent or (self.api_key is not None and self.api_key != record.api_key):
            return False
        if self.broker is not None and self.broker != record.broker:
            return False
        if self.client_id is not None and self.client_id != record.client_id:
            return False
        if not self.by_partition and self.topic is not None:
            named = partitions_of(request, name_of)
            if not any(topic == self.topic and self.partition in (None, part) for topic, part in named):
                return False
        return self.when is None or self.when(record)

    @property
    def by_partition(self) -> bool:
        """True if the rule names a topic or a partition. The handler of the API then applies it."""
        return not self.after and not self.whole and (self.error_code is not None or self.hint is not None)

    def strike(self) -> bool:
        """Count a request, and return False if the rule skips it or has already affected ``count`` requests."""
        if self.spent:
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        if self.count is not None:
            self.count -= 1
        self.struck += 1
        return True

    def remove(self) -> None:
        """End the rule for later requests, and release the requests that it holds."""
        self.count = 0
        self.release()

    def keep(self, go_on: Callable[[], None]) -> None:
        """Hold a request or a response; ``go_on`` releases it."""
        self._held.append(go_on)

    def release(self) -> None:
        """Release all held requests and responses, in the order of their arrival.

        Requests that arrive later are held again, until `remove`.
        """
        if self._held:
            self._call(self._release)

    def _release(self) -> None:
        held, self._held = self._held, []
        for go_on in held:
            go_on()


def _error(name: str, value: Any) -> Any:
    if isinstance(value, type) and issubclass(value, BrokerError):
        return value
    return integer(-1, INT16_MAX)(name, value)


def _garbage(name: str, value: Any) -> Any:
    if not isinstance(value, bytes) and not callable(value):
        raise ConfigTypeError(f"{name} must be bytes or a function of bytes, not {type(value).__name__}")
    return value


_CHECKS: dict[str, Check] = {
    "broker": optional(integer(0)),
    "topic": optional(topic_name),
    "partition": optional(integer(0)),
    "client_id": optional(text),
    "when": optional(function),
    "count": optional(integer(0)),
    "skip": integer(0),
    "after": boolean,
    "delay_ms": milliseconds(),
    "hold": boolean,
    "drop": boolean,
    "disconnect": boolean,
    "error_code": optional(_error),
    "whole": boolean,
    "garbage": optional(_garbage),
    "throttle_time_ms": integer(0),
    "hint": optional(instance(Hint, "a Hint")),
}
"""Checks of the arguments of `Faults.add`, by name."""


class Faults:
    """The active rules. For each kind of fault, the first rule that matches a request applies."""

    def __init__(self, name_of: Callable[[UUID], str | None]) -> None:
        # Maps topic ids to names, because rules use names, and newer requests use ids.
        self._name_of = name_of
        self._rules: list[Fault] = []
        self._call: Caller = lambda function: function()

    def calls_by(self, call: Caller) -> None:
        """Let other threads use the rules; ``call`` runs a function in the thread of the cluster. Internal."""
        self._call = call

    def add(
        self,
        api: str | int | type[Request[Any]] | None = None,
        *,
        broker: int | None = None,
        topic: str | None = None,
        partition: int | None = None,
        client_id: str | None = None,
        when: Callable[[RequestRecord], bool] | None = None,
        count: int | None = None,
        skip: int = 0,
        after: bool = False,
        delay_ms: float = 0,
        hold: bool = False,
        drop: bool = False,
        disconnect: bool = False,
        error_code: int | type[BrokerError] | None = None,
        whole: bool = False,
        garbage: bytes | Callable[[bytes], bytes] | None = None,
        throttle_time_ms: int = 0,
        hint: Hint | None = None,
    ) -> Fault:
        """Add a rule and return it.

            cluster.faults.add(api="Produce", topic="events", error_code=NotLeaderOrFollowerError, count=2)
            cluster.faults.add(api="Fetch", broker=1, delay_ms=500)

        A rule matches requests by ``api`` (name, number or request class), ``broker``, ``topic``, ``partition``,
        ``client_id``, and the predicate ``when``. All given criteria must match. The first ``skip`` matching requests
        are not affected. The rule then affects ``count`` requests (None: all).

        The fault happens before the request is processed or, with ``after``, when the request has taken effect:

        - ``delay_ms``: process or answer the request later. As with any broker, later requests of the connection also
          wait.
        - ``hold``: delay the request or its response until `Fault.release`. A held request is processed even if its
          client has closed the connection, as after a delay in the network.
        - ``drop``: never answer the request, nor any later request of its connection.
        - ``disconnect``: reset the connection.
        - ``error_code`` (number or error class): answer with this error. If the API answers by topic or
          partition, the topics or partitions that the rule names (default: all) get the error. With ``whole``, and for
          all other APIs, the whole request gets it.
        - ``garbage``: send these bytes instead of the response, or the result of a function of the response's bytes.
        - ``throttle_time_ms``: report this throttle time, and mute the connection for that time (KIP-219).
        - ``hint``: name this leader instead of the current leader.

        Raises `ConfigError` or `ConfigTypeError` for an invalid argument.
        """
        check_all(_CHECKS, locals())
        if partition is not None and topic is None:
            raise ConfigError("partition needs a topic")
        code = error_code if error_code is None or isinstance(error_code, int) else error_code.code
        rule = Fault(
            api_key=None if api is None else api_key_of(api),
            broker=broker,
            topic=topic,
            partition=partition,
            client_id=client_id,
            when=when,
            count=count,
            skip=skip,
            after=after,
            delay_ms=delay_ms,
            hold=hold,
            drop=drop,
            disconnect=disconnect,
            error_code=code,
            whole=whole,
            garbage=garbage,
            throttle_time_ms=throttle_time_ms,
            hint=hint,
            _call=self._call,
        )
        # The list is replaced in one assignment, because any thread may add rules.
        self._rules = [*(known for known in self._rules if not known.spent), rule]
        return rule

    def clear(self) -> None:
        """Remove every rule."""
        for rule in self._rules:
            rule.remove()
        self._rules = []

    def concerning(self, record: RequestRecord, request: Request[Any]) -> list[Fault]:
        """Return the rules that match a request, oldest first."""
        return [rule for rule in self._rules if rule.concerns(record, request, self._name_of)]


_TOPIC_FIELDS = ("name", "topic")


def set_errors(message: Any, code: int, topic: str | None, partition: int | None) -> None:
    """Write an error code into a response, for a topic, a partition, or (if both are None) all of its parts.

    The other fields stay unchanged, because clients must not read them.
    """
    named_topic = next((getattr(message, name) for name in _TOPIC_FIELDS if hasattr(message, name)), None)
    named_partition = next((getattr(message, name) for name in PARTITION_FIELDS if hasattr(message, name)), None)
    if topic is not None and named_topic is not None and named_topic != topic:
        return
    if partition is not None and named_partition is not None and named_partition != partition:
        return
    parts = [part for name in message.__slots__ if isinstance(value := getattr(message, name), list) for part in value]
    nested = [part for part in parts if hasattr(part, "__slots__")]
    if hasattr(message, "error_code") and not (nested and issubclass(type(message), Response)):
        message.error_code = code
    for part in nested:
        set_errors(part, code, topic, partition)


def answers_for_parts(api_key: int) -> bool:
    """Return True if a fault of this API may affect single topics or partitions of a request."""
    return api_key in _ANSWERS_FOR_PARTS


_ANSWERS_FOR_PARTS = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.FIND_COORDINATOR,  # by key, from version 4 on
        ApiKey.SHARE_FETCH,
        ApiKey.SHARE_ACKNOWLEDGE,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        ApiKey.LIST_OFFSETS,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.METADATA,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.DELETE_RECORDS,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.DESCRIBE_TRANSACTIONS,  # by transactional id
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.WRITE_TXN_MARKERS,
    }
)
