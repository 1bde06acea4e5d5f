"""``aiokafka-lead produce`` and ``consume``."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.ipc
import pyarrow.parquet
import pytest

from aiokafka_lead.testing import ClusterThread

from .conftest import CommandLine

ALL = ("-o", "beginning", "--until", "end")


def test_lines_become_records_and_records_lines(cli: CommandLine, cluster: ClusterThread) -> None:
    cluster.create_topic("lines", 2)
    ran = cli.fine("produce", "lines", "-K", ":", "--partition", "1", "-H", "from=test", stdin="a:1\nb:2\nb:3")
    assert ran.out == "lines: 3 records\n"
    form = "%t[%p]@%o %k=%v %h\\n"
    assert cli.fine("consume", "lines", *ALL, "-f", form).lines == [
        "lines[1]@0 a=1 from=test",
        "lines[1]@1 b=2 from=test",
        "lines[1]@2 b=3 from=test",
    ]
    assert cli.fine("consume", "lines", *ALL).lines == ["1", "2", "3"]
    assert cli.fine("consume", "lines", "-o", "-1", "--until", "end").lines == ["3"]
    assert cli.fine("consume", "lines", "--until", "end").lines == ["1", "2", "3"]
    assert cli.fine("consume", "lines", "-o", "1", "-n", "1").lines == ["2"]
    assert cli.fine("consume", "lines", "-o", "@1h", "--until", "2").lines == ["1", "2"]
    assert cli.fine("consume", "lines", "-o", "beginning", "--until", "@1h").lines == []
    assert cli.fine("consume", "lines", *ALL, "--partition", "0").lines == []


def test_json_in_and_out(cli: CommandLine, cluster: ClusterThread) -> None:
    cluster.create_topic("json", 1)
    given = [
        {"key": "k", "value": {"n": 1}, "headers": {"a": "b"}, "timestamp_ms": 1000},
        {"key_base64": "/w==", "value": None, "headers": [["x", None]]},
        {"value": "text", "partition": 0},
    ]
    cli.fine("produce", "json", "--input-json", stdin="\n".join(map(json.dumps, given)))
    found = [json.loads(line) for line in cli.fine("consume", "json", *ALL, "--json", "--value-as", "json").lines]
    assert [(each.get("key"), each.get("key_base64"), each["value"], each["headers"]) for each in found] == [
        ("k", None, {"n": 1}, [["a", "b"]]),
        (None, "/w==", None, [["x", None]]),
        (None, None, "text", []),
    ]
    again = "\n".join(map(json.dumps, found))
    cli.fine("produce", "json", "--input-json", stdin=again)
    assert cluster.end_offset("json", 0) == 6
    assert (found[0]["topic"], found[0]["partition"], found[0]["offset"], found[0]["timestamp_ms"]) == (
        "json",
        0,
        0,
        1000,
    )


def test_an_option_for_the_partition_ignores_the_partitions_of_the_lines(
    cli: CommandLine, cluster: ClusterThread
) -> None:
    cluster.create_topic("wide", 3)
    cluster.create_topic("narrow", 1)
    cli.fine("produce", "wide", "--partition", "2", stdin="x\n")
    lines = cli.fine("consume", "wide", *ALL, "--json").out
    cli.fine("produce", "narrow", "--input-json", "--partition", "0", stdin=lines)
    assert cli.fine("consume", "narrow", *ALL).lines == ["x"]


def test_values_that_are_no_json_are_shown_as_text(cli: CommandLine, cluster: ClusterThread) -> None:
    cluster.create_topic("no-json", 1)
    cli.fine("produce", "no-json", stdin="[" * 100_000 + "\n{\n[1]\n")
    found = [json.loads(line) for line in cli.fine("consume", "no-json", *ALL, "--json", "--value-as", "json").lines]
    assert [each["value"] for each in found] == ["[" * 100_000, "{", [1]]


def test_filters(cli: CommandLine, cluster: ClusterThread) -> None:
    cluster.create_topic("filters", 1)
    cli.fine("produce", "filters", "-K", ":", "-H", "kind=order", stdin="a:apple\nb:banana\n")
    cli.fine("produce", "filters", "-k", "c", "-Z", stdin="\ncherry\n")
    assert cli.fine("consume", "filters", *ALL, "--key", "^b$").lines == ["banana"]
    assert cli.fine("consume", "filters", *ALL, "--value", "an|rr").lines == ["banana", "cherry"]
    assert cli.fine("consume", "filters", *ALL, "--header", "kind=^ord", "--value", "pp").lines == ["apple"]
    assert cli.fine("consume", "filters", *ALL, "--header", "kind").lines == ["apple", "banana"]
    assert cli.fine("consume", "filters", *ALL, "-f", "%k%v ").out == "aapple bbanana cnull ccherry "
    assert cli.fine("consume", "filters", *ALL, "-n", "1", "--key-as", "hex", "-f", "%k").out == "61"


def test_a_group_goes_on_where_it_was(cli: CommandLine, cluster: ClusterThread) -> None:
    cluster.create_topic("work", 1)
    cli.fine("produce", "work", stdin="1\n2\n3\n")
    assert cli.fine("consume", "work", "-g", "readers", "-n", "2").lines == ["1", "2"]
    assert cli.fine("consume", "work", "-g", "readers", "-n", "1").lines == ["3"]


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_files_of_arrow(cli: CommandLine, cluster: ClusterThread, tmp_path: Path, kind: str) -> None:
    topic = f"file-{kind}"
    cluster.create_topic(topic, 1)
    cli.fine("produce", topic, "-k", "k", "-H", "h=x", stdin="1\n2\n")
    path = tmp_path / f"out.{kind}"
    cli.fine("consume", topic, *ALL, "-O", str(path))
    read = pyarrow.parquet.read_table(path) if kind == "parquet" else pyarrow.ipc.open_file(path).read_all()
    assert read.column("value").to_pylist() == [b"1", b"2"]
    assert read.column("headers").to_pylist() == [[{"key": "h", "value": b"x"}]] * 2
    assert read.column_names == ["topic", "partition", "offset", "timestamp", "key", "value", "headers"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("consume", "t", "-f", "%q"), "unknown field %q"),
        (("consume", "t", "-o", "yesterday"), "--offset takes"),
        (("consume", "t", "--until", "beginning"), "--until takes end, an offset or @TIME"),
        (("consume", "t", "--until", "-5"), "--until takes end, an offset or @TIME"),
        (("consume", "\udcff"), "\\udcff"),
        (("consume", "t", "-g", "\udcff"), "\\udcff"),
        (("produce", "\udcff"), "\\udcff"),
        (("produce", "t", "-H", "\udcff=1"), "'\\udcff' is not valid UTF-8"),
        (("produce", "t", "-X", "max_request_size=big"), "max_request_size"),
        (("consume", "t", "--timeout", ""), "--timeout"),
        (("consume", "t", "-o", "@soon"), "'soon' is not a time"),
        (("consume", "t", "--key", "("), "not a valid regular expression"),
        (("consume", "t", "--key-as", "xml"), "--key-as takes text, json"),
        (("consume", "t", "-O", "x.csv"), "ends in .parquet or .arrow"),
        (("consume", "t", "-g", "g", "-o", "end"), "--group determines the offsets"),
        (("consume", "t", "--partition", "7"), "--partition"),
        (("produce", "t", "-H", "x"), "--header takes NAME=VALUE"),
        (("produce", "t", "--input-json", "-k", "x"), "--input-json cannot be combined"),
        (("produce", "t", "-z", "lzma"), "compression_type"),
    ],
)
def test_wrong_usage(cli: CommandLine, cluster: ClusterThread, arguments: tuple[str, ...], text: str) -> None:
    if "t" not in cluster.topic_names():
        cluster.create_topic("t", 1)
    ran = cli(*arguments)
    assert (ran.code, text in ran.err) == (2, True), ran.err


@pytest.mark.parametrize(
    ("stdin", "text"),
    [
        ("no json", "line 1 is not JSON"),
        ("[1]", "line 1 is not a JSON object"),
        ("[" * 100_000, "line 1 is not JSON"),
        ('{"valeu": "x"}', "line 1: 'valeu' is not one of key, value"),
        ('{"value": "x", "value_base64": "eA=="}', "line 1: value and value_base64 cannot be combined"),
        ('{"headers": 5}', "line 1: headers must be"),
        ('{"headers": [["x"]]}', "line 1: headers must be"),
        ('{"headers": [[null, "x"]]}', "line 1: the name of a header must be a string, not null"),
        ('{"headers": ["ab"]}', "line 1: headers must be"),
    ],
)
def test_wrong_input(cli: CommandLine, cluster: ClusterThread, stdin: str, text: str) -> None:
    ran = cli("produce", "wrong-input", "--input-json", stdin=stdin)
    assert (ran.code, text in ran.err) == (1, True), ran.err
    ran = cli("produce", "wrong-input", "-K", ":", stdin="no key")
    assert (ran.code, "line 1 has no key" in ran.err) == (1, True)
