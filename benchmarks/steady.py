"""Latency of acknowledgements at a steady rate of records: ``python -m benchmarks steady``.

Sends to six partitions with three replicas on Apache Kafka, with ``acks=all``, the default batch size of each client,
and a linger of 5 ms. Latencies are measured from when a record is due, so a client that falls behind cannot hide it.
"""

from __future__ import annotations

from .stats import table
from .suite.brokers import Brokers
from .suite.report import bars
from .suite.rounds import OURS, PEERS, Case, Contender, parser, places, play, save, spreads
from .suite.sink import SinkTopic
from .suite.workload import Workload

SECONDS = 5
RATES = {1_000: 5, 20_000: 5, 100_000: 2}
"""Number of contenders that can sustain each rate in records/s."""
CONTENDERS = [OURS[0], PEERS[2], OURS[1], PEERS[0], PEERS[1]]


def case(rate: int, contenders: list[Contender]) -> Case:
    """Return a case with this rate in records/s."""

    def workload(contender: Contender, place: Brokers) -> Workload:
        return Workload(
            "steady", contender.client, place.bootstrap, place.topic(SinkTopic(6, replicas=3)), loop=contender.loop,
            records=rate * SECONDS, rate=rate,
        )  # fmt: skip

    return Case(f"{rate:,} records/s", contenders, workload)


def main(arguments: list[str]) -> None:
    made = parser("steady", __doc__)
    made.set_defaults(on="kafka", rounds=3)
    options = made.parse_args(arguments)
    cases = [case(rate, CONTENDERS[:count]) for rate, count in RATES.items()]
    for place in places(options):
        with place as brokers:
            samples = [sample.quantiles(50, 99, 99.9) for sample in play(cases, brokers, options)]
            p50, p99, last = (spreads(samples, name) for name in ("p50", "p99", "p99.9"))
            rows = [
                [f"{name}: {who}", f"{p50[name, who].middle:.1f}", f"{mid.middle:.1f}",
                 f"{mid.best:.1f}-{mid.worst:.1f}", f"{last[name, who].middle:.1f}"]
                for (name, who), mid in p99.items()
            ]  # fmt: skip
            print(f"\nFrom due time to acknowledgement on {brokers.name}, ms\n")
            print(table(["case", "p50", "p99", "spread", "p99.9"], rows))
            title = f"p99 from due time to acknowledgement on {brokers.name}"
            save(options, f"steady-{brokers.name}", samples, {"p99": bars(title, "ms", p99)})
