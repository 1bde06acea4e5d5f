"""Faults of addresses behind which no Kafka broker answers, and temporary refusals."""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
import time
from pathlib import Path

from aiokafka_lead.testing import HTTP_ANSWER, EmbeddedCluster

from .clients import CLIENT_ID, GROUP
from .trial import REFUSED_LOGIN, SASL, USERS, Outcome, Trial, before, feeding, first_strike

NAME = "kafka.test"
HERE, ELSEWHERE = "127.0.0.1", "127.0.0.2"
"""Two addresses of this machine: the address of the brokers, and an address without a broker."""
LATE_S = 2.0
"""Seconds to wait for records that the client may still give up."""


# --- the first address of a name -------------------------------------------------------------------------------------


async def _silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read(-1)


async def _resets(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.transport.abort()


async def _speaks_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(HTTP_ANSWER)
    writer.close()


class _Names:
    """Addresses of the host name `NAME`, in the order in which they are resolved."""

    def __init__(self, folder: str) -> None:
        self._library = Path(folder, "names.so")
        self._addresses = Path(folder, "names")

    def compile(self) -> dict[str, str]:
        """Return environment variables with which programs resolve the name to these addresses."""
        source = Path(__file__).with_name("names.c")
        command = ["gcc", "-O2", "-shared", "-fPIC", "-o", str(self._library), str(source), "-ldl"]
        subprocess.run(command, check=True)
        return {"LD_PRELOAD": str(self._library), "NAMED": NAME, "NAMES": str(self._addresses)}

    def are(self, *addresses: str) -> None:
        self._addresses.write_text("\n".join(addresses))


STRANGERS = {"is silent": _silent, "resets": _resets, "speaks HTTP": _speaks_http}


async def first_address(trial: Trial, how: str, *, at_start: bool) -> Outcome:
    """The first address of a broker's name accepts connections, but is not a Kafka broker. The second is the broker."""
    with tempfile.TemporaryDirectory() as folder:
        names = _Names(folder)
        trial.environment = await asyncio.to_thread(names.compile)
        cluster = await trial.cluster(1, advertised_host=None if at_start else NAME)
        cluster.create_topic("t")
        port = int(cluster.address(1).rpartition(":")[2])
        async with await asyncio.start_server(STRANGERS[how], ELSEWHERE, port):
            names.are(*([ELSEWHERE, HERE] if at_start else [HERE]))
            program = await trial.program("write", f"{NAME}:{port}")
            since: float = (await before(program.event("begun")))["at"]
            if not at_start:
                await before(program.progressed())
                names.are(ELSEWHERE, HERE)
                await _restart(cluster, 1)
                since = time.time()
            return await trial.progress(program, since)


async def _restart(cluster: EmbeddedCluster, broker: int) -> None:
    """Reset all connections to a broker, without a failover."""
    await cluster.kill_broker(broker, failover_delay_ms=1e9)
    await cluster.start_broker(broker)


# --- logins and rights -----------------------------------------------------------------------------------------------


async def login(trial: Trial, role: str) -> Outcome:
    """A restarted broker refuses the client's login twice. The client must continue without losing a record."""
    cluster = await trial.cluster(2, sasl_users=USERS)
    cluster.create_topic("t", assignments=[[2]])
    cluster.move_coordinator(GROUP, to=1)
    async with feeding(cluster, **SASL):
        program = await trial.program(role, cluster.bootstrap_servers, group_protocol="classic", config=SASL)
        await before(program.progressed())
        cluster.faults.add("SaslAuthenticate", broker=2, client_id=CLIENT_ID, error_code=REFUSED_LOGIN, count=2)
        died = time.time()
        await _restart(cluster, 2)
        outcome = await trial.progress(program, time.time())
        if role == "write":
            await asyncio.sleep(LATE_S)
    lost = len(program.found("given up", died))
    return Outcome(None, f"{lost} lost") if lost else outcome


async def service(trial: Trial, *refusals: tuple[str, int]) -> Outcome:
    """Brokers refuse one request of a service. Measure until it has sent a heartbeat and handled a later record."""
    cluster = await trial.cluster()
    cluster.create_topic("t")
    async with feeding(cluster):
        program = await trial.program(
            "serve", cluster.bootstrap_servers, group_protocol="classic",
            config={"heartbeat_interval_ms": 500, "session_timeout_ms": 6000},
        )  # fmt: skip
        await before(program.progressed())
        await before(cluster.wait_for_requests("Heartbeat"))
        *_, struck = [first_strike(cluster, [api], error_code=code, count=1) for api, code in refusals]
        since = await before(struck)

        async def goes_on() -> float:
            beats = cluster.requests.count("Heartbeat")
            await cluster.wait_for_requests("Heartbeat", count=beats + 1, timeout_ms=2000 * trial.bound_s)
            return await program.progressed(time.time())

        return await trial.until(goes_on(), program, since)
