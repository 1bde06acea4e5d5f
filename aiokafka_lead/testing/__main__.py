"""Runs an embedded cluster, and a schema registry, for clients in other processes.

python -m aiokafka_lead.testing --brokers 3 --port 9092 --schema-registry-port 8081
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec

import anyio

from .._signals import receiving
from ..errors import KafkaError
from .cluster import EmbeddedCluster
from .schema_registry import EmbeddedSchemaRegistry


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m aiokafka_lead.testing",
        description="Run a Kafka cluster in memory, for tests and demos. Ctrl-C stops it and deletes its records.",
    )
    parser.add_argument("--brokers", type=int, default=3, metavar="N", help="number of brokers (default: 3)")
    parser.add_argument(
        "--port",
        type=int,
        default=9092,
        help="port of the first broker; the next brokers have the next ports (default: 9092; 0: free ports)",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument(
        "--advertised-host", metavar="HOST", help="host name that brokers advertise to clients (default: --host)"
    )
    parser.add_argument(
        "--topic",
        action="append",
        default=[],
        type=wanted_topic,
        metavar="NAME[:PARTITIONS[:REPLICAS]]",
        help="topic to create; may be repeated",
    )
    parser.add_argument(
        "--topic-config",
        action="append",
        default=[],
        type=_config,
        metavar="NAME=VALUE",
        help="config of all topics, for example retention.bytes=10000000; may be repeated",
    )
    parser.add_argument(
        "--no-auto-create", action="store_true", help="do not create missing topics that clients request"
    )
    parser.add_argument("--cluster-id", metavar="ID", help="id of the cluster (default: a random id)")
    parser.add_argument(
        "--sasl-user",
        action="append",
        default=[],
        type=_user,
        metavar="USER:PASSWORD",
        help="user for SASL (PLAIN, SCRAM-SHA-256, SCRAM-SHA-512), which is then required; may be repeated",
    )
    parser.add_argument(
        "--schema-registry-port",
        type=int,
        metavar="PORT",
        help="also run a schema registry at this port of 127.0.0.1 (0: a free port)",
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
    """Run the cluster until SIGINT or SIGTERM."""
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
    with receiving() as signals:
        async with cluster:
            for name, partitions, replicas in arguments.topic:
                cluster.create_topic(name, partitions, replicas)
            print(f"bootstrap.servers={cluster.bootstrap_servers}", flush=True)
            await signals.next()


@contextmanager
def _registry(port: int | None) -> Iterator[None]:
    """Run a schema registry if ``port`` is not None."""
    if port is None:
        yield
        return
    with EmbeddedSchemaRegistry(port=port) as registry:
        print(f"schema.registry.url={registry.url}", flush=True)
        yield


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    where = f"127.0.0.1, port {arguments.schema_registry_port}"
    try:
        with _registry(arguments.schema_registry_port):
            where = f"{arguments.host}, port {arguments.port} or one of the next ports"
            anyio.run(serve, arguments, backend_options={"use_uvloop": find_spec("uvloop") is not None})
    except OSError as error:
        print(f"error: cannot listen on {where}: {error}", file=sys.stderr)
        return 1
    except KafkaError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
