"""Results of the items of an admin call: the errors that are retried for one item, and the report of all results."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TypeVar

from ..errors import KafkaError, UnknownServerError, error_for_code
from ..errors.base import own_copy
from ..errors.shown import shown, some_of
from .inquiry import may_repeat

K = TypeVar("K")
V = TypeVar("V")

CORRUPT_MESSAGE = 2
UNKNOWN_TOPIC_OR_PARTITION = 3
NOT_CONTROLLER = 41
THROTTLING_QUOTA_EXCEEDED = 89

ITEMS_NAMED = 20
"""Maximum number of failed items to list in an error's note. A call may concern all partitions of a large cluster."""

BRIEF_TRIES = 4
"""Maximum number of attempts for `RetryRule.brief` errors. Brokers learn of a new topic at different times."""


@dataclass(frozen=True, slots=True)
class RetryRule:
    """A rule for the errors that are retried for a single item. All other errors are final."""

    codes: Collection[int] | None = frozenset({NOT_CONTROLLER, THROTTLING_QUOTA_EXCEEDED})
    """Errors that are retried until the deadline. None means all retriable errors."""
    brief: Collection[int] = frozenset()
    """Errors that are retried for at most `BRIEF_TRIES` attempts, even if they are in ``codes``."""
    unexplained: bool = False
    """True if UNKNOWN_SERVER_ERROR is also retried, up to a limit, because another broker may succeed."""

    def allows(self, error: KafkaError, tries: int) -> bool:
        """Return True if an item should be tried again after this error and this number of attempts."""
        if isinstance(error, UnknownServerError):
            return self.unexplained and may_repeat(error, tries)
        if error.code in self.brief:
            return tries < BRIEF_TRIES
        return error.retriable and (self.codes is None or error.code in self.codes)


BY_CONTROLLER = RetryRule()
BY_LEADER = RetryRule(
    codes=None,
    # Another leader may have an undamaged copy of the batch, and the topic may be new.
    brief=frozenset({CORRUPT_MESSAGE, UNKNOWN_TOPIC_OR_PARTITION}),
    unexplained=True,
)
BY_COORDINATOR = RetryRule(
    # REQUEST_TIMED_OUT, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR,
    # CONCURRENT_TRANSACTIONS, UNSTABLE_OFFSET_COMMIT, and a lost connection
    codes=frozenset({-1, 7, 14, 15, 16, 51, 88})
)
BY_ANYONE = RetryRule(codes=frozenset(), brief=frozenset({UNKNOWN_TOPIC_OR_PARTITION}))


def failure(code: int, what: str, message: str | None = None) -> KafkaError:
    """Return the error for the error code of one item. Its message begins with ``what``, which names the item."""
    kind = error_for_code(code)
    return kind(f"{what}: {shown(message or '') or kind().message}")


def outcome(value: V, code: int, what: str, message: str | None = None) -> V | KafkaError:
    """Return the value if ``code`` is 0, otherwise the error for the code (see `failure`)."""
    return value if code == 0 else failure(code, what, message)


_READS = ("Describe", "FindCoordinator", "List", "Metadata", "OffsetFetch")
"""Prefixes of the names of requests that change nothing."""


def changes(api: str | None) -> bool:
    """Return True if a request of this type may change the cluster."""
    return api is not None and not api.startswith(_READS)


def note_unanswered(error: KafkaError, unanswered: KafkaError | None) -> None:
    """Add a note to a call's final error if an earlier attempt may have been executed.

    ``unanswered`` is the error with which that attempt ended.
    """
    if unanswered is None or unanswered is error or unanswered is error.__cause__:
        return
    note = f"an earlier attempt got no response, and may have been executed: {unanswered}"
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)


def successes(outcomes: Mapping[K, V | KafkaError]) -> dict[K, V]:
    """Return the values if no item has failed. Otherwise, raise the first error with all results attached."""
    failed = [key for key, found in outcomes.items() if isinstance(found, KafkaError)]
    if failed:
        first = outcomes[failed[0]]
        assert isinstance(first, KafkaError)
        error = own_copy(first)  # Raise a copy, because the results contain the error, which must not contain itself.
        error.outcomes = outcomes
        if len(outcomes) > 1:
            succeeded = len(outcomes) - len(failed)
            error.add_note(f"failed: {some_of(failed, ITEMS_NAMED)} ({succeeded} others succeeded)")
        raise error
    return {key: found for key, found in outcomes.items() if not isinstance(found, KafkaError)}
