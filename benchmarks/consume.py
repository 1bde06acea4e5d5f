"""Cost of consuming, by client: CPU time per record, and records/s.

``python -m benchmarks consume`` reads record objects one by one, in lists and with `run`, values of batches, and Apache
Arrow. It reads from a sink broker, which serves records from memory, and from Apache Kafka.
"""

from __future__ import annotations

from .suite.brokers import Brokers
from .suite.report import bars, cost_table
from .suite.rounds import OURS, PEERS, Case, Contender, parser, places, play, save, spreads
from .suite.sink import SinkTopic
from .suite.workload import Workload

ASYNC = [*OURS, *PEERS[:2]]
SPEEDS = {"lead": 1.0, "aiokafka": 0.3, "confluent": 0.5, "confluent_aio": 0.3, "kafka_python": 0.1}


def case(name: str, contenders: list[Contender], records: int, method: str, compression: str = "none") -> Case:
    """Return a case of records of six partitions."""
    topic = SinkTopic(6, -(-records // 3), 100, compression)  # the topic has twice as many records as are read

    def workload(contender: Contender, place: Brokers) -> Workload:
        count = int(records * SPEEDS[contender.client] * (0.2 if contender.pure else 1.0))
        return Workload(
            "consume", contender.client, place.bootstrap, place.topic(topic), method, loop=contender.loop,
            pure=contender.pure, records=count,
        )  # fmt: skip

    return Case(name, contenders, workload)


def main(arguments: list[str]) -> None:
    made = parser("consume", __doc__)
    made.set_defaults(records=1_500_000)
    options = made.parse_args(arguments)
    cases = [
        case("objects, async for", ASYNC, options.records, "async_for"),
        case("objects, getmany", [*ASYNC, *PEERS[2:]], options.records, "getmany"),
        case("objects, getmany, lz4", [OURS[0], *PEERS[::2]], options.records // 2, "getmany", "lz4"),
        case("objects, run", OURS, options.records, "run"),
        case("values of batches", OURS, options.records * 2, "values"),
        case("Arrow", OURS, options.records * 2, "arrow"),
    ]
    for place in places(options):
        with place as brokers:
            samples = play(cases, brokers, options)
            print(f"\nConsuming on {brokers.name}\n\n{cost_table(samples)}\n")
            pictures = {
                "cpu": bars(f"Consuming on {brokers.name}: client CPU per record", "us", spreads(samples, "cpu_us")),
                "wall": bars(f"Consuming on {brokers.name}", "records/s", spreads(samples, "per_second", max)),
            }
            save(options, f"consume-{brokers.name}", samples, pictures)
