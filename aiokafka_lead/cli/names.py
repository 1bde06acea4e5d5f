"""Several things that were asked for by name, of which some may not be there."""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Iterable, Mapping
from typing import TypeVar

from ..admin import AdminClient, TopicDescription, outcomes_of
from ..errors import GroupIdNotFoundError, KafkaError, UnknownTopicOrPartitionError
from .failures import Failed, exit_code, sentence
from .session import Session

__all__ = ["close_to", "described_topics", "done_of", "missing_topic", "succeeded"]

K = TypeVar("K")
V = TypeVar("V")


def close_to(name: str, names: Iterable[str]) -> str:
    """``"; did you mean 'orders'?"``, or nothing where no name is close."""
    by_lower = {each.lower(): each for each in names}
    found = difflib.get_close_matches(name.lower(), by_lower, n=3)
    return f"; did you mean {' or '.join(repr(by_lower[each]) for each in found)}?" if found else ""


async def succeeded(session: Session, admin: AdminClient, call: Awaitable[Mapping[K, V]]) -> dict[K, V]:
    """The items that an admin call could do; the others are told of, and make the command fail at its end."""
    outcomes = await outcomes_of(call)
    await told(session, admin, {name: each for name, each in outcomes.items() if isinstance(each, KafkaError)})
    return {name: each for name, each in outcomes.items() if not isinstance(each, KafkaError)}


async def done_of(session: Session, admin: AdminClient, call: Awaitable[None], names: Iterable[str]) -> list[str]:
    """The names of those for which a call without a result did what it does; tells of the others."""
    try:
        await call
    except KafkaError as error:
        if error.outcomes is None:
            raise
        failures = {name: each for name, each in error.outcomes.items() if isinstance(each, KafkaError)}
        await told(session, admin, failures)
        return [name for name in names if name not in failures]
    return list(names)


async def told(session: Session, admin: AdminClient, failures: Mapping[K, KafkaError]) -> None:
    """Tell of each item that failed, and of names that are close to one that is not there."""
    names: dict[type[KafkaError], list[str]] = {}
    for name, error in failures.items():
        if isinstance(error, UnknownTopicOrPartitionError) and UnknownTopicOrPartitionError not in names:
            names[UnknownTopicOrPartitionError] = list(await admin.list_topics())
        if isinstance(error, GroupIdNotFoundError) and GroupIdNotFoundError not in names:
            names[GroupIdNotFoundError] = [group.group_id async for group in admin.list_groups()]
        near = next((known for kind, known in names.items() if isinstance(error, kind)), ())
        session.fail(f"{sentence(error)}{close_to(str(name), near)}", exit_code(error))


async def described_topics(session: Session, admin: AdminClient, names: Iterable[str]) -> dict[str, TopicDescription]:
    """The topics that are there; tells of the others. Raises `Failed` if none is."""
    found = await succeeded(session, admin, admin.describe_topics(list(dict.fromkeys(names))))
    if not found:
        raise Failed
    return found


async def missing_topic(admin: AdminClient, name: str) -> Failed:
    """What to raise for a topic that is not there."""
    return Failed(f"there is no topic {name!r}{close_to(name, await admin.list_topics())}")
