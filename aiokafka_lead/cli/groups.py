"""``aiokafka-lead groups``: list, describe, lag, reset, delete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import anyio
import typer
from rich.console import RenderableType

from ..admin import GroupType, OffsetSpec, ResetTo, ToOffset, ToShifted
from ..errors import ConfigError
from .lags import PartitionLag, lag_of_groups, sharing_groups
from .output import table
from .registering import add
from .session import Session
from .times import duration, moment_ms

__all__ = ["register"]

Group = Annotated[str, typer.Argument(metavar="GROUP", help="The group's id.")]
Groups = Annotated[list[str], typer.Argument(metavar="GROUP...", help="Ids of groups.")]
_LAG_COLUMNS = ["group", "topic", "partition", "committed", "end", "lag", "member"]


def register(app: typer.Typer) -> None:
    """Add the family of commands."""
    groups = typer.Typer(no_args_is_help=True, help="List and describe groups, see their lag, reset and delete them.")
    add(groups, "list", list_groups)
    add(groups, "describe", describe_groups)
    add(groups, "lag", lag)
    add(groups, "reset", reset)
    add(groups, "delete", delete_groups)
    app.add_typer(groups, name="groups")


async def list_groups(session: Session) -> None:
    """Every group of any kind."""
    async with session.admin() as admin:
        rows = [
            {
                "group": group.group_id,
                "type": group.type.value,
                "state": group.state.value,
                "protocol": group.protocol_type,
                "coordinator": group.coordinator_id,
            }
            async for group in admin.list_groups()
        ]
    rows.sort(key=lambda row: str(row["group"]))
    session.out.rows(rows, ["group", "type", "state", "protocol", "coordinator"], "there are no groups")


async def describe_groups(session: Session, groups: Groups) -> None:
    """The members of groups, and what each has."""
    rows: list[dict[str, Any]] = []
    async with session.admin() as admin:
        kinds = {group.group_id: group.type async for group in admin.list_groups()}
        share = [name for name in groups if kinds.get(name) is GroupType.SHARE]
        streams = [name for name in groups if kinds.get(name) is GroupType.STREAMS]
        consumers = [name for name in groups if name not in (*share, *streams)]
        found: list[Any] = []
        if consumers:
            found += (await admin.describe_consumer_groups(consumers)).values()
        if share:
            found += (await admin.describe_share_groups(share)).values()
        if streams:
            found += (await admin.describe_streams_groups(streams)).values()
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
    session.out.rows(rows, ["group", "state", "coordinator", "member", "client", "host", "has"], "no groups")


async def lag(
    session: Session,
    groups: Annotated[
        list[str] | None, typer.Argument(metavar="[GROUP]...", help="Ids of groups; all unless some are named.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show it anew until Ctrl-C, with rates.")] = False,
    interval: Annotated[str, typer.Option("--interval", help="Between two looks, with --watch.")] = "2s",
    count: Annotated[int | None, typer.Option("--count", help="End after so many looks, with --watch.")] = None,
) -> None:
    """How far groups are behind, partition by partition."""
    pause_s = duration(interval).total_seconds()
    async with session.admin() as admin:
        if not watch:
            found = await lag_of_groups(admin, groups or await sharing_groups(admin))
            session.out.rows(list(map(_row, found)), _LAG_COLUMNS, "no group has an offset or a partition")
            return
        before: dict[tuple[str, Any], int] = {}
        before_at = 0.0
        looks = 0
        with session.out.live("") as live:
            while True:
                found = await lag_of_groups(admin, groups or await sharing_groups(admin))
                now = anyio.current_time()
                rows = _with_rates(found, before, now - before_at)
                if session.out.as_json:
                    session.out.json_line(rows)
                else:
                    live.update(_watched(rows), refresh=True)
                before = {(each.group, each.where): each.committed for each in found if each.committed is not None}
                before_at = now
                looks += 1
                if looks == count:
                    return
                await anyio.sleep(pause_s)


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


def _watched(rows: Sequence[dict[str, Any]]) -> RenderableType:
    total = sum(row["lag"] or 0 for row in rows)
    return table(rows, [*_LAG_COLUMNS, "per_second"], title=f"lag of all: {total:,} records (Ctrl-C ends)")


async def reset(
    session: Session,
    group: Group,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            help="beginning, end, an offset, +N or -N records, or @TIME: @2h (ago), @2026-11-23T10:00, @1763890000000.",
        ),
    ],
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", help="A topic; may be repeated. Without: all in which the group has an offset."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Let a group without members begin elsewhere. Shows what would change, and asks before it changes anything."""
    target = _target(to)
    async with session.admin() as admin:
        changes = await admin.reset_consumer_group_offsets(group, target, topics=topic, dry_run=True)
        rows = [
            {
                "topic": where.topic,
                "partition": where.partition,
                "before": None if change.before is None else change.before.offset,
                "after": change.after.offset,
            }
            for where, change in sorted(changes.items())
        ]
        if dry_run or not rows:
            session.out.rows(rows, ["topic", "partition", "before", "after"], f"{group} has no offsets")
            return
        if not yes:
            session.out.notes.print(table(rows, ["topic", "partition", "before", "after"]))
            await anyio.to_thread.run_sync(lambda: typer.confirm(f"Reset {group}?", abort=True, err=True))
        # What was shown is what is done, though the topic's end may have moved on.
        await admin.alter_consumer_group_offsets(group, {where: each.after for where, each in changes.items()})
    session.out.rows(rows, ["topic", "partition", "before", "after"], "")


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
    session: Session, groups: Groups, yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False
) -> None:
    """Delete groups without members, with their offsets."""
    if not yes:
        typer.confirm(f"Delete {', '.join(groups)} with their offsets?", abort=True, err=True)
    async with session.admin() as admin:
        await admin.delete_consumer_groups(groups)
    session.out.done(f"deleted: {', '.join(groups)}", deleted=list(groups))
