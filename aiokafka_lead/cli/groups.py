"""``aiokafka-lead groups``: lists and describes groups, shows their lag, and changes or deletes their offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import anyio
import typer
from rich.console import RenderableType

from ..admin import AdminClient, GroupType, OffsetSpec, ResetTo, ToOffset, ToShifted
from ..errors import ConfigError, KafkaError, UnknownTopicOrPartitionError
from ..types import OffsetAndMetadata, TopicPartition
from .failures import ExitCode, exit_code, sentence
from .lags import PartitionLag, is_away, lag_of_groups
from .names import close_to, done_of, listed_groups, missing_group, succeeded, told
from .output import table
from .places import moment_ms, pause
from .registering import add
from .session import Session
from .stdin import confirm

Group = Annotated[str, typer.Argument(metavar="GROUP", help="The group's id.")]
Groups = Annotated[list[str], typer.Argument(metavar="GROUP", help="The ids of the groups.")]
_LAG_COLUMNS = ["group", "topic", "partition", "committed", "end", "lag", "member"]
_WATCHED_COLUMNS = ["group", "topic", "partition", "committed", "end", "lag", "per_second", "member"]
_HEAD_LINES = 2
"""Number of lines above the rows of a display: its title and the column names."""


def register(app: typer.Typer) -> None:
    """Add the subcommands of ``groups`` to ``app``."""
    groups = typer.Typer(no_args_is_help=True, help="List, describe and delete groups, show lag, and change offsets.")
    add(groups, "list", list_groups)
    add(groups, "describe", describe_groups)
    add(groups, "topology", show_topology)
    add(groups, "lag", lag)
    add(groups, "reset", reset)
    add(groups, "clone", clone)
    add(groups, "forget", forget)
    add(groups, "delete", delete_groups)
    app.add_typer(groups, name="groups")


async def list_groups(session: Session) -> None:
    """List the groups of all types."""
    async with session.admin() as admin:
        found, unasked = await listed_groups(session, admin)
    rows = [
        {
            "group": group.group_id,
            "type": group.type.value,
            "state": group.state.value,
            "protocol": group.protocol_type,
            "coordinator": group.coordinator_id,
        }
        for group in sorted(found)
    ]
    session.out.rows(
        rows,
        ["group", "type", "state", "protocol", "coordinator"],
        "there are no groups" if unasked is None else "",
    )
    if unasked is not None:
        session.fail(f"there may be more groups: {sentence(unasked)}", exit_code(unasked))


async def describe_groups(session: Session, groups: Groups) -> None:
    """Show the members of groups, with their partitions."""
    rows: list[dict[str, Any]] = []
    timeout_ms = session.options["request_timeout_ms"]
    async with session.admin() as admin:
        # Ignore unreachable brokers: the coordinators of the given groups may be reachable.
        listing, _ = await listed_groups(session, admin)
        kinds = {group.group_id: group.type for group in listing}
        share = [name for name in groups if kinds.get(name) is GroupType.SHARE]
        streams = [name for name in groups if kinds.get(name) is GroupType.STREAMS]
        consumers = [name for name in groups if name not in (*share, *streams)]
        found: list[Any] = []
        if consumers:
            call = admin.describe_consumer_groups(consumers, timeout_ms=timeout_ms)
            found += (await succeeded(session, admin, call)).values()
        if share:
            found += (
                await succeeded(session, admin, admin.describe_share_groups(share, timeout_ms=timeout_ms))
            ).values()
        if streams:
            those = admin.describe_streams_groups(streams, timeout_ms=timeout_ms)
            found += (await succeeded(session, admin, those)).values()
    for group in found:
        common = {"group": group.group_id, "state": group.state.value, "coordinator": group.coordinator_id}
        for member in group.members:
            assigned = member.assignment
            has = sorted(map(str, assigned)) if isinstance(assigned, tuple) else sorted(assigned.active)
            rows.append(
                {**common, "member": member.member_id, "client": member.client_id, "host": member.host, "has": has}
            )
        if not group.members:
            rows.append({**common, "member": None, "client": None, "host": None, "has": []})
    session.out.rows(rows, ["group", "state", "coordinator", "member", "client", "host", "has"], "")


async def show_topology(session: Session, groups: Groups) -> None:
    """Show the nodes in the topologies of Kafka Streams groups (Kafka 4.4)."""
    rows: list[dict[str, Any]] = []
    async with session.admin() as admin:
        call = admin.describe_streams_groups(groups, include_topology_description=True)
        found = await succeeded(session, admin, call)
    for group in found.values():
        if group.topology is None:
            session.out.note(f"group {group.group_id!r} has no topology: {group.topology_status.name}")
            continue
        parts = list(group.topology.subtopologies.items())
        parts += [("global store", store) for store in group.topology.global_stores]
        rows += [
            {
                "group": group.group_id,
                "assignor": group.assignor,
                "subtopology": name,
                "node": node.name,
                "kind": node.kind,
                "topics": [*node.source_topics, *([] if node.sink_topic is None else [node.sink_topic])],
                "stores": list(node.stores),
                "to": list(node.successors),
            }
            for name, nodes in parts
            for node in nodes
        ]
    session.out.rows(rows, ["group", "subtopology", "node", "kind", "topics", "stores", "to"], "")


async def lag(
    session: Session,
    groups: Annotated[
        list[str] | None, typer.Argument(metavar="GROUP", help="The ids of the groups. Default: all groups.")
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Refresh the table until Ctrl-C, and show rates.")
    ] = False,
    interval: Annotated[str, typer.Option("--interval", help="Time between refreshes, with --watch.")] = "2s",
    count: Annotated[
        int | None, typer.Option("--count", min=1, help="Stop after this many refreshes, with --watch.")
    ] = None,
    fail_above: Annotated[
        int | None,
        typer.Option(
            "--fail-above",
            metavar="N",
            min=0,
            help="Exit with code 5 if the total lag of a group is larger than N. With --watch, the last refresh "
            "counts.",
        ),
    ] = None,
) -> None:
    """Show the lag of groups in each partition.

    The end of a partition is its high watermark, which includes records of open transactions.
    """
    pause_s = pause(interval)
    if count is not None and not watch:
        raise ConfigError("--count needs --watch")
    if watch and fail_above is not None and count is None:
        raise ConfigError("--fail-above with --watch needs --count, because the last refresh determines the exit code")
    async with session.admin() as admin:
        if not watch:
            found, failures = await lag_of_groups(session, admin, groups)
            await told(session, admin, failures)
            session.out.rows(list(map(_row, found)), _LAG_COLUMNS, "" if failures else "no group has offsets")
            _check(session, found, fail_above)
            return
        before: dict[tuple[str, Any], int] = {}
        before_at = 0.0
        looks = 0
        away: set[str] = set()
        with session.out.live() as show:
            while True:
                found, failures = await lag_of_groups(session, admin, groups)
                looks += 1
                last = looks == count
                if last or not all(map(is_away, failures.values())):
                    await told(session, admin, failures)
                    if not last:
                        session.raise_failures()
                for name in () if last else failures.keys() - away:
                    session.out.note(f"lag of {name or 'other groups'} unavailable: {sentence(failures[name])}")
                away = set(failures)
                now = anyio.current_time()
                rows = _with_rates(found, before, now - before_at)
                if session.out.as_json:
                    session.out.json_line(rows)
                    await session.out.drain()
                else:
                    await show(_watched(rows, session.out.height))
                before = {(each.group, each.where): each.committed for each in found if each.committed is not None}
                before_at = now
                if last:
                    _check(session, found, fail_above)
                    return
                await anyio.sleep(pause_s)


def _check(session: Session, found: Sequence[PartitionLag], fail_above: int | None) -> None:
    """Report the groups whose lag exceeds ``fail_above`` or is unknown, so that the command fails.

    A partition without a committed offset, or of a deleted topic, has no lag.
    """
    if fail_above is None:
        return
    for group in dict.fromkeys(each.group for each in found):
        lags = [each.lag for each in found if each.group == group]
        total = sum(lag or 0 for lag in lags)
        if total > fail_above:
            session.fail(f"group {group!r} is {total:,} records behind, more than {fail_above:,}", ExitCode.LAG)
    for each in found:
        if each.lag is None and each.failure is not None and not isinstance(each.failure, UnknownTopicOrPartitionError):
            where = f"{each.where.topic}-{each.where.partition}"
            session.fail(f"the lag of group {each.group!r} in {where} is unknown: {sentence(each.failure)}")


def _row(each: PartitionLag) -> dict[str, Any]:
    return {
        "group": each.group,
        "topic": each.where.topic,
        "partition": each.where.partition,
        "committed": each.committed,
        "end": each.end,
        "lag": each.lag,
        "member": each.member,
    }


def _with_rates(
    found: Sequence[PartitionLag], before: dict[tuple[str, Any], int], seconds: float
) -> list[dict[str, Any]]:
    rows = []
    for each in found:
        last = before.get((each.group, each.where))
        known = last is not None and each.committed is not None
        rate = (each.committed - last) / seconds if known else None  # type: ignore[operator]
        rows.append({**_row(each), "per_second": rate})
    return rows


def _watched(rows: Sequence[dict[str, Any]], height: int | None) -> RenderableType:
    """Return a table that fits on the screen, if necessary with only the partitions that have the most lag."""
    total = sum(row["lag"] or 0 for row in rows)
    title = f"total lag: {total:,} records (Ctrl-C to stop)"
    fits = len(rows) if height is None else max(1, height - _HEAD_LINES)
    if len(rows) > fits:
        title += f"; showing the {fits} of {len(rows)} partitions with the most lag"
        behind = sorted(range(len(rows)), key=lambda at: -(rows[at]["lag"] or 0))[:fits]
        rows = [rows[at] for at in sorted(behind)]
    return table(rows, _WATCHED_COLUMNS, title=title, in_lines=True)


async def reset(
    session: Session,
    group: Group,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            help="The new offsets: beginning, end, an offset, +N or -N relative to the current offset, or @TIME: @2h "
            "(2 hours ago), @2026-11-23T10:00, @1763890000000.",
        ),
    ],
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic", "-t", help="Only this topic; may be repeated. Default: all topics with offsets of the group."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the changes without making them.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Change the committed offsets of a group without members.

    Shows the changes, and asks for confirmation.
    """
    target = _target(to)
    how: dict[str, Any] = {"topics": topic, "dry_run": True, "timeout_ms": session.options["request_timeout_ms"]}
    async with session.admin() as admin:
        shares = await _is_share_group(session, admin, group)
        planned: dict[TopicPartition, tuple[int | None, int]] = {}
        offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        if shares:
            starts = await admin.reset_share_group_offsets(group, target, **how)
            planned = {where: (change.before, change.after) for where, change in starts.items()}
        else:
            for where, each in (await admin.reset_consumer_group_offsets(group, target, **how)).items():
                planned[where] = None if each.before is None else each.before.offset, each.after.offset
                offsets[where] = each.after
        rows = [
            {"topic": where.topic, "partition": where.partition, "before": before, "after": after}
            for where, (before, after) in sorted(planned.items())
        ]
        if not rows:
            raise await missing_group(session, admin, group, f"{group} has no offsets; name topics with --topic")
        if dry_run:
            session.out.rows(rows, ["topic", "partition", "before", "after"], "")
            return
        if not yes:
            session.out.note_rows(rows, ["topic", "partition", "before", "after"])
            await confirm(session.out, f"Reset the offsets of {group}?")
        # Commit the offsets that were shown. A second reset could differ, because the topic's end may have moved.
        if shares:
            await admin.alter_share_group_offsets(group, {where: after for where, (_, after) in planned.items()})
        else:
            await admin.alter_consumer_group_offsets(group, offsets)
    session.out.rows(rows, ["topic", "partition", "before", "after"], "")


