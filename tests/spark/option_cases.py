"""Options of Spark's connector, right and wrong, with the outcome of each set: recorded from connector 4.2.0.

`beside_connector` runs the connector again, in one session with this package. `test_option_cases` holds this package to
the record, without the connector.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

REFUSED = "refused"

ALL = "orders-0:0-39 orders-1:0-39 orders-2:0-39"
NONE = ""

TOPICS = {"orders": 3, "cut": 1, "empty": 1, "orders-more": 1}
"""Topics of the cases, with their numbers of partitions."""

RECORDS = {"orders": 40, "cut": 20, "orders-more": 5}
"""Number of records in each partition. Record ``n`` has the timestamp ``1000 * (n + 1)``."""

CUT_BEFORE = 5
"""First offset of ``cut`` that has not been deleted."""


class Case(NamedTuple):
    """A query and its outcome: the offsets read (`offsets_read`), `REFUSED`, or the number of records written."""

    kind: str
    """"batch" or "stream" reads; "write" or "write stream" writes the rows of ``rows``."""
    options: Mapping[str, str]
    outcome: str
    rows: str = ""
    """Columns, as SQL, of a row that is written to ``sink``."""
    mode: str = "append"

    def __str__(self) -> str:
        words = [self.kind, *(f"{name}={text}" for name, text in self.options.items()), self.rows]
        return " ".join(words) + ("" if self.mode == "append" else f" mode={self.mode}")


def offsets_read(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the offsets in short: ``topic-partition:first-last``, another range after each gap."""
    runs: list[list[Any]] = []
    for topic, partition, offset in sorted((row["topic"], row["partition"], row["offset"]) for row in rows):
        if runs and runs[-1][:2] == [topic, partition] and runs[-1][3] == offset - 1:
            runs[-1][3] = offset
        else:
            runs.append([topic, partition, offset, offset])
    return " ".join(f"{topic}-{partition}:{first}-{last}" for topic, partition, first, last in runs)


def _batch(outcome: str, **options: str) -> Case:
    return Case("batch", _named(options), outcome)


def _stream(outcome: str, **options: str) -> Case:
    return Case("stream", _named({"startingOffsets": "earliest", **options}), outcome)


def _write(outcome: str, rows: str, mode: str = "append", **options: str) -> Case:
    return Case("write", _named(options), outcome, rows, mode)


def _write_stream(outcome: str, rows: str, **options: str) -> Case:
    return Case("write stream", _named(options), outcome, rows)


def _named(options: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("__", "."): text for name, text in options.items()}


def _per(*numbers: int) -> str:
    """Return numbers for the partitions of ``orders``."""
    return json.dumps({"orders": dict(enumerate(numbers))})


_S = {"subscribe": "orders"}

