"""Calls that wait for a topic to become known."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from ..._core.metadata.topics import TopicsInUse
from ..._core.metadata.types import ClusterSnapshot, TopicMetadata
from ..._options.logs import ClientLog
from ...errors import KafkaError, RequestTimedOutError, UnknownTopicOrPartitionError, error_for_code
from ...errors.shown import some_of
from ..loop import Waiter

UNKNOWN_TOPIC_OR_PARTITION = UnknownTopicOrPartitionError.code


class TopicLookups:
    """Looks up unknown topics, and passes the cluster's answer to the calls that wait for one.

    However many calls wait for a topic, they share its look-ups, whose pace `TopicsInUse` decides.
    """

    def __init__(self, topics: TopicsInUse, wake: Callable[[], None], log: ClientLog) -> None:
        self._topics = topics
        self._log = log
        self._wake = wake
        """Wakes the refreshing task for a look-up."""
        self._waiters: dict[str, Waiter[TopicMetadata]] = {}

    def want(self, name: str) -> None:
        """Look up an unknown topic without waiting."""
        self._topics.look_up(name, time.monotonic())
        self._wake()

    async def wait(self, name: str, timeout_ms: float, explain: Callable[[str, int], KafkaError]) -> TopicMetadata:
        """Return the topic as soon as it is known, or raise the cluster's final error.

        ``explain`` creates the error after the timeout from the name and the number of failed look-ups.
        """
        waiter = self._waiters.get(name)
        if waiter is None:
            waiter = self._waiters[name] = Waiter()
        self._topics.wait(name, time.monotonic())
        self._wake()
        lookups = self._topics.lookups(name)
        try:
            return await waiter.wait(timeout_ms / 1000)
        except TimeoutError:
            raise explain(name, self._topics.lookups(name) - lookups) from None
        finally:
            if self._topics.leave(name) == 0 and self._waiters.get(name) is waiter:
                del self._waiters[name]

    def answered(self, names: Iterable[str], snapshot: ClusterSnapshot, node_id: int, now: float) -> None:
        """Process this broker's answer about these topics."""
        missing: dict[int, list[str]] = {}
        for name in names:
            entry = snapshot.topics.get(name)
            if entry is not None and entry.partitions:
                self._topics.found(name)
                if name in self._waiters:
                    self._waiters.pop(name).set_result(entry)
            elif entry is not None and entry.error_code and not error_for_code(entry.error_code).retriable:
                self._topics.found(name)
                if name in self._waiters:
                    self._waiters.pop(name).set_error(topic_error(name, entry.error_code))
            elif name in self._topics and self._topics.missed(name, node_id, now):
                code = entry.error_code if entry is not None and entry.error_code else UNKNOWN_TOPIC_OR_PARTITION
                missing.setdefault(code, []).append(name)
        for code, lacking in missing.items():
            unknown = code == UNKNOWN_TOPIC_OR_PARTITION
            why = "the cluster does not have it" if unknown else error_for_code(code)().message
            fields = {"topic": lacking[0]} if len(lacking) == 1 else None
            self._log.warning(
                "cannot find %s: %s; it is looked for again and again", some_of(sorted(lacking)), why, extra=fields
            )

    def fail(self, error: KafkaError) -> None:
        """Raise this error from every waiting call."""
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters.values():
            waiter.set_error(error)


def topic_error(name: str, code: int, more: str = "") -> KafkaError:
    """Return the error for the cluster's answer about a topic."""
    kind = error_for_code(code)
    return kind(f"topic {name!r}: {kind().message}{more}")


def not_known(name: str, lookups: int, snapshot: ClusterSnapshot, timeout_ms: float, unreachable: str) -> KafkaError:
    """Return the error for a topic unknown after a timeout: no broker answered, or the cluster does not know it."""
    entry = snapshot.topics.get(name)
    if unreachable or (entry is None and lookups == 0):
        return RequestTimedOutError(f"no metadata of topic {name!r} within {timeout_ms:.0f} ms{unreachable}")
    code = entry.error_code if entry is not None and entry.error_code else UNKNOWN_TOPIC_OR_PARTITION
    return topic_error(name, code, f" (asked {lookups} times within {timeout_ms:.0f} ms)")
