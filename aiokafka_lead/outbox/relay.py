"""`Relay`, which leases shards of an outbox and publishes their rows."""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import TaskGroup

from .._core.backoff import Backoff
from .._core.run.options import HandlingConfig
from .._options.arguments import TIMEOUT
from .._options.checks import build, instance
from .._options.logs import client_log
from .._runs import attended
from ..client import Client
from ..errors import ClientClosedError, IllegalStateError
from .databases import database_of, is_unavailable
from .options import RelayConfig, RelayHealth, RelayMetrics
from .publishing import NotPublishedError, ShardProducer
from .store import Batch, LeaseLostError, Store, share_out
from .tables import Outbox

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import RelayOptions

GIVE_WITHIN_S = 1.0
"""Seconds that the relay keeps trying to hand its shards over after the timeout of `Relay.stop`."""

RENEWALS = 3
"""Number of renewals in the duration of a lease. At each renewal, the relay also takes or requests shards."""


class _Held:
    """A shard whose lease the relay holds, and the signals to the task that publishes it."""

    def __init__(self, shard: int, deadline: float) -> None:
        self.shard = shard
        self.scope = anyio.CancelScope(deadline=deadline)
        """Cancels the work on the shard when the lease expires."""
        self.left = anyio.Event()
        """Set to hand the shard over after the current batch."""
        self.done: list[int] = []
        """Ids of published rows that have not been deleted yet."""
        self.failures = 0
        """Number of consecutive failures."""
        self.most: int | None = None
        """Maximum number of rows in the next batch after a failure. A smaller batch isolates the failing row."""
        self.problem: str | None = None
        """Description of the last failure, or None after a success."""
        self.producer: ShardProducer | None = None
        """The running producer, or None between attempts."""
        self._awoken = anyio.Event()

    def succeeded(self) -> None:
        """Forget earlier failures, because a batch was published."""
        self.failures, self.problem, self.most = 0, None, None

    def wake(self) -> None:
        """Wake the shard's task, because there are rows or because the shard must be handed over."""
        self._awoken.set()

    def leave(self) -> None:
        """Hand the shard over after the current batch."""
        self.left.set()
        self.wake()

    async def sleep(self) -> None:
        """Wait until `wake` or `leave` is called. An earlier call counts, because its rows may be newer than the last
        query.
        """
        await self._awoken.wait()
        self._awoken = anyio.Event()


