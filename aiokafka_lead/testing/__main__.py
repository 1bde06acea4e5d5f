"""Serve an embedded cluster to any client: ``python -m aiokafka_lead.testing --brokers 3 --port 9092``."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from importlib.util import find_spec

import anyio

from ..errors import KafkaError
from .cluster import EmbeddedCluster


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m aiokafka_lead.testing",
        description="A Kafka cluster in memory, for tests and demos. It ends with Ctrl-C, and everything in it.",
    )
    parser.add_argument("--brokers", type=int, default=3, metavar="N", help="how many brokers (default: 3)")
    parser.add_argument(
        "--port",
        type=int,
        default=9092,
        help="the first broker's port, the others follow (default: 9092; 0: free ones)",
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: 127.0.0.1)")
    parser.add_argument("--advertised-host", metavar="HOST", help="the host that clients get (default: --host)")
    parser.add_argument(
        "--topic",
        action="append",
        default=[],
        type=wanted_topic,
        metavar="NAME[:PARTITIONS[:REPLICAS]]",
        help="create a topic; may be repeated",
    )
    parser.add_argument(
        "--topic-config",
        action="append",
        default=[],
        type=_config,
        metavar="NAME=VALUE",
        help="a config of all topics, e.g. retention.bytes=10000000 and segment.bytes=1000000; may be repeated",
    )
    parser.add_argument("--no-auto-create", action="store_true", help="do not create topics that clients ask for")
    parser.add_argument("--cluster-id", metavar="ID", help="the cluster's id (default: a random one)")
    parser.add_argument(
        "--sasl-user",
        action="append",
        default=[],
        type=_user,
        metavar="USER:PASSWORD",
        help="demand SASL (PLAIN, SCRAM-SHA-256, SCRAM-SHA-512); may be repeated",
    )
    return parser


def wanted_topic(text: str) -> tuple[str, int, int | None]:
    """Parse ``NAME[:PARTITIONS[:REPLICAS]]``. Raises ArgumentTypeError."""
    name, _, rest = text.partition(":")
    partitions, _, replicas = rest.partition(":")
    try:
        return name, int(partitions or 1), int(replicas) if replicas else None
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME[:PARTITIONS[:REPLICAS]]") from None


def _config(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def _user(text: str) -> tuple[str, str]:
    user, separator, password = text.partition(":")
    if not separator:
        raise argparse.ArgumentTypeError(f"{text!r} is not USER:PASSWORD")
    return user, password


async def serve(arguments: argparse.Namespace) -> None:
    """Serve until SIGINT or SIGTERM."""
    count: int = arguments.brokers
    first: int = arguments.port
    cluster = EmbeddedCluster(
        count,
        host=arguments.host,
        ports=range(first, first + count) if first else None,
        advertised_host=arguments.advertised_host,
        cluster_id=arguments.cluster_id,
        auto_create_topics=not arguments.no_auto_create,
        topic_configs=dict(arguments.topic_config),
        sasl_users=dict(arguments.sasl_user) or None,
    )
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with cluster:
            for name, partitions, replicas in arguments.topic:
                cluster.create_topic(name, partitions, replicas)
            print(f"bootstrap.servers={cluster.bootstrap_servers}", flush=True)
            async for _ in signals:
                break


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    try:
        anyio.run(serve, arguments, backend_options={"use_uvloop": find_spec("uvloop") is not None})
    except OSError as error:
        where = f"{arguments.host}, port {arguments.port} or one after it"
        print(f"error: cannot listen at {where}: {error}", file=sys.stderr)
        return 1
    except KafkaError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
