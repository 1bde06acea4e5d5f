"""Cases for assignors, with the results of the Java client's assignors.

``python -m tests.kafka.assignor_cases`` writes the table that the tests without Java compare with.
"""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from aiokafka_lead import TopicPartition
from aiokafka_lead._core.group.assignors import NO_GENERATION, MemberSubscription, TopicPartitions

from .harness import NEWEST, java

_SOURCE = Path(__file__).parent / "harness" / "Assignors.java"
TABLE = Path(__file__).parents[1] / "core" / "assignor_vectors.json"
_TABLE_CASES = 30
_ID_STARTS = ("m", "M", "\u00e9", "\uff5e", "\U0001f600")
"""The last two sort in different orders by code points and by UTF-16 units, which Java uses."""

Case = dict[str, Any]
Result = dict[str, Any]


def make_case(seed: int, assignor: str) -> Case:
    """Return a case of few members and topics, some static, in racks, with missing topics, or with owned partitions."""
    rng = random.Random(seed)
    racks = ["a", "b", "c"][: rng.randint(1, 3)] if rng.random() < 0.5 else []
    alike = rng.random() < 0.4
    topics: dict[str, list[list[str]]] = {}
    for name in rng.sample(["t", "u", "v", "t1", "t10", "t2", "T", "_x", "a.b"], rng.randint(1, 5)):
        count = 6 if alike else rng.randint(1, 9)
        topics[name] = [rng.sample(racks, rng.randint(1, len(racks))) if racks else [] for _ in range(count)]
    wanted = [*topics, "unknown"]
    members: list[dict[str, Any]] = []
    free = [(topic, index) for topic, racks_of in topics.items() for index in range(len(racks_of))]
    rng.shuffle(free)
    for number in range(rng.randint(1, 7)):
        theirs = wanted if rng.random() < 0.5 else rng.sample(wanted, rng.randint(1, len(wanted)))
        owned = [free.pop() for _ in range(rng.randint(0, min(5, len(free))))] if rng.random() < 0.7 else []
        members.append(
            {
                "id": f"{rng.choice(_ID_STARTS)}-{rng.randint(0, 99)}-{number}",
                "instance": f"i{rng.randint(0, 99)}-{number}" if rng.random() < 0.3 else None,
                "rack": rng.choice(racks) if racks and rng.random() < 0.8 else None,
                "topics": theirs,
                "owned": [each for each in owned if each[0] in theirs],
                "generation": 5 if owned else NO_GENERATION,
            }
        )
    return {"assignor": assignor, "topics": topics, "members": members}


def ask_java(cases: Iterable[Case]) -> list[Result]:
    """Return the Java client's assignments, and its encoding of the members' subscriptions."""
    jars = java.class_path(NEWEST)
    classes = java.compile_class(_SOURCE, jars)
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{classes}:{jars}", "Assignors"]
    lines = "\n".join(json.dumps(case) for case in cases)
    done = subprocess.run(command, input=lines.encode(), capture_output=True, timeout=120, check=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith(b"{")]


def partitions_in(case: Case) -> TopicPartitions:
    """Return a case's topics."""
    racks = {name: [frozenset(each) for each in partitions] for name, partitions in case["topics"].items()}
    return TopicPartitions({name: len(partitions) for name, partitions in racks.items()}, racks)


def member_in(given: dict[str, Any]) -> MemberSubscription:
    """Return one of a case's members, as it would join with its owned partitions."""
    return MemberSubscription(
        member_id=given["id"],
        topics=tuple(given["topics"]),
        owned=tuple(TopicPartition(*each) for each in given["owned"]),
        generation=given["generation"],
        group_instance_id=given["instance"],
        rack=given["rack"],
    )


def assigned_in(result: Result) -> dict[str, list[TopicPartition]]:
    """Return Java's assignment."""
    return {
        member_id: [TopicPartition(*each) for each in partitions]
        for member_id, partitions in result["assigned"].items()
    }


def _main() -> None:
    cases = [make_case(seed, name) for name in ("range", "roundrobin") for seed in range(_TABLE_CASES)]
    rows = [{**case, **result} for case, result in zip(cases, ask_java(cases), strict=True)]
    TABLE.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")


if __name__ == "__main__":
    _main()
