"""Items requested by name, some of which may not exist."""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Iterable, Mapping
from typing import TypeVar

from ..admin import AdminClient, ConfigResource, TopicDescription, outcomes_of
from ..errors import GroupIdNotFoundError, KafkaError, UnknownTopicOrPartitionError
from ..types import TopicPartition
from .failures import Failed, exit_code, sentence
from .session import Session

K = TypeVar("K")
V = TypeVar("V")


def close_to(name: str, names: Iterable[str]) -> str:
    """Return ``"; did you mean 'orders'?"``, or an empty text if no name is close."""
    by_lower = {each.lower(): each for each in names}
    found = difflib.get_close_matches(name.lower(), by_lower, n=3)
    return f"; did you mean {' or '.join(repr(by_lower[each]) for each in found)}?" if found else ""


async def succeeded(session: Session, admin: AdminClient, call: Awaitable[Mapping[K, V]]) -> dict[K, V]:
    """Return the successful items of an admin call. Report failed items, and make the command fail at its end."""
    outcomes = await outcomes_of(call)
    await told(session, admin, _failures(outcomes))
    return {name: each for name, each in outcomes.items() if not isinstance(each, KafkaError)}


async def done_of(session: Session, admin: AdminClient, call: Awaitable[None], names: Iterable[str]) -> list[str]:
    """Return the names for which a call without a result succeeded; report failed names."""
    try:
        await call
    except KafkaError as error:
        if error.outcomes is None:
            raise
        failures = _failures(error.outcomes)
        await told(session, admin, failures)
        return [name for name in names if name not in failures]
    return list(names)


async def told(session: Session, admin: AdminClient, failures: Mapping[K, KafkaError]) -> None:
    """Report each item that failed, with names that are close to a missing name."""
    topics: list[str] | None = None
    groups: list[str] | None = None
    for item, error in failures.items():
        name, text = _name(item), sentence(error)
        if isinstance(error, UnknownTopicOrPartitionError):
            topics = list(await admin.list_topics()) if topics is None else topics
            if name not in topics:
                text = _absent("topic", name, topics)
        elif isinstance(error, GroupIdNotFoundError):
            groups = await _groups(admin) if groups is None else groups
            if name not in groups:
                text = _absent("group", name, groups)
        session.fail(text, exit_code(error))


def _name(item: object) -> str:
    """Return the topic, group or resource that an item of an admin call is about."""
    if isinstance(item, TopicPartition):
        return item.topic
    return item.name if isinstance(item, ConfigResource) else str(item)


async def explained(session: Session, error: KafkaError) -> KafkaError | Failed:
    """If topics or groups are missing, report each failed item, with similar names. Return the error to raise."""
    failures = _failures(error.outcomes or {})
    if not any(isinstance(each, (UnknownTopicOrPartitionError, GroupIdNotFoundError)) for each in failures.values()):
        return error
    async with session.admin() as admin:
        await told(session, admin, failures)
    return Failed(code=exit_code(error))


async def described_topics(session: Session, admin: AdminClient, names: Iterable[str]) -> dict[str, TopicDescription]:
    """Return the topics that exist, and report missing topics. Raises `Failed` if no topic exists."""
    found = await succeeded(session, admin, admin.describe_topics(list(dict.fromkeys(names))))
    if not found:
        session.raise_failures()
    return found


async def missing_topic(admin: AdminClient, name: str) -> Failed:
    """Return the error to raise for a missing topic."""
    return Failed(_absent("topic", name, await admin.list_topics()))


async def missing_group(admin: AdminClient, name: str, otherwise: str) -> Failed:
    """Return the error to raise for a missing group; if the group exists, the error has the text ``otherwise``."""
    known = await _groups(admin)
    return Failed(otherwise if name in known else _absent("group", name, known))


def _absent(kind: str, name: str, known: Iterable[str]) -> str:
    return f"there is no {kind} {name!r}{close_to(name, known)}"


async def _groups(admin: AdminClient) -> list[str]:
    return [group.group_id async for group in admin.list_groups()]


def _failures(outcomes: Mapping[K, object]) -> dict[K, KafkaError]:
    return {item: each for item, each in outcomes.items() if isinstance(each, KafkaError)}
