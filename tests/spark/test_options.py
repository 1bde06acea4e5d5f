"""Options: accepted and refused values, and their meaning."""

from __future__ import annotations

import logging

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict

from aiokafka_lead import TopicPartition
from aiokafka_lead.spark import kafka_options
from aiokafka_lead.spark.data_source import KafkaDataSource, RegisteredDataSource
from aiokafka_lead.spark.source.options import (
    AtOffsets,
    AtTime,
    AtTimes,
    End,
    NoMatch,
    Selection,
    SourceOptions,
    batch_options,
    stream_options,
)
from aiokafka_lead.spark.source.schema import full_schema

GIVEN = {"kafka.bootstrap.servers": "a:9092", "subscribe": "t"}


def _batch(**options: str) -> SourceOptions:
    return batch_options(CaseInsensitiveDict({**GIVEN, **options}))


def _stream(**options: str) -> SourceOptions:
    return stream_options(CaseInsensitiveDict({**GIVEN, **options}))


def test_defaults_are_sparks() -> None:
    batch, stream = _batch(), _stream()
    assert (batch.starting, batch.ending) == (End.EARLIEST, End.LATEST)
    assert stream.starting is End.LATEST
    assert batch.fail_on_data_loss
    assert stream.max_trigger_delay_ms == 15 * 60_000


def test_names_ignore_case() -> None:
    assert _batch(MINPARTITIONS="3").min_partitions == 3


@pytest.mark.parametrize(
    ("options", "selection"),
    [
        ({"subscribe": " a, b ,,a"}, Selection(topics=("a", "b"))),
        ({"subscribePattern": " a.* "}, Selection(pattern="a.*")),
        ({"subscribe": "a", "partitions": "0, 5-7"}, Selection(topics=("a",), numbers=(range(1), range(5, 8)))),
        ({"assign": '{"a":[1,0]}'}, Selection(partitions=(TopicPartition("a", 1), TopicPartition("a", 0)))),
    ],
)
def test_selections(options: dict[str, str], selection: Selection) -> None:
    found = batch_options(CaseInsensitiveDict({"kafka.bootstrap.servers": "a:9092", **options}))
    assert found.selection == selection


def test_bounds() -> None:
    t0 = TopicPartition("t", 0)
    assert _batch(startingOffsets=" Earliest ").starting is End.EARLIEST
    assert _batch(startingOffsets='{"t":{"0":23}}').starting == AtOffsets({t0: 23})
    assert _batch(startingTimestamp=" 12 ").starting == AtTime(12, NoMatch.ERROR)
    by_time = {"startingOffsetsByTimestamp": '{"t":{"0":5}}', "startingOffsetsByTimestampStrategy": "LATEST"}
    assert _batch(**by_time).starting == AtTimes({t0: 5}, NoMatch.LATEST)
    assert _batch(**by_time, startingTimestamp="7", startingOffsets="latest").starting == AtTime(7, NoMatch.LATEST)


