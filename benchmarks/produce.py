"""Cost of producing, by client: CPU time per record, and records/s.

``python -m benchmarks produce`` sends records of 100 bytes and 1 KB, with and without compression and keys, with
``acks=1`` and ``acks=all``, and with each of this client's methods for sending. It uses a sink broker, which is never
the bottleneck, and Apache Kafka.
"""

from __future__ import annotations

from .suite.brokers import Brokers
from .suite.report import bars, cost_table
from .suite.rounds import OURS, PEERS, Case, Contender, parser, places, play, save, spreads
from .suite.sink import SinkTopic
from .suite.workload import Workload

WAYS = ["send_forgotten", "send_nowait", "send_many", "send_many_forgotten"]
KINDS: dict[str, dict[str, object]] = {
    "100 B, acks 1": {"acks": "1"},
    "100 B, keyed": {"keyed": True},
    "100 B, lz4": {"compression": "lz4"},
    "100 B, zstd": {"compression": "zstd"},
    "1 KB": {"size": 1000},
    "1 KB, zstd": {"size": 1000, "compression": "zstd"},
}
FEW = [OURS[0], *(peer for peer in PEERS if peer.loop == "asyncio")]


def case(name: str, contenders: list[Contender], records: int, **details: object) -> Case:
    """Return a case of records to six partitions."""

    def workload(contender: Contender, place: Brokers) -> Workload:
        return Workload(
            "produce", contender.client, place.bootstrap, place.topic(SinkTopic(6)), loop=contender.loop,
            pure=contender.pure, records=max(2000, int(records * contender.speed)), **details,  # type: ignore[arg-type]
        )  # fmt: skip

    return Case(name, contenders, workload)


def main(arguments: list[str]) -> None:
    options = parser("produce", __doc__).parse_args(arguments)
    cases = [case("100 B", [*OURS, *PEERS], options.records)]
    cases += [case(f"100 B by {way}", OURS[:2], options.records, method=way) for way in WAYS]
    cases += [case(name, FEW, options.records // 2, **details) for name, details in KINDS.items()]
    for place in places(options):
        with place as brokers:
            samples = play(cases, brokers, options)
            print(f"\nProducing on {brokers.name}\n\n{cost_table(samples)}\n")
            pictures = {
                "cpu": bars(f"Producing on {brokers.name}: client CPU per record", "us", spreads(samples, "cpu_us")),
                "wall": bars(f"Producing on {brokers.name}", "records/s", spreads(samples, "per_second", max)),
            }
            save(options, f"produce-{brokers.name}", samples, pictures)
