"""Records that `consume`, `copy` and `replay` choose: by filter, by commit, by schema."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from aiokafka_lead import ConsumerRecord, Producer, TimestampType
from aiokafka_lead._core.run.failures import DEAD_LETTER_HEADERS
from aiokafka_lead.cli.matching import condition
from aiokafka_lead.errors import ConfigError
from aiokafka_lead.schema import SchemaRegistry
from aiokafka_lead.testing import ClusterThread, EmbeddedCluster, EmbeddedSchemaRegistry

from .conftest import CommandLine
from .test_ends import begun, wait_for
from .test_processes import PATIENCE_S

ALL = ("-o", "beginning", "--until", "end")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--value", "^caf.$"), ["café", "cafe"]),
        (("--value", "(?i)^CAFÉ$"), ["café", "CAFÉ"]),
        (("--value", r"^\w+$"), ["café", "CAFÉ", "cafe", "über"]),
        (("--value", "^caf.$", "--match-bytes"), ["cafe"]),
        (("--value", r"^caf\xc3\xa9$", "--match-bytes"), ["café"]),
        (("--where", "value =~ ^.ber"), ["über"]),
    ],
)
def test_expressions_are_of_text_unless_bytes_are_wanted(
    cli: CommandLine, cluster: ClusterThread, options: tuple[str, ...], expected: list[str]
) -> None:
    if "words" not in cluster.topic_names():
        cluster.create_topic("words", 1)
        cli.fine("produce", "words", stdin="café\nCAFÉ\ncafe\nüber\n")
    assert cli.fine("consume", "words", *ALL, *options).lines == expected


ORDER = {"amount": 10.5, "big": 2**60, "name": "ann", "items": [{"id": 7}], "a.b": True, "none": None, "nan": math.nan}
RECORD: ConsumerRecord[Any, Any] = ConsumerRecord(
    "t",
    3,
    42,
    1000,
    TimestampType.CREATE_TIME,
    b"007",
    f'{json.dumps(ORDER)[:-1]}, "huge": 1{"0" * 5000}, "beyond": -1e99999999999999999999, "price": "12.50"}}'.encode(),
    (("kind", b"order"), ("raw", b"\xff")),
)


@pytest.mark.parametrize(
    ("text", "agrees"),
    [
        ("value.amount > 10", True),
        ("value.amount>10.5", False),
        ("value.amount >= 10.5", True),
        ("value.amount > ten", False),
        (f"value.big == {2**60}", True),
        (f"value.big == {2**60 + 1}", False),
        (f"value.huge == 1{'0' * 5000}", True),
        (f"value.huge > {2**60}", True),
        ("value.huge <= 1e5000", True),
        ("value.beyond < 0", True),
        ("value.beyond != 0", True),
        ("value.price > 12", True),
        ("value.price == 12.5", True),
        ("value.nan > 0.5", False),
        ("value.nan <= 0.5", False),
        ("value.nan != 0.5", True),
        ("value.price == 12.51", False),
        ('value.price == "12.50"', True),
        ("value.price < ten", True),
        ("value.amount =~ ^10", True),
        ("value.name > 5", False),
        ("value.name == ann", True),
        ('value.name == "ann"', True),
        ("value.name != ann", False),
        ("value.name < bob", True),
        ("value.name =~ ^a", True),
        (r'value.name =~ "^\w+$"', True),
        (r'value.name =~ "^\\w+$"', True),
        ("value.name =~ [n,m]", True),
        ("value.items[0].id == 7", True),
        ("value.items[1].id == null", True),
        ('value["a.b"] == true', True),
        ("value.none == null", True),
        ("value.none.deeper != null", False),
        ("value.missing > 0", False),
        ("key == 007", True),
        ("key == 7", False),
        ('key == "007"', True),
        ('value.items[0].id == "7"', True),
        ('value.missing == "null"', False),
        ("headers.kind == order", True),
        ("headers.raw != null", True),
        ("partition == 3", True),
        ("offset < 42", False),
        ("timestamp_ms >= 1000", True),
        ("topic == t", True),
    ],
)
def test_conditions(text: str, agrees: bool) -> None:
    assert condition(text)(RECORD) is agrees


@pytest.mark.parametrize(
    ("text", "said"),
    [
        *((text, "") for text in ("value", "value >> 1", "valeu > 1", "value =~ (", "> 1", "")),
        ("value.amount > 9 and value.name == ann", "a --where for each condition"),
        ("value.name == 'ann'", 'write "ann"'),
        ("value.name =~ '^a'", "without quotes"),
        ("value.name ==", 'write ""'),
        ("value.none == None", "write null"),
        ('value["a.b"] != False', "write false"),
        ('value["a.b"] > false', "takes a number or a string"),
        ("timestamp_ms > @1h", "timestamp_ms must be compared with a number"),
        ("offset == first", "offset must be compared with a number"),
        ("partition[0] == 1", "partition has no fields"),
    ],
)
def test_conditions_that_are_none(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"--where.*{said}"):
        condition(text)


@pytest.mark.parametrize("command", ["consume {} --until end -f %v\\n", "replay {} --to {}.to", "copy {} {}.to"])
@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_committed_reading_ends_before_an_open_transaction(
    cli: CommandLine, cluster: ClusterThread, command: str
) -> None:
    topic = f"isolation-{command.split()[0]}"
    for name in (topic, f"{topic}.to"):
        cluster.create_topic(name, 1)
    committed = () if "consume" not in command else ("--committed",)
    arguments = [*command.format(topic, topic).split(), *committed]

    async def written(option: str | None = None) -> list[bytes | None]:
        ran = await anyio.to_thread.run_sync(lambda: cli.fine(*arguments, *([option] if option else [])))
        found = [record.value for record in cluster.records(f"{topic}.to")]
        return [line.encode() for line in ran.lines] if "consume" in command else found

    origin = [(DEAD_LETTER_HEADERS[0], b"origin")]
    async with Producer(cluster.bootstrap_servers, transactional_id=topic) as producer:
        async with producer.transaction():
            await producer.send(topic, b"kept", headers=origin)
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"aborted", headers=origin)
        await producer.abort_transaction()
        async with producer.transaction():
            await (await producer.send(topic, b"open", headers=origin))
            assert await written() == [b"kept"]
            if "consume" not in command:
                assert set(await written("--uncommitted")) == {b"kept", b"aborted", b"open"}


def test_committed_reading_may_be_an_option_of_a_profile(cli: CommandLine, cluster: ClusterThread) -> None:
    cluster.create_topic("by-option", 1)
    cli.fine("produce", "by-option", stdin="1\n")
    cli.fine("consume", "by-option", *ALL, "-X", "isolation_level=read_committed", "-X", "client_id=by-option")
    fetches = [each.request for each in cluster.requests if (each.client_id, each.api) == ("by-option", "Fetch")]
    assert {each.isolation_level for each in fetches} == {1}


def test_records_that_retention_deletes_meanwhile_are_passed_over_alone(
    cli: CommandLine, cluster: ClusterThread
) -> None:
    cluster.create_topic("retained", 1)
    cli.fine("produce", "retained", stdin="1\n2\n3\n4\n")
    rule = cluster.faults.add("Fetch", topic="retained", count=1, hold=True)
    with begun(cli, "consume", "retained", *ALL) as process:
        wait_for(lambda: rule.struck)
        cluster.delete_records("retained", 0, 2)
        cluster.release(rule)
        out, _ = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (0, b"3\n4\n")


@pytest.mark.parametrize("command", ["consume {} --until end", "copy {} {}.to", "replay {} --to {}.to"])
def test_the_group_and_the_transactions_of_a_service_stay_as_they_are(
    cli: CommandLine, cluster: ClusterThread, command: str
) -> None:
    topic = f"profiled-{command.split()[0]}"
    for name in (topic, f"{topic}.to"):
        cluster.create_topic(name, 1)
    cli.fine("produce", topic, "-H", f"{DEAD_LETTER_HEADERS[0]}=origin", stdin="1\n2\n3\n")
    cli.fine("consume", topic, "-g", topic, "-n", "1")
    cli.environment |= {"AIOKAFKA_LEAD_GROUP_ID": topic, "AIOKAFKA_LEAD_TRANSACTIONAL_ID": topic}
    cli.fine(*command.format(topic, topic).split())
    cli.fine("produce", topic, stdin="4\n")
    assert cli.fine("groups", "lag", topic, "--json").json[0]["committed"] == 1
    assert not [each for each in cluster.requests if getattr(each.request, "transactional_id", None) == topic]


def test_a_copy_or_a_replay_that_stops_names_the_record_and_counts_the_others(
    cli: CommandLine, cluster: ClusterThread
) -> None:
    cluster.create_topic("large", 1, configs={"max.message.bytes": "10000000"})
    cluster.create_topic("small", 1)
    large = ("-X", "max_request_size=9000000", "-H", f"{DEAD_LETTER_HEADERS[0]}=origin")
    cli.fine("produce", "large", *large, stdin=f"1\n2\n{'x' * 2_000_000}\n4\n")
    for command in (("copy", "large", "small", "--json"), ("replay", "large", "--to", "small")):
        before = cluster.end_offset("small")
        ran = cli(*command, "-X", "max_request_size=1000000")
        assert (ran.code, "large-0 at offset 2: " in ran.err) == (1, True), ran.err
        assert ran.err.splitlines()[-1] == "2 records were written"
        assert cluster.end_offset("small") == before + 2
        if command[0] == "copy":
            assert ran.json == [{"topic": "large", "partition": 0, "next": 2, "records": 2}]


def test_copies_and_replays_of_large_records(cli: CommandLine, cluster: ClusterThread) -> None:
    """Producers may have had another limit, or have compressed them."""
    for topic in ("wide", "wide-again", "narrow"):
        limit = 10_000_000 if topic != "narrow" else 1_000_000
        cluster.create_topic(topic, 1, configs={"max.message.bytes": str(limit)})
    wide = ("-X", "max_request_size=9000000", "-H", f"{DEAD_LETTER_HEADERS[0]}=origin")
    cli.fine("produce", "wide", *wide, stdin="x" * 2_000_000)
    for command in (("copy", "wide"), ("replay", "wide", "--to")):
        before = cluster.end_offset("wide-again"), cluster.end_offset("narrow")
        cli.fine(*command, "wide-again")
        cli.fine(*command, "narrow", "--compression", "gzip")
        assert (cluster.end_offset("wide-again"), cluster.end_offset("narrow")) == tuple(each + 1 for each in before)
        ran = cli(*command, "narrow", "-X", "max_request_size=1000000")
        assert (ran.code, "max_request_size" in ran.err) == (1, True)


@pytest.mark.parametrize(("wrong", "named"), [([2], "line 2"), ([2, 4], "line 2, line 4")])
def test_lines_that_brokers_refuse_are_named(
    cli: CommandLine, cluster: ClusterThread, wrong: list[int], named: str
) -> None:
    """Brokers refuse their whole batch, and say which of its records are wrong."""
    if "compacted" not in cluster.topic_names():
        cluster.create_topic("compacted", 1, configs={"cleanup.policy": "compact"})
    lines = [{"value": "v"} if number in wrong else {"key": "k", "value": "v"} for number in range(1, 6)]
    ran = cli("produce", "compacted", "--input-json", "-X", "linger_ms=5000", stdin="\n".join(map(json.dumps, lines)))
    assert ran.code == 1
    assert f"{named}: " in ran.err
    assert "line 1" not in ran.err
    assert "Compacted topic cannot accept message without key" in ran.err


def test_copies_keep_keys_headers_and_times(cli: CommandLine, cluster: ClusterThread) -> None:
    cluster.create_topic("from", 2)
    lines: list[dict[str, Any]] = [
        {
            "partition": 0,
            "key_base64": "/w==",
            "value": None,
            "headers": [["h", {"base64": "/w=="}], ["h", None]],
            "timestamp_ms": 1,
        },
        {"key": "k", "value": {"amount": 1}, "timestamp_ms": 2, "partition": 1},
        {"key": "k", "value": {"amount": 20}, "timestamp_ms": 3, "partition": 1},
    ]
    cli.fine("produce", "from", "--input-json", stdin="\n".join(map(json.dumps, lines)))
    with ClusterThread(EmbeddedCluster(1)) as other:
        other.create_topic("to", 2)
        to = ("--to-bootstrap-servers", other.bootstrap_servers)
        planned = cli.fine("copy", "from", "to", *to, "--dry-run", "--json").json
        assert [(row["partition"], row["records"], row["next"]) for row in planned] == [(0, 1, 1), (1, 2, 2)]
        assert not other.records("to")
        cli.fine("copy", "from", "to", *to, "--keep-partition", "-o", "0", "--until", "1")
        cli.fine("copy", "from", "to", *to, "--keep-partition", "-o", "1", "--where", "value.amount > 10")
        for partition in (0, 1):
            before = [
                (each.key, each.value, each.headers, each.timestamp_ms) for each in cluster.records("from", partition)
            ]
            after = [(each.key, each.value, each.headers, each.timestamp_ms) for each in other.records("to", partition)]
            assert after == before
    for elsewhere in ((), ("--to-bootstrap-servers", cluster.bootstrap_servers)):
        ran = cli("copy", "from", "from", *elsewhere)
        assert (ran.code, "into itself" in ran.err) == (2, True)
    ran = cli("copy", "from", "nowhere-else", "-b", cluster.bootstrap_servers, "--to-profile", "none")
    assert (ran.code, "profile 'none'" in ran.err) == (2, True)


@pytest.fixture
def registry() -> Iterator[EmbeddedSchemaRegistry]:
    with EmbeddedSchemaRegistry() as made:
        yield made


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_record_that_does_not_fit_its_schema(
    cli: CommandLine, cluster: ClusterThread, registry: EmbeddedSchemaRegistry
) -> None:
    cluster.create_topic("mixed", 1)
    schema = {"type": "record", "name": "R", "fields": [{"name": "v", "type": "long"}]}
    serializer = SchemaRegistry(registry.url).avro_serializer(schema, auto_register=True)
    async with Producer(cluster.bootstrap_servers) as producer:
        for value in (1, None, 2):
            content = b'{"v": 5}' if value is None else await serializer.encode({"v": value}, "mixed")
            await producer.send_and_wait("mixed", content)
    cli.environment["AIOKAFKA_LEAD_SCHEMA_REGISTRY_URL"] = registry.url

    def look() -> None:
        by_schema = ("--value-as", "schema")
        where = "mixed-0 at offset 1"
        ran = cli("consume", "mixed", *ALL, *by_schema)
        assert (ran.code, ran.lines, where in ran.err) == (1, ['{"v": 1}'], True)
        ran = cli.fine("consume", "mixed", *ALL, *by_schema, "--on-error", "skip")
        assert (ran.lines, where in ran.err) == (['{"v": 1}', '{"v": 2}'], True)
        ran = cli.fine("consume", "mixed", *ALL, *by_schema, "--on-error", "raw", "--json")
        assert [json.loads(line)["value"] for line in ran.lines] == [{"v": 1}, '{"v": 5}', {"v": 2}]
        assert where in ran.err
        # In a group the offset stays at the record that stopped it, and passes a skipped one.
        for _ in range(2):
            assert cli("consume", "mixed", "-g", "stops", "-n", "3", *by_schema).code == 1
            assert cli.fine("groups", "lag", "stops", "--json").json[0]["committed"] == 1
        cli.fine("consume", "mixed", "-g", "stops", "-n", "1", *by_schema, "--on-error", "skip")
        assert cli.fine("groups", "lag", "stops", "--json").json[0]["committed"] == 3
        ran = cli("consume", "mixed", *ALL, *by_schema, "--on-error", "explode")
        assert (ran.code, "--on-error takes" in ran.err) == (2, True)

    await anyio.to_thread.run_sync(look)
    registry.stop()

    def look_again() -> None:
        # An unreachable registry is no fault of a record, so the record is not skipped.
        ran = cli("consume", "mixed", *ALL, "--value-as", "schema", "--on-error", "skip", "--timeout", "1s")
        assert (ran.code, ran.lines, "skipped" in ran.err) == (3, [], False), ran

    await anyio.to_thread.run_sync(look_again)
