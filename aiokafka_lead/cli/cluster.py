"""``aiokafka-lead cluster``: lists brokers and controllers, and unregisters lost nodes."""

from __future__ import annotations

from typing import Annotated

import typer

from .registering import add
from .session import Session
from .stdin import confirm

NodeId = Annotated[int, typer.Argument(metavar="ID", help="The id of the node.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


def register(app: typer.Typer) -> None:
    """Add the subcommands of ``cluster`` to ``app``."""
    cluster = typer.Typer(no_args_is_help=True, help="List brokers and controllers, and unregister lost nodes.")
    add(cluster, "brokers", brokers)
    add(cluster, "controllers", controllers)
    add(cluster, "unregister-broker", unregister_broker)
    add(cluster, "unregister-controller", unregister_controller)
    app.add_typer(cluster, name="cluster")


async def brokers(session: Session) -> None:
    """List the registered brokers with their addresses and racks."""
    async with session.admin() as admin:
        cluster = await admin.describe_cluster()
    rows = [
        {"broker": broker.node_id, "host": broker.host, "port": broker.port, "rack": broker.rack}
        for broker in cluster.brokers
    ]
    session.out.rows(rows, ["broker", "host", "port", "rack"], "there are no brokers")


async def controllers(session: Session) -> None:
    """List the voters and observers of the controller quorum, with their positions in the metadata log."""
    async with session.admin() as admin:
        quorum = await admin.describe_metadata_quorum()
    rows = [
        {
            "node": replica.replica_id,
            "role": "leader" if replica.replica_id == quorum.leader_id else role,
            "log_end": replica.log_end_offset,
            "lag": max(quorum.high_watermark - replica.log_end_offset, 0),
        }
        for role, replicas in (("voter", quorum.voters), ("observer", quorum.observers))
        for replica in replicas
    ]
    session.out.rows(rows, ["node", "role", "log_end", "lag"], "there are no controllers")


async def unregister_broker(session: Session, node_id: NodeId, yes: Yes = False) -> None:
    """Unregister a broker that is permanently lost."""
    if not yes:
        await confirm(session.out, f"Unregister broker {node_id}? It must not come back.")
    async with session.admin() as admin:
        await admin.unregister_broker(node_id)
    session.out.done(f"broker {node_id}: unregistered", broker=node_id, unregistered=True)


async def unregister_controller(session: Session, node_id: NodeId, yes: Yes = False) -> None:
    """Unregister a controller that is permanently lost (Kafka 4.4)."""
    if not yes:
        await confirm(session.out, f"Unregister controller {node_id}? It must not come back.")
    async with session.admin() as admin:
        await admin.unregister_controller(node_id)
    session.out.done(f"controller {node_id}: unregistered", controller=node_id, unregistered=True)
