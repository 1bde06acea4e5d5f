"""The sink exactly once: each micro-batch, or each write of a DataFrame, counts once and as a whole.

Names. A *run* is one try of a micro-batch (or of a write). It begins on the driver, when Spark builds the writer that
it sends to the tasks, and ends there, when Spark asks for the commit. Task 0 writes in the *main* transaction
(``<prefix>-0-0``), attempt a of any other task k in a separate one (``<prefix>-<k>-<a>``). The *ledger* is the commit
of the consumer group ``<prefix>`` for partition 0 of the ledger topic: its metadata name the run, and the query and
micro-batch that were decided last, with the other transactions of that decision.

1. **Begin** (driver): get a producer id under the main id, read the ledger, commit the transactions that its decision
   left open, write the new run's name into the ledger in a main transaction, abort all other open transactions under
   the prefix.
2. **Write** (tasks): if the ledger already has the micro-batch, do nothing. Task 0 gets a producer id under the main id
   *and then* reads the ledger, which must name its run. Each task writes its rows, waits until they are stored, and
   hands its open transaction to the driver.
3. **Commit** (driver): ask the coordinators if all transactions are open, under the epochs of the attempts that
   Spark counted, with time left; otherwise fail, and no row counts. Write the decision into the ledger *as part of the
   main transaction*, and commit that: from then on the micro-batch counts. Commit the other transactions, and note in
   the ledger that none is open.

A write of a DataFrame is decided like a micro-batch. With the option ``batchId`` it has a number, and the ledger knows
it: the same number again writes nothing.

With one task there are no other transactions: decision and data are one transaction, and there is nothing that can fail
between them. That is why a query with one task per micro-batch is the safest.

**No micro-batch is decided twice.** Say that the runs R1 and R2 decide the same micro-batch, R1 first. R2 did not see
that in its begin, so that R1 decided after R2 had asked for the main id. So R1's task 0 asked for it later than R2's
begin did, or R1 would have been fenced. Either that was before R2's name was in the ledger: then R2's transaction that
was to put it there was aborted, and R2 never began. Or it was after: then R1's task 0 has read R2's name, and stopped.

**Every decision gets committed.** A later run commits it in its begin, before it does anything else, and attempts of
one task do not share an id. Two cases remain, only with several tasks: no run commits before the transactions time out,
or an attempt with the same number as the counted one (of a stage that Spark repeats as a whole, or of an earlier run)
gets its id just between the decision and the commit. Both are detected, and raised as `TransactionsLostError`, by the
commit or by every later begin: never ignored.
"""
