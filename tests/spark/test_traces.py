"""Traces of a benchmark: Spark's results equal plain Python's."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from itertools import product

import pytest
from pyspark.sql import SparkSession

from aiokafka_lead.testing.thread import ClusterThread
from benchmarks.leader_gaps import SHARES, TABLES, Move, Round, figures, move_traces, record_traces
from benchmarks.leader_move import CLIENTS
from benchmarks.spark_moves import read_figures, rows
from benchmarks.spark_traces import EVERYTHING, latency_rows, picture, read_traces
from benchmarks.stats import Estimate, estimate, percentile, quantile
from benchmarks.traces import Trace, write_traces


def some_traces() -> Iterator[Trace]:
    """Write two runs of two clients; leaders move in the second half, which slows the client without hints."""
    chance = random.Random(951)
    for run in ("first", "second"):
        for client, worst in (("lead", 5), ("lead-no-hints", 200)):
            for record in range(1000):
                moving = record >= 500
                acked = 1_000 * chance.randint(1, worst if moving else 3)
                yield Trace(
                    run,
                    client,
                    "leaders move" if moving else "steady",
                    record,
                    10**15 + record * 1_000,
                    10**15 + record * 1_000 + acked if record else None,
                    10**15 + record * 1_000 + acked + 500 if record else None,
                )


def test_tables_and_picture(spark: SparkSession, cluster: ClusterThread, new_topic: Callable[..., str]) -> None:
    topic = new_topic(3)
    assert asyncio.run(write_traces(cluster.bootstrap_servers, topic, some_traces())) == 4000
    traces = read_traces(spark, cluster.bootstrap_servers, topic).cache()
    found = latency_rows(traces, "acked")
    phases = ("steady", "leaders move", EVERYTHING)
    assert [row[:2] for row in found] == [[phase, client] for phase in phases for client in ("lead", "lead-no-hints")]
    for phase, client, p50, p99, p999, highest, records, missing in found:
        mine = [t for t in some_traces() if phase in (t.phase, EVERYTHING) and t.client == client]
        times = sorted((t.acked_us - t.sent_us) / 1000 for t in mine if t.acked_us is not None)
        assert (records, missing, highest) == (len(mine), len(mine) - len(times), times[-1])
        expected = [percentile(times, share) for share in (0.5, 0.99, 0.999)]
        # A rank between two values may give either.
        assert all(abs(ms - other) <= 2 for ms, other in zip((p50, p99, p999), expected, strict=True))
    drawn = picture(traces, "consumed", "latency")
    assert drawn.startswith("<svg")
    assert drawn.count("<path") == 2


def some_moves(seed: int) -> Round:
    """Write six moves between two brokers under 200 records/s; a prober missed the end of one of them."""
    chance = random.Random(seed)
    began = 1_700_000_000.0
    moves = [Move(began + 1 + second, second % 2) for second in range(6)]
    led, wrote, samples = [], [], []
    at = began
    while at < began + 7:
        moved = int(at - began) - 1  # the latest move, if there was one
        since = at - began - 1 - moved
        leader = moved % 2
        if moved < 0 or since > 0.02 + 0.01 * chance.random():
            led.append((at, leader, at - 0.001))
        if (moved < 0 or since > 0.06) and moved != 3:
            wrote.append((at, leader, at - 0.001))
        at += 0.002
    for number in range(1400):
        sent = began + number / 200
        held_up = sent - began >= 1 and (sent - began) % 1 < 0.1
        samples.append((number, sent, 100 + 50 * chance.random() if held_up else 1 + chance.random()))
    seen = {number: sent + ms / 1000 + 0.0005 * chance.random() for number, sent, ms in samples if number % 7}
    return Round(moves, samples, led, wrote, seen)


def test_what_each_move_has_cost(spark: SparkSession, cluster: ClusterThread, new_topic: Callable[..., str]) -> None:
    records, moves = new_topic(3), new_topic(1)
    rounds = {(client, run): some_moves(seed) for seed, (client, run) in enumerate(product(("lead", "java"), "12"))}

    async def write() -> None:
        for (client, run), seen in rounds.items():
            await write_traces(cluster.bootstrap_servers, records, record_traces(seen, run, client))
            moved = move_traces(seen, run, client, "idle brokers", 100)
            await write_traces(cluster.bootstrap_servers, moves, moved)

    asyncio.run(write())
    spark_figures = read_figures(spark, cluster.bootstrap_servers, records, moves).cache()
    for field in TABLES:
        found = rows(spark_figures, "idle brokers", field)
        assert [row[0] for row in found] == [f"{CLIENTS[client]}, backoff 100 ms" for client in ("java", "lead")]
        for client, (_, count, leaderless, floor, *estimates) in zip(("java", "lead"), found, strict=True):
            mine = [one for (name, _), seen in rounds.items() if name == client for one in figures(seen)]
            assert len(mine) == 10  # and two without an end
            values = [value for one in mine if (value := getattr(one, field)) is not None]
            assert count == len(values)
            assert leaderless == pytest.approx(percentile(sorted(one.leaderless for one in mine), 0.5), abs=0.01)
            assert floor == pytest.approx(percentile(sorted(one.floor for one in mine), 0.5), abs=0.01)
            for share, shown in zip(SHARES, estimates, strict=True):
                assert isinstance(shown, Estimate)
                assert shown == pytest.approx(estimate(values, quantile(share)), abs=0.01)
