"""Rate and cost of successive transactions on Apache Kafka, by client.

    python -m benchmarks transactions --rounds 2                # all cases, in about nine minutes
    python -m benchmarks transactions --case "1 partition"      # one case
    python -m benchmarks transactions --client franz --join     # one client, added to the saved results

The first cases measure transactions per second and the time of a commit, with 12 records to one partition and to six.
The last case measures the cost of a record in transactions of 1,000 records. For comparison it also measures records
without transactions, with a flush in place of each commit. Every client uses its defaults, except for idempotence and a
linger of 5 ms. In a pipeline (`TransactionPipeline`), the time to leave a block counts as the commit, and the rate
includes the response to the last commit.
"""

from __future__ import annotations

from .peers import available
from .stats import table
from .suite.brokers import Brokers
from .suite.report import bars
from .suite.rounds import OURS, PEERS, Case, Contender, Sample, Spread, joined, parser, places, play, save, spreads
from .suite.sink import SinkTopic
from .suite.workload import Workload

RECORDS = 12
LONG = 1000
COPIES = 3
FEWEST = 100
"""Minimum number of a client's transactions of 12 records in a turn, so that a 99th percentile is meaningful."""
PIPELINES = [Contender("lead_pipeline"), Contender("lead_pipeline", "uvloop")]
OUTSIDE = [Contender("lead_outside"), Contender("lead_outside", "uvloop")]
CONTENDERS = [
    *OURS,
    *PIPELINES,
    *(peer for peer in PEERS if peer.client != "confluent_aio"),
    *(Contender(client.replace("-", "_"), speed=0.3) for client in available()),
]


def case(name: str, contenders: list[Contender], partitions: int, count: int, records: int = RECORDS) -> Case:
    """Return a case with this number of transactions. Slower clients have fewer transactions."""

    def workload(contender: Contender, place: Brokers) -> Workload:
        own_count = max(min(count, FEWEST), round(count * contender.speed))
        return Workload(
            "transactions", contender.client, place.bootstrap, place.topic(SinkTopic(partitions, replicas=COPIES)),
            loop=contender.loop, pure=contender.pure, partitions=partitions, spread=True, run=1,
            records=own_count * records, transaction=records,
        )  # fmt: skip

    return Case(name, contenders, workload, warm_up=[OURS[0], PIPELINES[0]])


def main(arguments: list[str]) -> None:
    made = parser("transactions", __doc__)
    made.set_defaults(on="kafka", rounds=2, records=LONG * 400)
    made.add_argument("--transactions", type=int, default=300, help="transactions of 12 records in a turn")
    options = made.parse_args(arguments)
    short = [case(f"{n} partition(s)", CONTENDERS, n, options.transactions) for n in (1, 6)]
    costs_of = [*OUTSIDE, *OURS[:2], *PIPELINES]
    long = [case(f"{LONG:,} records", costs_of, 6, options.records // LONG, LONG)]
    for place in places(options):
        with place as brokers:
            name = f"transactions-{brokers.name}"
            samples = joined(options, name, play([*short, *long], brokers, options))
            rates, costs = ([sample for sample in samples if sample.case in _names(cases)] for cases in (short, long))
            pictures = {}
            if rates:
                print(f"\nSuccessive transactions of {RECORDS} records on {brokers.name}\n\n{_rates(rates)}\n")
                per_second = spreads(rates, "transactions_per_second", max)
                pictures = {"rate": bars(f"Successive transactions on {brokers.name}", "transactions/s", per_second)}
            if costs:
                print(f"CPU us per record, at {LONG:,} records per transaction\n\n{_costs(costs)}\n")
            save(options, name, samples, pictures)


def _names(cases: list[Case]) -> list[str]:
    return [case.name for case in cases]


def _rates(samples: list[Sample]) -> str:
    """Return the table of rates. A ratio above 1 means that this client is faster than the other client."""
    per_second = spreads(samples, "transactions_per_second", max)
    p50, p99, cpu = spreads(samples, "p50"), spreads(samples, "p99"), spreads(samples, "cpu_us")
    rows = []
    for (name, who), rate in per_second.items():
        own = per_second.get((name, OURS[0].label))
        rows.append(
            [f"{name}: {who}", f"{rate.middle:.0f}", f"{rate.worst:.0f}-{rate.best:.0f}", _ratio(own, rate),
             f"{p50[name, who].middle:.2f}", f"{p99[name, who].middle:.2f}", f"{cpu[name, who].middle:.1f}"]
        )  # fmt: skip
    header = ["case", "per second", "spread", "ours to it", "commit p50 ms", "p99 ms", "CPU us per record"]
    return table(header, rows)


def _costs(samples: list[Sample]) -> str:
    cpu = spreads(samples, "cpu_us")
    rows = []
    for (name, who), figure in cpu.items():
        outside = cpu.get((name, _outside(who)))
        rows.append(
            [who, f"{figure.middle:.3f}", f"{figure.best:.3f}-{figure.worst:.3f}", _ratio(figure, outside)]
        )  # fmt: skip
    return table(["client", "median", "spread", "to outside"], rows)


def _outside(who: str) -> str:
    """Return the label of this client without transactions, on the same event loop."""
    return next(one.label for one in OUTSIDE if ("uvloop" in one.label) == ("uvloop" in who))


def _ratio(one: Spread | None, other: Spread | None) -> str:
    return "-" if one is None or other is None or not other.middle else f"{one.middle / other.middle:.2f}"
