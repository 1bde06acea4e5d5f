"""One member of a consumer group in a separate process: ``python -m tests.kafka.group_member '{"client": ...}'``.

It reads and commits batch by batch. Before each next step it writes an event to standard output, as a line of JSON:
``assigned``, ``revoked`` and ``lost`` with partitions, ``read`` and ``committed`` with offsets by partition,
``refused`` for a commit that failed, ``left`` at the end. SIGTERM makes it leave the group.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module

from .group_clients.journal import Journal, Options


def main() -> None:
    options: Options = json.loads(sys.argv[1])
    journal = Journal()
    # Importing only the requested client makes a process start sooner.
    import_module(f"tests.kafka.group_clients.{options['client']}").run(options, journal)
    journal.write("left")


if __name__ == "__main__":
    main()
