"""Reports of missing topics and groups, with similar names. The command continues with the other items."""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Iterable, Mapping
from typing import TypeVar

from ..admin import AdminClient, ConfigResource, GroupListing, TopicDescription, outcomes_of
from ..errors import GroupIdNotFoundError, KafkaError, UnknownTopicOrPartitionError
from ..types import TopicPartition
from .failures import Failed, exit_code, sentence, with_notes
from .session import Session

K = TypeVar("K")
V = TypeVar("V")


def close_to(name: str, names: Iterable[str]) -> str:
    """Return a suggestion such as ``"; did you mean 'orders'?"``, or ``""`` if no name is similar."""
    by_lower = {each.lower(): each for each in names}
    found = difflib.get_close_matches(name.lower(), by_lower, n=3)
    return f"; did you mean {' or '.join(repr(by_lower[each]) for each in found)}?" if found else ""


async def succeeded(session: Session, admin: AdminClient, call: Awaitable[Mapping[K, V]]) -> dict[K, V]:
    """Return an admin call's results for the items that succeeded. Report the others, which make the command fail."""
    outcomes = await outcomes_of(call)
    await told(session, admin, _failures(outcomes))
    return {name: each for name, each in outcomes.items() if not isinstance(each, KafkaError)}


async def done_of(session: Session, admin: AdminClient, call: Awaitable[None], names: Iterable[str]) -> list[str]:
    """Return the names for which an admin call without results succeeded. Report the other names."""
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
    """Report each failed item, with similar names if its topic or group does not exist."""
    topics: list[str] | None = None
    groups: list[str] | None = None
    for item, error in failures.items():
        name, text = _name(item), sentence(error)
        if isinstance(error, UnknownTopicOrPartitionError):
            topics = await _topics(admin) if topics is None else topics
            if name not in topics:
                text = with_notes(_absent("topic", name, topics), error)
        elif isinstance(error, GroupIdNotFoundError):
            groups = await _groups(session, admin) if groups is None else groups
            if name not in groups:
                text = with_notes(_absent("group", name, groups), error)
        session.fail(text, exit_code(error))


def _name(item: object) -> str:
    """Return the name of the topic, group or resource that an item of an admin call concerns."""
    if isinstance(item, TopicPartition):
        return item.topic
    return item.name if isinstance(item, ConfigResource) else str(item)


async def explained(session: Session, error: KafkaError) -> KafkaError | Failed:
    """Return the error to raise. If a topic or group is missing, first report every failed item (see `told`)."""
    failures = _failures(error.outcomes or {})
    if not any(isinstance(each, (UnknownTopicOrPartitionError, GroupIdNotFoundError)) for each in failures.values()):
        return error
    async with session.admin() as admin:
        await told(session, admin, failures)
    return Failed(code=exit_code(error))


async def described_topics(session: Session, admin: AdminClient, names: Iterable[str]) -> dict[str, TopicDescription]:
    """Return descriptions of the existing topics, and report missing topics. Raises `Failed` if none exists."""
    found = await succeeded(session, admin, admin.describe_topics(list(dict.fromkeys(names))))
    if not found:
        session.raise_failures()
    return found


async def missing_topic(admin: AdminClient, name: str) -> Failed:
    """Return the error for a missing topic, with similar names."""
    return Failed(_absent("topic", name, await _topics(admin)))


async def missing_group(session: Session, admin: AdminClient, name: str, otherwise: str) -> Failed:
    """Return the error for a missing group, with similar names. If the group exists, the text is ``otherwise``."""
    known = await _groups(session, admin)
    return Failed(otherwise if name in known else _absent("group", name, known))


def _absent(kind: str, name: str, known: Iterable[str]) -> str:
    return f"there is no {kind} {name!r}{close_to(name, known)}"


async def listed_groups(session: Session, admin: AdminClient) -> tuple[list[GroupListing], KafkaError | None]:
    """Return the groups of the brokers that answered in time, and an error if any broker did not."""
    found: list[GroupListing] = []
    try:
        async for group in admin.list_groups(timeout_ms=session.options["request_timeout_ms"]):
            found.append(group)
    except KafkaError as error:
        if error.outcomes is None:
            raise
        return found, error
    return found, None


async def _groups(session: Session, admin: AdminClient) -> list[str]:
    """Return the ids of groups for suggestions, or an empty list if they cannot be requested."""
    try:
        return [group.group_id for group in (await listed_groups(session, admin))[0]]
    except KafkaError:
        return []


async def _topics(admin: AdminClient) -> list[str]:
    try:
        return list(await admin.list_topics())
    except KafkaError:
        return []


def _failures(outcomes: Mapping[K, object]) -> dict[K, KafkaError]:
    return {item: each for item, each in outcomes.items() if isinstance(each, KafkaError)}
