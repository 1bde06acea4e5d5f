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

UNKNOWN_TOPIC_OR_PARTITION = 3
NOT_CONTROLLER = 41
THROTTLING_QUOTA_EXCEEDED = 89

BRIEF_TRIES = 4
"""Number of tries for something unknown: brokers learn of a new topic at different times."""


@dataclass(frozen=True, slots=True)
class RetryRule:
    """Errors about single items that are retried; all other errors are final."""

    codes: Collection[int] = frozenset({NOT_CONTROLLER, THROTTLING_QUOTA_EXCEEDED})
    """Errors retried until the deadline."""
    brief: Collection[int] = frozenset()
    """Errors retried `BRIEF_TRIES` times at most."""
    unexplained: bool = False
    """True if UNKNOWN_SERVER_ERROR is retried until its broker has been in doubt for a while: another may do better."""

    def allows(self, error: KafkaError, tries: int) -> bool:
        """Return True if an item should be tried again after this number of tries."""
        if isinstance(error, UnknownServerError):
            return self.unexplained and tries < 2 * DOUBT_AFTER
        return error.retriable and (error.code in self.codes or (error.code in self.brief and tries < BRIEF_TRIES))


BY_CONTROLLER = RetryRule()
BY_LEADER = RetryRule(
    # LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER, REPLICA_NOT_AVAILABLE, KAFKA_STORAGE_ERROR, FENCED_LEADER_EPOCH,
    # UNKNOWN_LEADER_EPOCH, OFFSET_NOT_AVAILABLE, and a connection that was lost
    codes=frozenset({-1, 5, 6, 9, 56, 74, 75, 78}),
    brief=frozenset({UNKNOWN_TOPIC_OR_PARTITION}),
    unexplained=True,
)
BY_COORDINATOR = RetryRule(
    # COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, CONCURRENT_TRANSACTIONS, and a
    # connection that was lost
    codes=frozenset({-1, 14, 15, 16, 51})
)
BY_ANYONE = RetryRule(codes=frozenset(), brief=frozenset({UNKNOWN_TOPIC_OR_PARTITION}))


def failure(code: int, what: str, message: str | None = None) -> KafkaError:
    """Return the error for a code about one item."""
    kind = error_for_code(code)
    return kind(f"{what}: {shown(message or '') or kind().message}")


def outcome(value: V, code: int, what: str, message: str | None = None) -> V | KafkaError:
    """Return the value, or the error for a code other than 0."""
    return value if code == 0 else failure(code, what, message)


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
