"""confluent-kafka."""

from __future__ import annotations

import time

import confluent_kafka

from .journal import HEARTBEAT_MS, Journal, Options


def run(options: Options, journal: Journal) -> None:
    classic = {
        "partition.assignment.strategy": options["assignor"],
        "session.timeout.ms": options["session_ms"],
        "heartbeat.interval.ms": HEARTBEAT_MS,
    }
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": options["bootstrap"],
            "group.id": options["group"],
            "group.protocol": options["protocol"],
            "client.id": "confluent",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "log_level": 0,
            **(classic if options["protocol"] == "classic" else {}),
            **({} if options["instance"] is None else {"group.instance.id": options["instance"]}),
        }
    )
    consumer.subscribe(
        [options["topic"]],
        on_assign=lambda _, partitions: journal.moved("assigned", partitions),
        on_revoke=lambda _, partitions: journal.moved("revoked", partitions),
        on_lost=lambda _, partitions: journal.moved("lost", partitions),
    )
    while not journal.stopping:
        ranges: dict[int, tuple[int, int]] = {}
        for message in consumer.consume(options["batch"], 0.2):
            partition, offset = message.partition(), message.offset()
            if message.error() is None and partition is not None and offset is not None:
                ranges[partition] = ranges.get(partition, (offset, 0))[0], offset + 1
        if not ranges:
            continue
        journal.read(ranges)
        time.sleep(options["pause_ms"] / 1000)
        after = [confluent_kafka.TopicPartition(options["topic"], p, end) for p, (_, end) in ranges.items()]
        try:
            consumer.commit(offsets=after, asynchronous=False)
        except confluent_kafka.KafkaException as error:
            journal.write("refused", error=repr(error))
        else:
            journal.committed({partition: end for partition, (_, end) in ranges.items()})
    consumer.close()