async def clone(
    session: Session,
    group: Group,
    new: Annotated[
        str, typer.Argument(metavar="NEW", help="The group that receives the offsets. It must have no members.")
    ],
    topic: Annotated[
        list[str] | None, typer.Option("--topic", "-t", help="Only this topic; may be repeated. Default: all topics.")
    ] = None,
    move: Annotated[
        bool, typer.Option("--move", help="Delete the offsets of GROUP afterwards. GROUP must have no members.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the changes without making them.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Copy the committed offsets of a group to another group, which then continues at these offsets."""
    if group == new:
        raise ConfigError(f"cannot clone group {group} into itself; name another group")
    columns = ["topic", "partition", "before", "after"]
    async with session.admin() as admin:
        for name in (group, new):
            if await _is_share_group(session, admin, name):
                raise ConfigError(f"{name} is a share group, which has no committed offsets to clone")
        offsets = _of_topics(await admin.list_consumer_group_offsets(group), topic)
        if not offsets:
            none = f"{group} has no offset in {', '.join(topic)}" if topic else f"{group} has no offsets"
            raise await missing_group(session, admin, group, none)
        _report_absent(session, group, offsets, topic or ())
        before = _of_topics(await admin.list_consumer_group_offsets(new), topic)
        rows = [
            {
                "topic": where.topic,
                "partition": where.partition,
                "before": before[where].offset if where in before else None,
                "after": each.offset,
            }
            for where, each in sorted(offsets.items())
        ]
        if not dry_run:
            if not yes:
                session.out.note_rows(rows, columns)
                also = f", and delete them from {group}" if move else ""
                await confirm(session.out, f"Copy these offsets to {new}{also}?")
            await admin.alter_consumer_group_offsets(new, offsets)
            if move:
                try:
                    await admin.delete_consumer_group_offsets(group, list(offsets))
                except KafkaError as error:
                    error.add_note(f"{new} has the offsets now, but they were not deleted from {group}")
                    raise
    session.out.rows(rows, columns, "")


def _report_absent(session: Session, group: str, there: Iterable[TopicPartition], topics: Iterable[str]) -> None:
    """Report every topic in which the group has no offset, and make the command fail."""
    found = {where.topic for where in there}
    for name in topics:
        if name not in found:
            session.fail(f"{group} has no offset in {name}{close_to(name, found)}")


def _of_topics(
    offsets: Mapping[TopicPartition, OffsetAndMetadata | None], topics: Sequence[str] | None
) -> dict[TopicPartition, OffsetAndMetadata]:
    return {
        where: each for where, each in offsets.items() if each is not None and (not topics or where.topic in topics)
    }


async def _is_share_group(session: Session, admin: AdminClient, group_id: str) -> bool:
    listed, _ = await listed_groups(session, admin)
    return any(group.group_id == group_id and group.type is GroupType.SHARE for group in listed)


async def forget(
    session: Session,
    group: Group,
    topic: Annotated[list[str], typer.Option("--topic", "-t", help="The topic; may be repeated.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete the committed offsets of a group in these topics.

    For a share group, this deletes the group's delivery state in these topics.
    """
    if not yes:
        await confirm(session.out, f"Delete the offsets of {group} in {', '.join(topic)}?")
    async with session.admin() as admin:
        if await _is_share_group(session, admin, group):
            await admin.delete_share_group_offsets(group, topic)
        else:
            known = await admin.list_consumer_group_offsets(group)
            mine = [where for where in known if where.topic in topic]
            if not mine:
                raise await missing_group(session, admin, group, f"{group} has no offset in {', '.join(topic)}")
            _report_absent(session, group, mine, topic)
            await admin.delete_consumer_group_offsets(group, mine)
            topic = sorted({where.topic for where in mine})
    session.out.done(f"{group}: offsets deleted in {', '.join(topic)}", group=group, forgotten=topic)


def _target(text: str) -> ResetTo:
    names = {"beginning": OffsetSpec.EARLIEST, "earliest": OffsetSpec.EARLIEST}
    names |= {"end": OffsetSpec.LATEST, "latest": OffsetSpec.LATEST}
    if text in names:
        return names[text]
    if text.startswith("@"):
        return moment_ms(text[1:])
    try:
        number = int(text)
    except ValueError:
        raise ConfigError(f"--to takes beginning, end, an offset, +N, -N or @TIME, not {text!r}") from None
    return ToShifted(number) if text[0] in "+-" else ToOffset(number)


async def delete_groups(
    session: Session,
    groups: Groups,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete groups that have no members, with their offsets."""
    if not yes:
        await confirm(session.out, f"Delete {', '.join(groups)} with their offsets?")
    async with session.admin() as admin:
        deleted = await done_of(session, admin, admin.delete_consumer_groups(groups), groups)
    if deleted:
        session.out.done(f"deleted: {', '.join(deleted)}", deleted=deleted)