REFUSED_BY_BOTH = [
    ({"assign": '{"t":[0]}'}, "Only one of"),
    ({"subscribe": " , "}, "names no topic"),
    ({"minPartitions": "0"}, "minPartitions"),
    ({"minPartitions": "many"}, "minPartitions"),
    ({"maxRecordsPerPartition": "0"}, "maxRecordsPerPartition"),
    ({"maxTasks": "0"}, "maxTasks"),
    ({"pushFilters": "true"}, "'pushFilters' is no longer supported, .*'partitions', 'fromOffset', 'untilOffset'"),
    ({"partitions": "0,x"}, "option 'partitions': expected e.g."),
    ({"partitions": ""}, "option 'partitions': expected e.g."),
    ({"partitions": "7-5"}, "'partitions': '7-5' is not a range"),
    ({"partitions": "0-9999999999"}, "'partitions': '0-9999999999' is not a range of numbers from 0 to 2147483647"),
    ({"maxTasks": "2", "minPartitions": "3"}, "minPartitions"),
    ({"maxTasks": "2", "maxRecordsPerPartition": "3"}, "cannot be combined"),
    ({"minPartitions": " 7 "}, "minPartitions"),
    ({"minPartitions": "1_0"}, "minPartitions"),
    ({"minPartitions": "9999999999"}, "from 1 to 2147483647"),
    ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "higher than"),
    ({"failOnDataLoss": "yes"}, "failOnDataLoss"),
    ({"startingOffsets": "first"}, "expected e.g."),
    ({"startingOffsets": '{"t":[0]}'}, "expected e.g."),
    ({"startingOffsets": '{"t":{"0":"5"}}'}, "expected e.g."),
    ({"startingOffsets": '{"t":{"0":-3}}'}, "'startingOffsets': the offset of t-0 must be from -2"),
    ({"startingTimestamp": "now"}, "startingTimestamp"),
    ({"startingOffsetsByTimestamp": "5"}, "expected e.g."),
    ({"startingOffsetsByTimestampStrategy": "none"}, "Strategy"),
    ({"startingOffsets": '{"t":{"-1":5}}'}, "'startingOffsets': a partition of topic 't' must be from 0 to .*, not -1"),
    ({"startingOffsets": '{"t":{"2147483648":5}}'}, "from 0 to 2147483647, not 2147483648"),
    (
        {"startingOffsets": '{"t":{"0":9223372036854775808}}'},
        "the offset of t-0 must be from -2 to 9223372036854775807",
    ),
    ({"startingOffsets": '{"t":{"0":1e300}}'}, "the offset of t-0"),
    ({"startingOffsets": '{"t":{"1_0":5}}'}, "expected e.g."),
    ({"startingOffsets": '{"t":' * 100_000}, r"expected e.g. .*\.\.\.$"),
    ({"startingTimestamp": "-1"}, "'startingTimestamp' must be from 0 to"),
    ({"startingOffsetsByTimestamp": '{"t":{"0":-1}}'}, "'startingOffsetsByTimestamp': the time of t-0"),
    ({"startingOffsetsByTimestamp": '{"t":{"-1":1}}'}, "'startingOffsetsByTimestamp': a partition of topic 't'"),
    ({"subscribe": "a,no such topic"}, "'subscribe': a topic's name must be .*, not 'no such topic'"),
    ({"includeHeaders": "perhaps"}, "includeHeaders"),
    ({"kafka.bootstrap.servers": " "}, "kafka.bootstrap.servers"),
    ({"kafka.request.timeout.ms": "soon"}, "option 'kafka.request.timeout.ms' must be a number, not 'soon'"),
    ({"kafka.fetch.max.bytes": "0"}, "^kafka.fetch.max.bytes must be from 1 to"),
    ({"kafka.fetch.max.bytes": "1_0"}, "option 'kafka.fetch.max.bytes' must be a number"),
    ({"kafka.isolation.level": "retries"}, "^kafka.isolation.level must be one of .*, not 'retries'"),
    ({"kafka.heartbeat.interval.ms": "90000"}, "kafka.heartbeat.interval.ms .* kafka.session.timeout.ms"),
    (
        {"kafka.bootstrap.servers": "a://b"},
        "^kafka.bootstrap.servers must be host:port, not .*: set .* kafka.security.prot",
    ),
    ({"kafka.security.protocol": "SASL_SSL"}, "kafka.sasl.plain.username is required for kafka.sasl.mechanism PLAIN"),
    ({"kafka.auto.offset.reset": "earliest"}, "'kafka.auto.offset.reset' is not supported: .*startingOffsets"),
    ({"kafka.key.deserializer": "x"}, "option 'kafka.key.deserializer' is not supported: "),
    ({"kafka.value.deserializer": "x"}, "value.deserializer"),
    ({"kafka.enable.auto.commit": "true"}, "enable.auto.commit"),
    ({"kafka.interceptor.classes": "x"}, "interceptor.classes"),
]


