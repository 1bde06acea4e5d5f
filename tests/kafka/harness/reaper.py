"""A separate program that ends its parent's processes after the parent has ended.

It reads ``+pid`` and ``-pid`` (a process group starts, has ended) and ``dir PATH`` from stdin. The end of stdin means
that the parent has ended, for any reason: every remaining group then gets SIGKILL, and every folder is removed.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys


def main() -> None:
    groups: set[int] = set()
    folders: list[str] = []
    for line in sys.stdin:
        word = line.strip()
        if word.startswith("+"):
            groups.add(int(word[1:]))
        elif word.startswith("-"):
            groups.discard(int(word[1:]))
        elif word.startswith("dir "):
            folders.append(word[4:])
    for group in groups:
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            pass
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
