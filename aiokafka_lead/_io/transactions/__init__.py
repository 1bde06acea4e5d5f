"""Transactions: tasks and calls that carry out the decisions of `_core.transactions`."""