class Relay:
    """Publisher of the records of an `Outbox`.

        async with Client("localhost:9092") as client:
            relay = Relay(outbox, engine, client, transactional_id="orders-outbox")
            await relay.run(stop_on_signals=True, health_port=8080)

    ``database`` is an AsyncEngine of SQLAlchemy or a Pool of asyncpg. ``client`` is the started `Client` whose
    connections the relay uses. `RelayOptions` describes the options. Any number of relays may run at the same time,
    even in different processes. They divide the shards of the outbox among themselves. While the database or Kafka is
    unreachable, records wait.

    Without a ``transactional_id``, each record is published at least once: after a failure of a relay, the database or
    the cluster, some records are sent again, with the same idempotence key. With a ``transactional_id``, consumers with
    ``isolation_level="read_committed"`` receive each record once. Records of a key are published in order, with one
    exception. Without a ``transactional_id``, a process that is suspended for longer than ``lease_ms`` while it
    publishes a batch may send the rest of the batch after later records.

    A relay belongs to one event loop and runs once. Creating it raises `ConfigError` or `ConfigTypeError` for an
    invalid argument.
    """

    def __init__(self, outbox: Outbox, database: Any, client: Client, **options: Unpack[RelayOptions]) -> None:
        instance(Outbox, "an Outbox")("outbox", outbox)
        instance(Client, "a Client of aiokafka_lead")("client", client)
        config = self._config = build(RelayConfig, options)
        self._outbox = outbox
        self._client = client
        self._name = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._lease_s = config.lease_ms / 1000
        self._store = Store(outbox, database_of(database), self._name, self._lease_s)
        self._new_producer(0)  # raises an error for invalid producer options
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._log = client_log("outbox", self.client_id)
        self._held: dict[int, _Held] = {}
        self._waiting: Mapping[int, float] = {}
        """Age in seconds of the oldest waiting row, for each shard with rows."""
        self._database_problem: str | None = None
        self._stray_problem: str | None = None
        """Description of rows that no relay can publish, or None if there are none."""
        self._taken = self._batches = self._records = self._set_aside = self._failures = 0
        self._scope: anyio.CancelScope | None = None
        """Cancel scope of `run`, or None while it is not running."""
        self._closed: ClientClosedError | None = None
        """Error to raise after the `Client` has been stopped, otherwise None."""
        self._stopping = anyio.Event()
        self._ended = anyio.Event()
        self._awoken = anyio.Event()

    # --- start and stop ----------------------------------------------------------------------------------------------

    async def run(
        self, *, stop_on_signals: bool = False, health_port: int | None = None, health_host: str | None = None
    ) -> None:
        """Publish records until `stop` is called.

        With ``stop_on_signals``, SIGTERM or SIGINT stops the relay within ``close_timeout_ms`` (10000 if that is None).
        With a ``health_port``, an HTTP server serves ``/health/live`` and ``/health/ready`` on ``health_host`` (all
        interfaces by default), as in `Consumer.run`.

        If the database is unreachable, the call waits until it can be reached. A cancelled call stops after the
        statements in progress, and other relays publish the rest.

        Raises the error of the database if the tables cannot be read at the start, for example because they do not
        exist. Raises `IllegalStateError` if the table has another number of shards or the relay has run before, and
        `ClientClosedError` if the `Client` is stopped.
        """
        if self._scope is not None or self._ended.is_set():
            raise IllegalStateError("a relay can run only once; create another Relay")
        config = HandlingConfig.from_options(
            {"stop_on_signals": stop_on_signals, "health_port": health_port, "health_host": health_host}
        )
        within_ms = self._config.close_timeout_ms
        await attended(self, 10_000 if within_ms is None else within_ms, config, self._run)

    async def stop(self, timeout_ms: float | None = None) -> None:
        """Stop `run` after the current batches, and hand the shards over to other relays.

        Returns when `run` has ended. If a batch is not published within ``timeout_ms`` (by default without a limit), it
        is interrupted, and the next owner of the shard publishes the rest. The call may be repeated.
        """
        timeout_ms = TIMEOUT("timeout_ms", timeout_ms)
        self._stopping.set()
        scope = self._scope
        if scope is None:  # `run` has not begun, or has ended
            return
        with anyio.move_on_after(None if timeout_ms is None else timeout_ms / 1000):
            await self._ended.wait()
        self._store.hurry(time.monotonic() + GIVE_WITHIN_S)
        scope.cancel()
        await self._ended.wait()

    def wake(self) -> None:
        """Query for new rows immediately instead of after ``poll_ms``. Call this after committing a transaction."""
        self._awoken.set()

    async def _run(self) -> None:
        try:
            with anyio.CancelScope() as self._scope:
                await self._check()
                async with anyio.create_task_group() as looking:
                    looking.start_soon(self._look, name="kafka outbox's look")
                    async with anyio.create_task_group() as shards:
                        await self._keep(shards)
                        for held in self._held.values():
                            held.leave()
                    looking.cancel_scope.cancel()
            if self._closed is not None:
                raise self._closed
        finally:
            self._scope = None
            self._ended.set()

    async def _check(self) -> None:
        """Wait until the database is reachable, and check the tables."""
        failures = 0
        while not self._stopping.is_set():
            try:
                await self._store.check()
            except Exception as error:
                if not is_unavailable(error):
                    raise
                failures += 1
                self._database_failed(error)
            else:
                return
            with anyio.move_on_after(self._backoff.delay_s(failures)):
                await self._stopping.wait()

    # --- the relay's share of the shards -----------------------------------------------------------------------------

    async def _keep(self, tasks: TaskGroup) -> None:
        """Renew leases, take free shards, and request or hand over shards, until the relay is stopped."""
        while not self._stopping.is_set():
            deadline = anyio.current_time() + self._lease_s
            try:
                await self._share(tasks, deadline)
                self._database_problem = None
            except Exception as error:
                self._database_failed(error)
            with anyio.move_on_after(self._lease_s / RENEWALS):
                await self._stopping.wait()

    async def _share(self, tasks: TaskGroup, deadline: float) -> None:
        leases = await self._store.renew()
        for lease in leases:
            held = self._held.get(lease.shard)
            if held is not None and lease.owner == self._name:
                held.scope.deadline = max(held.scope.deadline, deadline)
                if lease.wanted_by is not None:
                    held.leave()
        plan = share_out(leases, self._name, self._held)
        for shard in plan.take:
            if await self._store.take(shard):
                self._taken += 1
                held = self._held[shard] = _Held(shard, deadline)
                tasks.start_soon(self._work, held, name=f"kafka outbox's shard {shard}")
        for lease in plan.ask:
            await self._store.ask(lease)
        self._stray_found(await self._store.stray())

    async def _look(self) -> None:
        """Query every ``poll_ms`` for shards with rows, and wake the tasks of these shards."""
        failures = 0
        while True:
            pause_s = self._config.poll_ms / 1000
            try:
                self._waiting = await self._store.waiting()
            except Exception as error:
                self._database_failed(error)
                failures += 1
                pause_s = max(pause_s, self._backoff.delay_s(failures))
            else:
                failures = 0
            for shard in self._waiting.keys() & self._held.keys():
                self._held[shard].wake()
            with anyio.move_on_after(pause_s):
                await self._awoken.wait()
            self._awoken = anyio.Event()

    # --- publishing one shard ----------------------------------------------------------------------------------------

    async def _work(self, held: _Held) -> None:
        """Publish the records of a shard until the relay hands it over or loses it."""
        try:
            with held.scope:
                while not held.left.is_set():
                    try:
                        await self._produce(held)
                    except LeaseLostError:
                        self._log.warning("shard %d: another relay has taken it over", held.shard)
                        return
                    except ClientClosedError as error:
                        if not (self._stopping.is_set() or held.left.is_set() or held.scope.cancel_called):
                            self._closed = error  # the whole client was stopped, not only the producer of this shard
                            self._stopping.set()
                        return
                    except Exception as error:
                        held.producer = None
                        self._shard_failed(held, error)
                        with anyio.move_on_after(self._backoff.delay_s(held.failures)):
                            await held.left.wait()
            if held.scope.cancelled_caught:
                self._log.warning("shard %d: publishing stopped, because the lease could not be renewed", held.shard)
        finally:
            with anyio.CancelScope(shield=True):
                await self._give(held.shard)
            del self._held[held.shard]  # last, because from now on this relay may take the shard again

    async def _give(self, shard: int) -> None:
        try:
            await self._store.give(shard)
        except Exception as error:
            self._database_failed(error)

    async def _produce(self, held: _Held) -> None:
        """Publish batches with one producer until `_Held.left` is set. Raises any error of the producer or database."""
        producer = self._new_producer(held.shard)
        async with producer.running():
            held.producer = producer
            if self._config.transactional_id is not None:
                await self._store.settle(held.shard, await producer.published())
            while True:
                leaving = held.left.is_set()
                batch = await self._turn(held, 0 if leaving else held.most or self._config.max_records)
                if leaving:
                    return
                if batch.rows:
                    await self._publish(held, producer, batch)
                else:
                    held.succeeded()
                    await held.sleep()

    async def _turn(self, held: _Held, limit: int) -> Batch:
        deadline = anyio.current_time() + self._lease_s
        noted = self._config.transactional_id is not None
        batch = await self._store.turn(held.shard, held.done, limit, noted=noted)
        held.done = []
        held.scope.deadline = deadline
        return batch

    async def _publish(self, held: _Held, producer: ShardProducer, batch: Batch) -> None:
        try:
            await producer.publish(batch)
        except NotPublishedError as failure:
            held.done = failure.done
            self._records += len(failure.done)
            if not failure.is_final or not self._config.set_aside:
                raise
            await self._store.refuse(failure.row, str(failure.error))
            self._set_aside += 1
            self._log.error("a record was set aside, because it cannot be published: %s", failure)
        else:
            held.done = [row.id for row in batch.rows]
            self._records += len(batch.rows)
            self._batches += 1
            held.succeeded()

    def _new_producer(self, shard: int) -> ShardProducer:
        prefix = self._config.transactional_id
        return ShardProducer(self._client, self._config.producer or {}, None if prefix is None else f"{prefix}-{shard}")

    # --- state -------------------------------------------------------------------------------------------------------

    def _shard_failed(self, held: _Held, error: Exception) -> None:
        self._failures += 1
        held.failures += 1
        held.most = max(1, error.before) if isinstance(error, NotPublishedError) else 1
        problem = f"shard {held.shard} makes no progress: {error}"
        if problem != held.problem:
            self._log.warning("%s", problem)
        held.problem = problem

    def _stray_found(self, shard: int | None) -> None:
        if shard is None:
            self._stray_problem = None
            return
        problem = (
            f"rows of shard {shard} are never published, because the outbox has {self._outbox.shards} shards; the "
            "program that writes these rows uses another number of shards, or computes the shard differently"
        )
        if problem != self._stray_problem:
            self._log.error("%s", problem)
        self._stray_problem = problem

    def _database_failed(self, error: Exception) -> None:
        self._failures += 1
        problem = f"a query of the database failed: {error!r}"
        if problem != self._database_problem:
            self._log.warning("%s", problem)
        self._database_problem = problem

    @property
    def client_id(self) -> str:
        """The ``client_id`` of the `Client`, which identifies this relay in metrics and in the log."""
        return self._client.client_id

    def metrics(self) -> RelayMetrics:
        """Return the metrics of the relay, without a query of the database."""
        return RelayMetrics(
            shards=len(self._held),
            shards_taken=self._taken,
            batches=self._batches,
            records=self._records,
            records_set_aside=self._set_aside,
            failures=self._failures,
            oldest_waiting_ms=max(self._waiting.values(), default=0.0) * 1000,
        )

    def health(self) -> RelayHealth:
        """Return the health of the relay, without a query of the database. May be called at any time."""
        problems = [] if self._scope is not None else ["the relay is not running"]
        problems += [each for each in (self._database_problem, self._stray_problem) if each is not None]
        for held in self._held.values():
            if held.problem is not None:
                problems.append(held.problem)
            elif held.producer is not None:
                problems += held.producer.problems()
        return RelayHealth(tuple(dict.fromkeys(problems)), self._scope is not None)

    def __repr__(self) -> str:
        return f"<Relay {self._name} shards={sorted(self._held)}>"
