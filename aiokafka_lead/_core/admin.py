"""Outcomes of the items of an admin call: the errors that allow another try, and the report of all outcomes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TypeVar

from ..errors import KafkaError, UnknownServerError, error_for_code
from ..errors.base import own_copy
from ..errors.shown import shown
from .trust import DOUBT_AFTER

K = TypeVar("K")
V = TypeVar("V")

CORRUPT_MESSAGE = 2
UNKNOWN_TOPIC_OR_PARTITION = 3
NOT_CONTROLLER = 41
THROTTLING_QUOTA_EXCEEDED = 89

BRIEF_TRIES = 4
"""Number of tries for something unknown: brokers learn of a new topic at different times."""


@dataclass(frozen=True, slots=True)
class RetryRule:
    """Errors about single items that are retried; all other errors are final."""

    codes: Collection[int] | None = frozenset({NOT_CONTROLLER, THROTTLING_QUOTA_EXCEEDED})
    """Errors retried until the deadline; None for all retriable errors."""
    brief: Collection[int] = frozenset()
    """Errors retried `BRIEF_TRIES` times at most, even if ``codes`` has them."""
    unexplained: bool = False
    """True if UNKNOWN_SERVER_ERROR is retried until its broker has been in doubt for a while: another may succeed."""

    def allows(self, error: KafkaError, tries: int) -> bool:
        """Return True if an item should be tried again after this number of tries."""
        if isinstance(error, UnknownServerError):
            return self.unexplained and tries < 2 * DOUBT_AFTER
        if error.code in self.brief:
            return tries < BRIEF_TRIES
        return error.retriable and (self.codes is None or error.code in self.codes)


BY_CONTROLLER = RetryRule()
BY_LEADER = RetryRule(
    codes=None,
    # Another leader may have the batch undamaged; the topic may be new.
    brief=frozenset({CORRUPT_MESSAGE, UNKNOWN_TOPIC_OR_PARTITION}),
    unexplained=True,
)
BY_COORDINATOR = RetryRule(
    # REQUEST_TIMED_OUT, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR,
    # CONCURRENT_TRANSACTIONS, UNSTABLE_OFFSET_COMMIT, and a connection that was lost
    codes=frozenset({-1, 7, 14, 15, 16, 51, 88})
)
BY_ANYONE = RetryRule(codes=frozenset(), brief=frozenset({UNKNOWN_TOPIC_OR_PARTITION}))


def failure(code: int, what: str, message: str | None = None) -> KafkaError:
    """Return the error for a code about one item."""
    kind = error_for_code(code)
    return kind(f"{what}: {shown(message or '') or kind().message}")


def outcome(value: V, code: int, what: str, message: str | None = None) -> V | KafkaError:
    """Return the value, or the error for a code other than 0."""
    return value if code == 0 else failure(code, what, message)


_READS = ("Describe", "FindCoordinator", "List", "Metadata", "OffsetFetch")
"""Beginnings of the names of requests that change nothing."""


def changes(api: str | None) -> bool:
    """Return True if a request of this name may have changed the cluster."""
    return api is not None and not api.startswith(_READS)


def note_unanswered(error: KafkaError, unanswered: KafkaError | None) -> None:
    """Add a note to a call's final error if an attempt, which ended with ``unanswered``, may have been executed."""
    if unanswered is None or unanswered is error or unanswered is error.__cause__:
        return
    note = f"an earlier attempt got no response, and may have been executed: {unanswered}"
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)


def successes(outcomes: Mapping[K, V | KafkaError]) -> dict[K, V]:
    """Return the values if no item failed; else raise the first error, which has all outcomes."""
    failed = [key for key, found in outcomes.items() if isinstance(found, KafkaError)]
    if failed:
        first = outcomes[failed[0]]
        assert isinstance(first, KafkaError)
        error = own_copy(first)  # a copy: the outcomes hold the first error, which must not hold itself
        error.outcomes = outcomes
        if len(outcomes) > 1:
            names = ", ".join(map(str, failed))
            error.add_note(f"failed: {names} ({len(outcomes) - len(failed)} others succeeded)")
        raise error
    return {key: found for key, found in outcomes.items() if not isinstance(found, KafkaError)}
