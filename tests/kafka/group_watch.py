"""Members of one group, each in a separate process, and their reports."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from .group_clients.journal import Options
from .harness.processes import Processes, freeze

_ROOT = Path(__file__).parents[2]
_LEAVE_TIMEOUT_S = 60


class Event(NamedTuple):
    """Event of a member, at a time of the machine's monotonic clock."""

    at: float
    member: str
    kind: str
    fields: dict[str, Any]


class Member:
    """A running member."""

    def __init__(self, name: str, options: Options, process: subprocess.Popen[bytes]) -> None:
        self.name = name
        self.options = options
        self.process = process
        self.owned: set[int] = set()
        """Partitions by its last report: a member that returns within its session still has them."""
        self.is_awake = True
        """Neither frozen nor gone."""
        self.has_left = False
        """It has reported its end."""
        self.committed_at = 0.0
        """Acknowledgement of its last commit, by the machine's monotonic clock."""


class GroupWatch:
    """Starts members of a group and follows their reports. As a context manager, it ends all of them."""

    def __init__(self, bootstrap: str, group: str, topic: str, partitions: int, **defaults: Any) -> None:
        self.partitions = partitions
        self.events: list[Event] = []
        """All reports, in order of arrival."""
        self.committed: dict[int, int] = {}
        """Largest committed offset of each partition."""
        self.members: dict[str, Member] = {}
        self._defaults = {
            "bootstrap": bootstrap,
            "group": group,
            "topic": topic,
            "protocol": "classic",
            "assignor": "range",
            "instance": None,
            "session_ms": 6000,
            "batch": 200,
            "pause_ms": 100,  # each commit is replicated, so a quicker pace would slow other tests
            **defaults,
        }
        self._processes = Processes()
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in self.members.values():
            member.process.kill()
        for thread in self._threads:
            thread.join(_LEAVE_TIMEOUT_S)
        self._processes.close()

    # --- members -----------------------------------------------------------------------------------------------------

    def add(self, client: str, **options: Any) -> Member:
        """Start a member of this client ("lead", "aiokafka", "confluent")."""
        self._count += 1
        name = f"{client}-{self._count}"
        wanted: Options = {"client": client, **self._defaults, **options}  # type: ignore[typeddict-item]
        command = [sys.executable, "-m", "tests.kafka.group_member", json.dumps(wanted)]
        with (self._processes.folder / f"{name}.log").open("wb") as log:
            process = self._processes.start(command, log=log, stdout=subprocess.PIPE)
        member = self.members[name] = Member(name, wanted, process)
        thread = threading.Thread(target=self._listen, args=(member,), daemon=True)
        thread.start()
        self._threads.append(thread)
        return member

    def kill(self, member: Member) -> None:
        """Send SIGKILL, so that the member ends without notice."""
        self._gone(member, "killed")
        member.process.kill()

    def freeze(self, member: Member) -> None:
        """Send SIGSTOP: the member is silent until `thaw`, its connections stay open."""
        self._gone(member, "frozen")
        freeze(member.process)

    def thaw(self, member: Member) -> None:
        """Resume a frozen member."""
        member.process.send_signal(signal.SIGCONT)
        with self._changed:
            member.is_awake = True
            self._note(member, "thawed")

    def cut(self, member: Member) -> None:
        """Note that a member cannot reach the brokers any longer."""
        self._gone(member, "cut")

    def healed(self, member: Member) -> None:
        """Note that it reaches them again."""
        with self._changed:
            member.is_awake = True
            self._note(member, "healed")

    def finish(self) -> None:
        """Note that the run has ended, so members may end too."""
        with self._changed:
            self.events.append(Event(time.monotonic(), "", "finish", {}))

    def leave(self, member: Member) -> None:
        """Let a member leave the group, and wait for its end."""
        member.process.terminate()
        self.wait_for(lambda: member.has_left, f"{member.name} leaves", _LEAVE_TIMEOUT_S)
        self._gone(member, "gone")

    def _gone(self, member: Member, kind: str) -> None:
        with self._changed:
            member.is_awake = False
            self._note(member, kind)

    def log_of(self, member: Member) -> str:
        """Return a member's standard error."""
        return (self._processes.folder / f"{member.name}.log").read_text(errors="replace")

    # --- reports -----------------------------------------------------------------------------------------------------

    def _listen(self, member: Member) -> None:
        stream = member.process.stdout
        assert stream is not None
        for line in stream:
            try:
                fields = json.loads(line)
            except ValueError:
                # It was killed within the line.
                continue
            with self._changed:
                event = Event(fields.pop("at"), member.name, fields.pop("event"), fields)
                self._take(member, event)
                self.events.append(event)
                self._changed.notify_all()
        with self._changed:
            self._note(member, "ended")

    def _take(self, member: Member, event: Event) -> None:
        if event.kind == "committed":
            member.committed_at = event.at
            for partition, offset in event.fields["offsets"].items():
                self.committed[int(partition)] = max(self.committed.get(int(partition), 0), offset)
        elif event.kind == "left":
            member.has_left = True
            member.owned.clear()
        elif event.kind == "assigned":
            member.owned |= set(event.fields["partitions"])
        elif event.kind in ("revoked", "lost"):
            member.owned -= set(event.fields["partitions"])

    def _note(self, member: Member, kind: str) -> None:
        self.events.append(Event(time.monotonic(), member.name, kind, {}))
        self._changed.notify_all()

    def wait_for(self, condition: Callable[[], bool], what: str, timeout_s: float) -> float:
        """Wait for reports of members; return the time taken, in seconds."""
        began = time.monotonic()
        with self._changed:
            if not self._changed.wait_for(condition, timeout_s):
                owned = {member.name: sorted(member.owned) for member in self.awake()}
                reports = "\n".join(
                    f"{event.at - began:+.3f} {event.member} {event.kind} {event.fields}"
                    for event in self.events
                    if event.kind not in ("read", "committed")
                )
                logs = "\n".join(f"{each.name}: {self.log_of(each)[-2000:]}" for each in self.members.values())
                raise AssertionError(f"not within {timeout_s} s: {what}; owned: {owned}\n{reports}\n{logs}")
        return time.monotonic() - began

    def awake(self) -> Sequence[Member]:
        """Return members that are running and not frozen."""
        return [member for member in self.members.values() if member.is_awake]

    def wait_shared(self, timeout_s: float = 90, *, each: bool = True, evenly: bool = False) -> float:
        """Wait until every partition has one owner that is awake. With ``each``, all of these members own partitions.

        With ``evenly``, no member has two more than another. During a rebalance, all partitions may briefly have owners
        although some members still have to give partitions up.
        """

        def shared() -> bool:
            counts = [len(member.owned) for member in self.awake()]
            owned = [partition for member in self.awake() for partition in member.owned]
            return (
                sorted(owned) == list(range(self.partitions))
                and (not each or min(counts) > 0)
                and (not evenly or max(counts) - min(counts) < 2)
            )

        return self.wait_for(shared, "all partitions are shared", timeout_s)

    def wait_read(self, ends: dict[int, int], timeout_s: float = 90) -> None:
        """Wait until everything up to these offsets has been read and committed."""
        self.wait_for(lambda: self.committed.items() >= ends.items(), f"commits up to {ends}", timeout_s)

    def events_since(self, moment: float, *kinds: str) -> list[Event]:
        """Return the events after a time of the monotonic clock."""
        with self._changed:
            return [event for event in self.events if event.at > moment and event.kind in kinds]
