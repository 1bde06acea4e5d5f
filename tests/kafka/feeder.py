"""Writes numbered records evenly to all partitions of a topic, by an independent client."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

import confluent_kafka

_END_TIMEOUT_S = 60


class Feeder:
    """Sends in a separate thread while it is used as a context manager, or until `stop`."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, per_second: float) -> None:
        self.ends = dict.fromkeys(range(partitions), 0)
        """Number of acknowledged records in each partition; complete after `stop`."""
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        )
        self._topic = topic
        self._per_second = per_second / partitions
        self._stop = threading.Event()
        self._failure: confluent_kafka.KafkaError | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(_END_TIMEOUT_S)

    def stop(self) -> dict[int, int]:
        """Stop sending; return the partitions' ends once everything is acknowledged."""
        self.__exit__(None, None, None)
        assert not self._thread.is_alive(), "the last records are not acknowledged"
        assert self._failure is None, self._failure
        return self.ends

    def _run(self) -> None:
        began, sent = time.monotonic(), 0
        while not self._stop.wait(0.1):  # requests cost the brokers more than records
            due = (time.monotonic() - began) * self._per_second
            while sent < due and not self._stop.is_set():
                for partition in self.ends:
                    self._send(b"%d" % sent, partition)
                sent += 1
            self._producer.poll(0)
        self._producer.flush(_END_TIMEOUT_S)

    def _send(self, value: bytes, partition: int) -> None:
        while True:
            try:
                self._producer.produce(self._topic, value, partition=partition, on_delivery=self._delivered)
            except BufferError:
                self._producer.poll(0.1)
            else:
                return

    def _delivered(self, error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        partition, offset = message.partition(), message.offset()
        if error is not None:
            self._failure = error
        elif partition is not None and offset is not None:
            self.ends[partition] = max(self.ends[partition], offset + 1)