@pytest.mark.parametrize(("options", "words"), REFUSED_BY_BOTH)
def test_refused(options: dict[str, str], words: str) -> None:
    for parse in (_batch, _stream):
        with pytest.raises(ValueError, match=words):
            parse(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"startingOffsets": "latest"},
        {"startingOffsets": '{"t":{"0":-1}}'},
        {"endingOffsets": "earliest"},
        {"endingOffsets": '{"t":{"0":-2}}'},
        {"startingOffsets": '{"t":{"0":5}}', "endingOffsets": '{"t":{"0":4}}'},
        {"startingOffsets": '{"t":{"0":5}}', "endingOffsets": '{"t":{"1":6}}'},
        {"commitGroupId": "g"},
        {"fromOffset": "-1"},
        {"untilOffset": "latest"},
    ],
)
def test_refused_in_batch_queries(options: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"Offset|offset|commitGroupId"):
        _batch(**options)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("endingOffsets", "{}"),
        ("endingOffsetsByTimestamp", "{}"),
        ("fromOffset", "5"),
        ("untilOffset", "5"),
        ("maxOffsetsPerTrigger", "x"),
        ("minOffsetsPerTrigger", "1.5"),
        ("maxTriggerDelay", "soon"),
    ],
)
def test_refused_in_streaming_queries(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=name):
        _stream(**{name: text})


def test_batch_queries_have_no_triggers() -> None:
    found = _batch(maxOffsetsPerTrigger="x", maxTriggerDelay="soon")
    assert (found.max_offsets_per_trigger, found.min_offsets_per_trigger) == (None, None)