SELECTION = [
    _batch(REFUSED),
    _batch(ALL, **_S),
    _batch(REFUSED, **_S, assign='{"orders":[0]}'),
    _batch(REFUSED, **_S, subscribePattern="orders"),
    _batch(REFUSED, subscribe=" , "),
    _batch(ALL + " orders-more-0:0-4", subscribe=" orders-more, orders ,"),
    _batch(REFUSED, subscribe="no-such-topic"),
    _batch(NONE, subscribe="empty"),
    _batch("cut-0:5-19", subscribe="cut"),
    _batch(REFUSED, subscribePattern=" "),
    _batch(ALL + " orders-more-0:0-4", subscribePattern="ord[a-e]rs.*"),
    _batch(NONE, subscribePattern="nothing.*"),
    _batch(REFUSED, subscribePattern="ord[ers"),
    _batch("orders-1:0-39", assign='{"orders":[1]}'),
    _batch(REFUSED, assign="orders"),
    _batch(REFUSED, assign='{"orders":1}'),
    _batch("orders-0:0-39", assign='{"orders":[0,9]}'),
    _batch(REFUSED, assign="{"),
    _batch(REFUSED, assign='{"orders":["0"]}'),
    _batch(NONE, assign='{"orders":[]}'),
    _batch(REFUSED, subscribe="orders,no-such-topic"),
    _batch(ALL, SUBSCRIBE="orders", STARTINGOFFSETS="earliest"),
    _stream(ALL, **_S),
    _stream("orders-2:0-39", assign='{"orders":[2]}'),
    _stream(ALL + " orders-more-0:0-4", subscribePattern="orders.*"),
    _stream(REFUSED, subscribe="no-such-topic"),
]
OFFSETS = [
    _batch(REFUSED, **_S, startingOffsets="latest"),
    _batch(ALL, **_S, startingOffsets=" EARLIEST "),
    _batch(REFUSED, **_S, startingOffsets="first"),
    _batch(
        "orders-0:1-39 orders-1:0-39",
        **_S,
        startingOffsets=_per(1, -2, 40),
    ),
    _batch(REFUSED, **_S, startingOffsets=_per(-1, -2, -2)),
    _batch(REFUSED, **_S, startingOffsets=_per(-3, -2, -2)),
    _batch(REFUSED, **_S, startingOffsets=_per(1)),
    _batch(REFUSED, **_S, startingOffsets=_per(1, 1, 1, 1)),
    _batch(REFUSED, **_S, startingOffsets='{"orders":{"0":"1"}}'),
    _batch(REFUSED, **_S, startingOffsets='{"orders":[0]}'),
    _batch(REFUSED, **_S, startingOffsets=_per(500, 0, 0)),
    _batch(REFUSED, **_S, startingOffsets=_per(500, 0, 0), failOnDataLoss="false"),
    _batch(REFUSED, **_S, endingOffsets="earliest"),
    _batch(ALL, **_S, endingOffsets="Latest"),
    _batch(REFUSED, **_S, endingOffsets=_per(-2, -1, -1)),
    _batch("orders-0:0-9 orders-1:0-39", **_S, endingOffsets=_per(10, -1, 0)),
    _batch("orders-0:3-9 orders-1:0-39", **_S, startingOffsets=_per(3, -2, 7), endingOffsets=_per(10, -1, 7)),
    _batch(REFUSED, **_S, startingOffsets=_per(5, 0, 0), endingOffsets=_per(4, 9, 9)),
    _batch(REFUSED, **_S, startingOffsets=_per(0, 0, 0), endingOffsets=_per(9, 9)),
    _batch(REFUSED, **_S, endingOffsets=_per(500, -1, -1)),
    _batch(ALL, **_S, endingOffsets=_per(500, -1, -1), failOnDataLoss="false"),
    _batch(REFUSED, subscribe="cut", endingOffsets='{"cut":{"0":3}}'),
    _batch("orders-0:1-39 orders-1:39-39", **_S, startingOffsets='{"orders":{"0":1.9,"1":39,"2":4e1}}'),
    _batch(REFUSED, **_S, startingOffsets='{"orders":{"0":true,"1":1,"2":1}}'),
    _batch(REFUSED, **_S, startingOffsets='{"orders":{"0":0,"1":0,"2":0},"cut":{"0":0}}'),
    _batch(REFUSED, subscribe="cut", startingOffsets='{"cut":{"0":2}}'),
    _batch("cut-0:5-19", subscribe="cut", startingOffsets='{"cut":{"0":2}}', failOnDataLoss="false"),
    _stream(NONE, **_S, startingOffsets="latest"),
    _stream(REFUSED, **_S, startingOffsets="first"),
    _stream("orders-0:30-39 orders-1:0-39", **_S, startingOffsets=_per(30, -2, -1)),
    _stream(REFUSED, **_S, startingOffsets=_per(30)),
    _stream(REFUSED, **_S, startingOffsets=_per(500, 0, 0)),
    _stream("orders-1:0-39 orders-2:0-39", **_S, startingOffsets=_per(500, 0, 0), failOnDataLoss="false"),
    _stream(REFUSED, subscribe="cut", startingOffsets='{"cut":{"0":2}}'),
    _stream("cut-0:5-19", subscribe="cut", startingOffsets='{"cut":{"0":2}}', failOnDataLoss="false"),
    _stream(REFUSED, **_S, endingOffsets="latest"),
    _stream(REFUSED, **_S, endingOffsetsByTimestamp="{}"),
    _stream(ALL, **_S, endingTimestamp="1"),
]
TIMES = [
    _batch("orders-0:20-39 orders-1:20-39 orders-2:20-39", **_S, startingTimestamp="20001"),
    _batch("orders-0:20-39 orders-1:20-39 orders-2:20-39", **_S, startingTimestamp=" 20001 "),
    _batch(REFUSED, **_S, startingTimestamp="20_001"),
    _batch(REFUSED, **_S, startingTimestamp="now"),
    _batch(REFUSED, **_S, startingTimestamp="-5"),
    _batch(REFUSED, **_S, startingTimestamp="99999999"),
    _batch(NONE, **_S, startingTimestamp="99999999", startingOffsetsByTimestampStrategy="Latest"),
    _batch(REFUSED, **_S, startingTimestamp="1000", startingOffsetsByTimestampStrategy="never"),
    _batch("orders-0:0-4 orders-1:0-4 orders-2:0-4", **_S, endingTimestamp="6000"),
    _batch(ALL, **_S, endingTimestamp="99999999"),
    _batch("orders-0:9-39 orders-1:0-39 orders-2:0-39", **_S, startingOffsetsByTimestamp=_per(10000, 1, 0)),
    _batch(REFUSED, **_S, startingOffsetsByTimestamp=_per(1000)),
    _batch(REFUSED, **_S, startingOffsetsByTimestamp="7"),
    _batch(REFUSED, **_S, startingOffsetsByTimestamp=_per(9, 9, 9), endingOffsetsByTimestamp=_per(8, 8, 8)),
    _batch(
        "orders-0:4-7 orders-1:4-7 orders-2:4-7",
        **_S,
        startingOffsetsByTimestamp=_per(5000, 5000, 5000),
        endingOffsetsByTimestamp=_per(9000, 9000, 9000),
    ),
    _batch(
        "orders-0:5-39 orders-1:5-39 orders-2:5-39",
        **_S,
        startingTimestamp="6000",
        startingOffsetsByTimestamp=_per(1, 1, 1),
        startingOffsets="latest",
    ),
    _batch(REFUSED, **_S, startingTimestamp="9000", endingTimestamp="8000"),
    _batch(REFUSED, **_S, startingOffsets=_per(20, 20, 20), endingTimestamp="8000"),
    _stream("orders-0:20-39 orders-1:20-39 orders-2:20-39", **_S, startingTimestamp="20001"),
    _stream(REFUSED, **_S, startingTimestamp="99999999"),
    _stream(NONE, **_S, startingTimestamp="99999999", startingOffsetsByTimestampStrategy="latest"),
    _stream("orders-0:9-39 orders-1:0-39 orders-2:0-39", **_S, startingOffsetsByTimestamp=_per(10000, 1, 0)),
]
NUMBERS = [
    _batch(REFUSED, **_S, minPartitions="0"),
    _batch(REFUSED, **_S, minPartitions="x"),
    _batch(REFUSED, **_S, minPartitions=" 7 "),
    _batch(REFUSED, **_S, minPartitions="9999999999"),
    _batch(ALL, **_S, maxRecordsPerPartition="9999999999"),
    _batch(REFUSED, **_S, failOnDataLoss=" true"),
    _batch(REFUSED, **_S, fetchOffset__numRetries="-1"),
    _batch(REFUSED, **_S, kafkaConsumer__pollTimeoutMs="-1"),
    _batch(ALL, **_S, fetchOffset__retryIntervalMs="-1"),
    _stream(ALL, **_S, maxTriggerDelay="90", minOffsetsPerTrigger="1"),
    _batch(ALL, **_S, minPartitions="7"),
    _batch(REFUSED, **_S, maxRecordsPerPartition="0"),
    _batch(ALL, **_S, maxRecordsPerPartition="10"),
    _batch(ALL, **_S, maxRecordsPerPartition="10", minPartitions="20"),
    _batch(REFUSED, **_S, failOnDataLoss="maybe"),
    _batch(ALL, **_S, includeHeaders="TRUE"),
    _batch(REFUSED, **_S, includeHeaders="perhaps"),
    _batch(REFUSED, **_S, minOffsetsPerTrigger="5", maxOffsetsPerTrigger="4"),
    _batch(ALL, **_S, maxOffsetsPerTrigger="x"),
    _batch(ALL, **_S, maxTriggerDelay="soon"),
    _batch(REFUSED, **_S, fetchOffset__numRetries="x"),
    _batch(REFUSED, **_S, fetchOffset__numRetries="0"),
    _batch(REFUSED, **_S, fetchOffset__retryIntervalMs="x"),
    _batch(REFUSED, **_S, kafkaConsumer__pollTimeoutMs="x"),
    _stream(ALL, **_S, maxOffsetsPerTrigger="50"),
    _stream(REFUSED, **_S, maxOffsetsPerTrigger="x"),
    _stream(ALL, **_S, minOffsetsPerTrigger="1000", maxTriggerDelay="1s"),
    _stream(ALL, **_S, minOffsetsPerTrigger="-1"),
    _stream(REFUSED, **_S, minOffsetsPerTrigger="x"),
    _stream(REFUSED, **_S, minOffsetsPerTrigger="5", maxOffsetsPerTrigger="4"),
    _stream(ALL, **_S, minOffsetsPerTrigger="5", maxOffsetsPerTrigger="500", maxTriggerDelay="2min"),
    _stream(REFUSED, **_S, maxTriggerDelay="soon"),
    _stream(REFUSED, **_S, maxTriggerDelay="1w"),
    _stream(REFUSED, **_S, minPartitions="0"),
    _stream(ALL, **_S, minPartitions="9", maxRecordsPerPartition="8"),
    _stream(ALL, **_S, includeHeaders="true"),
]
_PROVIDER = {
    "kafka__config__providers": "env",
    "kafka__config__providers__env__class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
}
_PEM = {"kafka__ssl__keystore__type": "PEM"}
CLIENT = [
    _batch(ALL, **_S, groupIdPrefix="mine"),
    _batch(ALL, **_S, kafka__group__id="mine"),
    _batch(REFUSED, **_S, kafka__auto__offset__reset="earliest"),
    _batch(REFUSED, **_S, kafka__key__deserializer="x"),
    _batch(REFUSED, **_S, kafka__value__deserializer="x"),
    _batch(REFUSED, **_S, kafka__enable__auto__commit="true"),
    _batch(REFUSED, **_S, kafka__interceptor__classes="x"),
    _batch(ALL, **_S, kafka__isolation__level="read_committed"),
    _batch(REFUSED, **_S, kafka__isolation__level="whatever"),
    _batch(ALL, **_S, kafka__no__such__setting="1"),
    _batch(REFUSED, **_S, kafka__fetch__max__bytes="x"),
    _batch(REFUSED, **_S, kafka__request__timeout__ms="-1"),
    _batch(REFUSED, **_S, kafka__security__protocol="NONE"),
    _batch(ALL, **_S, kafka__sasl__mechanism="GSSAPI"),
    _batch(ALL, **_S, kafka__sasl__mechanism="NONE"),
    _batch(REFUSED, **_S, kafka__security__protocol="SASL_PLAINTEXT", kafka__sasl__mechanism="PLAIN"),
    _batch(REFUSED, **_S, kafka__bootstrap__servers=""),
    _batch(REFUSED, **_S, kafka__bootstrap__servers="nowhere"),
    _batch(REFUSED, **_S, kafka__max__poll__records="0"),
    _batch(ALL, **_S, kafka__max__poll__records="7"),
    _batch(ALL, **_S, **_PROVIDER, kafka__client__id="${env:PATH}"),
    _batch(REFUSED, **_S, **_PROVIDER, kafka__fetch__max__bytes="${env:NO_SUCH_NAME}"),
    _batch(ALL, **_S, kafka__config__providers="env"),
    _batch(REFUSED, **_S, kafka__security__protocol="SASL_PLAINTEXT", kafka__sasl__mechanism="GSSAPI"),
    _batch(REFUSED, **_S, kafka__security__protocol="SSL", **_PEM, kafka__ssl__keystore__location="/no/such/file"),
    _batch(REFUSED, **_S, kafka__security__protocol="SSL", **_PEM, kafka__ssl__keystore__key="x"),
    _stream(ALL, **_S, kafka__group__id="mine"),
    _stream(REFUSED, **_S, kafka__auto__offset__reset="earliest"),
]
WRITES = [
    _write("1", "'v' value", topic="sink"),
    _write("1", "'v' value", topic=" sink "),
    _write("1", "'sink' topic, 'v' value"),
    _write("1", "'elsewhere' topic, 'v' value", topic="sink"),
    _write(REFUSED, "'v' value"),
    _write(REFUSED, "cast(null as string) topic, 'v' value"),
    _write(REFUSED, "'k' key", topic="sink"),
    _write(REFUSED, "'v' VALUE, 1 topic"),
    _write(REFUSED, "'v' Value", topic="sink"),
    _write(REFUSED, "1 value", topic="sink"),
    _write(REFUSED, "1 key, 'v' value", topic="sink"),
    _write("1", "cast(null as string) key, cast(null as binary) value", topic="sink"),
    _write("1", "cast('k' as binary) key, 'v' value, 0 partition, 7 other", topic="sink"),
    _write("1", "'v' value, cast(null as int) partition", topic="sink"),
    _write(REFUSED, "'v' value, 0L partition", topic="sink"),
    _write(REFUSED, "'v' value, 9 partition", topic="sink"),
    _write(REFUSED, "'v' value, -1 partition", topic="sink"),
    _write("1", "'v' value, array(struct('a' as key, cast('1' as binary) as value)) headers", topic="sink"),
    _write(REFUSED, "'v' value, array('a') headers", topic="sink"),
    _write("1", "'v' value, cast(null as array<struct<key:string,value:binary>>) headers", topic="sink"),
    _write(REFUSED, "'v' value", topic="sink", kafka__key__serializer="x"),
    _write(REFUSED, "'v' value", topic="sink", kafka__value__serializer="x"),
    _write(REFUSED, "'v' value", topic="sink", kafka__transactional__id="x"),
    _write(REFUSED, "'v' value", topic="sink", kafka__acks="2"),
    _write("1", "'v' value", topic="sink", kafka__acks="1"),
    _write("1", "'v' value", topic="sink", kafka__compression__type="zstd"),
    _write(REFUSED, "'v' value", topic="sink", kafka__compression__type="best"),
    _write(REFUSED, "'v' value", topic="sink", kafka__linger__ms="x"),
    _write(REFUSED, "'v' value", topic="sink", kafka__acks="1", kafka__enable__idempotence="true"),
    _write(REFUSED, "'v' value", topic="sink", kafka__max__request__size="10"),
    _write(REFUSED, "'v' value", topic="sink", kafka__batch__size="-1"),
    _write("1", "'v' value", topic="sink", kafka__retries="0"),
    _write(REFUSED, "'v' value", topic=""),
    _write(REFUSED, "'v' value", topic="sink", kafka__delivery__timeout__ms="10"),
    _write(REFUSED, "'v' value", topic="sink", kafka__bootstrap__servers=""),
    _write(REFUSED, "'v' value", topic="no such topic"),
    _write(REFUSED, "'v' value", mode="overwrite", topic="sink"),
    _write(REFUSED, "'v' value", mode="ignore", topic="sink"),
    _write_stream("5", "key, value", topic="sink"),
    _write_stream("5", "'sink' topic, value"),
    _write_stream(REFUSED, "key, value"),
    _write_stream(REFUSED, "key", topic="sink"),
    _write_stream(REFUSED, "key, offset value", topic="sink"),
    _write_stream(REFUSED, "value", topic="sink", kafka__key__serializer="x"),
]
STRICTER = [
    _stream(REFUSED, **_S, maxOffsetsPerTrigger="0"),
    _stream(REFUSED, **_S, maxOffsetsPerTrigger="-1"),
    _batch(REFUSED, assign='{"orders":[0,-1]}'),
]
"""Cases that only the connector accepts: a query that never reads, an impossible partition."""
CASES = [*SELECTION, *OFFSETS, *TIMES, *NUMBERS, *CLIENT, *WRITES]
