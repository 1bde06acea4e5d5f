"""The exactly-once sink: each micro-batch, or each write of a DataFrame, counts once and as a whole.

Terms. A *run* is one attempt at a micro-batch (or a write). It begins on the driver, when Spark pickles the writer for
the tasks, and ends there, when Spark requests the commit. Task 0 writes in the *main* transaction
(``<prefix>-0-0``), attempt a of any other task k in a separate one (``<prefix>-<k>-<a>``). The *ledger* is the commit
of the consumer group ``<prefix>`` for partition 0 of the ledger topic: its metadata name the run, and the query and
micro-batch that were decided last, with the other transactions of that decision.

1. **Begin** (driver): get a producer id under the main id, read the ledger, commit the transactions that its decision
   left open, write the new run's name into the ledger in a main transaction, abort all other open transactions under
   the prefix.
2. **Write** (tasks): if the ledger already has the micro-batch, do nothing. Task 0 gets a producer id under the main id
   *and then* reads the ledger, which must name its run. Each task writes its rows, waits until they are stored, and
   hands its open transaction to the driver.
3. **Commit** (driver): check with the coordinators that all transactions are open, under the epochs of the attempts
   that Spark counted, with time left; otherwise fail, and no row counts. Write the decision into the ledger *as part of
   the main transaction*, and commit that: from then on the micro-batch counts. Commit the other transactions, and
   record in the ledger that none is open. Abort the transactions of attempts that do not count.

A write of a DataFrame is decided like a micro-batch. With the option ``batchId`` it has a number, which the ledger
stores: a second write with this number writes nothing.

With one task, decision and data are one transaction, so nothing can fail between them. A query with one task per
micro-batch is therefore the safest.

**No micro-batch is decided twice.** Suppose that the runs R1 and R2 decide the same micro-batch, R1 first. R2 did not
find R1's decision in its begin, so R1 decided after R2 had got a producer id under the main id. R1 was not fenced, so
R1's task 0 got its id after R2's begin did. If that was before R2's name was in the ledger, it aborted the transaction
in which R2 wrote the name, and R2 never began. If it was later, R1's task 0 read R2's name, and stopped.

**Every decision gets committed.** A later run commits it in its begin, before it does anything else, and attempts of
one task do not share an id. Two cases remain, both only with several tasks. Either no run commits before the
transactions time out. Or another attempt with the counted attempt's number (of a stage that Spark repeats as a whole,
or of an earlier run) gets its id between the decision and the commit. In both cases the commit, or every later begin,
raises `TransactionsLostError`.
"""
