"""Sink with exactly-once delivery: the rows of each micro-batch, or of each write of a DataFrame, become visible once.

Terms:

- A *run* is one attempt at a micro-batch or write. It begins on the driver, when Spark pickles the writer for the
  tasks, and ends on the driver, when Spark requests the commit.
- Each task attempt writes in a separate transaction. Task 0 uses the *main* transactional id ``<prefix>-0-0``.
  Attempt ``a`` of any other task ``k`` uses ``<prefix>-<k>-<a>``.
- The *ledger* is the committed offset of the consumer group ``<prefix>`` for partition 0 of the ledger topic. Its
  metadata contains the name of the run, the query and micro-batch that were decided last, and the transactions of this
  decision that may still be open.
- A *decision* is a ledger entry that makes a micro-batch count.

Steps of a run:

1. **Begin** (driver): Get a producer id for the main transactional id, which fences earlier runs. Read the ledger, and
   commit the transactions that its decision left open. Write the name of the new run into the ledger, in a main
   transaction. Abort all other open transactions with the prefix.
2. **Write** (tasks): If the ledger already has a decision for the micro-batch, do nothing. Task 0 gets a producer id
   for the main transactional id, *and then* reads the ledger, which must contain the name of its run. Each task writes
   its rows, waits until they are acknowledged, and hands its open transaction over to the driver.
3. **Commit** (driver): Check with the transaction coordinators that all transactions are open, have the epochs of the
   attempts that Spark counted, and have enough time left. Otherwise the run fails, and none of its rows becomes
   visible. Write the decision into the ledger *as part of the main transaction*, and commit this transaction. From now
   on the micro-batch counts. Commit the other transactions, and record in the ledger that no transaction is open. Abort
   the transactions of attempts that do not count.

A write of a DataFrame has the same steps. With the option ``batchId``, the ledger stores the number of the write, and a
second write with the same number does nothing.

With a single task, the decision and the rows are in one transaction, so nothing can fail between them. A query with one
task per micro-batch is therefore the safest.

**No micro-batch is decided twice.** Suppose that runs R1 and R2 both decide the same micro-batch, R1 before R2. When R2
began, it did not find R1's decision in the ledger, so R1 decided after R2 had its producer id. R2 did not fence R1, so
R1's task 0 got its producer id after R2. If this was before R2 had written its name into the ledger, it aborted the
transaction with the name, and R2's begin failed. If this was later, R1's task 0 found R2's name in the ledger, and
failed. Both cases contradict the assumption.

**Every decision is committed completely.** If a run fails after its decision, the next run first commits the remaining
transactions, and no other attempt uses their transactional ids. There are two exceptions, both only with several
tasks. First, the transactions may time out before the next run begins. Second, Spark may repeat a whole stage, or an
attempt of an earlier run may still be running. Such an attempt may have the same number as the counted attempt, and get
its producer id between the decision and the commit. In both cases, the commit or each later begin raises
`TransactionsLostError`.
"""
