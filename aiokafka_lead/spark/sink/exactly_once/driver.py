"""Steps of a run on the driver: begin, commit and abort. The docstring of the package describes them."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Sequence

from ...._io.transactions.handover import OpenTransaction, Outcome
from ....admin import TransactionDescription, TransactionState
from ....errors import InvalidTransactionTimeoutError, KafkaError, UnsupportedVersionError
from ....producer import Producer
from ...client_loop import ClientLoop, client_loop, running
from .settings import Entry, ExactlyOnce, read, write
from .task import ExactlyOnceError, Run, Share, TransactionsLostError

LEAST_LEFT_MS = 30_000
"""Time in ms that a transaction must have until its timeout when its commit is decided; see `LEAST_SHARE_LEFT`."""

LEAST_SHARE_LEFT = 0.25
"""Share of a short transaction timeout that suffices instead of `LEAST_LEFT_MS`."""

_log = logging.getLogger("aiokafka_lead.spark")


def begin(settings: ExactlyOnce, *, streaming: bool) -> Run:
    """Begin a run: fence earlier runs, commit their decision, and abort their other transactions.

    Raises `TransactionsLostError` if the decision can no longer be committed completely. Raises `ExactlyOnceError` for
    a write of a DataFrame without ``batchId`` if its prefix belongs to a streaming query.
    """
    try:
        return _begin(client_loop(), settings, streaming)
    except InvalidTransactionTimeoutError:
        given_ms = settings.config(settings.main_id).transaction_timeout_ms
        raise ValueError(
            f"option 'kafka.transaction.timeout.ms' is {given_ms}, more than the brokers' transaction.max.timeout.ms"
        ) from None


def _begin(loop: ClientLoop, settings: ExactlyOnce, streaming: bool) -> Run:
    began_s = time.monotonic()
    with loop.started(lambda: settings.producer(settings.main_id), settings.within_ms) as main:
        found = loop.run(read, settings)
        if found is not None:
            if found.query is not None and not streaming and settings.batch is None:
                raise ExactlyOnceError(
                    f"transactionalIdPrefix '{settings.prefix}' belongs to query {found.query}; set another prefix"
                )
            _commit_others(loop, settings, found)
        last = found or Entry("")
        name = uuid.uuid4().hex
        loop.run(_write_next, settings, main, last._replace(run=name, decided=False, others=()))
    loop.run(_abort_leftovers, settings)
    return Run(name, last.query, last.batch, began_s)


def commit(settings: ExactlyOnce, shares: Sequence[Share | None]) -> None:
    """Record the decision for the micro-batch or write, and commit the transactions of all tasks.

    ``shares`` contains the open transaction of each task, or None for a task without a result. With any None, the
    commit fails. After the decision, the transactions of attempts that do not count are aborted, because readers of
    committed records would otherwise wait until these transactions time out.

    Raises `ExactlyOnceError` or a KafkaError. Before the decision, no row becomes visible. After it, some transactions
    may still be open, and the next run commits them. Raises `TransactionsLostError` if some of them can no longer be
    committed.
    """
    given = [share for share in shares if share is not None]
    if given and all(share.written_before for share in given):
        return
    if len({share.run for share in given}) != 1 or len(given) < len(shares):
        raise ExactlyOnceError("nothing was committed: a task has no result, or tasks belong to different runs")
    main = next((share for share in given if share.task == 0), None)
    if main is None or main.opened is None:
        raise ExactlyOnceError("nothing was committed: task 0, whose transaction contains the decision, has no result")
    opened = main.opened
    others = tuple(s.opened for s in given if s.task != 0 and s.opened is not None and s.opened.begun)
    loop = client_loop()
    loop.run(_check_open, settings, (opened, *others), main.began_s)
    query, number = main.batch or (None, -1)
    with loop.started(lambda: settings.resumed(opened), settings.within_ms) as producer:
        decision = Entry(main.run, True, query, number, round(time.time() * 1000), others)
        loop.run(write, settings, producer, decision)
        if others:
            _commit_others(loop, settings, decision)
            loop.run(_write_next, settings, producer, decision._replace(others=()))
    if len(shares) > 1:  # attempts of the first task have the same id
        try:
            loop.run(_abort_leftovers, settings)
        except KafkaError as error:
            _mention_leftovers(settings, error)


def abort(settings: ExactlyOnce, shares: Sequence[Share | None], run: Run | None) -> None:
    """Abort the open transactions of the run, including transactions of killed tasks.

    Does nothing if the run is decided or has been replaced. If ``run`` is None, ``shares`` name the run. Failures are
    only logged, because the next begin aborts the remaining transactions.
    """
    given = [share for share in shares if share is not None]
    if not (given or run) or any(share.written_before for share in given):
        return
    name = given[0].run if run is None else run.name
    loop = client_loop()
    try:
        found = loop.run(read, settings)
        if found is None or found.run != name:
            return
        # Getting a new producer id for the main transactional id prevents a decision from now on.
        with loop.started(lambda: settings.producer(settings.main_id), settings.within_ms):
            found = loop.run(read, settings)
        if found is not None and found.run == name and not found.decided:
            loop.run(_abort_leftovers, settings)
    except KafkaError as error:
        _mention_leftovers(settings, error)


def _mention_leftovers(settings: ExactlyOnce, error: KafkaError) -> None:
    _log.warning("transactions of '%s' were not aborted yet: %s", settings.prefix, error)


async def _write_next(settings: ExactlyOnce, producer: Producer, entry: Entry) -> None:
    await producer.begin_transaction()
    await write(settings, producer, entry)


def _commit_others(loop: ClientLoop, settings: ExactlyOnce, decision: Entry) -> None:
    """Commit the transactions of a decision, except the main transaction.

    Raises `TransactionsLostError` if some are lost, or `ExactlyOnceError` if a retry may succeed.
    """
    if not decision.others:
        return
    with loop.started(settings.commits, settings.within_ms) as commits:
        ended = loop.run(commits.commit, decision.others, within_ms=settings.within_ms)
    failed = {name: end for name, end in ended.items() if end.outcome is not Outcome.COMMITTED}
    if not failed:
        return
    lost = {name: end for name, end in failed.items() if end.outcome is not None or end.error is None}
    lost |= {name: end for name, end in failed.items() if end.error is not None and not end.error.retriable}
    if not lost:
        name, end = next(iter(failed.items()))
        raise ExactlyOnceError(
            f"{decision.name} is decided, but {len(failed)} of its transactions are not committed yet; the next run "
            f"will commit them. {name}: {end.error}"
        )
    age_s = time.time() - decision.decided_ms / 1000
    reasons = "; ".join(f"{name}: {end.error}" for name, end in sorted(lost.items()))
    raise TransactionsLostError(
        f"{decision.name} was decided {age_s:.0f} s ago, but {len(lost)} of its {len(decision.others) + 1} "
        "transactions were aborted before they could be committed, so their rows are missing from the topic. To write "
        f"all its rows again, including the rows in the topic, set another transactionalIdPrefix. {reasons}"
    )


async def _abort_leftovers(settings: ExactlyOnce) -> None:
    """Abort transactions that tasks have left open, including those with ids that this run does not use."""
    async with running(settings.admin, settings.within_ms) as admin:
        try:
            listed = await admin.list_transactions(states=[TransactionState.ONGOING])
        except UnsupportedVersionError as error:
            raise ExactlyOnceError(f"exactlyOnce needs brokers with Kafka 3.0 or newer: {error}") from None
        left = [name for name in listed if settings.is_task_id(name)]
        if left:
            _log.info("aborting %d transactions that tasks have left open: %s", len(left), ", ".join(left))
            await admin.fence_producers(left)


async def _check_open(settings: ExactlyOnce, opened: Sequence[OpenTransaction], began_s: float) -> None:
    """Raise `ExactlyOnceError` unless every transaction can be committed and has enough time left."""
    async with running(settings.admin, settings.within_ms) as admin:
        described = await admin.describe_transactions([o.transactional_id for o in opened])
    now_ms, since_began_ms = time.time() * 1000, (time.monotonic() - began_s) * 1000
    for transaction in opened:
        why = why_not(transaction, described[transaction.transactional_id], now_ms, since_began_ms)
        if why:
            raise ExactlyOnceError(f"nothing was committed: transaction {transaction.transactional_id} {why}")


def why_not(opened: OpenTransaction, found: TransactionDescription, now_ms: float, since_began_ms: float) -> str:
    """Return the reason why a transaction cannot be committed, or ``""`` if it can.

    ``now_ms`` is this machine's time in milliseconds since 1970, and ``since_began_ms`` is the age of the run. The
    broker's clock, which dates the start of the transaction, may differ from this machine's clock. The age of the
    transaction is therefore limited to the age of the run, because no transaction is older than its run.
    """
    if (found.producer_id, found.producer_epoch) != (opened.producer_id, opened.epoch):
        return "was taken over by another attempt or run, or exceeded its timeout (kafka.transaction.timeout.ms)"
    if not opened.begun:
        return ""
    if found.state is not TransactionState.ONGOING:
        return f"is in state {found.state.value}"
    age_ms = now_ms - (found.start_time_ms or now_ms)
    left_ms = found.timeout_ms - (since_began_ms if age_ms < 0 else min(age_ms, since_began_ms))
    if left_ms < min(LEAST_LEFT_MS, found.timeout_ms * LEAST_SHARE_LEFT):
        return f"has only {max(0, left_ms) / 1000:.0f} s left of its timeout (kafka.transaction.timeout.ms)"
    return ""
