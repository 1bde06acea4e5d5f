"""Transactions back to back, on Apache Kafka: ``python -m benchmarks transactions``.

How many a second and what a commit takes, of twelve records to one partition and to six, beside other clients in the
same run; and what a record costs in transactions of 1,000, beside the same records without any, where a flush stands
for each commit. Every client has its own defaults, idempotence, and a linger of 5 ms.
"""

from __future__ import annotations

from .peers import available
from .stats import table
from .suite.brokers import Brokers
from .suite.report import bars
from .suite.rounds import OURS, PEERS, Case, Contender, Sample, Spread, parser, places, play, save, spreads
from .suite.sink import SinkTopic
from .suite.workload import Workload

RECORDS = 12
LONG = 1000
COPIES = 3
CONTENDERS = [
    *OURS,
    *(peer for peer in PEERS if peer.client != "confluent_aio"),
    *(Contender(client.replace("-", "_")) for client in available()),
]


def case(name: str, contenders: list[Contender], partitions: int, count: int, **details: object) -> Case:
    """A case of so many transactions."""

    def workload(contender: Contender, place: Brokers) -> Workload:
        size = int(str(details.get("transaction", RECORDS)))
        return Workload(
            "transactions", contender.client, place.bootstrap, place.topic(SinkTopic(partitions, replicas=COPIES)),
            loop=contender.loop, pure=contender.pure, partitions=partitions, spread=True, run=1, records=count * size,
            **{"transaction": size, **details},  # type: ignore[arg-type]
        )  # fmt: skip

    return Case(name, contenders, workload)


def main(arguments: list[str]) -> None:
    made = parser("transactions", __doc__)
    made.set_defaults(on="kafka", rounds=3, records=LONG * 100)
    made.add_argument("--transactions", type=int, default=300, help="in a turn; of 1,000 records as --records says")
    options = made.parse_args(arguments)
    short = [case(f"{n} partition(s)", CONTENDERS, n, options.transactions) for n in (1, 6)]
    long = [
        case(name, OURS[:2], 6, options.records // LONG, transaction=LONG, method=method)
        for name, method in (("outside", "outside"), ("in transactions", "send"))
    ]
    for place in places(options):
        with place as brokers:
            rates = play(short, brokers, options)
            costs = play(long, brokers, options)
            print(f"\nTransactions of {RECORDS} records back to back on {brokers.name}\n\n{_rates(rates)}\n")
            print(f"A record at {LONG:,} a transaction, CPU us\n\n{_costs(costs)}\n")
            per_second = spreads(rates, "transactions_per_second", max)
            pictures = {"rate": bars(f"Transactions back to back on {brokers.name}", "transactions/s", per_second)}
            save(options, f"transactions-{brokers.name}", [*rates, *costs], pictures)


def _rates(samples: list[Sample]) -> str:
    """The ratio is ours to theirs: above 1 this client is ahead."""
    per_second = spreads(samples, "transactions_per_second", max)
    p50, p99, cpu = spreads(samples, "p50"), spreads(samples, "p99"), spreads(samples, "cpu_us")
    rows = []
    for (name, who), rate in per_second.items():
        own = per_second.get((name, OURS[0].label))
        rows.append(
            [f"{name}: {who}", f"{rate.middle:.0f}", f"{rate.worst:.0f}-{rate.best:.0f}", _ratio(own, rate),
             f"{p50[name, who].middle:.2f}", f"{p99[name, who].middle:.2f}", f"{cpu[name, who].middle:.1f}"]
        )  # fmt: skip
    header = ["case", "per second", "spread", "ours to it", "commit p50 ms", "p99 ms", "CPU us a record"]
    return table(header, rows)


def _costs(samples: list[Sample]) -> str:
    cpu = spreads(samples, "cpu_us")
    rows = [
        [f"{name}: {who}", f"{figure.middle:.3f}", f"{figure.best:.3f}-{figure.worst:.3f}",
         _ratio(figure, cpu.get(("outside", who)))]
        for (name, who), figure in cpu.items()
    ]  # fmt: skip
    return table(["case", "median", "spread", "to outside"], rows)


def _ratio(one: Spread | None, other: Spread | None) -> str:
    return "-" if one is None or other is None or not other.middle else f"{one.middle / other.middle:.2f}"
