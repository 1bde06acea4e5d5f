"""Latency of single records with a linger of 0, each awaited before the next: ``python -m benchmarks latency``.

Prints the milliseconds from the call to the acknowledgement. For comparison, it also prints the time of a bare round
trip, which sends the same prepared request over a blocking socket.
"""

from __future__ import annotations

from .stats import table
from .suite.brokers import Brokers
from .suite.report import bars
from .suite.rounds import OURS, PEERS, Case, Contender, parser, places, play, save, spreads
from .suite.sink import SinkTopic
from .suite.workload import Workload

SPEEDS = {"confluent_aio": 0.02}
"""Factors for the number of records of slow clients. This client may take 0.1 s per record."""


def main(arguments: list[str]) -> None:
    made = parser("latency", __doc__)
    made.set_defaults(records=2000)
    options = made.parse_args(arguments)

    def workload(contender: Contender, place: Brokers) -> Workload:
        records = max(20, int(options.records * SPEEDS.get(contender.client, 1.0)))
        return Workload(
            "latency", contender.client, place.bootstrap, place.topic(SinkTopic(1)), loop=contender.loop,
            pure=contender.pure, records=records, partitions=1,
        )  # fmt: skip

    case = Case("acks all", [Contender("bare"), *OURS, *PEERS], workload)
    for place in places(options):
        with place as brokers:
            samples = [sample.quantiles(50, 99) for sample in play([case], brokers, options)]
            p50, p99 = spreads(samples, "p50"), spreads(samples, "p99")
            bare = p50.get(("acks all", "bare"))
            rows = [
                [who, f"{mid.middle:.3f}", f"{mid.best:.3f}-{mid.worst:.3f}", f"{p99[key, who].middle:.3f}",
                 "-" if bare is None else f"{mid.middle - bare.middle:+.3f}"]
                for (key, who), mid in p50.items()
            ]  # fmt: skip
            print(f"\nOne awaited record on {brokers.name}, ms\n")
            print(table(["client", "p50", "spread", "p99", "p50 above bare"], rows))
            title = f"One awaited record on {brokers.name}, linger 0"
            save(options, f"latency-{brokers.name}", samples, {"p50": bars(title, "ms", p50)})
