"""Run clients on a real Kafka under faults, and check that no record is lost or duplicated, and no transaction torn.

::

    python -m tests.prove --minutes 5  # idempotent and transactions
    python -m tests.prove --minutes 30 --mode everything --out page.md
    python -m tests.prove --minutes 5 --mode idempotent --client confluent-kafka
    python -m tests.prove --seed 4711  # the same faults; timing varies
    python -m tests.prove --mode everything --proxy danted --tls  # through a SOCKS5 proxy, which also fails

A run starts three brokers, the clients' processes, and a TCP proxy between them. Brokers and client processes get
SIGKILL, SIGTERM and SIGSTOP. Leaders and replicas are moved, and partitions are added. The proxy cuts, half-closes and
misroutes connections, blocks one direction, or slows them to a trickle. At the end confluent-kafka reads all topics,
and the clients' reports are compared with these records. The exit status is 0 only without violations.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import tempfile
from pathlib import Path

import anyio

from tests.kafka.harness import NEWEST, OLD
from tests.proxies import PROXIES

from .clients import CLIENTS
from .proof import MODES, PEER_MODES, Proof


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.prove", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument(
        "--mode",
        choices=[*MODES, "everything"],
        action="append",
        help="may be repeated (default: idempotent and transactions)",
    )
    parser.add_argument(
        "--client",
        choices=CLIENTS,
        default="aiokafka-lead",
        help=f"other clients have the modes {', '.join(PEER_MODES)}",
    )
    parser.add_argument("--seed", type=int, help="seed of the faults and their order")
    parser.add_argument("--old", action="store_true", help=f"use Kafka {OLD}, without KIP-890 and KIP-951")
    parser.add_argument(
        "--proxy", choices=PROXIES, help="a proxy for the clients in place of the network; it also fails"
    )
    parser.add_argument("--tls", action="store_true", help="with --proxy: use TLS to the brokers through it")
    parser.add_argument("--no-faults", action="store_true", help="cause no faults, to test the trial itself")
    parser.add_argument("--out", type=Path, help="also write the page to this file")
    parser.add_argument("--keep", type=Path, help="keep the clients' journals and logs in this folder")
    options = parser.parse_args()
    modes = list(dict.fromkeys(options.mode or ["idempotent", "transactions"]))
    available = MODES if options.client == "aiokafka-lead" else PEER_MODES
    if "everything" in modes:
        modes = list(available)
    if not set(modes) <= set(available):
        parser.error(f"--client: other clients have the modes {', '.join(PEER_MODES)}")
    if (options.tls and options.proxy is None) or (options.proxy is not None and options.client != "aiokafka-lead"):
        parser.error("--proxy is for this package's clients, and --tls is for --proxy")
    logging.getLogger("aiokafka_lead").setLevel(logging.CRITICAL)
    seed = random.randrange(1_000_000) if options.seed is None else options.seed
    with tempfile.TemporaryDirectory(prefix="prove-") as folder:
        where = options.keep or Path(folder)
        where.mkdir(parents=True, exist_ok=True)
        release = OLD if options.old else NEWEST
        proof = Proof(
            release, modes, options.client, seed, options.minutes, where, proxy=options.proxy, tls=options.tls
        )
        page = anyio.run(proof.run, not options.no_faults)
    sys.stdout.write(page)
    if options.out is not None:
        options.out.write_text(page)
    return 0 if proof.clean else 1


if __name__ == "__main__":
    sys.exit(main())
