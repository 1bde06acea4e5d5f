"""Cost of a record for different numbers of partitions and clients: ``python -m benchmarks scale``.

Produces to 1, 100 and 9,000 partitions, which the client chooses or which change every 20 records. Also produces from
1, 10 and 100 clients in one process.
"""

from __future__ import annotations

from .suite.brokers import Brokers
from .suite.report import bars, cost_table
from .suite.rounds import OURS, PEERS, Case, Contender, parser, places, play, save, spreads
from .suite.sink import SinkTopic
from .suite.workload import Workload

CONTENDERS = [OURS[0], PEERS[0], PEERS[2]]
SPEEDS = {"lead": 1.0, "aiokafka": 0.2, "confluent": 0.4}


def case(name: str, records: int, partitions: int, *, spread: bool = False, clients: int = 1) -> Case:
    """Return a case with this number of partitions and clients."""

    def workload(contender: Contender, place: Brokers) -> Workload:
        return Workload(
            "produce", contender.client, place.bootstrap, place.topic(SinkTopic(partitions)), loop=contender.loop,
            records=int(records * SPEEDS[contender.client]), partitions=partitions, spread=spread, clients=clients,
        )  # fmt: skip

    return Case(name, CONTENDERS, workload)


def main(arguments: list[str]) -> None:
    made = parser("scale", __doc__)
    made.set_defaults(on="sink", records=400_000)
    options = made.parse_args(arguments)
    cases = [case(f"{count:,} partitions", options.records, count) for count in (1, 100, 9000)]
    cases += [case(f"{count:,} partitions in turn", options.records, count, spread=True) for count in (1, 100, 9000)]
    cases += [case(f"{count} clients", options.records, 6, clients=count) for count in (1, 10, 100)]
    for place in places(options):
        with place as brokers:
            samples = play(cases, brokers, options)
            print(f"\nPartitions and clients on {brokers.name}\n\n{cost_table(samples)}\n")
            picture = bars(f"Partitions, clients on {brokers.name}: CPU per record", "us", spreads(samples, "cpu_us"))
            save(options, f"scale-{brokers.name}", samples, {"cpu": picture})
