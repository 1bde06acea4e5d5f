"""Longest iteration of the event loop under load, in ms of CPU time: ``python -m benchmarks pauses``."""

from __future__ import annotations

from .stats import table
from .suite.brokers import Brokers
from .suite.report import bars
from .suite.rounds import OURS, PEERS, Case, Contender, parser, places, play, save, spreads
from .suite.sink import SinkTopic
from .suite.workload import Workload

OTHERS = [PEERS[0], PEERS[3]]
SPEEDS = {"lead": 1.0, "aiokafka": 0.2, "confluent_aio": 0.1}


def case(name: str, records: int, contenders: list[Contender], topic: SinkTopic, work: str, **details: object) -> Case:
    """Return a case that measures iterations of the event loop."""

    def workload(contender: Contender, place: Brokers) -> Workload:
        return Workload(
            work, contender.client, place.bootstrap, place.topic(topic), loop=contender.loop, ticks=True,
            records=int(records * SPEEDS[contender.client]), partitions=topic.partitions, **details,  # type: ignore[arg-type]
        )  # fmt: skip

    return Case(name, contenders, workload)


def main(arguments: list[str]) -> None:
    made = parser("pauses", __doc__)
    made.set_defaults(on="sink")
    options = made.parse_args(arguments)
    count, ours, all_of_us = options.records, OURS[:2], [*OURS[:2], *OTHERS]
    few, many, full = SinkTopic(6), SinkTopic(9000), SinkTopic(6, 3 * count)
    cases = [
        case("send", count, all_of_us, few, "produce"),
        case("send_many", count, ours, few, "produce", method="send_many"),
        case("send, 1 KB, zstd", count // 4, all_of_us, few, "produce", size=1000, compression="zstd"),
        case("send, 1 KB, gzip", count // 10, ours, few, "produce", size=1000, compression="gzip"),
        case("send, 9,000 partitions in turn", count, [*ours, PEERS[0]], many, "produce", spread=True),
        case("getmany", count, [*ours, PEERS[0]], full, "consume", method="getmany"),
        case("values of batches", count * 3, ours, full, "consume", method="values"),
        case("Arrow", count * 3, ours, full, "consume", method="arrow"),
    ]
    for place in places(options):
        with place as brokers:
            samples = play(cases, brokers, options)
            longest = spreads(samples, "pause_ms")
            rows = [
                [f"{name}: {who}", f"{ms.best:.1f}", f"{ms.middle:.1f}", f"{ms.worst:.1f}"]
                for (name, who), ms in longest.items()
            ]
            print(f"\nLongest iteration of the event loop on {brokers.name}, ms of CPU time\n")
            print(table(["case", "best", "median", "worst"], rows))
            save(
                options, f"pauses-{brokers.name}", samples, {"ms": bars("Longest iteration of the loop", "ms", longest)}
            )
