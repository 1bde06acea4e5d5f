"""``aiokafka-lead serve``: the embedded cluster, for trials and tests of any client."""

from __future__ import annotations

from argparse import ArgumentTypeError
from typing import Annotated

import typer

from ..testing.__main__ import main as serve_embedded
from ..testing.__main__ import wanted_topic
from .failures import ExitCode

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command, which needs no cluster to connect to."""
    app.command("serve")(serve)


def serve(
    brokers: Annotated[int, typer.Option("--brokers", min=1, help="How many brokers.")] = 3,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The first broker's; 0: free ones.")] = 9092,
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="NAME[:PARTITIONS[:REPLICAS]]", help="Create it; may be repeated."),
    ] = None,
) -> None:
    """Serve a Kafka cluster in memory until Ctrl-C.

    Everything in it ends with it.
    """
    arguments = ["--brokers", str(brokers), "--port", str(port), "--host", host]
    for each in topic or ():
        try:
            wanted_topic(each)
        except ArgumentTypeError as error:
            raise typer.BadParameter(str(error), param_hint="--topic") from None
        arguments += ["--topic", each]
    raise typer.Exit(ExitCode(serve_embedded(arguments)))
