"""``aiokafka-lead serve``: runs the embedded cluster for experiments and tests with any Kafka client."""

from __future__ import annotations

from argparse import ArgumentTypeError
from typing import Annotated

import anyio
import typer

from .failures import Failed
from .output import Output
from .registering import ended


def register(app: typer.Typer) -> None:
    """Add the command ``serve`` to ``app``, without the common options for connecting to a cluster."""
    app.command("serve")(serve)


def serve(
    brokers: Annotated[int, typer.Option("--brokers", min=1, help="Number of brokers.")] = 3,
    port: Annotated[
        int,
        typer.Option(
            "--port",
            min=0,
            max=65535,
            help="Port of the first broker; the others use the next ports. 0 chooses free ports.",
        ),
    ] = 9092,
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="NAME[:PARTITIONS[:REPLICAS]]", help="Create this topic; may be repeated."),
    ] = None,
) -> None:
    """Run a Kafka cluster in memory until Ctrl-C.

    Its topics and records are then lost.
    """
    # Imported here, because importing its dependencies takes a quarter of the time that any command needs to start.
    from ..testing import EmbeddedCluster
    from ..testing.__main__ import wanted_topic

    try:
        topics = [wanted_topic(each) for each in topic or ()]
    except ArgumentTypeError as error:
        raise typer.BadParameter(str(error), param_hint="--topic") from None
    out = Output(as_json=False)

    async def work() -> None:
        try:
            async with EmbeddedCluster(
                brokers, host=host, ports=range(port, port + brokers) if port else None
            ) as cluster:
                for name, partitions, replicas in topics:
                    cluster.create_topic(name, partitions, replicas)
                out.stdout.write(f"bootstrap.servers={cluster.bootstrap_servers}\n")
                await out.drain()
                await anyio.sleep_forever()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise Failed(f"cannot listen on {host} at port {port} or one of the next ports: {error}") from None

    ended(work, out)
