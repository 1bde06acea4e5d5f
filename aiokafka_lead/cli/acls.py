"""``aiokafka-lead acls``: lists, adds and removes ACLs."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Annotated, TypeVar

import typer

from ..admin import AclBinding, AclBindingFilter, AclOperation, AclPatternType, AclPermissionType, AclResourceType
from ..admin.acls import principal as parsed_principal
from ..errors import ConfigError
from .names import succeeded
from .registering import add
from .session import Session
from .stdin import confirm

E = TypeVar("E", bound=IntEnum)

_CLUSTER_NAME = "kafka-cluster"
_COLUMNS = ["resource", "name", "pattern", "principal", "host", "operation", "permission"]

Resource = Annotated[
    str | None,
    typer.Option("--resource", "-r", help="Type of the resource: topic, group, cluster, transactional-id, user, ..."),
]
Name = Annotated[str | None, typer.Option("--name", "-n", help="Name of the resource.")]
Principal = Annotated[str | None, typer.Option("--principal", "-u", help='The principal, such as "User:alice".')]
Host = Annotated[str | None, typer.Option("--host", help="The address from which the user connects.")]
Operation = Annotated[
    str | None, typer.Option("--operation", "-o", help="The operation: read, write, describe, ... or all.")
]
Pattern = Annotated[str | None, typer.Option("--pattern", help="Pattern type: literal, prefixed, match or any.")]


def register(app: typer.Typer) -> None:
    """Add the subcommands of ``acls`` to ``app``."""
    acls = typer.Typer(no_args_is_help=True, help="List, add and remove ACLs (access control rules).")
    add(acls, "list", list_rules)
    add(acls, "add", add_rule)
    add(acls, "remove", remove_rules)
    app.add_typer(acls, name="acls")


def _member(kind: type[E], option: str, text: str | None, default: E) -> E:
    if text is None:
        return default
    known = {each.name.lower().replace("_", "-"): each for each in kind if each.name != "UNKNOWN"}
    found = known.get(text.lower().replace("_", "-"))
    if found is None:
        raise ConfigError(f"{option} must be one of {', '.join(known)}, not {text!r}")
    return found


def _filter(
    resource: str | None,
    name: str | None,
    principal: str | None,
    host: str | None,
    operation: str | None,
    pattern: str | None,
) -> AclBindingFilter:
    if principal is not None:
        parsed_principal("--principal", principal)  # raises ConfigError; an invalid principal would match no rule
    return AclBindingFilter(
        _member(AclResourceType, "--resource", resource, AclResourceType.ANY),
        name,
        principal,
        _member(AclOperation, "--operation", operation, AclOperation.ANY),
        AclPermissionType.ANY,
        host,
        _member(AclPatternType, "--pattern", pattern, AclPatternType.ANY),
    )


async def list_rules(
    session: Session,
    resource: Resource = None,
    name: Name = None,
    principal: Principal = None,
    host: Host = None,
    operation: Operation = None,
    pattern: Pattern = None,
) -> None:
    """List the rules that match all given options. Without options, list all rules."""
    wanted = _filter(resource, name, principal, host, operation, pattern)
    async with session.admin() as admin:
        _print(session, await admin.describe_acls(wanted), "no rule matches")


async def add_rule(
    session: Session,
    principal: Annotated[
        str, typer.Option("--principal", "-u", help='The principal, such as "User:alice", or "User:*" for all users.')
    ],
    operation: Annotated[
        list[str],
        typer.Option("--operation", "-o", help="The operation: read, write, describe, ... or all; may be repeated."),
    ],
    resource: Annotated[
        str,
        typer.Option("--resource", "-r", help="Type of the resource: topic, group, cluster, transactional-id, ..."),
    ],
    name: Name = None,
    deny: Annotated[bool, typer.Option("--deny", help="Deny the operation instead of allowing it.")] = False,
    host: Annotated[str, typer.Option("--host", help='The address from which the user connects, or "*".')] = "*",
    pattern: Annotated[str, typer.Option("--pattern", help="Pattern type: literal or prefixed.")] = "literal",
) -> None:
    """Add one rule for each operation."""
    kind = _member(AclResourceType, "--resource", resource, AclResourceType.ANY)
    if name is None and kind is not AclResourceType.CLUSTER:
        raise ConfigError(f"--resource {resource} needs --name")
    rules = [
        AclBinding(
            kind,
            _CLUSTER_NAME if name is None else name,
            principal,
            _member(AclOperation, "--operation", each, AclOperation.ANY),
            AclPermissionType.DENY if deny else AclPermissionType.ALLOW,
            host,
            _member(AclPatternType, "--pattern", pattern, AclPatternType.LITERAL),
        )
        for each in operation
    ]
    async with session.admin() as admin:
        await admin.create_acls(rules)
    _print(session, rules, "")


async def remove_rules(
    session: Session,
    resource: Resource = None,
    name: Name = None,
    principal: Principal = None,
    host: Host = None,
    operation: Operation = None,
    pattern: Pattern = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Remove the rules that match all given options.

    Shows the rules, and asks for confirmation.
    """
    wanted = _filter(resource, name, principal, host, operation, pattern)
    if wanted == AclBindingFilter():
        raise ConfigError("acls remove needs at least one option that selects rules, so it cannot remove all rules")
    async with session.admin() as admin:
        found = await admin.describe_acls(wanted)
        if found and not yes:
            names = "\n".join(f"  {' '.join(_row(rule).values())}" for rule in found)
            await confirm(session.out, f"{names}\nRemove {len(found)} rules?")
        # Delete exactly the rules that were shown, because more may match by now. This is impossible if a rule has a
        # type that this client does not know (0, UNKNOWN), because a filter cannot name it.
        exact = all(
            each.resource_type and each.operation and each.permission_type and each.pattern_type for each in found
        )
        gone = await succeeded(session, admin, admin.delete_acls(map(_only, found) if exact else [wanted]))
    _print(session, [rule for rules in gone.values() for rule in rules], "" if found else "no rule matches")


def _only(rule: AclBinding) -> AclBindingFilter:
    """Return a filter that matches this rule only."""
    return AclBindingFilter(
        rule.resource_type,
        rule.resource_name,
        rule.principal,
        rule.operation,
        rule.permission_type,
        rule.host,
        rule.pattern_type,
    )


def _row(rule: AclBinding) -> dict[str, str]:
    return {
        "resource": rule.resource_type.name.lower(),
        "name": rule.resource_name,
        "pattern": rule.pattern_type.name.lower(),
        "principal": rule.principal,
        "host": rule.host,
        "operation": rule.operation.name.lower(),
        "permission": rule.permission_type.name.lower(),
    }


def _print(session: Session, rules: Iterable[AclBinding], empty: str) -> None:
    session.out.rows(list(map(_row, rules)), _COLUMNS, empty)
