"""``aiokafka-lead configs``: shows and changes configurations of topics, brokers, groups and other resources."""

from __future__ import annotations

from typing import Annotated

import typer

from ..admin import ConfigChange, ConfigOperation, ConfigResource, ConfigResourceType, ConfigSource
from ..errors import ConfigError
from .registering import add
from .session import Session

_TYPES = {
    "topic": ConfigResourceType.TOPIC,
    "broker": ConfigResourceType.BROKER,
    "broker-logger": ConfigResourceType.BROKER_LOGGER,
    "client-metrics": ConfigResourceType.CLIENT_METRICS,
    "group": ConfigResourceType.GROUP,
}
Kind = Annotated[str, typer.Argument(metavar="TYPE", help="topic, broker, broker-logger, client-metrics or group.")]
Name = Annotated[
    str, typer.Argument(metavar="NAME", help='The name; for a broker its id, or "" for the default of all brokers.')
]


def register(app: typer.Typer) -> None:
    """Add the subcommands of ``configs`` to ``app``."""
    configs = typer.Typer(no_args_is_help=True, help="Show and change configurations.")
    add(configs, "show", show)
    add(configs, "set", change)
    app.add_typer(configs, name="configs")


def _resource(kind: str, name: str) -> ConfigResource:
    if kind not in _TYPES:
        raise ConfigError(f"TYPE must be one of {', '.join(_TYPES)}, not {kind!r}")
    if kind.startswith("broker") and name and not name.isdecimal():
        raise ConfigError(f"NAME of a {kind} must be the broker's id, not {name!r}")
    return ConfigResource(_TYPES[kind], name)


async def show(
    session: Session,
    kind: Kind,
    name: Name,
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Include defaults, and values from the broker's configuration file.")
    ] = False,
) -> None:
    """Show the configurations that were set for a resource."""
    resource = _resource(kind, name)
    async with session.admin() as admin:
        entries = (await admin.describe_configs([resource]))[resource]
    rows = [
        {
            "name": entry.name,
            "value": "(secret)" if entry.is_sensitive else entry.value,
            "source": entry.source.name.lower(),
            "read_only": entry.read_only,
        }
        for entry in sorted(entries.values(), key=lambda entry: entry.name)
        if everything or entry.source not in (ConfigSource.DEFAULT_CONFIG, ConfigSource.STATIC_BROKER_CONFIG)
    ]
    session.out.rows(rows, ["name", "value", "source", "read_only"], "nothing is set; --all shows the defaults")


async def change(
    session: Session,
    kind: Kind,
    name: Name,
    changes: Annotated[
        list[str],
        typer.Argument(
            metavar="CHANGE",
            help="NAME=VALUE sets a value, NAME- restores the default, NAME+=VALUE adds VALUE to a list, NAME-=VALUE "
            "removes it.",
        ),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Let the cluster check the changes without making them.")
    ] = False,
) -> None:
    """Change configurations of a resource. Configurations that are not named stay unchanged."""
    resource = _resource(kind, name)
    wanted = [_change(text) for text in changes]
    async with session.admin() as admin:
        await admin.incremental_alter_configs({resource: wanted}, validate_only=dry_run)
    done = "could be changed" if dry_run else "changed"
    names = [each.name for each in wanted]
    session.out.done(
        f"{kind} {name}: {done}: {', '.join(names)}", type=kind, name=name, configs=names, changed=not dry_run
    )


def _change(text: str) -> ConfigChange:
    name, separator, value = text.partition("=")
    if not separator:
        if text.endswith("-") and len(text) > 1:
            return ConfigChange(text[:-1], None, ConfigOperation.DELETE)
        raise ConfigError(f"CHANGE must be NAME=VALUE, NAME-, NAME+=VALUE or NAME-=VALUE, not {text!r}")
    operations = {"+": ConfigOperation.APPEND, "-": ConfigOperation.SUBTRACT}
    if name[-1:] in operations:
        return ConfigChange(name[:-1], value, operations[name[-1]])
    return ConfigChange(name, value)