@pytest.mark.parametrize(
    ("assign", "words"),
    [
        ('{"t":[0,-1]}', "'assign': a partition of topic 't' must be from 0 to 2147483647, not -1"),
        ('{"t":[2147483648]}', "not 2147483648"),
        ('{"t":0}', "'assign': expected e.g."),
        ('{"t":' * 100_000, "'assign': expected e.g."),
    ],
)
def test_partitions_that_cannot_be(assign: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        batch_options({"kafka.bootstrap.servers": "a:9092", "assign": assign})


@pytest.mark.parametrize("most", ["0", "-1", "9223372036854775808"])
def test_a_stream_that_would_never_read(most: str) -> None:
    with pytest.raises(ValueError, match="'maxOffsetsPerTrigger' must be from 1 to 9223372036854775807"):
        _stream(maxOffsetsPerTrigger=most)


def test_a_group_to_commit_for_has_a_name() -> None:
    with pytest.raises(ValueError, match="option 'commitGroupId' must not be empty"):
        _stream(commitGroupId="")


def test_ends_are_checked_as_starts_are() -> None:
    for options, words in [
        ({"endingOffsets": '{"t":{"0":-3}}'}, "'endingOffsets': the offset of t-0"),
        ({"endingOffsets": '{"t":{"-1":3}}'}, "'endingOffsets': a partition of topic 't'"),
        ({"endingTimestamp": "-2"}, "'endingTimestamp' must be from 0"),
        ({"endingOffsetsByTimestamp": '{"t":{"0":-2}}'}, "'endingOffsetsByTimestamp': the time of t-0"),
    ]:
        with pytest.raises(ValueError, match=words):
            _batch(**options)


def test_assigned_partitions_are_not_chosen_twice() -> None:
    with pytest.raises(ValueError, match="options assign and partitions cannot be combined"):
        batch_options({"kafka.bootstrap.servers": "a:9092", "assign": '{"t":[0]}', "partitions": "0"})


@pytest.mark.parametrize("pattern", ["ord[ers", "[a-z&&[^o]]+", "[[:alpha:]]+"])
def test_patterns_with_another_meaning_in_java(pattern: str) -> None:
    with pytest.raises(ValueError, match="option 'subscribePattern' is not a valid regular expression in Python: "):
        batch_options(CaseInsensitiveDict({"kafka.bootstrap.servers": "a:1", "subscribePattern": pattern}))


def test_tasks_are_no_members_of_a_group() -> None:
    for parse in (_batch, _stream):
        parse(**{"kafka.group.instance.id": "a"})
        parse(**{"kafka.group.id": "", "kafka.group.instance.id": "a"})


def test_no_selection() -> None:
    with pytest.raises(ValueError, match="One of the options"):
        batch_options({"kafka.bootstrap.servers": "a:9092"})


@pytest.mark.parametrize(("text", "milliseconds"), [("500", 500), ("90s", 90_000), ("2 h", 7_200_000), ("1ms", 1)])
def test_durations(text: str, milliseconds: float) -> None:
    assert _stream(maxTriggerDelay=text).max_trigger_delay_ms == milliseconds


@pytest.fixture
def nothing_mentioned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process mentions an option once, and other tests may have set the same option."""
    monkeypatch.setattr(kafka_options, "_mentioned", set())


@pytest.mark.usefixtures("nothing_mentioned")
def test_a_key_that_spark_shows_is_mentioned(caplog: pytest.LogCaptureFixture) -> None:
    def plan(kind: type[KafkaDataSource], key: str, name: str = "kafka.ssl.keystore.key") -> list[str]:
        caplog.clear()
        source = kind(CaseInsensitiveDict({**GIVEN, "topic": "t", name: key}))
        # Certificates are checked later, if the protocol is SSL.
        source.reader(full_schema(GIVEN))
        source.streamWriter(full_schema(GIVEN), overwrite=False)
        return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]

    assert plan(KafkaDataSource, "${env:KEY}") == []
    assert plan(RegisteredDataSource, "MARKED") == []
    (said,) = plan(KafkaDataSource, "MARKED")
    assert said.startswith("option 'kafka.ssl.keystore.key' is visible in Spark's UI")
    assert "MARKED" not in said
    with pytest.raises(ValueError, match="PLAINTEXT does not use"):
        plan(KafkaDataSource, "MARKED", "kafka.ssl.keydata")
    assert caplog.messages[0].startswith("option 'kafka.ssl.keydata' is visible in Spark's UI")


@pytest.mark.usefixtures("nothing_mentioned")
def test_unknown_options_are_mentioned_once(caplog: pytest.LogCaptureFixture) -> None:
    others = {"kafkaConsumer.cache.timeout": "1", "schema.registry.ulr": "http://a", "schema.registry.url": "http://a"}
    for _ in range(2):
        _batch(failOnDataLos="true", colour="red", topic="t", **others)
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "option 'failondatalos' is unknown and is ignored; did you mean 'failOnDataLoss'?",
        "option 'colour' is unknown and is ignored",
        "option 'schema.registry.ulr' is unknown and is ignored; did you mean 'schema.registry.url'?",
    ]


@pytest.mark.usefixtures("nothing_mentioned")
def test_ignored_settings_are_mentioned(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "aiokafka_lead.spark")
    _batch(**{f"kafka.{name}": "PEM" for name in ("ssl.cipher.suites", "metrics.num.samples", "ssl.truststore.type")})
    assert [record.getMessage() for record in caplog.records] == [
        f"option 'kafka.{name}' concerns only Java clients and is ignored"
        for name in ("ssl.cipher.suites", "metrics.num.samples")
    ]


@pytest.mark.usefixtures("nothing_mentioned")
def test_misspelt_settings_are_mentioned(caplog: pytest.LogCaptureFixture) -> None:
    names = ("kafka.isolation.levle", "isolation.level", "acks", "kafka.no.such.thing")
    for _ in range(2):
        _batch(**dict.fromkeys(names, "x"), **{"kafka.linger.ms": "1"})
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "option 'isolation.level' is unknown and is ignored; did you mean 'kafka.isolation.level'?",
        "option 'acks' is unknown and is ignored; did you mean 'kafka.acks'?",
        "option 'kafka.isolation.levle' is unknown and is ignored; did you mean 'kafka.isolation.level'?",
        "option 'kafka.no.such.thing' is unknown and is ignored",
    ]


def test_a_setting_with_underscores_is_refused() -> None:
    """It would affect only a part of the source, or would not give the protection that it asks for."""
    with pytest.raises(ValueError, match=r"'kafka\.security_protocol' must be written as 'kafka\.security\.protocol'"):
        _batch(**{"kafka.security_protocol": "SSL"})
