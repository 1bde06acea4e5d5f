"""One member of a consumer group in a process of its own: ``python -m tests.kafka.group_member '{"client": ...}'``.

It reads and commits batch after batch, and writes what happens to it as JSON lines to its standard output, each before
the next thing is done: ``assigned``, ``revoked`` and ``lost`` with partitions, ``read`` and ``committed`` with offsets
by partition, ``refused`` for a commit that failed, ``left`` at the end. SIGTERM makes it leave the group.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module

from .group_clients.journal import Journal, Options


def main() -> None:
    options: Options = json.loads(sys.argv[1])
    journal = Journal()
    # Only the client that is asked for is loaded: a process begins sooner.
    import_module(f"tests.kafka.group_clients.{options['client']}").run(options, journal)
    journal.write("left")


if __name__ == "__main__":
    main()
