"""A broker's address leads elsewhere for a while (KIP-1242): this client beside Java's 4.4 and confluent-kafka.

    python -m tests.kafka.long_misrouted                        # each client, to another broker and to another cluster
    python -m tests.kafka.long_misrouted --clients lead java

Each client's load (`benchmarks.load` and its like) writes numbers to six partitions. After some seconds the path to
broker 1 leads to broker 2, or to a broker of a second cluster, which has a topic of the same name; some seconds later
it is right again. It prints the numbers of records that were lost, stored twice, and stored in the other cluster; the
time from the repair of the path to the first acknowledged record of a partition led by broker 1; and the number of
failed records.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from typing import Any

from benchmarks.peers import load_command
from tests.prove.network import Network

from .harness import NEWEST, KafkaCluster, Listener
from .support import confluent_read

CLIENTS = ("lead", "java", "confluent", "aiokafka")
PARTITIONS, RATE = 6, 240
RIGHT_S, WRONG_S, AFTER_S = 3.0, 4.0, 6.0
_MISLED, _OTHER = 1, 2


def trial(kafka: KafkaCluster, stranger: KafkaCluster, client: str, elsewhere: str, number: int) -> dict[str, Any]:
    """Return one row of the table."""
    topic = f"misled-{number}"
    for cluster in (kafka, stranger):
        cluster.create_topic(topic, partitions=PARTITIONS)
    misled = {p for p in range(PARTITIONS) if kafka.leader(topic, p) == _MISLED}
    ways = {broker: kafka.behind_proxy(broker) for broker in kafka.broker_ids}
    port = int(stranger.address(1).rpartition(":")[2])
    with Network(ways, strangers={-1: port}) as network:
        options = ["--bootstrap", kafka.bootstrap(Listener.PROXIED), "--topic", topic, "--partitions", str(PARTITIONS)]
        options += ["--rate", str(RATE), "--size", "100", "--seconds", str(RIGHT_S + WRONG_S + AFTER_S)]
        load = subprocess.Popen(
            [*load_command(client), *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert load.stderr is not None
        while load.stderr.readline().strip() != "ready":
            assert load.poll() is None, f"{client} ended"
        time.sleep(RIGHT_S)
        network.strike(_MISLED, "misroute", _OTHER if elsewhere == "another broker" else -1)
        time.sleep(WRONG_S)
        network.heal()
        healed = time.time()
        output, complaints = load.communicate(timeout=180)
    assert load.returncode == 0, complaints[-2000:]
    said = json.loads(output.splitlines()[-1])
    ends = [sent + took_ms / 1000 for n, sent, took_ms in said["samples"] if n % PARTITIONS in misled]
    back = [end - healed for end in ends if end > healed]
    stored = Counter(_number(each.value()) for each in confluent_read(kafka, topic, PARTITIONS))
    for warming_up in [n for n in stored if n < 0]:  # the loads count these twice
        del stored[warming_up]
    return {
        "client": client,
        "leads to": elsewhere,
        "acknowledged": len(said["samples"]),
        "failed": said["failed"],
        # A load does not report the failed ones, and a failed one may be stored.
        "lost": max(0, sum(n >= 0 and n not in stored for n, _, _ in said["samples"]) - said["failed"]),
        "twice": sum(count > 1 for count in stored.values()),
        "in the other cluster": len(confluent_read(stranger, topic, PARTITIONS)),
        "back after, s": round(min(back), 2) if back else None,
    }


def _number(value: bytes | None) -> int:
    assert value is not None
    return int.from_bytes(value[:8], "big", signed=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", nargs="+", choices=CLIENTS, default=["lead", "java", "confluent"])
    options = parser.parse_args()
    kafka = KafkaCluster(NEWEST, brokers=3, proxied=True)
    stranger = KafkaCluster(NEWEST, brokers=1, cluster_id="YW5vdGhlciBjbHVzdGVyIQ")
    rows: list[dict[str, Any]] = []
    try:
        kafka.start()
        stranger.start()
        for elsewhere in ("another broker", "another cluster"):
            for client in options.clients:
                rows.append(trial(kafka, stranger, client, elsewhere, len(rows)))
                sys.stdout.write(f"{rows[-1]}\n")
                sys.stdout.flush()
    finally:
        stranger.stop()
        kafka.stop()
    columns = list(rows[0])
    sys.stdout.write("| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|\n")
    sys.stdout.writelines("| " + " | ".join(str(row[name]) for name in columns) + " |\n" for row in rows)
    return int(any(row["client"] == "lead" and (row["lost"] or row["twice"] or row["failed"]) for row in rows))


if __name__ == "__main__":
    sys.exit(main())
